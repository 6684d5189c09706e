"""The journal: everything a process writes, in submit order, many runs to a transaction.

A submit schedules one flush for the next turn of the loop; what comes while a commit is under way shares the next.
There is no timer: under load batches grow by themselves. While commits are quick and nothing is queued they happen
inline, on the loop, since a thread costs half an fsync; an inline commit never waits for another process's lock, it
hands the batch over. A lone run flushes at its barrier at once, as nobody else could share the commit.

A server works while the loop does: the loop itself sends the batch, and is told by the socket. Runs that are in step
would all wait for it then, so where a batch is of nearly all of them, and takes less time to write than they do to come
to the next, one half goes on once the other has written anew.
"""

from __future__ import annotations

from collections import deque
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from perdure.errors import StoreCorrupt, StoreError, StoreUnsafe
from perdure.model.records import CommitItem, Verdict
from perdure.runtime import points
from perdure.runtime.about import about
from perdure.runtime.aside import Aside
from perdure.runtime.asking import Asked, Job
from perdure.runtime.talks import Talks
from perdure.runtime.threads import Threads
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from perdure.model.clock import Clock
    from perdure.model.records import Event
    from perdure.runtime.run import Run
    from perdure.store.protocol import Store
    from perdure.store.talk import Talk

    _Settling = tuple[Run, CommitItem, Verdict]

T = TypeVar("T")

SLOW = 0.001
"""Seconds the disk may take while the loop waits; where it takes longer, commits go to the thread."""
PER_ITEM = 0.00005
"""Seconds an item of a batch may take besides, which a thread would take from the loop all the same."""
SMOOTHING = 0.2
FEW = 8
"""Runs that are not worth being divided."""
TURNS = 4
"""Turns of the loop between the commit that a run waits for and what it writes next, if nothing takes its time."""
RETRY_FIRST = 0.05
RETRY_MOST = 1.0


class Journal:
    """One per store and process; lives on the host's loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: Store,
        clock: Clock,
        *,
        reached: Callable[[str], None] | None = None,
    ) -> None:
        self._loop = loop
        self._store = store
        self._clock = clock
        self._reached = reached
        self._pending: dict[Run, CommitItem] = {}
        self._verbs: deque[Asked] = deque()
        self._owed = 0
        """How many verbs were queued when the last batch was taken: they come before the next one, however soon that is
        there, and nothing that they must follow is in it."""
        self._busy = False
        self._scheduled = False
        self._closed = False
        self._pause = RETRY_FIRST
        self._typical = 0.0
        self._threads = Threads(loop, 1, "perdure-journal")
        self._talks = Talks(loop)
        self._unsettled: list[_Settling] = []
        """The second half of a batch that is on disk."""
        self._settled_at = 0.0
        self._computed = 0.0
        """Seconds from when runs last went on until what they wrote was sent."""
        self.aside = Aside(loop, store, self.call, "perdure-aside")
        """Claims."""
        self.looks = Aside(loop, store, self.call, "perdure-looks")
        """Looks at what others have done, for which no claim waits."""
        self.outside = Aside(loop, store, self.call, "perdure-outside")
        """What is asked from outside: runs are created, told something, looked at."""
        self.active = 0
        """How many runs are executing; the worker counts."""
        self.commits = 0
        self.told: Callable[[dict[Run, CommitItem], list[Verdict], float], object] | None = None
        """Told of each batch once it is on disk, and how long that took (s): the hooks and who else listens."""

    # -- what runs ask of it

    def submit(self, run: Run, event: Event) -> CommitItem:
        """Queue an event of a run; returns the item it will be written with. To be followed by ``kick``."""
        item = run.item
        if item is None:
            item = run.item = self._pending[run] = CommitItem(run.run_key, run.epoch, [event])
        else:
            item.events.append(event)
        return item

    def kick(self) -> None:
        """See to it that what is queued is written, on the loop's next turn."""
        if not self._scheduled and not self._busy:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def barrier(self, run: Run) -> bool:
        """Whether all that the run has submitted is on disk; if not, its ``committed`` will be called."""
        if run.durable == run.seq:
            return True
        if self.active <= 1 and not self._busy and not self._verbs and self._typical < SLOW and self._store.inline:
            self._flush()
            return run.durable == run.seq
        return False

    def call(
        self, verb: Callable[[], T], *, background: bool = False, then: Callable[[T], object] | None = None
    ) -> asyncio.Future[T]:
        """Execute a verb of the store in its turn; ``background`` keeps it off the loop in any case.

        ``then`` is called with what it gives, on the loop, also if nobody waits for that any more: what was claimed
        must be executed, whatever became of whoever asked for it.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._verbs.append(Asked(verb, future, background=background, then=then))
        if not self._busy:
            self._flush()
        return future

    @property
    def at_rest(self) -> bool:
        """Whether nothing is queued or being written."""
        if self._pending or self._busy or self._verbs or self._unsettled:
            return False
        return self.aside.at_rest and self.looks.at_rest and self.outside.at_rest

    def close(self) -> None:
        """Let the thread end; nothing may be submitted any more, and whoever asked too late is told why."""
        self._closed = True
        self._unsettled.clear()
        self._talks.close()
        self._threads.close()
        self.aside.close()
        self.looks.close()
        self.outside.close()

    # -- flushing

    def _flush(self) -> None:
        self._scheduled = False
        if self._busy:
            return
        # Whoever is answered may ask for more, and that may go to the thread: then the rest waits its turn.
        while (self._pending or self._verbs) and not self._busy:
            inline = self._store.inline and self._typical < SLOW
            if self._pending and not self._owed:
                self._owed = len(self._verbs)
                batch, self._pending = self._pending, {}
                for run in batch:
                    run.item = None
                if not inline or not self._commit_inline(batch):
                    if not self._start_commit(batch):
                        self._commit_on_thread(batch)
                    return
                if self._pending and not self._owed:
                    # What the settled runs submitted shares the next commit, one turn later.
                    self.kick()
                    return
            else:
                verb = self._verbs[0]
                on_thread = verb.background or not inline or not self._execute_inline(verb)
                self._verbs.popleft()
                self._owed = max(0, self._owed - 1)
                if on_thread:
                    self._busy = True
                    self._threads.submit(Job(verb.execute, partial(self._verb_done, verb)), copy_context(), None)
                    return
                self._answer(verb)

    def _commit_inline(self, batch: dict[Run, CommitItem]) -> bool:
        began = self._clock.monotonic()
        try:
            if self._reached is not None:
                self._reached(points.COMMIT)
            verdicts = self._store.commit(list(batch.values()), wait=False)
            if self._reached is not None:
                self._reached(points.COMMITTED)
        except Exception:  # noqa: BLE001 - busy, or worse: the thread meets it again, and has time to wait
            return False
        took = self._clock.monotonic() - began
        self._learn(took, len(batch))
        self._settle(batch, verdicts, took)
        return True

    def _execute_inline(self, verb: Asked) -> bool:
        """Execute a verb on the loop unless it would have to wait for a lock."""
        store = self._store
        store.hasty = True
        try:
            verb.execute()
        finally:
            store.hasty = False
        return not verb.is_busy

    def _start_commit(self, batch: dict[Run, CommitItem]) -> bool:
        """Send the batch, and hear from the socket what became of it; False if a thread has to wait for that."""
        if not self._talks.possible:
            return False
        began = self._clock.monotonic()
        self._computed = began - self._settled_at
        try:
            if self._reached is not None:
                self._reached(points.COMMIT)
            talk = self._store.start_commit(list(batch.values()))
        except Exception:  # noqa: BLE001 - the thread meets it again
            return False
        if talk is None or not self._talks.follow(talk, partial(self._started, batch, began)):
            return False
        self._busy = True
        return True

    def _started(self, batch: dict[Run, CommitItem], began: float, talk: Talk[list[Verdict]]) -> None:
        if self._closed:
            return
        try:
            verdicts = talk.outcome()
            if self._reached is not None:
                self._reached(points.COMMITTED)
        except Exception:  # noqa: BLE001 - likewise
            self._commit_on_thread(batch)
            return
        self._busy = False
        self._written(batch, verdicts, self._clock.monotonic() - began)
        self._flush()

    def _commit_on_thread(self, batch: dict[Run, CommitItem]) -> None:
        self._busy = True
        job = _Commit(batch, self._store, self._clock, self._reached, self._thread_done)
        self._threads.submit(job, copy_context(), None)

    def _learn(self, seconds: float, items: int) -> None:
        # One stall must not banish commits to the thread, so a sample counts for little and is bounded.
        waited = min(max(seconds - PER_ITEM * items, 0.0), 4 * SLOW)
        self._typical += SMOOTHING * (waited - self._typical)
        self.commits += 1

    def _thread_done(self, job: _Commit) -> None:
        self._busy = False
        if job.error is None:
            self._written(job.batch, job.verdicts, job.took)
        elif isinstance(job.error, StoreError) and not isinstance(job.error, (StoreCorrupt, StoreUnsafe)):
            kept = {run: item for run, item in job.batch.items() if not run.gone and run.host.owner.lease_ok()}
            for run in job.batch:
                if run not in kept:
                    run.unwritable(job.error)
            if kept:
                say(lines.STORE_UNWRITABLE, error=job.error, pause=self._pause)
                self._busy = True
                self._loop.call_later(self._pause, self._commit_on_thread, kept)
                self._pause = min(2 * self._pause, RETRY_MOST)
                return
        else:
            say(lines.STORE_FAILED, error=job.error, fault=True)
            for run in job.batch:
                run.unwritable(job.error)
        self._flush()

    def _verb_done(self, verb: Asked) -> None:
        self._busy = False
        self._answer(verb)
        self._flush()

    def _answer(self, verb: Asked) -> None:
        if self._closed:
            verb.came_too_late()
        verb.answer()

    def _written(self, batch: dict[Run, CommitItem], verdicts: list[Verdict], took: float) -> None:
        """A batch is on disk: have its runs go on, with the store at work on what comes after it."""
        self._pause = RETRY_FIRST
        self._learn(took, len(batch))
        try:
            self._settle_rest()
        finally:  # whoever is interrupted, the others go on
            if not self._store.inline:
                self._flush()
            self._settle(batch, verdicts, took)

    def _settle(self, batch: dict[Run, CommitItem], verdicts: list[Verdict], took: float) -> None:
        if self.told is not None:
            self.told(batch, verdicts, took)
        settling = [(run, item, verdict) for (run, item), verdict in zip(batch.items(), verdicts, strict=True)]
        if self._are_in_step(settling) and self._computed > took:
            self._unsettled = settling[len(settling) // 2 :]
            del settling[len(settling) // 2 :]
            self._loop.call_soon(self._settle_later, TURNS)
        self._settle_all(settling)
        self._settled_at = self._clock.monotonic()

    def _are_in_step(self, settling: list[_Settling]) -> bool:
        """Whether nearly all that executes has waited for this batch, and the store has nothing else to do."""
        idle = not (self._store.inline or self._busy or self._pending)
        return idle and len(settling) > FEW and 4 * len(settling) >= 3 * self.active

    def _settle_later(self, turns: int) -> None:
        if turns:
            self._loop.call_soon(self._settle_later, turns - 1)
        else:
            self._settle_rest()

    def _settle_rest(self) -> None:
        settling, self._unsettled = self._unsettled, []
        self._settle_all(settling)

    def _settle_all(self, settling: list[_Settling]) -> None:
        interrupt: KeyboardInterrupt | None = None
        for run, item, verdict in settling:
            if run.gone:
                continue
            try:
                if verdict <= Verdict.ALREADY:
                    run.committed(item)
                elif verdict == Verdict.STALE:
                    run.stale(item)
                elif verdict == Verdict.FENCED:
                    run.fenced()
                else:
                    run.unwritable(StoreError(f"the store refused what run {run.run_id} writes", run_id=run.run_id))
            except KeyboardInterrupt as raised:  # of this run's code; what the others wrote is on disk too
                interrupt = raised
            except Exception as error:  # noqa: BLE001 - a fault of ours, which concerns this run only
                say(lines.RUN_FAULT, error=error, fault=True, **about(run))
                run.unwritable(error)
        if interrupt is not None:
            self.kick()
            raise interrupt


class _Commit:
    """A batch on its way through the thread."""

    __slots__ = ("_clock", "_reached", "_store", "_then", "batch", "error", "took", "verdicts")

    def __init__(
        self,
        batch: dict[Run, CommitItem],
        store: Store,
        clock: Clock,
        reached: Callable[[str], None] | None,
        then: Callable[[_Commit], object],
    ) -> None:
        self.batch = batch
        self._store, self._clock, self._reached, self._then = store, clock, reached, then
        self.error: BaseException | None = None
        self.verdicts: list[Verdict] = []
        self.took = 0.0

    def run_here(self, _argument: object) -> None:
        """Write the batch, on the thread."""
        began = self._clock.monotonic()
        try:
            if self._reached is not None:
                self._reached(points.COMMIT)
            self.verdicts = self._store.commit(list(self.batch.values()))
            if self._reached is not None:
                self._reached(points.COMMITTED)
        except BaseException as error:  # noqa: BLE001 - told to the journal on its loop
            self.error = error
        self.took = self._clock.monotonic() - began

    def finished(self) -> None:
        """Tell the journal, on its loop."""
        self._then(self)
