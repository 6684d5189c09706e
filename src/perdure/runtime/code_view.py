"""The run as the workflow's own code sees it: what ``perdure.context.CurrentRun`` promises."""

from __future__ import annotations

import random
import uuid
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from perdure.context import RunContext
from perdure.errors import DefinitionError, DuplicateName, RunGone
from perdure.model import payloads
from perdure.model.durations import to_datetime
from perdure.model.functions import loaded_twice
from perdure.model.keys import SEND, SIGNAL, emit_name, patch_key
from perdure.model.records import Artifact, Kind, Message
from perdure.runtime import drift
from perdure.runtime.about import about
from perdure.runtime.calls import StepCall
from perdure.runtime.children import ChildCall, call_child, send
from perdure.runtime.reports import encoded, named
from perdure.runtime.undoing import Saga
from perdure.runtime.waits import SignalWait
from perdure.workflow import Workflow

if TYPE_CHECKING:
    import datetime as dt
    from types import CodeType

    from perdure.model.arguments import Prepared
    from perdure.model.records import Event, RunRow
    from perdure.protocols import SignalLike, StepLike, StreamLike, WorkflowLike
    from perdure.runtime.bodies import Body
    from perdure.runtime.run import Run


class CodeView:
    """What workflow code and step bodies can ask of a run, kept apart from what the engine asks of it.

    Attributes:
        run_id: the run's id.
        workflow: name of its workflow.
        version: the version it is pinned to.
        scheduled_at: the occurrence that started it, if a schedule did.
        generation: which one it is of the runs that continue each other under its id, from 1.
        depth: how many runs are above it, each a child of the one before.
    """

    __slots__ = (
        "_children", "_context", "_created", "_definitions", "_explicit", "_patches", "_random", "_run", "depth",
        "generation", "run_id", "scheduled_at", "version", "workflow",
    )  # fmt: skip

    def __init__(self, run: Run, row: RunRow) -> None:
        self.run_id, self.workflow, self.version = row.run_id, row.workflow, row.version
        self.scheduled_at: dt.datetime | None = None
        self.generation, self.depth = 1, 0
        self._run = run
        self._definitions: dict[str, object] = {}
        self._explicit: set[str] | None = None
        self._children: set[str] | None = None
        self._patches: dict[str, bool] | None = None
        self._random: random.Random | None = None
        self._context: RunContext | None = None
        self._created: Event | None = None

    def born(self, created: Event) -> None:
        """Take from the log's first event what the code may ask for."""
        self.generation, self.depth = payloads.generation(created), payloads.depth(created)
        at = payloads.scheduled_at(created)
        self.scheduled_at = None if at is None else to_datetime(at)
        if self._run.definition.on_failure is not None:
            self._created = created  # for its handler, should it come to that

    @property
    def replaying(self) -> bool:
        """Whether the code is going again over what is recorded."""
        return self._run.replaying

    @property
    def about(self) -> dict[str, Any]:
        """What log lines about the run carry."""
        return about(self._run)

    def call_step(self, step: StepLike, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> StepCall:
        """Take a call's key and arguments; its outcome comes when it is awaited.

        Raises:
            NotSerializable: an argument cannot be stored exactly.
            DuplicateName: another step of this name, or the same explicit key, was used in this run.
        """
        run = self._run
        loop = run.loop
        if loop.gone or run.gone:
            raise RunGone
        name = step.name
        prepared = step.arguments.prepare(args, kwargs)
        if step.key is None and self._definitions.get(name) is step.definition:
            key = loop.scope().key(name)  # as below, for what has been called before
        else:
            key = self._key(name, step.definition, step.key)
        by_key = run.replay.by_key
        if by_key and (event := by_key.get(key)) is not None:
            drift.check_arguments(run, step, key, event, prepared.data)
            if loop.poison is not None:
                raise RunGone
        if run.undoing is not None:
            run.undoing.called(key)
        return StepCall(run, step, key, prepared)

    def _alive(self) -> Run:
        """The run, for code that is still part of it.

        Raises:
            RunGone: its execution in memory has ended.
        """
        run = self._run
        if run.loop.gone or run.gone:
            raise RunGone
        return run

    def saga(self) -> Saga:
        """Begin a block whose effects can be undone."""
        run = self._alive()
        return Saga(run)

    def register(
        self, what: StepLike | WorkflowLike, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[str, Prepared | bytes]:
        """Return the key and the encoded arguments of a call that is not made now.

        Raises:
            NotSerializable, DefinitionError, DuplicateName: as for a call.
        """
        self._alive()
        if isinstance(what, Workflow):
            data = _input_of(what, args)
            return self._key(what.name, what.fn, what.options.key), data
        step = cast("StepLike", what)
        prepared = step.arguments.prepare(args, kwargs)
        return self._key(step.name, step.definition, step.key), prepared

    def inputs(self) -> tuple[Any, ...]:
        """The run's input, read anew; kept for workflows with a handler of failures."""
        assert self._created is not None
        definition = self._run.definition
        if not definition.takes_input:
            return ()
        return (definition.input.decode(self._run.host.unpack(self._created)),)

    def _key(self, name: str, definition: object, explicit: str | None) -> str:
        """The key of a call of ``name`` that is made now."""
        known = self._definitions.setdefault(name, definition)
        if known is not definition:
            raise DuplicateName(
                f"run {self.run_id} calls two different steps (or workflows) named {name!r}",
                run_id=self.run_id,
                step=name,
                advice=loaded_twice(known, definition) or "give one of them another name with @step(name=…)",
            )
        key = self._run.loop.scope().key(name, explicit)
        if explicit is not None:
            if self._explicit is None:
                self._explicit = set()
            if key in self._explicit:
                raise DuplicateName(
                    f"run {self.run_id} used the key {key!r} already",
                    run_id=self.run_id,
                    step=name,
                    advice="an explicit key names one call; make it differ, or leave it out to have calls numbered",
                )
            self._explicit.add(key)
        return key

    def call_workflow(self, workflow: WorkflowLike, args: tuple[Any, ...], /) -> ChildCall:
        """Take a child's key and input; it is started when it is awaited, or the code has to wait.

        Raises:
            NotSerializable: the input cannot be stored exactly.
            DefinitionError: it takes no input, or one is missing.
            DuplicateName: another workflow or step of this name, or the same explicit key, was used in this run.
        """
        run = self._alive()
        assert isinstance(workflow, Workflow)
        data = _input_of(workflow, args)
        run.host.owner.learn(workflow)
        call = call_child(run, workflow, self._key(workflow.name, workflow.fn, workflow.options.key), data)
        if self._children is None:
            self._children = set()
        if call.run_id in self._children:
            run.untaken.pop(call.n, None)
            raise DuplicateName(
                f"run {self.run_id} has a child under the id {call.run_id!r} already",
                run_id=self.run_id,
                advice="give each child a run_id of its own, or none",
            )
        self._children.add(call.run_id)
        if run.loop.poison is not None:
            raise RunGone
        if run.undoing is not None:
            run.undoing.called(call.key)
        return call

    def start_workflow(self, workflow: WorkflowLike, args: tuple[Any, ...], /) -> ChildCall:
        """The same, and nobody has to await it."""
        call = self.call_workflow(workflow, args)
        call.is_started = True
        call.launch()
        return call

    def wait_signal(self, signal: SignalLike, timeout: float | None, default: object, /) -> SignalWait:
        """Take a wait's key; it begins when it is awaited."""
        run = self._alive()
        key = run.loop.scope().key(f"{SIGNAL}{signal.name}")
        return SignalWait(run, key, signal.name, signal.codec, timeout, default)

    def send(self, message: Message, /) -> None:
        """Send a message to another run, with this one's next commit, once."""
        run = self._alive()
        key = run.loop.scope().key(SEND)
        if key not in run.replay.sent:
            send(run, message, key)

    def patched(self, name: str, code: CodeType, /) -> bool:
        """Whether a patch applies: decided, and recorded, where it is first asked."""
        run = self._alive()
        if self._patches is None:
            self._patches = dict.fromkeys(run.replay.patches, True)
        applies = self._patches.get(name)
        if applies is None:
            applies = self._patches[name] = not run.replay.trodden or self._is_of_now(code)
            if applies:
                run.record(Kind.PATCH_MARKED, patch_key(name))
        return applies

    def _is_of_now(self, code: CodeType) -> bool:
        """Whether only this very code has executed the run so far, and ``code`` is part of what that was judged by.

        Then an earlier execution that came to a patch has marked it, and if the mark is not there it died before that
        was on disk: nothing later ever began.
        """
        run = self._run
        builds = {payloads.fields(payload).get("build") for payload in run.replay.claims.values()}
        return builds == {run.host.build} and code in run.definition.codes

    def emit(self, value: object, stream: str | StreamLike) -> None:
        """Add a value to a stream, unless that is recorded."""
        run = self._alive()
        name, _ = named(stream)
        key = run.loop.scope().key(emit_name(name))
        if key not in run.replay.emitted:
            args, codec, payload, artifact = encoded(value, stream)
            run.record(Kind.EMITTED, key, codec=codec, payload=payload, args=args, artifact=artifact)

    def now(self) -> dt.datetime:
        """The instant of the last outcome delivered."""
        return to_datetime(self._run.instant)

    def random(self) -> random.Random:
        """Random numbers seeded by the run's uid; those of a fork by its origin's."""
        if self._random is None:
            self._random = random.Random(sha256(b"perdure random " + self._run.seed).digest())  # noqa: S311 - repeatable on purpose
        return self._random

    def uuid4(self) -> uuid.UUID:
        """A UUID made of the run's random numbers."""
        return uuid.UUID(int=self.random().getrandbits(128), version=4)

    def context(self) -> RunContext:
        """What the workflow may know about its run."""
        if self._context is None:
            self._context = RunContext(self)
        return self._context

    # -- called from bodies, on any thread

    def artifact(self, body: Body, name: str, data: bytes) -> None:
        """Keep bytes under a name, written with the attempt's outcome."""
        if not isinstance(name, str) or not name or not isinstance(data, (bytes, bytearray, memoryview)):
            raise DefinitionError("an artifact has a name (str) and bytes", advice='ctx.artifact("report.pdf", data)')
        data = bytes(data)
        plain = Artifact(sha256(data).digest(), len(data), data)
        artifact = self._run.host.codecs.artifact(plain)
        body.artifacts = [*body.artifacts, artifact]
        said: dict[str, Any] = {"name": name, "hash": artifact.hash.hex(), "size": plain.size}
        body.named = [*body.named, payloads.note(**said) if artifact is plain else payloads.note(**said, coded=True)]


def _input_of(workflow: Workflow[Any, Any], args: tuple[Any, ...]) -> bytes:
    """The encoded input of a child that is called with these arguments."""
    if len(args) != int(workflow.takes_input):
        raise DefinitionError(
            f"workflow {workflow.name} takes {'one input' if workflow.takes_input else 'no input'}, not {len(args)}"
        )
    return workflow.encode_input(args[0] if args else None)
