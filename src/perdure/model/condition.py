"""What an examination of a store shows: data only, from whatever kind of store. Instants and durations are µs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from perdure.model.queues import QueueUsage
    from perdure.model.records import Status, WorkerRow
    from perdure.model.schedules import ScheduleRow
    from perdure.model.standing import Sign


class Backlog(NamedTuple):
    """Runs of one route that could go on now.

    Attributes:
        workflow: what they run.
        version: of which version.
        queue: from which queue.
        namespace: where.
        served: whether a living worker claims them.
        runs: how many; counted up to a bound.
        run_id: the first of them.
        since: since when that one could go on.
    """

    workflow: str
    version: str
    queue: str
    namespace: str
    served: bool
    runs: int
    run_id: str
    since: int


class Blocked(NamedTuple):
    """A blocked run: its id, and what its log and its row say of the reason."""

    run_id: str
    code: str
    reason: str
    since: int


class Worker(NamedTuple):
    """A worker, what shows that it lives, and how many runs it holds."""

    row: WorkerRow
    sign: Sign
    holds: int


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a store.

    Attributes:
        counts: runs by status; counted up to ``bound``.
        bound: up to where anything is counted.
        workers: all workers.
        orphans: how many runs are held by workers that are not there.
        backlogs: what could go on now, by route.
        blocked: the latest blocked runs.
        queues: all queues.
        schedules: schedules that are not removed.
        unserved: keys of schedules whose workflow no living worker serves.
        overdue: runs whose deadline has passed.
        suspects: runs whose workers have died twice or more in a row: id and times.
        longest: the run that has not ended with the most events, and how many.
        unread: the run with the most unread news: id, how many, and since when.
        unused: artifacts that nothing refers to: how many and how many bytes; None: not looked for.
    """

    counts: dict[Status, int]
    bound: int
    workers: tuple[Worker, ...] = ()
    orphans: int = 0
    backlogs: tuple[Backlog, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    queues: tuple[QueueUsage, ...] = ()
    schedules: tuple[ScheduleRow, ...] = ()
    unserved: frozenset[str] = frozenset()
    overdue: int = 0
    suspects: tuple[tuple[str, int], ...] = ()
    longest: tuple[str, int] | None = None
    unread: tuple[str, int, int] | None = None
    unused: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class SqliteFacts:
    """What is only so of a file.

    Attributes:
        library: SQLite's version.
        least_library: the oldest that is safe.
        second_library: version of another copy of SQLite that this process has loaded; empty: there is none.
        journal: the journal mode in force; "unknown" where the file can only be read.
        synchronous: 2: every commit is synced.
        page_size: bytes.
        pages: of the database.
        free_pages: of them, those that hold nothing.
        log_bytes: of the write-ahead log's file.
        log_pages: of the log, not counting what was written before it began anew; -1: unknown.
        copied_pages: of them, those that are in the database already; -1: unknown.
        mode: permissions of the file.
        directory_mode: of its directory.
        filesystem: its name, if it is one that reaches over a network.
        disk_free: bytes.
        locked: whether another process kept the write lock for as long as this one waited.
        lock_file: device and inode of the lock file; empty: there is none.
        damage: what a check of the file has found; None: it was not made.
    """

    library: tuple[int, ...]
    least_library: tuple[int, ...]
    second_library: str = ""
    journal: str = "wal"
    synchronous: int = 2
    page_size: int = 4096
    pages: int = 0
    free_pages: int = 0
    log_bytes: int = 0
    log_pages: int = -1
    copied_pages: int = -1
    mode: int = 0o600
    directory_mode: int = 0o700
    filesystem: str = ""
    disk_free: int = 1 << 40
    locked: bool = False
    lock_file: str = ""
    damage: tuple[str, ...] | None = None


class Table(NamedTuple):
    """A table: live and dead rows by the server's account, bytes, when it was last vacuumed (µs)."""

    name: str
    live: int
    dead: int
    size: int
    vacuumed_at: int | None


class Session(NamedTuple):
    """Another session of the database: its process, program, state, and for how long that has gone on (µs)."""

    pid: int
    program: str
    state: str
    lasts: int


@dataclass(frozen=True, slots=True)
class PostgresFacts:
    """What is only so of a server.

    Attributes:
        settings: those that matter, by name, as a session of this role finds them.
        synchronous_commit: what commits of Perdure have.
        pooled: whether a pooler lends sessions.
        sessions: in use, of all databases.
        most_sessions: allowed.
        sync_standbys: standbys that commits wait for and that are there.
        tables: of the store.
        long: transactions that go on for long.
        waiting: sessions that wait for locks.
        age: transactions since the oldest row of the database was last frozen.
        lacking: privileges on the tables that the role lacks.
        may_migrate: whether the role may bring the schema up to date.
        role: who asks.
    """

    settings: dict[str, str]
    synchronous_commit: str = "on"
    pooled: bool = False
    sessions: int = 0
    most_sessions: int = 100
    sync_standbys: int = 0
    tables: tuple[Table, ...] = ()
    long: tuple[Session, ...] = ()
    waiting: tuple[Session, ...] = ()
    age: int = 0
    lacking: tuple[str, ...] = ()
    may_migrate: bool = True
    role: str = ""


class Fault(NamedTuple):
    """Why a store could not be examined further: an error's code, message and advice."""

    code: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class Condition:
    """What an examination of a store shows.

    Attributes:
        store: what messages call it.
        now: the store's clock.
        here: this machine's clock at the same moment.
        version: of its schema; 0: there is none.
        known: the version that this Perdure brings it to.
        least: the version that a program must know to use it.
        facts: what is worth knowing, each with its name.
        missing: indexes that should be there and are not, or cannot be used.
        database: what is only so of this kind of store.
        contents: what is in it; None: that could not be read.
        faults: what kept the examination from going on.
    """

    store: str
    now: int = 0
    here: int = 0
    version: int = 0
    known: int = 0
    least: int = 0
    facts: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    database: SqliteFacts | PostgresFacts | None = None
    contents: Contents | None = None
    faults: tuple[Fault, ...] = ()


__all__ = [
    "Backlog", "Blocked", "Condition", "Contents", "Fault", "PostgresFacts", "Session", "SqliteFacts", "Table",
    "Worker",
]  # fmt: skip
