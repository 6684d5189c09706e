"""What attempts say of themselves while they run: how far they are, and the values they emit to streams.

Nobody waits for it, so it is written together: the first thing an attempt says goes into the log at once, what all
attempts of the process say within the next ``LINGER`` shares a commit. Of progress only the last of each ``REST`` is
kept. When an attempt ends, everything it has said is in the log before its outcome.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import lru_cache
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.errors import DefinitionError, NotInRun, Undecodable
from perdure.model import payloads
from perdure.model.codec import ValueCodec
from perdure.model.keys import check_explicit
from perdure.model.records import Kind
from perdure.runtime.about import about
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from perdure.model.records import Artifact
    from perdure.protocols import StreamLike
    from perdure.runtime.calls import StepCall
    from perdure.runtime.run import Run
    from perdure.runtime.threads import Threads

LINGER = 0.02
"""Seconds between two commits of what attempts say."""
REST = 0.1
"""Seconds between two events of one attempt's progress."""
MOST = 2000
"""Values an attempt may have emitted that are not in the log yet; a thread that emits more waits."""
BACKLOG = 10_000
"""Events of a run that are not on disk, from which on no more is put into its log before the attempt has ended."""

_ANY = ValueCodec(Any)
_PATIENCE = 0.5
"""Seconds after which a thread that waits looks whether its loop is still there."""


class Value(NamedTuple):
    """A value to emit, encoded."""

    args: bytes
    codec: int
    payload: bytes
    artifact: Artifact | None


@lru_cache(1000)
def _checked(name: str) -> str:
    return check_explicit(name, "a stream's name")


def encoded(value: object, stream: str | StreamLike) -> Value:
    """Encode a value for a stream.

    Raises:
        NotSerializable: it cannot be stored exactly.
        DefinitionError: that is no name of a stream.
    """
    name, codec = named(stream)
    return Value(payloads.stream_args(name), *payloads.pack(codec.encode(value)))


def named(stream: str | StreamLike) -> tuple[str, ValueCodec]:
    """Return a stream's name, checked, and how its values are written.

    Raises:
        DefinitionError: that is no name of a stream.
    """
    if isinstance(stream, str):
        return _checked(stream), _ANY
    if not isinstance(getattr(stream, "codec", None), ValueCodec):
        raise DefinitionError(f"{stream!r} is no stream", advice='give a name, or a perdure.Stream[…]("name")')
    return stream.name, stream.codec


class Reports:
    """All that attempts of one process have said and that is not in the log yet; lives on the host's loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: Threads) -> None:
        self.loop = loop
        self.threads = threads
        self._waiting: dict[Report, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, report: Report) -> None:
        """An attempt has something to say."""
        self._waiting[report] = None
        if self._timer is None:
            self._tick()

    def drop(self, report: Report) -> None:
        """An attempt has nothing to say any more."""
        self._waiting.pop(report, None)

    def _tick(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        self._timer = self.loop.call_later(LINGER, self._tick)
        now = self.loop.time()
        for report in waiting:
            if report.write(now):
                self._waiting[report] = None


class Report:
    """What one attempt says. ``progress`` and ``emit`` may be called on any thread, all else is done on the loop."""

    __slots__ = ("_attempt", "_call", "_closed", "_last", "_noted", "_progress", "_reports", "_rests", "_room", "_run",
                 "_values")  # fmt: skip

    def __init__(self, reports: Reports, run: Run, call: StepCall, attempt: int) -> None:
        self._reports = reports
        self._run, self._call, self._attempt = run, call, attempt
        self._progress: bytes | None = None
        self._last: bytes | None = None
        self._rests = 0.0
        """Until when no more progress is written, on the loop's clock."""
        self._values: deque[Value] = deque()
        self._noted = self._closed = False
        self._room = Condition(Lock())

    def progress(self, value: object) -> None:
        """Keep how far the attempt is, in place of what was kept before and is not written yet.

        Raises:
            NotSerializable: the value cannot be stored exactly.
            DefinitionError: it is too large.
        """
        payload = _ANY.encode(value)
        if len(payload) > payloads.INLINE:
            raise DefinitionError(
                f"progress of {len(payload)} bytes is too large",
                advice=f"keep it under {payloads.INLINE} bytes, or use artifact()",
            )
        if not self._closed:
            self._progress = payload
            self._note()

    def emit(self, value: object, stream: str | StreamLike) -> None:
        """Add a value to a stream.

        Raises:
            NotSerializable: it cannot be stored exactly.
            DefinitionError: that is no name of a stream.
            NotInRun: the attempt has ended.
        """
        one = encoded(value, stream)
        with self._room:
            if len(self._values) >= MOST and asyncio._get_running_loop() is not self._reports.loop:
                while len(self._values) >= MOST and not (self._closed or self._reports.loop.is_closed()):
                    self._room.wait(_PATIENCE)
            if self._closed:
                raise NotInRun(
                    f"step {self._call.key} has ended, and emits nothing more",
                    advice="wait for the threads and tasks that a step starts before it returns",
                )
            self._values.append(one)
        self._note()

    def _note(self) -> None:
        if self._noted:
            return
        self._noted = True
        if asyncio._get_running_loop() is self._reports.loop:
            self._hear()
        else:
            self._reports.threads.call(self._hear)

    def _hear(self) -> None:
        self._noted = False  # before anything is looked at: what comes meanwhile is noted again
        if not self._closed:
            self._reports.add(self)

    def write(self, now: float) -> bool:
        """Put what was said into the log; whether something is left, for later.

        Args:
            now: the instant on the loop's clock.
        """
        run = self._run
        if run.gone or run.ended or run.leaving is not None:
            return False
        if run.seq - run.durable < BACKLOG:
            self._write_values()
        if self._progress is not None and now >= self._rests:
            self._rests = now + REST
            self._write_progress()
        return self._progress is not None or bool(self._values)

    def close(self) -> None:
        """The attempt has ended: write what is left, whatever it was, and hear nothing more."""
        run = self._run
        with self._room:
            self._closed = True
        self._reports.drop(self)
        if not (run.gone or run.ended or run.leaving is not None):
            self._write_values()
            self._write_progress()
            if self._last is not None:
                run.replay.progress[self._call.key] = self._last
        self._make_room()

    def _write_values(self) -> None:
        values, record = self._values, self._run.record
        if not values:
            return
        key, attempt = self._call.key, self._attempt
        while values:
            args, codec, payload, artifact = values.popleft()
            record(Kind.EMITTED, key, attempt=attempt, codec=codec, payload=payload, args=args, artifact=artifact)
        self._make_room()

    def _write_progress(self) -> None:
        payload, self._progress = self._progress, None
        if payload is not None:
            self._last = payload
            self._run.record(Kind.PROGRESS, self._call.key, attempt=self._attempt, payload=payload)

    def _make_room(self) -> None:
        with self._room:
            self._room.notify_all()


def last_progress(run: Run, call: StepCall) -> Any:
    """Return what the attempt before recorded last; None if there is nothing, or it cannot be read."""
    payload = run.replay.progress.get(call.key)
    if payload is None:
        return None
    try:
        return _ANY.decode(payload)
    except Undecodable as error:
        say(lines.PROGRESS_UNREADABLE, error=error, key=call.key, step=call.step.name, **about(run))
        return None


__all__ = ["Report", "Reports", "Value", "encoded", "last_progress", "named"]
