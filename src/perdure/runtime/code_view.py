"""The run as the workflow's own code sees it: what ``perdure.context.CurrentRun`` promises."""

from __future__ import annotations

import asyncio
import random
import uuid
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from perdure.context import RunContext
from perdure.errors import DefinitionError, DuplicateName, NotInRun, RunGone
from perdure.model import payloads
from perdure.model.codec import ValueCodec
from perdure.model.durations import to_datetime
from perdure.model.keys import patch_key
from perdure.model.records import Artifact, Kind
from perdure.runtime import drift
from perdure.runtime.calls import StepCall

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Coroutine

    from perdure.context import StepLike, WorkflowLike
    from perdure.model.records import RunRow
    from perdure.runtime.bodies import Body
    from perdure.runtime.run import Run

_ANY = ValueCodec(Any)


class CodeView:
    """What workflow code and step bodies can ask of a run, kept apart from what the engine asks of it.

    Attributes:
        run_id: the run's id.
        workflow: name of its workflow.
        version: the version it is pinned to.
        scheduled_at: the occurrence that started it, if a schedule did.
    """

    __slots__ = (
        "_context", "_definitions", "_explicit", "_patches", "_random", "_run", "run_id", "scheduled_at", "version",
        "workflow",
    )  # fmt: skip

    def __init__(self, run: Run, row: RunRow) -> None:
        self.run_id, self.workflow, self.version = row.run_id, row.workflow, row.version
        self.scheduled_at: dt.datetime | None = None
        self._run = run
        self._definitions: dict[str, object] = {}
        self._explicit: set[str] | None = None
        self._patches: dict[str, bool] | None = None
        self._random: random.Random | None = None
        self._context: RunContext | None = None

    @property
    def replaying(self) -> bool:
        """Whether the code is going again over what is recorded."""
        return self._run.replaying

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
        if self._definitions.setdefault(name, step.definition) is not step.definition:
            raise DuplicateName(
                f"run {self.run_id} calls two different steps named {name!r}",
                run_id=self.run_id,
                step=name,
                advice="give one of them another name with @step(name=…)",
            )
        prepared = step.arguments.prepare(args, kwargs)
        key = loop.scope().key(name, step.key)
        if step.key is not None:
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
        by_key = run.replay.by_key
        if by_key and (event := by_key.get(key)) is not None:
            drift.check_arguments(run, step, key, event, prepared.data)
            if loop.poison is not None:
                raise RunGone
        return StepCall(run, step, key, prepared)

    def call_workflow(
        self, workflow: WorkflowLike, args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Coroutine[object, None, Any]:
        """Refuse: runs cannot start others by a plain call."""
        _ = args, kwargs
        raise NotInRun(
            f"workflow {workflow.name} was called inside run {self.run_id}, which cannot start child runs",
            advice="call its steps, or enqueue it from a step through an engine",
        )

    def patched(self, name: str) -> bool:
        """Whether a patch applies: decided, and recorded, where it is first asked."""
        run = self._run
        if run.loop.gone or run.gone:
            raise RunGone
        if self._patches is None:
            self._patches = dict.fromkeys(run.replay.patches, True)
        applies = self._patches.get(name)
        if applies is None:
            applies = self._patches[name] = not run.replay.trodden
            if applies:
                run.record(Kind.PATCH_MARKED, patch_key(name))
        return applies

    def now(self) -> dt.datetime:
        """The instant of the last outcome delivered."""
        return to_datetime(self._run.instant)

    def random(self) -> random.Random:
        """Random numbers seeded by the run's uid."""
        if self._random is None:
            self._random = random.Random(sha256(b"perdure random " + self._run.uid).digest())  # noqa: S311 - repeatable on purpose
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

    def progress(self, body: Body, value: object) -> None:
        """Record how far an attempt is; rides along with the next commit."""
        payload = _ANY.encode(value)
        if len(payload) > payloads.INLINE:
            raise DefinitionError(
                f"progress of {len(payload)} bytes is too large",
                advice=f"keep it under {payloads.INLINE} bytes, or use artifact()",
            )
        self._on_loop(lambda: None if body.settled else self._progressed(body, payload))

    def _progressed(self, body: Body, payload: bytes) -> None:
        if not self._run.gone and self._run.leaving is None:
            self._run.record(Kind.PROGRESS, body.call.key, attempt=body.attempt, payload=payload)

    def artifact(self, body: Body, name: str, data: bytes) -> None:
        """Keep bytes under a name, written with the attempt's outcome."""
        if not isinstance(name, str) or not name or not isinstance(data, (bytes, bytearray, memoryview)):
            raise DefinitionError("an artifact has a name (str) and bytes", advice='ctx.artifact("report.pdf", data)')
        data = bytes(data)
        artifact = Artifact(sha256(data).digest(), len(data), data)
        body.artifacts = [*body.artifacts, artifact]
        body.named = [*body.named, (name, artifact.hash, artifact.size)]

    def _on_loop(self, callback: Callable[[], object]) -> None:
        host = self._run.host
        if asyncio._get_running_loop() is host.loop:
            callback()
        else:
            host.threads.call(callback)
