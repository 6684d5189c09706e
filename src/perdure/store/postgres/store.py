"""The PostgreSQL store: verbs in the order of a run's life, each delegating to the module of its noun."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from perdure.clock import SystemClock
from perdure.errors import StoreBusy
from perdure.model.deeds import pausing
from perdure.model.schedules import NextFiring
from perdure.store.judging import reaches_out
from perdure.store.postgres import (
    builds,
    burial,
    commit,
    control,
    forking,
    inbox,
    keys,
    listing,
    purging,
    reading,
    reclaim,
    runs,
    schedules,
)
from perdure.store.postgres.address import parse_address
from perdure.store.postgres.claimer import Claims
from perdure.store.postgres.claims import Claiming
from perdure.store.postgres.clocks import ServerClock
from perdure.store.postgres.connect import Connector
from perdure.store.postgres.connection import Reader, Writer
from perdure.store.postgres.deeds import list_deeds
from perdure.store.postgres.examine import asked
from perdure.store.postgres.hints import Hints
from perdure.store.postgres.joining import JoinedStore, join
from perdure.store.postgres.messages import Delivering
from perdure.store.postgres.outreach import Outreach
from perdure.store.postgres.queues import define_queues, list_queues, pause_queue
from perdure.store.postgres.routes import Routes
from perdure.store.postgres.schema import migrate
from perdure.store.postgres.standing import near_ids, signs, standing
from perdure.store.postgres.workers import Workers
from perdure.store.protocol import PAGE, Outlook
from perdure.store.surveying import gauge

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
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
    from perdure.store.postgres.routes import Names
    from perdure.store.protocol import Durability, Filter, Reclaimed, Route
    from perdure.store.talk import Talk


class PostgresStore:
    """Runs in one schema of a PostgreSQL database. See ``perdure.store.protocol.Store``.

    Attributes:
        url: where it is, without passwords.
        created: whether this object made the store.
        store_id: names the store, wherever the database is.
        clock: what judges: the server's clock, as this process can tell it without asking.
    """

    inline = False

    def __init__(
        self,
        url: str,
        *,
        durability: Durability = "disk",
        create: bool = True,
        clock: Clock | None = None,
    ) -> None:
        address = parse_address(url)
        self.url = address.label
        connector = Connector(address, durability)
        first = connector.open()
        self._writer = Writer(connector, first)
        self._keeper, self._claimer, self._committer = Writer(connector), Writer(connector), Writer(connector)
        self._writers = self._writer, self._keeper, self._claimer, self._committer
        self._reader, self._measuring = Reader(connector), Reader(connector)
        # Never asked by whoever waits: an event loop that did would wait for what it has begun itself.
        self._looks = Reader(connector)
        self._hints = Hints(connector)
        self._server_clock = ServerClock()
        # The server's clock judges, unless the caller has one that is not simply this machine's.
        self._given = None if clock is None or isinstance(clock, SystemClock) else clock
        self.clock: Clock = self._given or self._server_clock
        self._routes = Routes(self._writer)
        self._outreach = Outreach(self._routes, lambda: self._instant(None))
        self._workers = Workers(connector, self._writer, self._reader, self._server_clock)
        self._connector = connector
        self._claims = Claims(self._claimer, self._reader)
        try:
            self.created = migrate(self._writer, address.schema, create=create)
            self.store_id, self._database = self._writer.read(lambda session: session.fetch("store_id")[0])
            self._measure()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"PostgresStore({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the store itself

    @property
    def hasty(self) -> bool:
        """Whether verbs of the calling thread raise ``StoreBusy``: here all of them may have to wait."""
        return self._writer.hasty

    @hasty.setter
    def hasty(self, hasty: bool) -> None:
        for writer in self._writers:
            writer.hasty = hasty

    def close(self) -> None:
        """Let go of every connection; idempotent. In a forked child nothing is closed."""
        self._hints.close()
        self._workers.close()
        self._measuring.close()
        self._looks.close()
        self._reader.close()
        for writer in reversed(self._writers):
            writer.close()

    def now(self) -> int:
        """The clock that judges due times: microseconds UTC. The server's, as it was last measured."""
        return self.clock.now()

    def changed(self) -> bool:
        """Whether anyone has, or may have, committed anything since the last call. Never waits."""
        return self._hints.heard()

    def joined(self, connection: object, /) -> JoinedStore | None:
        """Return what creates runs in the transaction of a psycopg connection, if that is to this very database."""
        session = join(connection, self._connector.texts)
        if session is None or not session.fetch_value("is_open_to", self._connector.address.schema):
            return None
        if session.fetch("store_id") != [(self.store_id, self._database)]:
            return None
        return JoinedStore(self.url, session, self._routes, self.now)

    def _measure(self) -> None:
        before = self._server_clock.monotonic()
        self._server_clock.learn(self._writer.read(lambda session: session.fetch_value("clock")), before)

    def _instant(self, now: int | None) -> int | None:
        """The instant that judges; None: the server's clock at that moment."""
        return self._given.now() if now is None and self._given is not None else now

    # -- workers

    def register_worker(self, worker: WorkerRow, routes: Sequence[Route] = ()) -> None:
        """Take the worker's lock and insert its row."""
        self._workers.register(worker, self._numbers(routes))

    def renew(self, worker_key: int, lease: int, beat: int) -> bool:
        """Renew the worker's lease for ``lease`` µs from before the call; False if the row is gone or stopped."""
        return self._workers.renew(worker_key, lease, beat)

    def doubtful(self, worker_key: int) -> bool:
        """Whether others may take this worker for dead: its row names a session that has ended."""
        return self._workers.doubtful(worker_key)

    def leave_worker(self, worker_key: int) -> None:
        """Note that the worker is about to stop: it claims nothing more, and its death from now on is no crash."""
        self._workers.leave(worker_key)

    def retire_worker(self, worker_key: int) -> None:
        """Mark the worker stopped and let its lock go; its row is deleted when it holds no run."""
        self._workers.retire(worker_key)
        self._claims.forget(worker_key)
        self._hints.mark()

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
        return self._reader.read(signs)

    # -- a run's life

    def create_runs(
        self, new: Sequence[NewRun], /, *, claim_for: int | None = None, facts: bytes = b"", now: int | None = None
    ) -> list[Created]:
        """Create runs, or find those that are there under the same id (or idempotency key)."""
        if not new:
            return []
        numbers = [self._routes.number((run.namespace, run.queue, run.workflow, run.version)) for run in new]
        instant = self.now() if now is None else now
        batch = runs.Creation(new, numbers, claim_for=claim_for, facts=facts, now=instant)
        write = self._writer.write_at_once if batch.is_simple else self._writer.write
        created = write(batch.create)
        self._hints.mark()
        return created

    def start_create(
        self, new: Sequence[NewRun], /, *, claim_for: int | None = None, facts: bytes = b"", now: int | None = None
    ) -> Talk[list[Created]] | None:
        """Begin to create runs without waiting: those that are plain, as long as none of them is there already."""
        numbers = [self._routes.get((run.namespace, run.queue, run.workflow, run.version)) for run in new]
        known = [number for number in numbers if number is not None]
        if not known or len(known) < len(new):
            return None
        instant = self.now() if now is None else now
        words = runs.Creation(new, known, claim_for=claim_for, facts=facts, now=instant).words()
        return None if words is None else self._writer.talk(words, done=self._hints.mark)

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
        batch = Claiming(worker_key, self._numbers(routes), limit, facts=facts, only=only)
        return self._claims.claim(batch, self._instant(now))

    def start_claims(
        self, worker_key: int, routes: Sequence[Route], limit: int, *, facts: bytes = b"", now: int | None = None
    ) -> Talk[list[Claim]] | None:
        """Begin to claim without waiting, as long as there is not much to read, nor a queue to lock."""
        numbers = self._routes.known(map(_names, routes))
        if limit < 1 or not numbers:
            return None
        batch = Claiming(worker_key, numbers, limit, facts=facts, only=None)
        return self._claims.start(batch, self._instant(now))

    def commit(self, items: Sequence[CommitItem], *, wait: bool = True) -> list[Verdict]:
        """Append events, keep artifacts, take inbox rows, change states, reach out: each item whole or not at all.

        With ``wait=False`` ``StoreBusy`` is raised at once: a database is always waited for.
        """
        if not wait:
            raise StoreBusy("the database may take its time", store=self.url, advice="let a thread wait for it")
        verdicts = commit.commit(self._committer, self._outreach, items)
        self._committed(items)
        return verdicts

    def start_commit(self, items: Sequence[CommitItem]) -> Talk[list[Verdict]] | None:
        """Begin to commit without waiting: a batch whose items are plain, and as long as none of them is refused."""
        words = commit.words(items)
        return None if words is None else self._committer.talk(words, done=lambda: self._committed(items))

    def _committed(self, items: Sequence[CommitItem]) -> None:
        self._hints.mark(soon=any(item.state is not None or reaches_out(item) for item in items))

    def release(self, worker_key: int, run_keys: Sequence[int]) -> int:
        """Give settled runs back, claimable at once and still running; returns how many were still held."""
        released = self._writer.write(lambda session: reclaim.release(session, worker_key, run_keys))
        self._hints.mark()
        return released

    def refuse_run(self, run_key: int, epoch: int, build: str, payload: bytes) -> list[Event]:
        """End a hold whose build cannot go on with the run: leave it to other builds, or block it."""
        events = self._writer.write(lambda session: builds.refuse_run(session, run_key, epoch, build, payload))
        self._hints.mark()
        return events

    def block_stranded(self, seen: Collection[int]) -> list[int]:
        """Block those of ``seen`` that nobody is left for; returns the other runs of that kind."""
        found = self._reader.read(builds.stranded).keys()
        mine = found & set(seen)
        if mine:
            self._writer.write(lambda session: builds.block_stranded(session, mine))
            self._hints.mark()
        return sorted(found - set(seen))

    def reclaim(self, observer: int, worker_keys: Sequence[int], *, cap: int) -> list[Reclaimed]:
        """Take the runs of dead workers: count the crash, make them claimable, or block them after ``cap`` crashes."""
        done: list[Reclaimed] = []
        for key in worker_keys:
            if key != observer:
                sign = self._workers.sign(observer, key)
                done += self._writer.write(partial(reclaim.reclaim, worker_key=key, sign=sign, cap=cap))
        self._hints.mark()
        return done

    def deliver(self, messages: Sequence[Message], *, now: int | None = None) -> list[Delivery]:
        """Put messages into the inboxes of their runs, in order; what became of each."""
        if not messages:
            return []
        told = self._writer.write(Delivering(messages, now=self._instant(now)).deliver)
        self._hints.mark()
        return told

    def request_cancel(self, run_key: int, reason: str, *, force: bool = False, now: int | None = None) -> Status:
        """Cancel: asked of who holds the run, or claims it next, else ended at once; the status found or made."""
        instant = self._instant(now)
        status = self._writer.write(
            lambda session: control.request_cancel(session, run_key, reason, force=force, now=instant)
        )
        self._hints.mark()
        return status

    def pause_run(self, run_key: int, reason: str, *, now: int | None = None) -> Status:
        """Pause: at once where nobody holds the run, else asked of its holder; the status found or made."""
        instant = self._instant(now)
        status = self._writer.write(lambda session: control.pause_run(session, run_key, reason, now=instant))
        self._hints.mark()
        return status

    def urgent(self, routes: Sequence[Route], limit: int) -> list[int]:
        """Keys of claimable runs of these routes that are to be cancelled."""
        if limit < 1 or not routes:
            return []
        numbers = self._numbers(routes)
        return self._looks.hear(lambda: reading.urgent(numbers, limit))

    def start_urgent(self, routes: Sequence[Route], limit: int) -> Talk[list[int]] | None:
        """Begin what ``urgent`` does without waiting."""
        numbers = self._routes.known(map(_names, routes))
        return self._looks.talk(reading.urgent(numbers, limit)) if limit > 0 and numbers else None

    def overdue(self, limit: int, *, now: int | None = None) -> list[tuple[int, int]]:
        """Keys and deadlines of runs that nobody holds and whose deadline has passed, earliest first."""
        instant = self._instant(now)
        return self._reader.read(lambda session: reading.overdue(session, limit, instant))

    def resume_run(self, run_key: int, epoch: int, payload: bytes, *, now: int | None = None) -> RunRow | None:
        """Make a run that has stopped claimable again, at the epoch seen (else None): ``run_resumed``."""
        row = self._writer.write(control.Resumption(run_key, epoch, payload, now=self._instant(now)).resume)
        self._hints.mark()
        return row

    def fork_run(self, fork: Fork, /) -> Created:
        """Make a claimable run of the beginning of another one's log, or find the run that has the fork's id."""
        created = self._writer.write(lambda session: forking.fork_run(session, fork))
        self._hints.mark()
        return created

    def block_run(self, run_key: int, epoch: int, payload: bytes, reason: str) -> bool:
        """Block an unheld run at the epoch seen: ``run_blocked``."""
        blocked = self._writer.write(control.Blocking(run_key, epoch, payload, reason).block)
        self._hints.mark()
        return blocked

    def unread(self, worker_key: int) -> list[tuple[int, int, list[InboxRow]]]:
        """For runs held by the worker that have inbox rows: (run_key, inbox counter, rows)."""
        return self._looks.hear(lambda: inbox.unread(worker_key))

    def start_unread(self, worker_key: int) -> Talk[list[tuple[int, int, list[InboxRow]]]] | None:
        """Begin what ``unread`` does without waiting."""
        return self._looks.talk(inbox.unread(worker_key))

    def held(self, worker_key: int) -> dict[int, int]:
        """Epoch by run_key of everything the worker holds."""
        return self._reader.read(lambda session: reading.held(session, worker_key))

    def next_due(self, routes: Sequence[Route], *, worker_key: int = 0, now: int | None = None) -> Outlook:
        """When there is something to claim of these routes next, as far as time decides it."""
        if not routes:
            return Outlook(None)
        numbers = self._numbers(routes)
        instant = self.now() if now is None else now
        return self._reader.read(lambda session: reading.outlook(session, numbers, worker_key, instant))

    # -- queues

    def define_queues(self, queues: Sequence[QueueRow], /) -> None:
        """Define queues, or define them anew, but for those whose definition is a younger one's."""
        self._writer.write(lambda session: define_queues(session, queues))
        self._hints.mark()

    def pause_queue(self, name: str, namespace: str = "", *, paused: bool, author: str | None = None) -> bool:
        """Claim nothing more from a queue, or claim from it again; whether that is a change."""
        deed = pausing(self.now(), author, paused=paused)
        changed = self._writer.write(lambda session: pause_queue(session, name, namespace, deed, paused=paused))
        self._hints.mark()
        return changed

    def list_queues(self, namespace: str = "", *, now: int | None = None) -> list[QueueUsage]:
        """The queues of a namespace by name, and how much of each is in use."""
        instant = self.now() if now is None else now
        return self._reader.read(lambda session: list_queues(session, namespace, instant))

    def list_deeds(self, noun: str, name: str | None = None, namespace: str = "", limit: int = PAGE) -> list[Deed]:
        """What was done by hand to a queue or schedule, or to all of them, the latest first."""
        return self._reader.read(lambda session: list_deeds(session, noun, name, namespace, limit))

    # -- schedules

    def get_schedule(self, key: str, namespace: str = "") -> ScheduleRow | None:
        """The schedule of this key, also if it is removed."""
        return self._reader.read(lambda session: schedules.get_schedule(session, key, namespace))

    def list_schedules(self, namespace: str = "", after: str = "", limit: int = PAGE) -> list[ScheduleRow]:
        """Schedules by key, after one: those that are not removed."""
        return self._reader.read(lambda session: schedules.list_schedules(session, namespace, after, limit))

    def next_firing(self, routes: Sequence[Route], *, after: int | None = None) -> NextFiring:
        """When the earliest schedule of these routes is due, 0 if an occurrence has waited and need wait no more."""
        if not routes:
            return NextFiring(None, waits=False)
        numbers = self._numbers(routes)
        return self._reader.read(lambda session: schedules.next_firing(session, numbers, after))

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
        instant = self._instant(now)
        return self._reader.read(lambda session: schedules.due_schedules(session, numbers, after, limit, instant))

    def change_schedules(self, changes: Sequence[ScheduleChange], *, now: int | None = None) -> list[Verdict]:
        """Make schedules others, create their runs, note what became of their occurrences: each whole or not at all."""
        rows = [change.row for change in changes]
        numbers = [self._routes.number((row.namespace, row.queue, row.workflow, row.version)) for row in rows]
        instant = self.now() if now is None else now
        verdicts = self._writer.write(schedules.Changing(changes, numbers, now=instant).change)
        self._hints.mark()
        return verdicts

    def fault_schedule(self, schedule_key: int, fault: str) -> None:
        """Note why a schedule could not be fired; the next change clears it."""
        self._writer.write(lambda session: schedules.fault_schedule(session, schedule_key, fault))

    def list_occurrences(self, schedule_key: int, limit: int = PAGE) -> list[Occurrence]:
        """What became of a schedule's latest occurrences, latest first."""
        return self._reader.read(lambda session: schedules.list_occurrences(session, schedule_key, limit))

    # -- purging: on a connection of its own, so that nobody who commits waits for its turn

    def list_ended(self, what: Purgeable, after: EndedPlace | None = None, limit: int = PAGE) -> EndedPage:
        """Runs that may be purged, among the next ``limit`` of those that have ended so; and where to go on."""
        return self._keeper.read(lambda session: purging.list_ended(session, what, after, limit))

    def purge_runs(self, run_keys: Sequence[int], what: Purgeable, *, now: int | None = None) -> list[int]:
        """Let runs become tombstones; returns the keys of those that have."""
        instant = self._instant(now)
        return self._keeper.write(lambda session: purging.purge_runs(session, run_keys, what, instant))

    def collect_purged(self, *, now: int | None = None) -> Collected:
        """Delete what purged runs have left behind, about a thousand rows."""
        instant = self._instant(now)
        return self._keeper.write(lambda session: purging.collect_purged(session, instant))

    def forget_purged(self, namespace: str, before: int, limit: int = PAGE) -> int:
        """Forget runs that were purged before an instant and of which nothing else is left; how many."""
        return self._keeper.write(lambda session: purging.forget_purged(session, namespace, before, limit))

    def get_tombstone(self, run_id: str, namespace: str = "") -> Tombstone | None:
        """What is left of the run that had this id, if it was purged."""
        return self._reader.read(lambda session: burial.get_tombstone(session, run_id, namespace))

    def elect(self, chore: str, holder: int, lease: int, *, now: int | None = None) -> bool:
        """Whether ``holder`` does a chore: it has it already, or nobody else has."""
        instant = self._instant(now)
        return self._keeper.write(lambda session: purging.elect(session, chore, holder, lease, instant))

    # -- keys that payloads are encrypted with

    def read_keys(self) -> list[StoredKey]:
        """All keys, the oldest first."""
        return self._reader.read(keys.read_keys)

    def add_key(self, key: StoredKey, /) -> None:
        """Add a key; one that is there stays as it is."""
        self._keeper.write(lambda session: keys.add_key(session, key))

    def rewrap_key(self, old: StoredKey, new: StoredKey, /) -> bool:
        """Have a key encrypted by another master key."""
        return self._keeper.write(lambda session: keys.rewrap_key(session, old, new))

    # -- reading; no verb holds a cursor after it returned

    def get_run(self, run_id: str, namespace: str = "") -> RunRow | None:
        """The run of this id."""
        return self._reader.read(lambda session: reading.get_run(session, run_id, namespace))

    def get_runs(self, run_keys: Sequence[int]) -> list[RunRow]:
        """Rows by key, those that exist, in the order asked for."""
        found = self._reader.read(lambda session: runs.get_runs(session, run_keys))
        return [found[key] for key in dict.fromkeys(run_keys) if key in found]

    def over(self, run_keys: Sequence[int], limit: int) -> list[tuple[int, RunRow | None]]:
        """Those of these runs, ``limit`` at most, that have ended, are blocked or not there: key, and row if any."""
        return self._looks.hear(lambda: reading.over(run_keys, limit))

    def start_over(self, run_keys: Sequence[int], limit: int) -> Talk[list[tuple[int, RunRow | None]]] | None:
        """Begin what ``over`` does without waiting."""
        return self._looks.talk(reading.over(run_keys, limit))

    def standing(self, run_key: int) -> Standing | None:
        """Where a run stands beyond what its row says; None if it is not there."""
        return self._reader.read(lambda session: standing(session, run_key))

    def near_ids(self, run_id: str, limit: int = 3) -> list[tuple[str, str]]:
        """Runs that have the id, or one that begins with it: namespace and id, up to ``limit`` of each namespace."""
        return self._reader.read(lambda session: list(near_ids(session, run_id, limit)))

    def read_events(self, run_key: int, after: int = 0, limit: int = PAGE) -> list[Event]:
        """The log after seq ``after``, at most ``limit`` events."""
        return self._reader.read(lambda session: reading.read_events(session, run_key, after, limit))

    def list_runs(self, where: Filter) -> list[RunRow]:
        """Newest first, or latest ended first; page by the last row's place."""
        return self._reader.read(lambda session: listing.list_runs(session, where))

    def count_runs(self, where: Filter, most: int | None = None) -> list[Counted]:
        """How many runs there are, by workflow and status; of those that must be looked at, up to ``most``."""
        return self._reader.read(lambda session: listing.count_runs(session, where, most))

    def traffic(
        self, since: int, until: int, buckets: int, *, workflow: str | None = None, namespace: str = ""
    ) -> list[Sampled]:
        """What became of the runs of a namespace over time (µs), in buckets."""
        return self._reader.read(lambda session: listing.traffic(session, since, until, buckets, workflow, namespace))

    def list_namespaces(self) -> list[str]:
        """The namespaces that any run, schedule or worker was ever in, by name."""
        return self._reader.read(reading.list_namespaces)

    def get_artifact(self, digest: bytes) -> bytes | None:
        """An artifact's bytes."""
        return self._reader.read(lambda session: reading.get_artifact(session, digest))

    def gauge(self, *, now: int | None = None) -> Gauge:
        """What is in the store, for metrics: counted up to a bound, and by a connection of its own."""
        at = self.now() if now is None else now
        reconnects = sum(max(0, link.opened - 1) for link in (*self._writers, self._reader))
        return self._measuring.read(
            lambda session: gauge(asked(session, at), at, log_bytes=None, reconnects=reconnects)
        )

    def _numbers(self, routes: Sequence[Route]) -> list[int]:
        return self._routes.numbers(map(_names, routes))


def _names(route: Route) -> Names:
    return route.namespace, route.queue, route.workflow, route.version
