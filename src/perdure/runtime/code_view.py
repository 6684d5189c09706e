"""The run as the workflow's own code sees it: what ``perdure.context.CurrentRun`` promises."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import sys
import uuid
from hashlib import sha256
from threading import get_ident
from typing import TYPE_CHECKING, Any

from perdure.context import RunContext
from perdure.errors import DefinitionError, DuplicateName, NotInRun, RunGone
from perdure.model import payloads
from perdure.model.codec import ValueCodec
from perdure.model.durations import to_datetime
from perdure.model.records import Artifact, Kind
from perdure.runtime import drift
from perdure.runtime.calls import StepCall

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from perdure.context import StepLike, WorkflowLike
    from perdure.model.replay import Replay
    from perdure.runtime.bodies import Body
    from perdure.runtime.host import Host
    from perdure.runtime.runloop import RunLoop

_ANY = ValueCodec(Any)


class CodeView:
    """Mixed into ``Run``: everything that is called from workflow code and step bodies."""

    host: Host
    loop: RunLoop
    replay: Replay
    run_id: str
    uid: bytes
    workflow: str
    version: str
    gone: bool
    accept_drift = False
    this_python = f"{sys.version_info.major}.{sys.version_info.minor}"
    recorded_python = ""
    scheduled_at: dt.datetime | None = None

    def _init_view(self) -> None:
        self.replaying = False
        self._definitions: dict[str, object] = {}
        self._explicit: set[str] = set()
        self._random: random.Random | None = None
        self._context: RunContext | None = None

    def call_step(self, step: StepLike, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Coroutine[object, None, Any]:
        """Take a call's key and arguments; its outcome comes when it is awaited.

        Raises:
            NotSerializable: an argument cannot be stored exactly.
            DuplicateName: another step of this name, or the same explicit key, was used in this run.
        """
        loop = self.loop
        if loop.gone or self.gone:
            raise RunGone
        name = step.name
        known = self._definitions.setdefault(name, step.definition)
        if known is not step.definition:
            raise DuplicateName(
                f"run {self.run_id} calls two different steps named {name!r}", run_id=self.run_id, step=name,
                advice="give one of them another name with @step(name=…)",
            )
        prepared = step.arguments.prepare(args, kwargs)
        key = loop.scope().key(name, step.key)
        if step.key is not None:
            if key in self._explicit:
                raise DuplicateName(
                    f"run {self.run_id} used the key {key!r} already", run_id=self.run_id, step=name,
                    advice="an explicit key names one call; make it differ, or leave it out to have calls numbered",
                )
            self._explicit.add(key)
        by_key = self.replay.by_key
        if by_key and (event := by_key.get(key)) is not None:
            drift.check_arguments(self, step, key, event, prepared.data)  # type: ignore[arg-type]
            if loop.poison is not None:
                raise RunGone
        return StepCall(self, step, key, prepared)  # type: ignore[arg-type]

    def call_workflow(
        self, workflow: WorkflowLike, args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Coroutine[object, None, Any]:
        """Refuse: runs cannot start others by a plain call."""
        raise NotInRun(
            f"workflow {workflow.name} was called inside run {self.run_id}, which cannot start child runs",
            advice="call its steps, or enqueue it from a step through an engine",
        )

    def now(self) -> dt.datetime:
        """The instant of the last outcome delivered."""
        return to_datetime(self.replay.started_at + self.replay.paused + round(self.loop.clock * 1e6))

    def random(self) -> random.Random:
        """Random numbers seeded by the run's uid."""
        if self._random is None:
            self._random = random.Random(sha256(b"perdure random " + self.uid).digest())  # noqa: S311 - repeatable on purpose
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
                f"progress of {len(payload)} bytes is too large", advice=f"keep it under {payloads.INLINE} bytes, or use artifact()"
            )
        self._on_loop(lambda: None if body.settled else self._progressed(body, payload))

    def _progressed(self, body: Body, payload: bytes) -> None:
        if not self.gone and self.leaving is None:  # type: ignore[attr-defined]
            self.record(Kind.PROGRESS, body.call.key, attempt=body.attempt, payload=payload)  # type: ignore[attr-defined]

    def named_artifact(self, body: Body, name: str, data: bytes) -> None:
        """Keep bytes under a name, written with the attempt's outcome."""
        if not isinstance(name, str) or not name or not isinstance(data, (bytes, bytearray, memoryview)):
            raise DefinitionError("an artifact has a name (str) and bytes", advice='ctx.artifact("report.pdf", data)')
        data = bytes(data)
        artifact = Artifact(sha256(data).digest(), len(data), data)
        body.artifacts.append(artifact)
        body.named.append((name, artifact.hash, artifact.size))

    def _on_loop(self, callback: Any) -> None:  # noqa: ANN401
        if get_ident() == self.loop._thread and asyncio._get_running_loop() is self.host.loop:
            callback()
        else:
            self.host.threads.call(callback)
