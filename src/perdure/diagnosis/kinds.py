"""The table of findings: one truth for what is printed and for the reference page."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Kind(NamedTuple):
    """A kind of finding.

    Attributes:
        severity: how bad it is as a rule.
        meaning: what it means, a sentence.
        advice: what to do, with names in braces; empty: nothing.
    """

    severity: Literal["ok", "note", "warn", "bad"]
    meaning: str
    advice: str = ""


RUNS: dict[str, Kind] = {
    "delayed": Kind(
        "ok",
        "The run was created to start later.",
    ),
    "sleeping": Kind(
        "ok",
        "The run waits for a timer. It holds no worker meanwhile.",
    ),
    "retrying": Kind(
        "note",
        "A step has failed, and its next attempt is due at the time given.",
        "if it cannot get better: perdure cancel {run}",
    ),
    "waits-signal": Kind(
        "note",
        "The run waits for a signal that nobody has sent.",
        "perdure signal {run} {signal}",
    ),
    "waits-child": Kind(
        "ok",
        "The run waits for a child run to end; what that waits for follows.",
    ),
    "waits-news": Kind(
        "ok",
        "The run waits for something that its log does not name.",
    ),
    "signal-unasked": Kind(
        "note",
        "Signals lie in the run's inbox under a name that it does not wait for now; they are kept.",
        "if the name was a slip, send it again under the right one",
    ),
    "running": Kind(
        "ok",
        "A living worker executes the run.",
    ),
    "step-running": Kind(
        "ok",
        "A step is being executed, in the attempt given.",
    ),
    "cancel-asked": Kind(
        "note",
        "A cancel was asked for, and the run's code has not taken it in: it is told at its next step or wait.",
        "what does not heed it: perdure cancel {run} --force, once nobody executes it",
    ),
    "pause-asked": Kind(
        "ok",
        "A pause was asked for: the run rests when the steps under way have ended.",
    ),
    "holder-gone": Kind(
        "warn",
        "The process that executed the run is gone. The next worker with its code takes the run over.",
        "perdure worker MODULE, if none is running",
    ),
    "holder-frozen": Kind(
        "warn",
        "The process that executes the run is there, but has not renewed its lease: it is stopped, starved or cut"
        " off from the store. Another worker takes the run over.",
        "look at process {pid} on {host}",
    ),
    "woken": Kind(
        "ok",
        "What the run has waited for has come, and it is there to be claimed.",
    ),
    "no-worker": Kind(
        "warn",
        "No worker is running on this store.",
        "perdure worker MODULE",
    ),
    "no-code": Kind(
        "warn",
        "Workers are running, and none of them has the code for the run: its workflow, version and queue. It is "
        "left alone until one has.",
        "start a worker with {workflow}, version {version}, from queue {queue}; or perdure cancel {run}",
    ),
    "refused-by-all": Kind(
        "warn",
        "All builds that are running have refused the run, since their code does not fit its log. It is blocked "
        "shortly, unless another build comes.",
        "perdure replay {run} shows where it departs; run a build that fits, or perdure resume {run} --accept-drift",
    ),
    "refused-by-some": Kind(
        "note",
        "A build has refused the run, since its code does not fit the log. It is left to workers of other builds.",
        "perdure replay {run} shows where it departs",
    ),
    "queue-paused": Kind(
        "warn",
        "The queue is paused: nothing is claimed from it.",
        "perdure queues resume {queue}",
    ),
    "queue-full": Kind(
        "note",
        "As many runs of the queue are under way as it allows.",
        "raise its concurrency if it is often so",
    ),
    "queue-workers-full": Kind(
        "note",
        "Every worker has as many runs of the queue under way as one may have.",
        "run more workers, or raise worker_concurrency",
    ),
    "queue-rate": Kind(
        "note",
        "As many runs of the queue have begun as its rate allows.",
    ),
    "partition-full": Kind(
        "note",
        "As many runs of the queue with this partition key are under way as it allows.",
        "raise partition_concurrency if it is often so",
    ),
    "newer-format": Kind(
        "warn",
        "The run was written by a newer Perdure, and older workers leave it alone.",
        "upgrade Perdure on workers",
    ),
    "suspect": Kind(
        "warn",
        "The workers of the run died twice or more in a row without progress. A worker takes one such run at a "
        "time, and it is blocked after a few more crashes.",
        "look for what kills its workers: perdure show {run}",
    ),
    "in-line": Kind(
        "note",
        "The run is there to be claimed, workers with its code are running, and none has had a slot for it yet.",
        "if it lasts: more workers, or a higher concurrency",
    ),
    "deadline-passed": Kind(
        "warn",
        "The run's deadline has passed, and nobody has cancelled it yet; a worker does so.",
        "perdure worker MODULE",
    ),
    "paused": Kind(
        "note",
        "The run was paused, and rests until somebody lets it go on.",
        "perdure resume {run}",
    ),
    "blocked": Kind(
        "bad",
        "The run cannot go on without a person.",
        "mend the cause, then: perdure resume {run}",
    ),
    "blocked-drift": Kind(
        "bad",
        "The code does not fit the run's log: it was changed while the run was in flight.",
        "perdure replay {run} shows where it departs; bring the code back or use perdure.patched, then: perdure "
        "resume {run}; or perdure resume {run} --accept-drift",
    ),
    "blocked-undecodable": Kind(
        "bad",
        "What is recorded does not decode under today's types.",
        "let the type accept it, or give upcast=, then: perdure resume {run}",
    ),
    "blocked-integrity": Kind(
        "bad",
        "The run's log is not what was written: it was changed outside Perdure, or damaged.",
        "perdure verify {run} names the place; restore the database from a backup, or: perdure cancel {run}",
    ),
    "blocked-crashes": Kind(
        "bad",
        "The run's workers died several times in a row without progress, so it was set aside.",
        "find what kills them (memory, a native crash), then: perdure resume {run}",
    ),
    "blocked-undo": Kind(
        "bad",
        "A compensation has failed, so part of what the run did is not undone.",
        "mend the cause, then: perdure resume {run}, which tries that compensation again, then the rest",
    ),
    "failed": Kind(
        "bad",
        "The run has failed.",
        "perdure resume {run} tries again what failed",
    ),
    "failed-undone": Kind(
        "bad",
        "The run has failed and undone what it had done, so it cannot be resumed.",
        "perdure fork {run} STEP, from a step before that; or run it anew",
    ),
    "cancelled": Kind(
        "note",
        "The run was cancelled.",
        "perdure resume {run} lets it go on",
    ),
    "cancelled-undone": Kind(
        "note",
        "The run was cancelled and has undone what it had done, so it cannot be resumed.",
        "perdure fork {run} STEP, from a step before that; or run it anew",
    ),
    "completed": Kind(
        "ok",
        "The run has completed.",
    ),
    "log-unreadable": Kind(
        "bad",
        "The run's log cannot be understood to its end: it is damaged, or was written by a newer Perdure.",
        "perdure verify {run} names the place",
    ),
    "too-deep": Kind(
        "note",
        "There is more behind this, and it is not followed further.",
        "perdure why {run}",
    ),
}
"""What ``perdure why`` says of a run."""

STORES: dict[str, Kind] = {
    "store-unreachable": Kind(
        "bad",
        "There is no store at the address, or the database cannot be reached.",
        "check the address, and that the server is up; a store is made by the first run, engine or worker that uses it",
    ),
    "store-read-only": Kind(
        "bad",
        "The database cannot be written: nothing can go on.",
        "make the file and its directory writable; on PostgreSQL, go to the primary",
    ),
    "store-busy": Kind(
        "warn",
        "Another process has kept the write lock for longer than a commit takes.",
        "find the process that writes: a long transaction of another program, or a copy of the file under way",
    ),
    "store-damaged": Kind(
        "bad",
        "The database is damaged.",
        "stop all workers, keep a copy of the files, restore a backup; perdure verify then says which runs are whole",
    ),
    "store-foreign": Kind(
        "bad",
        "The file or schema belongs to another program.",
        "give another path or schema",
    ),
    "store-unsafe": Kind(
        "bad",
        "The store cannot keep what it promises here, so it is not opened.",
        "do as the message says",
    ),
    "store-fault": Kind(
        "bad",
        "The examination ran into an error of the store.",
        "look at the message; perdure doctor again",
    ),
    "schema-newer": Kind(
        "bad",
        "A newer Perdure has changed the store, and this one cannot use it.",
        "upgrade Perdure here",
    ),
    "schema-older": Kind(
        "warn",
        "The store's schema is older than this Perdure. It is brought up to date when a worker opens it.",
        "perdure db migrate; where the role may not: perdure db sql, applied by the owner",
    ),
    "schema-missing": Kind(
        "bad",
        "There is no store in the database yet.",
        "perdure db migrate makes it",
    ),
    "indexes-missing": Kind(
        "bad",
        "Indexes of the schema are missing or cannot be used, so that claims get slow as runs add up.",
        "perdure db sql shows how each was made; make them again: {indexes}",
    ),
    "library-old": Kind(
        "bad",
        "This SQLite can corrupt a database that two processes use.",
        "install apsw from its wheel, which brings a current SQLite",
    ),
    "second-library": Kind(
        "note",
        "This process has loaded a second copy of SQLite, the standard library's. Opening the store's file with "
        "it would drop the store's locks and corrupt it; Perdure refuses that.",
        "never open the store with the sqlite3 module, nor with what is built on it, in a process that has it open",
    ),
    "journal-mode": Kind(
        "warn",
        "The database has no write-ahead log, as while it is made or copied by something else than Perdure.",
        "whoever opens the store next turns it on; if that does not help, put it on a local disk",
    ),
    "not-synced": Kind(
        "bad",
        "Commits are not synced to disk, so a power cut may lose what was committed.",
        'say durability="disk", and mend what keeps it from being accepted',
    ),
    "log-grows": Kind(
        "warn",
        "The write-ahead log is long, and much of it is not in the database yet: a reader that does not end holds"
        " it back.",
        "find the process that keeps a read open: a backup, another program, a stopped worker; then end it",
    ),
    "free-space": Kind(
        "note",
        "Much of the file is empty: what was deleted is used again by what comes, and not given back to the disk.",
        "nothing, unless the disk is short: then stop all processes and VACUUM the file",
    ),
    "file-mode": Kind(
        "warn",
        "Others than the owner can read or write the store's file; inputs and results are in it.",
        "chmod 600 {path}",
    ),
    "directory-mode": Kind(
        "warn",
        "Others than the owner can write to the store's directory, so they can replace its files.",
        "chmod 700 {path}",
    ),
    "network-disk": Kind(
        "bad",
        "The file is on a file system that reaches over a network, where SQLite's locks do not hold.",
        "put the store on a local disk; for several machines use PostgreSQL",
    ),
    "disk-low": Kind(
        "warn",
        "The disk under the store is nearly full.",
        "make room: nothing is lost when it is full, and nothing goes on either",
    ),
    "lock-file": Kind(
        "warn",
        "The lock file is gone or was replaced while workers run, so that their deaths are noticed by their "
        "leases only.",
        "never delete the -lock file; restart the workers",
    ),
    "fsync-off": Kind(
        "bad",
        "The server does not sync to disk: what is committed does not survive a crash of its machine.",
        "set fsync = on in postgresql.conf",
    ),
    "full-page-writes-off": Kind(
        "bad",
        "The server may be left with torn pages by a power cut.",
        "set full_page_writes = on in postgresql.conf, unless the file system rules torn pages out",
    ),
    "commits-not-durable": Kind(
        "bad",
        "The server does not accept synchronous_commit for this role, so commits are not durable.",
        "let the role set it, or set it to on",
    ),
    "standby-missing": Kind(
        "bad",
        "Commits wait for a standby, and none is connected: nothing is committed.",
        "start the standby, or take it out of synchronous_standby_names",
    ),
    "idle-timeout": Kind(
        "warn",
        "The server ends sessions that idle, and with them locks and hints of Perdure: dead workers are noticed later.",
        "ALTER ROLE {role} SET idle_session_timeout = 0",
    ),
    "connections-short": Kind(
        "warn",
        "Nearly all of the server's connections are in use; a worker takes up to seven.",
        "raise max_connections, or put a pooler in front",
    ),
    "pooler": Kind(
        "note",
        "A pooler in transaction mode is in front: no hints are heard, and dead workers are noticed by their "
        "leases only.",
        "for quicker takeovers connect workers directly, or shorten their leases",
    ),
    "clock-apart": Kind(
        "warn",
        "The server's clock and this machine's differ. Perdure goes by the server's; what people enter and read "
        "by this one's is off.",
        "let both run NTP",
    ),
    "autovacuum-off": Kind(
        "bad",
        "The server does not vacuum: tables and indexes grow, and claims get slow.",
        "set autovacuum = on",
    ),
    "dead-rows": Kind(
        "warn",
        "A table has more dead rows than live ones: vacuuming does not keep up, or is held back.",
        "end long transactions; VACUUM {table}",
    ),
    "long-transaction": Kind(
        "warn",
        "A transaction has gone on for long: while it lasts nothing can be vacuumed, and claims get slow.",
        "find and end it: SELECT pg_terminate_backend({pid})",
    ),
    "locks-waited": Kind(
        "warn",
        "A session has waited for a lock for long.",
        "SELECT pg_blocking_pids({pid}) says for whom",
    ),
    "wraparound": Kind(
        "warn",
        "The database has gone for very long without freezing old rows; the server stops taking writes before it "
        "runs out.",
        "find what holds vacuuming back, end it, and VACUUM the database",
    ),
    "privileges": Kind(
        "bad",
        "The role lacks privileges on the store's tables.",
        "GRANT them to {role}",
    ),
    "no-workers": Kind(
        "warn",
        "Runs could go on, and no worker is running.",
        "perdure worker MODULE",
    ),
    "worker-gone": Kind(
        "warn",
        "A worker is gone, and the runs that it held have not been taken over.",
        "they go on with the next worker; perdure worker MODULE, if none is running",
    ),
    "worker-late": Kind(
        "warn",
        "A worker's process is there, but has not renewed its lease: it is stopped, starved or cut off.",
        "look at process {pid} on {host}",
    ),
    "builds-differ": Kind(
        "note",
        "Workers of different builds of the code are running, as while a deploy is under way.",
        "if no deploy is under way, restart the older ones",
    ),
    "runs-without-code": Kind(
        "warn",
        "Runs could go on, and no running worker has their code. They are left alone.",
        "start a worker that has it; perdure runs --codeless lists them; perdure why {run}",
    ),
    "runs-wait": Kind(
        "warn",
        "Runs have been there to be claimed for minutes, and workers with their code are running.",
        "more workers, or a higher concurrency; perdure why {run}",
    ),
    "runs-blocked": Kind(
        "bad",
        "Runs are blocked: they cannot go on without a person.",
        "perdure why {run}; perdure runs --status blocked lists all",
    ),
    "runs-overdue": Kind(
        "warn",
        "The deadlines of runs have passed, and nobody has cancelled them; a worker does so.",
        "perdure worker MODULE",
    ),
    "runs-crash": Kind(
        "warn",
        "The workers of a run died twice or more in a row without progress; after a few more times it is blocked.",
        "look for what kills them: perdure show {run}",
    ),
    "queue-stopped": Kind(
        "note",
        "A queue is paused: nothing is claimed from it.",
        "perdure queues resume {queue}",
    ),
    "queue-crowded": Kind(
        "note",
        "A queue's limits have let nothing through to its next run for minutes.",
        "raise its limits if that is not meant; perdure why {run}",
    ),
    "schedule-fault": Kind(
        "bad",
        "A schedule could not be fired.",
        "perdure schedules show {key}; define it anew with code that fits",
    ),
    "schedule-late": Kind(
        "warn",
        "A schedule is due and has not been fired.",
        "start a worker that has its workflow; perdure schedules show {key}",
    ),
    "schedule-stopped": Kind(
        "note",
        "A schedule is paused.",
        "perdure schedules resume {key}",
    ),
    "log-long": Kind(
        "note",
        "A run that goes on has a very long log, which is read whole when another worker takes it over.",
        "let it go on as a new run now and then: perdure.continue_as_new",
    ),
    "news-unread": Kind(
        "warn",
        "Much news lies unread with a run: it is sent more than it takes in, or waits for something else.",
        "perdure why {run}",
    ),
    "artifacts-unused": Kind(
        "note",
        "Nothing refers to some stored artifacts any more: they were stored by runs that were purged meanwhile.",
        "they only take room",
    ),
    "runs-kept": Kind(
        "note",
        "Very many runs that have ended are kept.",
        "Engine(retention=…) decides how long runs are kept; perdure prune deletes those that ended long ago",
    ),
}
"""What ``perdure doctor`` says of a store, and of all that is in it."""

KINDS: dict[str, Kind] = {**RUNS, **STORES}

__all__ = ["KINDS", "RUNS", "STORES", "Kind"]
