"""Hooks: functions of yours that are told what an engine has committed, for metrics, alerts and screens."""

# pyright: reportUnusedParameter=false
# A hook that nobody overrides does nothing with what it is given.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.model import payloads
from perdure.model.codec import ValueCodec
from perdure.model.durations import to_datetime
from perdure.model.failures import decode_failure
from perdure.model.keys import step_name
from perdure.model.records import Kind
from perdure.model.replay import retry_at

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from datetime import datetime
    from typing import TypeAlias

    from perdure.model.records import Event

    Told: TypeAlias = Awaitable[object] | None
    """What a hook returns: nothing, or if it is async, what is awaited."""

_ANY = ValueCodec(Any)
_VALUES = frozenset({Kind.STEP_COMPLETED, Kind.RUN_COMPLETED, Kind.PROGRESS, Kind.EMITTED})
_KEYED = frozenset({Kind.STEP_STARTED, Kind.STEP_COMPLETED, Kind.STEP_FAILED, Kind.STEP_CANCELLED, Kind.PROGRESS})


class Notice:
    """Something that was committed. What it is asked for is decoded anew each time, so nobody else sees a change to it.

    Attributes:
        run_id, workflow, version: the run.
        event: the event of its log.
    """

    __slots__ = ("event", "run_id", "version", "workflow")

    def __init__(self, run_id: str, workflow: str, version: str, event: Event) -> None:
        self.run_id, self.workflow, self.version, self.event = run_id, workflow, version, event

    def __repr__(self) -> str:
        key = f" {self.key}" if self.key else ""
        return f"<Notice {self.kind}{key} of run {self.run_id!r}>"

    @property
    def kind(self) -> str:
        """What happened: ``step_completed``; kinds are listed in the reference of events."""
        return Kind(self.event.kind).word

    @property
    def seq(self) -> int:
        """Its place in the run's log; with the run's id it tells one notice from all others."""
        return self.event.seq

    @property
    def at(self) -> datetime:
        """When it happened (aware, UTC)."""
        return to_datetime(self.event.at)

    @property
    def key(self) -> str | None:
        """The key of the step, timer or value that it is about, if it is about one."""
        return self.event.key

    @property
    def step(self) -> str | None:
        """The name of the step that it is about, if it is about one."""
        event = self.event
        is_about_step = event.kind in _KEYED or (event.kind == Kind.EMITTED and event.attempt is not None)
        return step_name(event.key) if is_about_step and event.key is not None else None

    @property
    def attempt(self) -> int | None:
        """The number of the attempt, from 1, if it is about one."""
        return self.event.attempt

    @property
    def took(self) -> float | None:
        """How long the attempt took, in seconds, if one has ended."""
        return None if self.event.took is None else self.event.took / 1e6

    @property
    def value(self) -> Any:
        """The result, progress or emitted value, as plain data; None where there is none, or it is over 64 KiB."""
        event = self.event
        if event.kind not in _VALUES or event.payload is None or event.codec != payloads.PLAIN:
            return None
        return _ANY.decode(event.payload)

    @property
    def stream(self) -> str | None:
        """The stream that a value was emitted to."""
        return payloads.stream_of(self.event) if self.event.kind == Kind.EMITTED else None

    @property
    def error(self) -> BaseException | None:
        """What a step or run failed with, rebuilt as for the workflow."""
        if self.event.kind in _VALUES:
            return None
        failure = payloads.failure_of(self.event.payload)
        return None if failure is None else decode_failure(failure)

    @property
    def next_at(self) -> datetime | None:
        """When a step that failed is tried again; None if that was its last attempt."""
        at = retry_at(self.event) if self.event.kind == Kind.STEP_FAILED else None
        return None if at is None else to_datetime(at)

    @property
    def reason(self) -> str | None:
        """Why a run was cancelled or blocked, or does not fit the code."""
        if self.event.kind in _VALUES:
            return None
        reason = payloads.fields(self.event.payload).get("reason")
        return None if reason is None else str(reason)


class WorkerNotice(NamedTuple):
    """A worker that has started or stopped.

    Attributes:
        name: its name.
        pid: its process.
        build: the hash of the code of its workflows.
        at: when (aware, UTC).
    """

    name: str
    pid: int
    build: str
    at: datetime


class Hooks:
    """Override what you want to be told, ``def`` or ``async def``, and give an instance to ``Engine(hooks=[…])``.

    A hook is told what this engine has written for the runs it executes, once it is on disk, in the order of each run's
    log. It is told at most once: what a process has written and not yet told when it dies is not told by another, so
    who must miss nothing reads the log. Never told is what is done to a run that nobody executes (a cancel of a
    sleeping run, a resume): that is in its log only.

    A hook touches no run. If it raises, that is logged. It is called on the engine's loop if it is async, else on a
    thread of its own; one call at a time. What it has not heard yet waits in a queue of 10,000; if that is full, new
    notices are dropped, which is counted in ``dropped`` and warned of once. When the engine stops it may finish what is
    queued, for as long as ``stop(grace=)`` says.

    Attributes:
        dropped: how many notices were dropped because it was too slow.
    """

    dropped: int = 0

    def event(self, notice: Notice, /) -> Told:
        """Anything was committed, whether or not there is a method for it."""

    def run_claimed(self, notice: Notice, /) -> Told:
        """The engine begins to execute a run, or goes on with it."""

    def run_suspended(self, notice: Notice, /) -> Told:
        """A run waits for long, and has left memory."""

    def run_reclaimed(self, notice: Notice, /) -> Told:
        """A run was taken back from a worker that died."""

    def run_completed(self, notice: Notice, /) -> Told:
        """A run has completed: ``notice.value``."""

    def run_failed(self, notice: Notice, /) -> Told:
        """A run has failed: ``notice.error``."""

    def run_cancelled(self, notice: Notice, /) -> Told:
        """A run was cancelled and has ended: ``notice.reason``."""

    def run_blocked(self, notice: Notice, /) -> Told:
        """A run cannot go on without a person: ``notice.reason``."""

    def step_started(self, notice: Notice, /) -> Told:
        """An attempt has been running for 100 ms."""

    def step_completed(self, notice: Notice, /) -> Told:
        """A step has returned: ``notice.value``."""

    def step_failed(self, notice: Notice, /) -> Told:
        """An attempt has failed: ``notice.error``; with ``notice.next_at`` there will be another."""

    def step_cancelled(self, notice: Notice, /) -> Told:
        """A step was cancelled and has ended."""

    def progress(self, notice: Notice, /) -> Told:
        """An attempt has said how far it is: ``notice.value``."""

    def emitted(self, notice: Notice, /) -> Told:
        """A value was emitted: ``notice.value`` to ``notice.stream``."""

    def worker_started(self, worker: WorkerNotice, /) -> Told:
        """The engine has started."""

    def worker_stopped(self, worker: WorkerNotice, /) -> Told:
        """The engine executes nothing any more."""


__all__ = ["Hooks", "Notice", "WorkerNotice"]
