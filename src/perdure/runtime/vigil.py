"""The vigil: what a worker looks after at every tick, because nothing else calls for it.

News for the runs it executes, workers that died, bodies that have begun to take long, and after a renewal that came
late, which runs are still its own.
"""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from perdure.errors import StoreError
from perdure.runtime import points
from perdure.runtime.threads import Threads
from perdure.runtime.watch import TICK
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from perdure.model.records import InboxRow
    from perdure.runtime.host import Host
    from perdure.runtime.journal import Journal
    from perdure.runtime.run import Run
    from perdure.store.protocol import Store
    from perdure.store.talk import Talk

LOOK = 0.1
"""Seconds between looks for dead workers in a store that is not inline."""

STARTED_AFTER = 100_000
"""µs after which a body in flight is noted in the log."""


class Held(Protocol):
    """The worker whose runs are looked after."""

    key: int

    @property
    def running(self) -> Mapping[int, Run]:
        """What it executes, by run key."""
        ...

    def poke(self) -> None:
        """There may be something to claim."""
        ...

    def run_lost(self, run: Run, error: BaseException | None, /) -> None:
        """A run ended in memory only."""
        ...


class Vigil:
    """Looks after one worker's runs; lives on its loop."""

    def __init__(self, worker: Held, host: Host, store: Store, journal: Journal, *, heartbeat: float, cap: int) -> None:
        self._worker, self._host, self._store, self._journal = worker, host, store, journal
        self._grace = round(heartbeat * 1e6)
        self._cap = cap
        self._reclaiming = False
        self._looking = False
        self._look_again = 0.0
        self._inbox = _Reading(
            host, journal, lambda: store.unread(worker.key), self._tell, start=lambda: store.start_unread(worker.key)
        )
        self._held = _Reading(host, journal, lambda: store.held(worker.key), self._compare, begin=self._note_epochs)
        self._epochs: dict[Run, int] = {}
        """What is executed as it is looked what is held, and under which epochs; it says nothing of later claims."""
        self._blind = False
        """Whether the last look failed, which is told once."""
        self._threads = Threads(host.loop, 1, "perdure-vigil")
        self.closing = False
        """A worker that is about to stop takes nothing from others any more."""

    def look(self, *, changed: bool) -> None:
        """Look once; ``changed``: whether anyone has committed anything since the last time."""
        before = self._host.clock.now() - STARTED_AFTER
        for run in list(self._worker.running.values()):
            if run.in_flight:
                run.mark_started(before)
        if self._host.held_back and self._host.lease_ok():
            self._host.held_back = False
            self.check_held()
        if changed:
            self._worker.poke()
            if self._worker.running:
                self.read_inbox()
        self.look_for_dead()

    def look_for_dead(self) -> None:
        """Take the runs of workers that died."""
        if self._reclaiming or self._looking or self.closing:
            return
        if self._store.inline:
            self._reclaim(self._store.dead_workers(self._worker.key, grace=self._grace))
            return
        # Where a look takes a while it is not made on the loop, nor at every tick.
        now = self._host.loop.time()
        if now < self._look_again:
            return
        self._look_again = now + LOOK
        self._looking = True
        self._threads.submit(_Look(self._store, self._worker.key, self._grace, self._looked), copy_context(), None)

    def _looked(self, look: _Look) -> None:
        self._looking = False
        if look.error is not None and not self._blind:
            say(lines.DEAD_UNKNOWN, error=look.error, worker=self._host.worker)
        self._blind = look.error is not None
        if not self.closing:
            self._reclaim(look.dead)

    def close(self) -> None:
        """Let the thread end; nothing is looked for any more."""
        self.closing = True
        self._inbox.close()
        self._held.close()
        self._threads.close()

    def _reclaim(self, dead: list[int]) -> None:
        if not dead:
            return
        self._reclaiming = True
        self._host.reach(points.RECLAIM)
        key, cap = self._worker.key, self._cap
        self._journal.call(lambda: self._store.reclaim(key, dead, cap=cap)).add_done_callback(self._reclaimed)

    def _reclaimed(self, done: asyncio.Future[Any]) -> None:
        self._reclaiming = False
        self._host.reach(points.RECLAIMED)
        if (error := done.exception()) is not None:
            say(lines.NOT_RECLAIMED, error=error, worker=self._host.worker)
            return
        if done.result():
            say(lines.RUNS_RECLAIMED, runs=len(done.result()), worker=self._host.worker)
            if self._host.hooks is not None:
                self._host.hooks.reclaimed(done.result())
        self._worker.poke()

    def read_inbox(self) -> int:
        """Tell runs what has come for them from outside; returns the number of this look, for ``Run.deaf``."""
        return self._inbox.look()

    def _tell(self, look: int, unread: list[tuple[int, int, list[InboxRow]]]) -> None:
        told: set[int] = set()
        for run_key, inbox, rows in unread:
            run = self._worker.running.get(run_key)
            if run is not None:
                told.add(run_key)
                run.news(inbox, rows)
        for run_key, run in list(self._worker.running.items()):
            if 0 < run.deaf <= look and run_key not in told:
                run.news(run.inbox, ())  # what came for it has been consumed since

    def check_held(self) -> None:
        """Let go of runs that went to others, and go on with the rest: the lease had ended for a while."""
        self._held.look()

    def _note_epochs(self) -> None:
        self._epochs = {run: run.epoch for run in self._worker.running.values()}

    def _compare(self, _look: int, held: dict[int, int]) -> None:
        epochs, self._epochs = self._epochs, {}
        for run in list(self._worker.running.values()):
            if run.leaving is not None:
                continue  # that may be on disk without our having been told, and else is refused
            if epochs.get(run) == run.epoch != held.get(run.run_key):
                run.drop(None)
                self._worker.run_lost(run, None)
            else:
                run.advance()


class _Reading:
    """Looks at something in the store, one look at a time, each until it succeeds; looks are numbered from 1.

    Whoever asks while a look is under way is served by another one after it: that one may have seen less.

    Args:
        host: the process.
        journal: what reads, in its turn.
        read: looks.
        then: told the number of the look and what was seen.
        start: looks without a thread that waits, where that can be.
        begin: called as a look begins.
    """

    __slots__ = ("_asked", "_begins", "_busy", "_host", "_journal", "_over", "_read", "_start", "_then")

    def __init__(
        self,
        host: Host,
        journal: Journal,
        read: Callable[[], Any],
        then: Callable[[int, Any], object],
        *,
        start: Callable[[], Talk[Any] | None] | None = None,
        begin: Callable[[], object] | None = None,
    ) -> None:
        self._host, self._journal, self._read, self._then = host, journal, read, then
        self._start, self._begins = start, begin
        self._asked = 0
        self._busy = self._over = False

    def look(self) -> int:
        """Look; returns the number of the look, or of one that is made later."""
        self._asked += 1
        if not self._busy:
            self._begin()
        return self._asked

    def _begin(self) -> None:
        if self._over:
            return
        self._busy = True
        if self._begins is not None:
            self._begins()
        seen = self._journal.looks.call(self._read, start=self._start)
        seen.add_done_callback(partial(self._ended, self._asked))

    def close(self) -> None:
        """Look no more."""
        self._over = True

    def _tell(self, number: int, seen: Any) -> None:
        if not self._over:
            self._then(number, seen)

    def _ended(self, number: int, done: asyncio.Future[Any]) -> None:
        if self._over:
            return
        if done.exception() is not None:
            self._host.loop.call_later(TICK, self._begin)
            return
        self._busy = False
        self._tell(number, done.result())
        if self._asked > number and not self._busy:
            self._begin()


class _Look:
    """A look for dead workers, on a thread of its own: commits do not wait for it, nor it for them."""

    __slots__ = ("_grace", "_key", "_store", "_then", "dead", "error")

    def __init__(self, store: Store, key: int, grace: int, then: Callable[[_Look], object]) -> None:
        self._store, self._key, self._grace, self._then = store, key, grace, then
        self.dead: list[int] = []
        self.error: StoreError | None = None

    def run_here(self, _argument: object) -> None:
        """Look, on the thread."""
        try:
            self.dead = self._store.dead_workers(self._key, grace=self._grace)
        except StoreError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the looking for good
            say(lines.DEAD_FAULT, error=error, fault=True)
            self.error = StoreError(str(error))

    def finished(self) -> None:
        """Tell the vigil, on its loop."""
        self._then(self)
