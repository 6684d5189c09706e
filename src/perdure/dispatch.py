"""How hooks are told: each from a bounded queue of its own, so that no run and no other hook ever waits for one."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from contextvars import copy_context
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure.errors import DefinitionError
from perdure.hooks import Hooks, Notice, WorkerNotice
from perdure.model.durations import to_datetime
from perdure.model.records import Event, Kind, Verdict
from perdure.runtime.threads import Threads
from perdure.store.coded import codecs_of
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from perdure.model.records import Claim, CommitItem
    from perdure.runtime.journal import Journal
    from perdure.runtime.run import Run
    from perdure.runtime.worker import Worker
    from perdure.store.protocol import Reclaimed, Store

MOST = 10_000
"""Notices that wait for one hook."""
TOGETHER = 100
"""Calls that share a way to the thread and back."""
TAIL = 8
"""Events at the end of a log among which that of a reclaim is looked for."""

LAST = 0.1
"""Seconds that an async hook gets to hear that it is cancelled."""

Method: TypeAlias = "Callable[[Any], Any]"

_BACK = (Kind.RUN_RECLAIMED, Kind.RUN_BLOCKED)


def check_hooks(hooks: Iterable[Hooks]) -> list[Hooks]:
    """Return hooks as a list.

    Raises:
        DefinitionError: one is none.
    """
    found = list(hooks)
    for one in found:
        if not isinstance(one, Hooks):
            raise DefinitionError(
                f"{one!r} is not an object of a class derived from perdure.Hooks",
                advice="class Alerts(Hooks): def run_failed(self, notice): …  and Engine(hooks=[Alerts()])",
            )
    return found


class Dispatch:
    """Tells the hooks of one engine, from its start to its stop; lives on its loop."""

    def __init__(self, hooks: Sequence[Hooks], store: Store, journal: Journal) -> None:
        self._store, self._journal = store, journal
        self._open = codecs_of(store).open
        self._lines = [_Line(one) for one in hooks]
        self._wanted: dict[int, list[tuple[_Line, Method]]] = {}
        for kind in Kind:
            found = [(line, method) for line in self._lines for method in line.methods(kind.word)]
            if found:
                self._wanted[kind] = found
        self._is_open = True

    # -- what the engine tells

    def committed(self, batch: Mapping[Run, CommitItem], verdicts: Sequence[Verdict], _seconds: float = 0.0) -> None:
        """The journal has written a batch."""
        for (run, item), verdict in zip(batch.items(), verdicts, strict=True):
            if verdict <= Verdict.ALREADY:
                self.wrote(run, item.events)

    def wrote(self, run: Run, events: Sequence[Event]) -> None:
        """Something was written for a run that is executed here."""
        wanted = self._wanted
        for event in events:
            if event.kind in wanted:
                self._tell(Notice(run.run_id, run.workflow, run.row.version, self._open(event)))

    def claimed(self, _run: Run, claim: Claim) -> None:
        """A run was claimed."""
        row = claim.row
        if Kind.RUN_CLAIMED not in self._wanted:
            return
        last = claim.events[-1]
        if last.seq != row.seq:  # of a long log only the beginning is there so far
            at = self._store.now()
            kind = Kind.RUN_CLAIMED
            last = Event(row.run_key, row.seq, at, row.epoch, kind, None, None, None, 0, None, None, row.hash)
        self._tell(Notice(row.run_id, row.workflow, row.version, last))

    def reclaimed(self, runs: Sequence[Reclaimed]) -> None:
        """Runs were taken back from workers that died."""
        if any(kind in self._wanted for kind in _BACK):
            self._look({one.run_key: Kind.RUN_RECLAIMED for one in runs})

    def blocked(self, run: Run, _reason: str) -> None:
        """A run was blocked after its hold had ended."""
        if Kind.RUN_BLOCKED in self._wanted:
            self._look({run.run_key: Kind.RUN_BLOCKED})

    def left(self, _run: Run) -> None:
        """A run is not executed here any more: nothing that was committed."""

    def worker(self, what: str, worker: Worker) -> None:
        """The worker has started or stopped."""
        notice = WorkerNotice(worker.name, os.getpid(), worker.host.build, to_datetime(worker.host.clock.now()))
        for line in self._lines:
            for method in line.methods(what, every=False):
                line.put(method, notice)

    def _look(self, since: dict[int, Kind]) -> None:
        """Tell what the logs of runs say of how they were taken back: from the last event of a kind on, by run key."""
        self._journal.call(lambda: self._read(since), background=True).add_done_callback(self._tell_read)

    def _read(self, since: dict[int, Kind]) -> list[Notice]:
        found: list[Notice] = []
        for row in self._store.get_runs(list(since)):
            events = self._store.read_events(row.run_key, max(0, row.seq - TAIL), 2 * TAIL)
            first = max((event.seq for event in events if event.kind == since[row.run_key]), default=row.seq + 1)
            told = [event for event in events if event.seq >= first and event.kind in _BACK]
            found += [Notice(row.run_id, row.workflow, row.version, event) for event in told]
        return found

    def _tell_read(self, done: asyncio.Future[list[Notice]]) -> None:
        if not done.cancelled() and done.exception() is None and self._is_open:
            for notice in done.result():
                self._tell(notice)

    def _tell(self, notice: Notice) -> None:
        for line, method in self._wanted.get(notice.event.kind, ()):
            line.put(method, notice)

    # -- ending

    async def close(self, patience: float) -> None:
        """Take no more, and let hooks hear what is queued for at most ``patience`` seconds."""
        self._is_open = False
        await asyncio.gather(*(line.close(patience) for line in self._lines))

    def abandon(self) -> None:
        """End at once."""
        self._is_open = False
        for line in self._lines:
            line.end()


class _Line:
    """The queue of one hook, and what calls it."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._queue: deque[tuple[Method, Any]] = deque()
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._threads = Threads(self._loop, 1, "perdure-hooks")
        self._task: asyncio.Task[None] | None = None
        self._has_warned = self._is_closed = False

    def methods(self, name: str, *, every: bool = True) -> list[Method]:
        """Return what is overridden of the method of that name and, with ``every``, of ``event``."""
        names = [name, "event"] if every else [name]
        cls = type(self._hooks)
        own = [one for one in names if getattr(cls, one, None) is not getattr(Hooks, one, None)]
        return [getattr(self._hooks, one) for one in own]

    def put(self, method: Method, notice: object) -> None:
        """Queue a call, unless the queue is full."""
        if self._is_closed:
            return
        if len(self._queue) >= MOST:
            self._drop(1)
            return
        self._queue.append((method, notice))
        if self._task is None:
            self._task = self._loop.create_task(self._serve(), name="perdure hooks", context=self._context)

    def _drop(self, count: int) -> None:
        self._hooks.dropped += count
        if not self._has_warned:
            self._has_warned = True
            say(lines.HOOK_SLOW, hooks=repr(self._hooks))

    async def _serve(self) -> None:
        queue = self._queue
        while queue:
            if iscoroutinefunction(queue[0][0]):
                method, notice = queue.popleft()
                await self._hear(method(notice), notice)
                continue
            calls: list[tuple[Method, Any]] = []
            while queue and len(calls) < TOGETHER and not iscoroutinefunction(queue[0][0]):
                calls.append(queue.popleft())
            for call, more in zip(calls, await self._on_thread(calls), strict=True):
                if isawaitable(more):
                    await self._hear(more, call[1])
        self._task = None

    async def _hear(self, telling: Awaitable[object], notice: object) -> None:
        try:
            await telling
        except asyncio.CancelledError as stopped:
            if self._is_closed:
                raise
            self._failed(notice, stopped)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - SystemExit would go through the loop and end the program
            self._failed(notice, error)

    def _failed(self, notice: object, error: BaseException) -> None:
        say(lines.HOOK_FAILED, error=error, hooks=repr(self._hooks), notice=repr(notice))

    async def _on_thread(self, calls: list[tuple[Method, Any]]) -> list[Any]:
        done: asyncio.Future[list[Any]] = self._loop.create_future()
        self._threads.submit(_Work(calls, self._failed, done), copy_context(), None)
        return await done

    async def close(self, patience: float) -> None:
        """Let it hear what is queued for at most so many seconds, then no more."""
        task = self._task
        if task is not None and patience > 0:
            await asyncio.wait([task], timeout=patience)
        self.end()
        if task is not None:
            await asyncio.wait([task], timeout=LAST)  # it is cancelled by now, and has to hear of that

    def end(self) -> None:
        """Tell it nothing more."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            self._task = None
            if self._queue:
                self._hooks.dropped += len(self._queue)
                say(lines.HOOK_CUT_OFF, hooks=repr(self._hooks), notices=len(self._queue))
                self._queue.clear()
        self._threads.close()


class _Work:
    """Calls of a hook that are not async, on its thread."""

    __slots__ = ("_calls", "_done", "_failed", "_results")

    def __init__(
        self,
        calls: list[tuple[Method, Any]],
        failed: Callable[[object, BaseException], None],
        done: asyncio.Future[list[Any]],
    ) -> None:
        self._calls, self._failed, self._done = calls, failed, done
        self._results: list[Any] = []

    def run_here(self, _argument: object) -> None:
        """Make the calls."""
        for method, notice in self._calls:
            if self._done.cancelled():
                return
            result = None
            try:
                result = method(notice)
            except BaseException as error:  # noqa: BLE001 - logged, whatever it is
                self._failed(notice, error)
            self._results.append(result)

    def finished(self) -> None:
        """Tell the queue, on its loop."""
        if not self._done.done():
            self._done.set_result(self._results)


__all__ = ["Dispatch", "check_hooks"]
