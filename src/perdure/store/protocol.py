"""What a store does, in the order of a run's life.

Every verb is one whole transition: atomic, and idempotent under resend. Verbs are synchronous; the runtime calls
them from its threads, or on its loop where the store is ``inline``. A verb that judges time takes ``now`` (None: the
store's own clock). Names equal the names of the queries. A third party can write a store:
``perdure.testing.store_suite`` says whether it is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from perdure.model.places import place_of
from perdure.store.route import Route
from perdure.store.talk import Talking

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from perdure.model.counting import Counted, Sampled
    from perdure.model.deeds import Deed
    from perdure.model.forking import Fork
    from perdure.model.gauge import Gauge
    from perdure.model.places import Place
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
    from perdure.model.schedules import NextFiring, Occurrence, ScheduleChange, ScheduleRow
    from perdure.model.standing import Sign, Standing

Durability = Literal["disk", "process"]
"""``disk``: what is committed survives a power cut. ``process``: it survives the process, not the machine."""

PAGE = 1000
"""Events (and rows) in one page."""


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """A run taken back from a dead worker, and what it became: claimable again, or blocked."""

    run_key: int
    blocked: bool


class Outlook(NamedTuple):
    """What a worker that has found nothing more to claim may wait for.

    Attributes:
        due: when there is something to claim by itself (µs); None: never.
        is_limited: whether a queue that it claims from has limits, or a suspect waits, of which it is given one at a
            time: the end of one run may let another begin.
    """

    due: int | None
    is_limited: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs ``list_runs`` gives, and ``count_runs`` counts: those that all of it is true of; None means any.

    Instants are in µs; ranges are with their beginning and without their end. Where the end of runs is asked for, only
    such are found that have ended, and lists are in the order in which they did.
    """

    status: tuple[Status, ...] | None = None
    workflow: str | None = None
    namespace: str = ""
    after: Place | None = None
    """Only what comes after this in the list: the ``place`` of the last row seen."""
    limit: int = 100
    parent: int | None = None
    """Only the children of this run."""
    tags: tuple[tuple[str, str], ...] = ()
    """Only runs that have all of these tags: names and values."""
    version: str | None = None
    queue: str | None = None
    id_prefix: str = ""
    """Only runs whose ids begin so."""
    created_after: int | None = None
    created_before: int | None = None
    ended_after: int | None = None
    ended_before: int | None = None
    error: str | None = None
    """Only runs that have failed, are blocked or wait for a retry, and whose reason begins with this one word."""

    @property
    def by_end(self) -> bool:
        """Whether lists are in the order in which runs ended, latest first; else in that in which they were created."""
        return self.ended_after is not None or self.ended_before is not None

    def place(self, row: RunRow) -> Place:
        """Return where a run is in such a list."""
        return place_of(row, by_end=self.by_end)


class Joined(Protocol):
    """The verbs by which runs are created, in a transaction of somebody else's; see ``Store.joined``."""

    def create_runs(self, new: Sequence[NewRun], /, *, claim_for: None = None, facts: bytes = b"") -> list[Created]:
        """As ``Store.create_runs``, but nothing can be claimed that is not committed."""
        ...

    def get_run(self, run_id: str, namespace: str = "") -> RunRow | None:
        """As ``Store.get_run``."""
        ...

    def read_events(self, run_key: int, after: int = 0, limit: int = PAGE) -> list[Event]:
        """As ``Store.read_events``."""
        ...

    def get_artifact(self, digest: bytes) -> bytes | None:
        """As ``Store.get_artifact``."""
        ...


class Store(Talking, Protocol):
    """A durable home of runs; see the module's text. Errors: ``perdure.errors.StoreError`` and its kinds."""

    url: str
    store_id: str
    """Names the store, wherever it is and whoever opens it: drawn by lot when it was made."""
    inline: bool
    """Whether verbs are quick enough to be called on an event loop."""

    # -- the store itself

    @property
    def hasty(self) -> bool:
        """While it is True, verbs called by the thread that set it wait for no lock.

        ``StoreBusy`` is raised at once instead, and nothing was done.
        """
        ...

    @hasty.setter
    def hasty(self, hasty: bool, /) -> None: ...

    def close(self) -> None:
        """Let go of every connection; idempotent."""
        ...

    def joined(self, connection: object, /) -> Joined | None:
        """Return what creates runs in the transaction of somebody else's connection, if that is to this very database.

        ``connection`` is a driver's, in a transaction, and nobody else uses it meanwhile; what is returned is called
        likewise. None where that cannot be. Nothing that is asked here ends the transaction, or makes it fail.
        """
        ...

    def now(self) -> int:
        """The clock that judges due times: microseconds UTC."""
        ...

    def changed(self) -> bool:
        """Whether anyone has committed anything since the last call.

        A hint: True if that is unknown, and what others commit may be told a moment later. Never waits.
        """
        ...

    # -- workers

    def register_worker(self, worker: WorkerRow, routes: Sequence[Route] = ()) -> None:
        """Insert the worker's row, after taking whatever lock proves that its process lives.

        ``lease_until`` is given as µs from now; ``boot``, ``sidecar`` and a ``pid_started`` of 0 are filled in.
        ``routes`` are what it claims of its own accord: it *serves* them for as long as it lives, that is while its row
        is there, it has neither stopped nor is about to, and its lease is in force.
        """
        ...

    def renew(self, worker_key: int, lease: int, beat: int) -> bool:
        """Renew the worker's lease for ``lease`` µs from before the call; False if the row is gone or stopped.

        Uses a connection of its own, so that no commit delays it.
        """
        ...

    def doubtful(self, worker_key: int) -> bool:
        """Whether others may take this worker for dead although its lease runs: then no body begins until that is over.

        Asked before each body, so nothing is waited for.
        """
        ...

    def leave_worker(self, worker_key: int) -> None:
        """Note that the worker is about to stop: it claims nothing more, and its death from now on is no crash."""
        ...

    def retire_worker(self, worker_key: int) -> None:
        """Mark the worker stopped and let its lock go; its row is deleted when it holds no run."""
        ...

    def list_workers(self) -> list[WorkerRow]:
        """All workers that are not known to be gone."""
        ...

    def served(self) -> set[Route]:
        """Return the routes that living workers serve; a run of any other has code nowhere, and is left alone."""
        ...

    def serving(self) -> dict[int, list[Route]]:
        """Return by its key which routes each worker serves that neither has stopped nor is about to, dead or alive."""
        ...

    def dead_workers(self, observer: int, *, grace: int) -> list[int]:
        """Which other workers are dead, by lock and lease; ``grace``: the observer's heartbeat in µs."""
        ...

    def signs_of_life(self) -> dict[int, Sign]:
        """What shows of each worker that it lives, at this moment; nothing is judged by it."""
        ...

    # -- a run's life

    def create_runs(
        self, new: Sequence[NewRun], /, *, claim_for: int | None = None, facts: bytes = b"", now: int | None = None
    ) -> list[Created]:
        """Create runs, or find those that are there under the same id (or idempotency key).

        With ``claim_for`` (a worker's key) new runs that are due are claimed in the same transaction, with ``facts``
        as payload of ``run_claimed``, but for those of queues with limits. The caller compares workflow and input of
        what was found, and looks whether it was ``purged``: then there is no run.

        ``meta`` is kept as it is; where it is a JSON object, ``list_runs`` finds the run by its ``tags``.
        """
        ...

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
        """Take up to ``limit`` runs that are due (pending, woken, released), oldest first within their rank.

        What the limits of their queues do not let through is left, whoever else claims at the same time; but a run that
        is asked for by ``only`` and is to be cancelled needs no slot. Promotes what is due by now; appends
        ``run_claimed`` with ``facts`` as payload; raises each epoch. A worker is given at most one suspect, and no run
        that its build has refused. ``only`` asks for one run.
        """
        ...

    def commit(self, items: Sequence[CommitItem], *, wait: bool = True) -> list[Verdict]:
        """Append events, keep artifacts, take inbox rows, change states: one transaction, each item all or nothing.

        With an item's events its ``children`` are created and its ``sends`` delivered, as ``create_runs`` and
        ``deliver`` do. A child whose id is taken by another run is not created; its parent is sent ``CHILD_TAKEN``. A
        run that ends with a ``successor`` is renamed, and its inbox moves along.

        Raises only what concerns the store as a whole (full, read-only, unreachable): then the batch is to be sent
        again, and what was written of it is found to be there. With ``wait=False`` nothing is waited for:
        ``StoreBusy`` is raised at once, and nothing was written, where another thread or process writes or the store
        wants time for itself.
        """
        ...

    def release(self, worker_key: int, run_keys: Sequence[int]) -> int:
        """Give settled runs back, claimable at once and still ``running``; returns how many were still held."""
        ...

    def refuse_run(self, run_key: int, epoch: int, build: str, payload: bytes) -> list[Event]:
        """Say for a run's holder that its build cannot go on with it: the code and what is recorded do not fit.

        Appends ``drift_found`` with ``payload``, an object of ``code``, ``reason``, ``build`` and what was found; then,
        in the same transaction, ends the hold at epoch + 1:

        - ``run_cancelled`` if a cancel was asked for;
        - ``run_released`` if a living worker of a build that has not refused the run serves its route: it is claimable
          at once and still ``running``, and by no worker whose build has refused it;
        - else ``run_blocked`` with ``code`` and ``reason``, which names the builds if there are several.

        Returns the events appended; the very same on a resend; none if the run has another epoch or no holder. The
        run's crashes stay counted. A build that refused a run is remembered until it is resumed.
        """
        ...

    def block_stranded(self, seen: Collection[int]) -> list[int]:
        """Block refused runs that nobody is left for.

        A run is stranded while nobody holds it and living workers serve its route, all of builds that have refused it.
        (If nobody serves its route, it is left alone, like every run without code.) Those of ``seen`` that are stranded
        are blocked, with code and reason of the last ``drift_found``; the others are returned, to be given as ``seen``
        a little later, so that a build that merely restarts is waited for.
        """
        ...

    def reclaim(self, observer: int, worker_keys: Sequence[int], *, cap: int) -> list[Reclaimed]:
        """Take the runs of dead workers: count the crash, make them claimable, or block them after ``cap`` crashes."""
        ...

    def deliver(self, messages: Sequence[Message], *, now: int | None = None) -> list[Delivery]:
        """Put messages into the inboxes of their runs, in order, one transaction; what became of each.

        A run that waits (and that nobody holds) is made claimable: by a signal whose name it awaits, by the end of any
        child. Whatever else comes is kept until it is looked for; nothing is kept for a run that has ended, but what a
        failed or cancelled run was sent before it ended stays for when it is resumed. A cancel or a pause is what
        ``request_cancel`` and ``pause_run`` do.
        """
        ...

    def request_cancel(self, run_key: int, reason: str, *, force: bool = False, now: int | None = None) -> Status:
        """Cancel a run; the status found or made.

        Asked of its holder; where nobody holds it, of the worker that claims it next (before anything else, whatever
        its rank), if it has ever been claimed and a living worker serves its route; else it is ended at once, and so
        is a blocked one. But a run with registered compensations (see ``CommitItem.undo``) stays asked, until somebody
        who has its code claims it, or it is resumed. With ``force`` every run that nobody holds is ended at once, and
        ``run_cancelled`` names what was not undone. The parent of a run that is ended is told.
        """
        ...

    def pause_run(self, run_key: int, reason: str, *, now: int | None = None) -> Status:
        """Pause a run: at once where nobody holds it, else asked of its holder; the status found or made."""
        ...

    def overdue(self, limit: int, *, now: int | None = None) -> list[tuple[int, int]]:
        """Keys and deadlines (µs) of runs whose deadline has passed, earliest first.

        Without those that are held, have ended, are blocked, or are to be cancelled already.
        """
        ...

    def urgent(self, routes: Sequence[Route], limit: int) -> list[int]:
        """Keys of claimable runs of these routes that are to be cancelled: for them no slot has to be free."""
        ...

    def resume_run(self, run_key: int, epoch: int, payload: bytes, *, now: int | None = None) -> RunRow | None:
        """Make a failed, cancelled or blocked run claimable again, by every build: ``run_resumed`` with ``payload``.

        Only at the epoch seen; else nothing is done and None returned: what the payload says was read before that.
        """
        ...

    def fork_run(self, fork: Fork, /) -> Created:
        """Make a claimable run of the beginning of another one's log, or find the run that has the fork's id.

        ``list_runs`` finds it by the tag ``ORIGIN_TAG``. The fork is of the origin's namespace, route,
        priority, partition, meta and tags, and refers to the artifacts of what is copied. The copied part of
        the origin's log is checked (``IntegrityError``); its chain is made anew, and ``run_forked`` ends it.
        The caller compares the lineage of what was found.
        """
        ...

    def block_run(self, run_key: int, epoch: int, payload: bytes, reason: str) -> bool:
        """Block an unheld run at the epoch seen: ``run_blocked``."""
        ...

    def unread(self, worker_key: int) -> list[tuple[int, int, list[InboxRow]]]:
        """For runs held by the worker that have inbox rows: (run_key, inbox counter, rows)."""
        ...

    def held(self, worker_key: int) -> dict[int, int]:
        """Epoch by run_key of everything the worker holds."""
        ...

    def next_due(self, routes: Sequence[Route], *, worker_key: int = 0, now: int | None = None) -> Outlook:
        """When there is something to claim of these routes next, as far as time decides it.

        That is when the earliest sleeping or delayed run is due, but for those of queues that let this worker claim
        nothing now; or when the rate of a queue lets the next run begin.
        """
        ...

    # -- queues

    def define_queues(self, queues: Sequence[QueueRow], /) -> None:
        """Define queues, or define them anew; their keys do not matter.

        A definition that comes from another build, whose engine was opened before that of the definition there is, is
        passed over. Whether a queue is paused stays as it is.
        """
        ...

    def pause_queue(self, name: str, namespace: str = "", *, paused: bool, author: str | None = None) -> bool:
        """Let nothing more be claimed from a queue, or let it be claimed again; whether that is a change.

        ``author``: who does it by hand; then a change is noted as a deed.
        """
        ...

    def list_queues(self, namespace: str = "", *, now: int | None = None) -> list[QueueUsage]:
        """The queues of a namespace by name, defined or not, and how much of each is in use."""
        ...

    def list_deeds(self, noun: str, name: str | None = None, namespace: str = "", limit: int = PAGE) -> list[Deed]:
        """What was done by hand to a queue or schedule (``noun``), or to all of them, the latest first.

        A hundred are kept of each.
        """
        ...

    # -- schedules

    def get_schedule(self, key: str, namespace: str = "") -> ScheduleRow | None:
        """The schedule of this key, also if it is removed."""
        ...

    def list_schedules(self, namespace: str = "", after: str = "", limit: int = PAGE) -> list[ScheduleRow]:
        """Schedules by key, after one: those that are not removed."""
        ...

    def next_firing(self, routes: Sequence[Route], *, after: int | None = None) -> NextFiring:
        """When the earliest schedule of these routes is due, 0 if an occurrence has waited and need wait no more.

        With ``after`` (µs) the earliest that is due later than that, whatever has waited.
        """
        ...

    def due_schedules(
        self,
        routes: Sequence[Route],
        *,
        after: tuple[int, int] | None = None,
        limit: int = 100,
        now: int | None = None,
    ) -> list[ScheduleRow]:
        """Schedules of these routes that are due, earliest first, after the ``next_at`` and key of the last one seen.

        The first page begins with those that have an occurrence waiting for runs, which have all ended by now.
        """
        ...

    def change_schedules(self, changes: Sequence[ScheduleChange], *, now: int | None = None) -> list[Verdict]:
        """Make schedules others, create their runs, note what became of their occurrences: each whole or not at all.

        A change is conditional on the schedule's ``change`` being one less than the row's (on there being no schedule,
        if that is 1): else it is ``STALE``, or ``ALREADY`` if it was made before (it has the same token). Where a run's
        id is taken, its occurrence is noted as skipped.
        """
        ...

    def fault_schedule(self, schedule_key: int, fault: str) -> None:
        """Note why a schedule could not be fired; the next change clears it."""
        ...

    def list_occurrences(self, schedule_key: int, limit: int = PAGE) -> list[Occurrence]:
        """What became of a schedule's latest occurrences, latest first."""
        ...

    # -- purging; see ``perdure.store.purging``

    def list_ended(self, what: Purgeable, after: EndedPlace | None = None, limit: int = PAGE) -> EndedPage:
        """Runs that may be purged, among the next ``limit`` of those that have ended so; and where to go on."""
        ...

    def purge_runs(self, run_keys: Sequence[int], what: Purgeable, *, now: int | None = None) -> list[int]:
        """Purge runs of ``list_ended``, the first hundred given; returns the keys of those that were.

        In the same transaction each run becomes a tombstone: nobody finds it any more, and whoever would create a run
        under its id or idempotency key is refused. One that goes on by now, that was purged already, or that somebody
        is about to change is left as it is. Nobody who claims or commits waits for long.
        """
        ...

    def collect_purged(self, *, now: int | None = None) -> Collected:
        """Delete what purged runs have left behind: events, from the last one on, inboxes, artifacts nobody else uses.

        About a thousand rows in one transaction. To be called again while there is more; whoever does so goes on where
        another one has died, and any number may do so at once.
        """
        ...

    def forget_purged(self, namespace: str, before: int, limit: int = PAGE) -> int:
        """Forget runs of a namespace that were purged before an instant (µs) and of which nothing else is left.

        Their ids and idempotency keys are free again. Returns how many were forgotten.
        """
        ...

    def get_tombstone(self, run_id: str, namespace: str = "") -> Tombstone | None:
        """What is left of the run that had this id, if it was purged."""
        ...

    def elect(self, chore: str, holder: int, lease: int, *, now: int | None = None) -> bool:
        """Whether ``holder`` does a chore, which only one does at a time: it has it already, or nobody else has.

        It then has it for ``lease`` µs, or until it asks again: with 0, it gives it back.
        """
        ...

    # -- keys that payloads are encrypted with; see ``perdure.codecs``

    def read_keys(self) -> list[StoredKey]:
        """All keys, the oldest first."""
        ...

    def add_key(self, key: StoredKey, /) -> None:
        """Add a key; one that is there stays as it is."""
        ...

    def rewrap_key(self, old: StoredKey, new: StoredKey, /) -> bool:
        """Have a key encrypted by another master key; whether it was still as in ``old``, or is as in ``new``."""
        ...

    # -- reading; no verb holds a cursor after it returned

    def get_run(self, run_id: str, namespace: str = "") -> RunRow | None:
        """The run of this id."""
        ...

    def get_runs(self, run_keys: Sequence[int]) -> list[RunRow]:
        """Rows by key, those that exist."""
        ...

    def over(self, run_keys: Sequence[int], limit: int) -> list[tuple[int, RunRow | None]]:
        """Those of these runs, ``limit`` at most, that have ended, are blocked or not there: key, and row if any."""
        ...

    def standing(self, run_key: int) -> Standing | None:
        """Where a run stands beyond what its row says; None if it is not there."""
        ...

    def near_ids(self, run_id: str, limit: int = 3) -> list[tuple[str, str]]:
        """Runs that have the id, or one that begins with it: namespace and id, up to ``limit`` of each namespace."""
        ...

    def read_events(self, run_key: int, after: int = 0, limit: int = PAGE) -> list[Event]:
        """The log after seq ``after``, at most ``limit`` events."""
        ...

    def list_runs(self, where: Filter) -> list[RunRow]:
        """Newest first, or latest ended first (see ``Filter``); page by the last row's place."""
        ...

    def count_runs(self, where: Filter, most: int | None = None) -> list[Counted]:
        """How many runs there are, by workflow and status; ``limit`` and ``after`` do not matter.

        Runs that are chosen by status, workflow, version, queue and one kind of time alone are all counted. Of others
        no more than ``most`` need be, if it is given: then there may be more if there are so many.
        """
        ...

    def traffic(
        self, since: int, until: int, buckets: int, *, workflow: str | None = None, namespace: str = ""
    ) -> list[Sampled]:
        """What became of the runs of a namespace over time (µs), in buckets as by ``model.counting.edges``."""
        ...

    def list_namespaces(self) -> list[str]:
        """The namespaces that any run, schedule or worker was ever in, by name."""
        ...

    def get_artifact(self, digest: bytes) -> bytes | None:
        """An artifact's bytes."""
        ...

    def gauge(self, *, now: int | None = None) -> Gauge:
        """What is in the store, for metrics: counted up to a bound, and by a connection of its own.

        So neither who writes nor who reads waits for it, whatever thread it is called on.
        """
        ...


class Artifacts(Protocol):
    """The part of a store that decoding payloads needs."""

    def get_artifact(self, digest: bytes) -> bytes | None:
        """An artifact's bytes."""
        ...


__all__ = ["PAGE", "Artifacts", "Durability", "Filter", "Outlook", "Reclaimed", "Route", "Store"]
