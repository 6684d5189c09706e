"""The SQLite store: verbs in the order of a run's life, each delegating to the module of its noun."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from perdure.clock import SystemClock
from perdure.model.deeds import pausing
from perdure.model.schedules import NextFiring
from perdure.store.protocol import PAGE, Outlook
from perdure.store.sqlite import (
    builds,
    burial,
    claims,
    commit,
    control,
    forking,
    guard,
    inbox,
    keys,
    listing,
    purging,
    reading,
    reclaim,
    runs,
    schedules,
)
from perdure.store.sqlite.connect import connect, open_file
from perdure.store.sqlite.connection import LOG_SIZE, LogSize, Reader, Writer
from perdure.store.sqlite.deeds import list_deeds
from perdure.store.sqlite.examine import asked
from perdure.store.sqlite.messages import deliver
from perdure.store.sqlite.outreach import Outreach
from perdure.store.sqlite.queues import define_queues, list_queues, pause_queue
from perdure.store.sqlite.routes import Routes
from perdure.store.sqlite.standing import near_ids, standing
from perdure.store.sqlite.workers import Workers
from perdure.store.surveying import gauge
from perdure.store.talk import Silent

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from perdure.model.clock import Clock
    from perdure.model.counting import Counted, Sampled
    from perdure.model.deeds import Deed
    from perdure.model.forking import Fork
    from perdure.model.gauge import Gauge
    from perdure.model.purging import Collected, EndedPage, EndedPlace, Purgeable
    from perdure.model.queues import QueueRow, QueueUsage
    from perdure.model.records import (
        Claim,
        CommitItem,
        Created,
        Delivery,
        Event,
        InboxRow,
        Message,
        NewRun,
        RunRow,
        Status,
        StoredKey,
        Tombstone,
        Verdict,
        WorkerRow,
    )
    from perdure.model.schedules import Occurrence, ScheduleChange, ScheduleRow
    from perdure.model.standing import Sign, Standing
    from perdure.store.protocol import Durability, Filter, Reclaimed, Route


class SqliteStore(Silent):
    """Runs in one SQLite file, for any number of processes of one machine. See ``perdure.store.protocol.Store``.

    Attributes:
        path: the database file, absolute.
        created: whether this object made the store.
        store_id: names the store, wherever the file is.
    """

    inline = True

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability = "disk",
        create: bool = True,
        vfs: str | None = None,
        clock: Clock | None = None,
        log_size: LogSize = LOG_SIZE,
    ) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        opened = open_file(path, durability=durability, create=create, vfs=vfs)
        self.created = opened.created
        self.store_id = opened.store_id
        self._place = place = opened.place
        self._guarded = place.file
        if place.file is not None:
            guard.protect(place.file)
        writing = partial(connect, path, durability=durability, vfs=vfs)
        self._writer = Writer(place, writing, opened.connection, extend=durability == "disk", size=log_size)
        self._heart = Writer(place, writing, extend=False, size=log_size)
        reading_only = partial(connect, path, query_only=True, vfs=vfs)
        self._reader, self._measuring = Reader(place, reading_only), Reader(place, reading_only)
        self._routes = Routes(self._writer)
        self._workers = Workers(path, self._writer, self._heart, self._reader)
        self._clock = clock or SystemClock()
        self._outreach = Outreach(self._routes, self.now)
        self._data_version = (0, -1)

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the store itself

    @property
    def hasty(self) -> bool:
        """Whether verbs of the calling thread raise ``StoreBusy`` where they would have to wait for a lock."""
        return self._writer.hasty

    @hasty.setter
    def hasty(self, hasty: bool) -> None:
        self._writer.hasty = hasty

    def close(self) -> None:
        """Let go of every connection; idempotent. In a forked child nothing is closed."""
        for link in (self._measuring, self._reader, self._heart, self._writer):
            link.close()
        file, self._guarded = self._guarded, None
        if file is not None:
            guard.unprotect(file)

    def joined(self, _connection: object, /) -> None:
        """Return None: nobody else has a connection to the file."""

    def now(self) -> int:
        """The clock that judges due times: microseconds UTC."""
        return self._clock.now()

    def changed(self) -> bool:
        """Whether anyone has committed anything since the last call.

        Raises:
            StoreGone: the file of this name is not the one that was opened.
        """
        self._place.require()
        with self._reader as cursor:
            version = reading.version(self._reader, cursor)
            before, self._data_version = self._data_version, version
        return version != before

    # -- workers

    def register_worker(self, worker: WorkerRow, routes: Sequence[Route] = ()) -> None:
        """Lock the worker's byte and insert its row, with boot, lock file and start of the process filled in."""
        self._workers.register(worker, self._numbers(routes))

    def renew(self, worker_key: int, lease: int, beat: int) -> bool:
        """Renew the worker's lease for ``lease`` µs from before the call; False if the row is gone or stopped."""
        return self._workers.renew(worker_key, lease, beat)

    def doubtful(self, worker_key: int) -> bool:
        """Never: while the process lives its lock is held, or taken again before anybody can act on it."""
        del worker_key
        return False

    def leave_worker(self, worker_key: int) -> None:
        """Note that the worker is about to stop: it claims nothing more, and its death from now on is no crash."""
        self._workers.leave(worker_key)

    def retire_worker(self, worker_key: int) -> None:
        """Mark the worker stopped and let its lock go; its row is deleted when it holds no run."""
        self._workers.retire(worker_key)

    def list_workers(self) -> list[WorkerRow]:
        """All workers that are not known to be gone."""
        return self._workers.all()

    def served(self) -> set[Route]:
        """Return the routes that living workers serve."""
        return self._workers.served()

    def serving(self) -> dict[int, list[Route]]:
        """Return by its key which routes each worker serves that neither has stopped nor is about to, dead or alive."""
        return self._workers.serving()

    def dead_workers(self, observer: int, *, grace: int) -> list[int]:
        """Which other workers are dead, by lock and lease; ``grace``: the observer's heartbeat in µs."""
        return self._workers.dead(observer, grace=grace)

    def signs_of_life(self) -> dict[int, Sign]:
        """What shows of each worker that it lives, at this moment."""
        return self._workers.signs(self.now())

    # -- a run's life

    def create_runs(
        self, new: Sequence[NewRun], /, *, claim_for: int | None = None, facts: bytes = b"", now: int | None = None
    ) -> list[Created]:
        """Create runs, or find those that are there under the same id (or idempotency key)."""
        if not new:
            return []
        numbers = [self._routes.number((run.namespace, run.queue, run.workflow, run.version)) for run in new]
        instant = self.now() if now is None else now
        with self._writer as cursor:
            return runs.create_runs(cursor, new, numbers, claim_for=claim_for, facts=facts, now=instant)

    def claim_runs(
        self,
        worker_key: int,
        routes: Sequence[Route],
        limit: int,
        *,
        facts: bytes = b"",
        only: int | None = None,
        now: int | None = None,
    ) -> list[Claim]:
        """Take up to ``limit`` runs that are due, oldest first within their rank."""
        if limit < 1 or not routes:
            return []
        numbers = self._numbers(routes)
        instant = self.now() if now is None else now
        with self._reader as cursor:
            if not claims.any_claimable(cursor, worker_key, numbers, instant, only=only):
                return []
        with self._writer as cursor:
            # Read once nobody else writes: what is noted later is never earlier.
            instant = self.now() if now is None else now
            return claims.claim_runs(cursor, worker_key, numbers, limit, facts=facts, only=only, now=instant)

    def commit(self, items: Sequence[CommitItem], *, wait: bool = True) -> list[Verdict]:
        """Append events, keep artifacts, take inbox rows, change states, reach out: each item whole or not at all.

        With ``wait=False`` nothing is waited for: ``StoreBusy`` is raised at once, and nothing was written, while
        another thread or process writes, a checkpoint is due, or a child is of a route that is new here.
        """
        return commit.commit(self._writer, self._outreach, items, wait=wait)

    def release(self, worker_key: int, run_keys: Sequence[int]) -> int:
        """Give settled runs back, claimable at once and still running; returns how many were still held."""
        with self._writer as cursor:
            return reclaim.release(cursor, worker_key, run_keys, now=self.now())

    def refuse_run(self, run_key: int, epoch: int, build: str, payload: bytes) -> list[Event]:
        """End a hold whose build cannot go on with the run: leave it to other builds, or block it."""
        with self._writer as cursor:
            return builds.refuse_run(cursor, run_key, epoch, build, payload, now=self.now())

    def block_stranded(self, seen: Collection[int]) -> list[int]:
        """Block those of ``seen`` that nobody is left for; returns the other runs of that kind."""
        with self._reader as cursor:
            found = builds.stranded(cursor).keys()
        if not found.isdisjoint(seen):
            with self._writer as cursor:
                builds.block_stranded(cursor, seen, now=self.now())
        return sorted(found - set(seen))

    def reclaim(self, observer: int, worker_keys: Sequence[int], *, cap: int) -> list[Reclaimed]:
        """Take the runs of dead workers: count the crash, make them claimable, or block them after ``cap`` crashes."""
        done: list[Reclaimed] = []
        for key in worker_keys:
            if key != observer:
                with self._writer as cursor:
                    sign = self._workers.sign(observer, key)
                    done += reclaim.reclaim(cursor, key, sign=sign, cap=cap, now=self.now())
        return done

    def deliver(self, messages: Sequence[Message], *, now: int | None = None) -> list[Delivery]:
        """Put messages into the inboxes of their runs, in order; what became of each."""
        if not messages:
            return []
        with self._writer as cursor:
            return deliver(cursor, messages, now=self.now() if now is None else now)

    def request_cancel(self, run_key: int, reason: str, *, force: bool = False, now: int | None = None) -> Status:
        """Cancel: asked of who holds the run, or claims it next, else ended at once; the status found or made."""
        with self._writer as cursor:
            return control.request_cancel(cursor, run_key, reason, force=force, now=self.now() if now is None else now)

    def pause_run(self, run_key: int, reason: str, *, now: int | None = None) -> Status:
        """Pause: at once where nobody holds the run, else asked of its holder; the status found or made."""
        with self._writer as cursor:
            return control.pause_run(cursor, run_key, reason, now=self.now() if now is None else now)

    def urgent(self, routes: Sequence[Route], limit: int) -> list[int]:
        """Keys of claimable runs of these routes that are to be cancelled."""
        if limit < 1 or not routes:
            return []
        numbers = self._numbers(routes)
        with self._reader as cursor:
            return reading.urgent(cursor, numbers, limit)

    def overdue(self, limit: int, *, now: int | None = None) -> list[tuple[int, int]]:
        """Keys and deadlines of runs that nobody holds and whose deadline has passed, earliest first."""
        with self._reader as cursor:
            return reading.overdue(cursor, limit, self.now() if now is None else now)

    def resume_run(self, run_key: int, epoch: int, payload: bytes, *, now: int | None = None) -> RunRow | None:
        """Make a run that has stopped claimable again, at the epoch seen (else None): ``run_resumed``."""
        with self._writer as cursor:
            return control.resume_run(cursor, run_key, epoch, payload, now=self.now() if now is None else now)

    def fork_run(self, fork: Fork, /) -> Created:
        """Make a claimable run of the beginning of another one's log, or find the run that has the fork's id."""
        with self._writer as cursor:
            return forking.fork_run(cursor, fork)

    def block_run(self, run_key: int, epoch: int, payload: bytes, reason: str) -> bool:
        """Block an unheld run at the epoch seen: ``run_blocked``."""
        with self._writer as cursor:
            return control.block_run(cursor, run_key, epoch, payload, reason, now=self.now())

    def unread(self, worker_key: int) -> list[tuple[int, int, list[InboxRow]]]:
        """For runs held by the worker that have inbox rows: (run_key, inbox counter, rows)."""
        with self._reader as cursor:
            return inbox.unread(cursor, worker_key)

    def held(self, worker_key: int) -> dict[int, int]:
        """Epoch by run_key of everything the worker holds."""
        with self._reader as cursor:
            return reading.held(cursor, worker_key)

    def next_due(self, routes: Sequence[Route], *, worker_key: int = 0, now: int | None = None) -> Outlook:
        """When there is something to claim of these routes next, as far as time decides it."""
        if not routes:
            return Outlook(None)
        numbers = self._numbers(routes)
        with self._reader as cursor:
            return reading.outlook(cursor, numbers, worker_key, self.now() if now is None else now)

    # -- queues

    def define_queues(self, queues: Sequence[QueueRow], /) -> None:
        """Define queues, or define them anew, but for those whose definition is a younger one's."""
        with self._writer as cursor:
            define_queues(cursor, queues)

    def pause_queue(self, name: str, namespace: str = "", *, paused: bool, author: str | None = None) -> bool:
        """Claim nothing more from a queue, or claim from it again; whether that is a change."""
        with self._writer as cursor:
            return pause_queue(cursor, name, namespace, pausing(self.now(), author, paused=paused), paused=paused)

    def list_queues(self, namespace: str = "", *, now: int | None = None) -> list[QueueUsage]:
        """The queues of a namespace by name, and how much of each is in use."""
        with self._reader as cursor:
            return list_queues(cursor, namespace, self.now() if now is None else now)

    def list_deeds(self, noun: str, name: str | None = None, namespace: str = "", limit: int = PAGE) -> list[Deed]:
        """What was done by hand to a queue or schedule, or to all of them, the latest first."""
        with self._reader as cursor:
            return list_deeds(cursor, noun, name, namespace, limit)

    # -- schedules

    def get_schedule(self, key: str, namespace: str = "") -> ScheduleRow | None:
        """The schedule of this key, also if it is removed."""
        with self._reader as cursor:
            return schedules.get_schedule(cursor, key, namespace)

    def list_schedules(self, namespace: str = "", after: str = "", limit: int = PAGE) -> list[ScheduleRow]:
        """Schedules by key, after one: those that are not removed."""
        with self._reader as cursor:
            return schedules.list_schedules(cursor, namespace, after, limit)

    def next_firing(self, routes: Sequence[Route], *, after: int | None = None) -> NextFiring:
        """When the earliest schedule of these routes is due, 0 if an occurrence has waited and need wait no more."""
        if not routes:
            return NextFiring(None, waits=False)
        numbers = self._numbers(routes)
        with self._reader as cursor:
            return schedules.next_firing(cursor, numbers, after)

    def due_schedules(
        self,
        routes: Sequence[Route],
        *,
        after: tuple[int, int] | None = None,
        limit: int = 100,
        now: int | None = None,
    ) -> list[ScheduleRow]:
        """Schedules of these routes that are due, earliest first, after the last one seen."""
        if not routes:
            return []
        numbers = self._numbers(routes)
        instant = self.now() if now is None else now
        with self._reader as cursor:
            return schedules.due_schedules(cursor, numbers, after, limit, instant)

    def change_schedules(self, changes: Sequence[ScheduleChange], *, now: int | None = None) -> list[Verdict]:
        """Make schedules others, create their runs, note what became of their occurrences: each whole or not at all."""
        rows = [change.row for change in changes]
        numbers = [self._routes.number((row.namespace, row.queue, row.workflow, row.version)) for row in rows]
        instant = self.now() if now is None else now
        with self._writer as cursor:
            return schedules.change_schedules(cursor, changes, numbers, instant)

    def fault_schedule(self, schedule_key: int, fault: str) -> None:
        """Note why a schedule could not be fired; the next change clears it."""
        with self._writer as cursor:
            schedules.fault_schedule(cursor, schedule_key, fault)

    def list_occurrences(self, schedule_key: int, limit: int = PAGE) -> list[Occurrence]:
        """What became of a schedule's latest occurrences, latest first."""
        with self._reader as cursor:
            return schedules.list_occurrences(cursor, schedule_key, limit)

    # -- purging

    def list_ended(self, what: Purgeable, after: EndedPlace | None = None, limit: int = PAGE) -> EndedPage:
        """Runs that may be purged, among the next ``limit`` of those that have ended so; and where to go on."""
        with self._reader as cursor:
            return purging.list_ended(cursor, what, after, limit)

    def purge_runs(self, run_keys: Sequence[int], what: Purgeable, *, now: int | None = None) -> list[int]:
        """Let runs become tombstones; returns the keys of those that have."""
        instant = self.now() if now is None else now
        with self._writer as cursor:
            return purging.purge_runs(cursor, run_keys, what, instant)

    def collect_purged(self, *, now: int | None = None) -> Collected:
        """Delete what purged runs have left behind, about a thousand rows."""
        del now
        with self._writer as cursor:
            return purging.collect_purged(cursor)

    def forget_purged(self, namespace: str, before: int, limit: int = PAGE) -> int:
        """Forget runs that were purged before an instant and of which nothing else is left; how many."""
        with self._writer as cursor:
            return purging.forget_purged(cursor, namespace, before, limit)

    def get_tombstone(self, run_id: str, namespace: str = "") -> Tombstone | None:
        """What is left of the run that had this id, if it was purged."""
        with self._reader as cursor:
            return burial.get_tombstone(cursor, run_id, namespace)

    def elect(self, chore: str, holder: int, lease: int, *, now: int | None = None) -> bool:
        """Whether ``holder`` does a chore: it has it already, or nobody else has."""
        instant = self.now() if now is None else now
        with self._writer as cursor:
            return purging.elect(cursor, chore, holder, lease, instant)

    # -- keys that payloads are encrypted with

    def read_keys(self) -> list[StoredKey]:
        """All keys, the oldest first."""
        with self._reader as cursor:
            return keys.read_keys(cursor)

    def add_key(self, key: StoredKey, /) -> None:
        """Add a key; one that is there stays as it is."""
        with self._writer as cursor:
            keys.add_key(cursor, key)

    def rewrap_key(self, old: StoredKey, new: StoredKey, /) -> bool:
        """Have a key encrypted by another master key."""
        with self._writer as cursor:
            return keys.rewrap_key(cursor, old, new)

    # -- reading; no verb holds a cursor after it returned

    def get_run(self, run_id: str, namespace: str = "") -> RunRow | None:
        """The run of this id."""
        with self._reader as cursor:
            return reading.get_run(cursor, run_id, namespace)

    def get_runs(self, run_keys: Sequence[int]) -> list[RunRow]:
        """Rows by key, those that exist, in the order asked for."""
        with self._reader as cursor:
            found = runs.get_runs(cursor, run_keys)
        return [found[key] for key in dict.fromkeys(run_keys) if key in found]

    def over(self, run_keys: Sequence[int], limit: int) -> list[tuple[int, RunRow | None]]:
        """Those of these runs, ``limit`` at most, that have ended, are blocked or not there: key, and row if any."""
        with self._reader as cursor:
            return reading.over(cursor, run_keys, limit)

    def standing(self, run_key: int) -> Standing | None:
        """Where a run stands beyond what its row says; None if it is not there."""
        with self._reader as cursor:
            return standing(cursor, run_key)

    def near_ids(self, run_id: str, limit: int = 3) -> list[tuple[str, str]]:
        """Runs that have the id, or one that begins with it: namespace and id, up to ``limit`` of each namespace."""
        with self._reader as cursor:
            return list(near_ids(cursor, run_id, limit))

    def read_events(self, run_key: int, after: int = 0, limit: int = PAGE) -> list[Event]:
        """The log after seq ``after``, at most ``limit`` events."""
        with self._reader as cursor:
            return reading.read_events(cursor, run_key, after, limit)

    def list_runs(self, where: Filter) -> list[RunRow]:
        """Newest first, or latest ended first; page by the last row's place."""
        with self._reader as cursor:
            return listing.list_runs(cursor, where)

    def count_runs(self, where: Filter, most: int | None = None) -> list[Counted]:
        """How many runs there are, by workflow and status; of those that must be looked at, up to ``most``."""
        with self._reader as cursor:
            return listing.count_runs(cursor, where, most)

    def traffic(
        self, since: int, until: int, buckets: int, *, workflow: str | None = None, namespace: str = ""
    ) -> list[Sampled]:
        """What became of the runs of a namespace over time (µs), in buckets."""
        with self._reader as cursor:
            return listing.traffic(cursor, since, until, buckets, workflow, namespace)

    def list_namespaces(self) -> list[str]:
        """The namespaces that any run, schedule or worker was ever in, by name."""
        with self._reader as cursor:
            return reading.list_namespaces(cursor)

    def get_artifact(self, digest: bytes) -> bytes | None:
        """An artifact's bytes."""
        with self._reader as cursor:
            return reading.get_artifact(cursor, digest)

    def gauge(self, *, now: int | None = None) -> Gauge:
        """What is in the store, for metrics: counted up to a bound, and by a connection of its own."""
        at = self.now() if now is None else now
        log = self.path.with_name(self.path.name + "-wal")
        log_bytes = log.stat().st_size if log.exists() else 0
        reconnects = sum(max(0, link.opened - 1) for link in (self._writer, self._heart, self._reader))
        with self._measuring as cursor:
            return gauge(asked(self.path, cursor, at), at, log_bytes=log_bytes, reconnects=reconnects)

    def _numbers(self, routes: Sequence[Route]) -> list[int]:
        return self._routes.numbers((route.namespace, route.queue, route.workflow, route.version) for route in routes)
