"""Perdure for code without ``async``: ``run``, a blocking ``Engine``, and what sync workflows write for ``await``.

Nothing is written twice: the engine's methods are the async ones called through a thread with an event loop, and in a
sync workflow the async functions are awaited on the run's loop while the thread waits.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from perdure import engine as _engine
from perdure.branches import Branch, parallel, receive, saga, sleep, submit, wait
from perdure.context import DEFAULT_STREAM
from perdure.errors import ColourError
from perdure.here import run
from perdure.portal import Portal

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path
    from typing import Self, Unpack

    from perdure.diagnosis import Explanation
    from perdure.handle import Handle as AsyncHandle
    from perdure.model.counting import Counts, Traffic
    from perdure.model.durations import Duration
    from perdure.model.history import RunView
    from perdure.model.records import Event, RunRow, Status
    from perdure.operations import Pruned, Tally
    from perdure.operations import Runs as AsyncRuns
    from perdure.options import EngineOptions, EnqueueOptions, RunFilters, RunOptions, TrafficOptions
    from perdure.queueing import QueueView
    from perdure.queues import Queue
    from perdure.schedules import OccurrenceView, ScheduleOptions, ScheduleView
    from perdure.schedules import ScheduleHandle as AsyncScheduleHandle
    from perdure.schedules import Schedules as AsyncSchedules
    from perdure.signals import Signal
    from perdure.store.protocol import Store
    from perdure.streams import Emitted, Stream
    from perdure.transactional.guests import Connection
    from perdure.workflow import Workflow

T = TypeVar("T")
D = TypeVar("D")
R = TypeVar("R")
InputT = TypeVar("InputT")


def _on_this_thread(work: Coroutine[Any, Any, T]) -> T:
    """Do what is done on a connection of the caller's where it is used: on this thread, with nothing to wait for."""
    from perdure.transactional.source import drive  # whoever gives a connection has loaded its driver

    if asyncio._get_running_loop() is not None:
        work.close()
        raise ColourError(
            "a blocking call on a running event loop would block it", advice="await perdure.Engine's methods there"
        )
    return drive(work)


# -- the blocking engine --------------------------------------------------------------------------


class Handle(Generic[R]):
    """A handle on a run whose methods block; see ``perdure.Handle``."""

    __slots__ = ("_handle", "_portal")

    def __init__(self, handle: AsyncHandle[R], portal: Portal) -> None:
        self._handle = handle
        self._portal = portal

    def __repr__(self) -> str:
        return repr(self._handle)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._handle.run_id

    def view(self) -> RunView:
        """Return the run as its log tells it."""
        return self._portal.call(self._handle.view())

    def row(self) -> RunRow:
        """Return the run as the store lists it."""
        return self._portal.call(self._handle.row())

    def why(self) -> Explanation:
        """Say why the run is where it is, and what to do."""
        return self._portal.call(self._handle.why())

    def result(self, timeout: Duration | None = None) -> R:
        """Wait until the run has ended and return its result, or raise what it ended with."""
        return self._portal.call(self._handle.result(timeout))

    def cancel(self, reason: str = "", *, force: bool = False) -> None:
        """Ask the run to end; see ``perdure.Handle.cancel``."""
        self._portal.call(self._handle.cancel(reason, force=force))

    def signal(
        self,
        signal: Signal[T] | str,
        value: Any = None,
        *,
        idempotency_key: str | None = None,
        within: Connection | None = None,
    ) -> bool:
        """Send the run a signal; False if that was done already, under the same idempotency key."""
        sending = self._handle.signal(signal, value, idempotency_key=idempotency_key, within=within)
        return self._portal.call(sending) if within is None else _on_this_thread(sending)

    def pause(self, reason: str = "") -> None:
        """Let the run rest until it is resumed."""
        self._portal.call(self._handle.pause(reason))

    def resume(self, *, accept_drift: bool = False) -> None:
        """Let a failed, cancelled or blocked run go on."""
        self._portal.call(self._handle.resume(accept_drift=accept_drift))

    def fork(self, from_step: str, *, run_id: str | None = None, keep_keys: bool = False) -> Handle[R]:
        """Make a new run that does anew what comes after a step of this one; see ``perdure.Handle.fork``."""
        forked = self._handle.fork(from_step, run_id=run_id, keep_keys=keep_keys)
        return Handle(self._portal.call(forked), self._portal)

    def forks(self) -> list[Handle[R]]:
        """Return the runs that were forked from this one; see ``perdure.Handle.forks``."""
        return [Handle(one, self._portal) for one in self._portal.call(self._handle.forks())]

    def events(self, *, follow: bool = False, after: int = 0) -> Iterator[Event]:
        """Iterate over the run's event log; see ``perdure.Handle.events``."""
        return self._portal.iterate(self._handle.events(follow=follow, after=after))

    @overload
    def stream(self, stream: Stream[T], /, *, after: int = 0, follow: bool = True) -> Iterator[Emitted[T]]: ...
    @overload
    def stream(
        self, stream: str = DEFAULT_STREAM, /, *, after: int = 0, follow: bool = True
    ) -> Iterator[Emitted[Any]]: ...
    def stream(
        self, stream: Stream[Any] | str = DEFAULT_STREAM, /, *, after: int = 0, follow: bool = True
    ) -> Iterator[Emitted[Any]]:
        """Iterate over the values that the run has emitted to a stream; see ``perdure.Handle.stream``."""
        return self._portal.iterate(self._handle.stream(stream, after=after, follow=follow))


class Engine:
    """``perdure.Engine`` for code without ``async``: the same options; its loop runs on a thread of its own.

    ``with Engine(…) as engine:`` starts it and stops it; ``with engine.client():`` opens the store without executing.
    Its methods may be called from any thread but that of its loop: not in async steps, which would block all others.
    """

    def __init__(self, store: str | Path | Store | None = None, **options: Unpack[EngineOptions]) -> None:
        self._engine = _engine.Engine(store, **options)
        self._portal = Portal()
        self._lock = threading.Lock()
        self._is_started = False

    @classmethod
    def around(cls, engine: _engine.Engine, portal: Portal) -> Self:
        """Return a blocking engine for one that lives on a portal's loop, opened and closed there."""
        self = cls()
        self._engine, self._portal = engine, portal
        return self

    # -- opening and closing

    def start(self) -> None:
        """Open the store and execute what can be claimed, until ``stop``."""
        self._portal.enter()
        try:
            self._portal.call(self._engine.start())
        except BaseException:
            self._portal.leave()
            raise
        self._is_started = True

    def stop(self, drain: Duration | None = None, grace: Duration | None = None) -> list[str]:
        """Stop; see ``perdure.Engine.stop``."""
        with self._lock:
            was_started, self._is_started = self._is_started, False
        if not was_started:
            return []
        try:
            return self._portal.call(self._engine.stop(drain, grace))
        finally:
            self._portal.leave()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @contextmanager
    def client(self) -> Generator[Self]:
        """Open the store for the block, without executing anything."""
        self._portal.enter()
        try:
            client = self._engine.client()
            self._portal.call(client.__aenter__())
            try:
                yield self
            finally:
                if self._portal.is_open:  # not so in a process forked meanwhile, whose parent closes it
                    self._portal.call(client.__aexit__(None, None, None))
        finally:
            self._portal.leave()

    def tick(self) -> int:
        """Make one pass; see ``perdure.Engine.tick``. The first one opens the store, and ``stop`` closes it."""
        self._portal.enter()
        stays = False
        try:
            count = self._portal.call(self._engine.tick())
            with self._lock:
                stays, self._is_started = not self._is_started, True
            return count
        finally:
            if not stays:
                self._portal.leave()

    # -- runs

    @overload
    def enqueue(self, workflow: Workflow[None, R], /, **options: Unpack[EnqueueOptions]) -> Handle[R]: ...
    @overload
    def enqueue(
        self, workflow: Workflow[InputT, R], value: InputT, /, **options: Unpack[EnqueueOptions]
    ) -> Handle[R]: ...
    def enqueue(self, workflow: Workflow[Any, R], value: Any = None, /, **options: Unpack[EnqueueOptions]) -> Handle[R]:
        """Create a run, or find the one that is there; options as for ``perdure.Engine.enqueue``."""
        enqueuing = self._engine.enqueue(workflow, value, **options)
        is_apart = options.get("within") is None
        return Handle(self._portal.call(enqueuing) if is_apart else _on_this_thread(enqueuing), self._portal)

    def enqueue_many(  # noqa: PLR0913 - the options of runs
        self,
        workflow: Workflow[InputT, R],
        values: Iterable[InputT],
        /,
        *,
        run_ids: Sequence[str] | None = None,
        delay: Duration | None = None,
        queue: Queue | str | None = None,
        priority: int = 0,
        partition: str | None = None,
        tags: Mapping[str, str] | None = None,
        deadline: Duration | datetime | None = None,
        within: Connection | None = None,
    ) -> list[Handle[R]]:
        """Create many runs, or find those that are there; see ``perdure.Engine.enqueue_many``."""
        many = self._engine.enqueue_many(
            workflow, values, run_ids=run_ids, delay=delay, queue=queue, priority=priority, partition=partition,
            tags=tags, deadline=deadline, within=within,
        )  # fmt: skip
        handles = self._portal.call(many) if within is None else _on_this_thread(many)
        return [Handle(handle, self._portal) for handle in handles]

    @overload
    def run(self, workflow: Workflow[None, R], /, **options: Unpack[RunOptions]) -> R: ...
    @overload
    def run(self, workflow: Workflow[InputT, R], value: InputT, /, **options: Unpack[RunOptions]) -> R: ...
    def run(self, workflow: Workflow[Any, R], value: Any = None, /, **options: Unpack[RunOptions]) -> R:
        """Run a workflow, or attach to the run that is there, and wait for its result; see ``perdure.Engine.run``."""
        return self._portal.call(self._engine.run(workflow, value, **options))

    def get(self, run_id: str, workflow: Workflow[Any, R] | None = None) -> Handle[R]:
        """Return a handle on a run; reads nothing."""

        async def get() -> AsyncHandle[R]:
            return self._engine.get(run_id, workflow)

        return Handle(self._portal.call(get()), self._portal)

    def runs(self, **where: Unpack[RunFilters]) -> Runs:
        """Return the runs, newest first: to iterate over, or to do something to; see ``perdure.Engine.runs``."""

        async def runs() -> AsyncRuns:
            return self._engine.runs(**where)

        return Runs(self._portal.call(runs()), self._portal)

    def counts(self, **where: Unpack[RunFilters]) -> Counts:
        """Return how many runs there are, by status and by workflow; see ``perdure.Engine.counts``."""
        return self._portal.call(self._engine.counts(**where))

    def traffic(self, **window: Unpack[TrafficOptions]) -> Traffic:
        """Return what became of runs over time; see ``perdure.Engine.traffic``."""
        return self._portal.call(self._engine.traffic(**window))

    def prune(
        self,
        *,
        older_than: Duration | None = None,
        status: Iterable[Status | str] | Status | str | None = None,
        workflow: Workflow[Any, Any] | str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """Purge runs that ended long ago; see ``perdure.Engine.prune``."""
        pruning = self._engine.prune(
            older_than=older_than, status=status, workflow=workflow, limit=limit, dry_run=dry_run
        )
        return self._portal.call(pruning)

    def namespaces(self) -> list[str]:
        """Return the namespaces of the store; see ``perdure.Engine.namespaces``."""
        return self._portal.call(self._engine.namespaces())

    def metrics(self) -> str:
        """Return the engine's metrics in Prometheus's text format."""
        return self._portal.call(self._engine.metrics())

    # -- queues

    def queues(self) -> list[QueueView]:
        """Return all queues that are defined or have runs, by name, and how much of each is in use."""
        return self._portal.call(self._engine.queues())

    def pause_queue(self, queue: Queue | str) -> bool:
        """Let nobody claim anything from a queue until it is resumed; runs under way go on. Whether that is new."""
        return self._portal.call(self._engine.pause_queue(queue))

    def resume_queue(self, queue: Queue | str) -> bool:
        """Let a paused queue go on; whether it was paused."""
        return self._portal.call(self._engine.resume_queue(queue))

    # -- schedules

    @overload
    def schedule(self, workflow: Workflow[None, R], /, **options: Unpack[ScheduleOptions]) -> ScheduleHandle[R]: ...
    @overload
    def schedule(
        self, workflow: Workflow[InputT, R], value: InputT, /, **options: Unpack[ScheduleOptions]
    ) -> ScheduleHandle[R]: ...
    def schedule(
        self, workflow: Workflow[Any, R], value: Any = None, /, **options: Unpack[ScheduleOptions]
    ) -> ScheduleHandle[R]:
        """Define a recurring run; options as for ``perdure.Engine.schedule``."""
        return ScheduleHandle(self._portal.call(self._engine.schedule(workflow, value, **options)), self._portal)

    def unschedule(self, key: str) -> bool:
        """Remove a schedule for the whole fleet; returns whether it was there. Its runs stay."""
        return self._portal.call(self._engine.unschedule(key))

    def get_schedule(self, key: str, workflow: Workflow[Any, R] | None = None) -> ScheduleHandle[R]:
        """Return a handle on a schedule; reads nothing."""

        async def get() -> AsyncScheduleHandle[R]:
            return self._engine.get_schedule(key, workflow)

        return ScheduleHandle(self._portal.call(get()), self._portal)

    def schedules(self) -> Iterator[ScheduleView]:
        """Iterate over the schedules, by key."""

        async def schedules() -> AsyncSchedules:
            return self._engine.schedules()

        return self._portal.iterate(aiter(self._portal.call(schedules())))


class ScheduleHandle(Generic[R]):
    """A handle on a schedule whose methods block; see ``perdure.ScheduleHandle``."""

    __slots__ = ("_handle", "_portal")

    def __init__(self, handle: AsyncScheduleHandle[R], portal: Portal) -> None:
        self._handle = handle
        self._portal = portal

    def __repr__(self) -> str:
        return repr(self._handle)

    @property
    def key(self) -> str:
        """The schedule's key."""
        return self._handle.key

    def view(self) -> ScheduleView:
        """Return the schedule as it is."""
        return self._portal.call(self._handle.view())

    def next(self, count: int = 1) -> list[datetime]:
        """Return when it will fire the next ``count`` times."""
        return self._portal.call(self._handle.next(count))

    def last(self) -> OccurrenceView | None:
        """Return what became of its latest occurrence; None if none was due yet."""
        return self._portal.call(self._handle.last())

    def history(self, limit: int = 100) -> list[OccurrenceView]:
        """Return what became of its latest occurrences, latest first."""
        return self._portal.call(self._handle.history(limit))

    def pause(self) -> None:
        """Let it fire no more until it is resumed."""
        self._portal.call(self._handle.pause())

    def resume(self) -> None:
        """Let it go on with what comes next."""
        self._portal.call(self._handle.resume())

    def trigger(self) -> Handle[R]:
        """Start a run of it now."""
        return Handle(self._portal.call(self._handle.trigger()), self._portal)

    def remove(self) -> bool:
        """Remove it for everybody; returns whether it was there."""
        return self._portal.call(self._handle.remove())


class Runs:
    """Runs of one kind, newest first: ``for row in …``, or page by page."""

    def __init__(self, runs: AsyncRuns, portal: Portal) -> None:
        self._runs = runs
        self._portal = portal

    def __iter__(self) -> Iterator[RunRow]:
        return self._portal.iterate(aiter(self._runs))

    def page(self, cursor: str | None = None, *, limit: int = 100) -> tuple[list[RunRow], str | None]:
        """Return up to ``limit`` runs after ``cursor``, and the cursor of the next page; None if this is the last."""
        return self._portal.call(self._runs.page(cursor, limit=limit))

    def count(self) -> int:
        """Return how many there are."""
        return self._portal.call(self._runs.count())

    def counts(self) -> Counts:
        """Return how many there are, by status and by workflow."""
        return self._portal.call(self._runs.counts())

    def cancel(self, reason: str = "", *, force: bool = False) -> Tally:
        """Cancel those that have not ended."""
        return self._portal.call(self._runs.cancel(reason, force=force))

    def signal(self, signal: Signal[T] | str, value: Any = None, *, idempotency_key: str | None = None) -> Tally:
        """Send a signal to those that have not ended."""
        return self._portal.call(self._runs.signal(signal, value, idempotency_key=idempotency_key))

    def pause(self, reason: str = "") -> Tally:
        """Let those rest that have not ended and are not blocked."""
        return self._portal.call(self._runs.pause(reason))

    def resume(self, *, accept_drift: bool = False) -> Tally:
        """Let those go on that have failed, were cancelled, or are blocked or paused."""
        return self._portal.call(self._runs.resume(accept_drift=accept_drift))

    def fork(self, from_step: str, *, suffix: str | None = None, keep_keys: bool = False) -> Tally:
        """Fork each of them from a step; each fork is named after its origin, with ``suffix``."""
        return self._portal.call(self._runs.fork(from_step, suffix=suffix, keep_keys=keep_keys))


__all__ = [
    "Branch", "Engine", "Handle", "Runs", "ScheduleHandle", "parallel", "receive", "run", "saga", "sleep", "submit",
    "wait",
]  # fmt: skip
