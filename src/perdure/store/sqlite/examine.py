"""An examination of a database file, also one that is in trouble: nothing is made or changed."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

import apsw

from perdure.clock import SystemClock
from perdure.errors import NotAStore, StoreError, StoreReadOnly, StoreUnreachable
from perdure.model.condition import Condition, Fault, SqliteFacts
from perdure.model.records import APPLICATION_ID
from perdure.store import rows
from perdure.store.protocol import PAGE
from perdure.store.sqlite import guard, reading, runs
from perdure.store.sqlite.connect import LEAST_LIBRARY, be_patient, connect
from perdure.store.sqlite.connection import EXTEND_PAGES
from perdure.store.sqlite.faults import translate
from perdure.store.sqlite.files import is_half_made, network_of
from perdure.store.sqlite.liveness import signs
from perdure.store.sqlite.queues import list_queues
from perdure.store.sqlite.rows import fetch
from perdure.store.sqlite.schedules import list_schedules
from perdure.store.sqlite.schema import MIGRATIONS
from perdure.store.sqlite.sidecar import Sidecar
from perdure.store.sqlite.sql import QUERIES
from perdure.store.surveying import fault_of, survey, wanted_indexes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from perdure.model.condition import Contents
    from perdure.model.queues import QueueUsage
    from perdure.model.records import Event, RunRow
    from perdure.model.schedules import ScheduleRow
    from perdure.model.standing import Sign
    from perdure.store.surveying import Asked

_PATIENCE_MS: Final = 500
"""How long the write lock is waited for."""
SURVEYED: Final = (
    "count_of_status", "list_routes_known", "count_backlog", "first_ready", "first_due", "count_due", "latest_blocked",
    "suspects_of_route", "longest_of_status", "most_unread", "unused_artifacts", "held_of_workers", "namespaces",
)  # fmt: skip
"""The queries of ``perdure.store.surveying``."""


def examine(path: Path, *, deep: bool = False) -> Condition:
    """Examine the store in the file ``path``; ``deep``: read all of it. Never raises what it can tell."""
    here = SystemClock().now()
    nothing = Condition(str(path), here, here, known=len(MIGRATIONS))
    try:
        if not path.exists() or path.stat().st_size == 0 or is_half_made(path):
            raise StoreUnreachable(
                f"there is no store at {path}",
                store=str(path),
                advice="name one with --store or PERDURE_STORE; "
                "it is made by the first run, engine or worker that uses it",
            )
        connection, faults = _open(path)
    except StoreError as error:
        return Condition(str(path), here, here, known=len(MIGRATIONS), faults=(fault_of(error),))
    except OSError as error:
        fault = Fault("store_unreachable", f"{path} cannot be looked at: {error}", "check its permissions")
        return Condition(str(path), here, here, known=len(MIGRATIONS), faults=(fault,))
    try:
        return _examined(path, connection, nothing, faults, deep=deep)
    except apsw.Error as error:
        faults = tuple(dict.fromkeys((*faults, fault_of(translate(error, str(path))))))
        return Condition(str(path), here, here, known=len(MIGRATIONS), faults=faults)
    except StoreError as error:
        return Condition(str(path), here, here, known=len(MIGRATIONS), faults=(*faults, fault_of(error)))
    finally:
        connection.close()


def _open(path: Path) -> tuple[apsw.Connection, tuple[Fault, ...]]:
    """Open the file as a store does, or else for reading only."""
    try:
        return connect(path, durability="disk"), ()
    except StoreReadOnly as error:
        # Without a log to be read nothing has to be written beside the file, if nobody else writes either.
        log = path.with_name(path.name + "-wal")
        how = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        try:
            return apsw.Connection(f"{path.as_uri()}?{how}", flags=flags), (fault_of(error),)
        except apsw.Error as also:
            raise translate(also, str(path)) from also


def _examined(
    path: Path, connection: apsw.Connection, nothing: Condition, faults: tuple[Fault, ...], *, deep: bool
) -> Condition:
    cursor = connection.cursor()
    be_patient(connection, _PATIENCE_MS)
    if _value(cursor, "application_id") != APPLICATION_ID:
        raise NotAStore(f"{path} is the database of another program", store=str(path), advice="give another path")
    version, known = int(_value(cursor, "user_version")), nothing.known
    facts = _facts(path, connection, cursor, deep=deep)
    indexes = {name for (name,) in fetch(cursor, QUERIES["list_indexes"])}
    missing = tuple(sorted(wanted_indexes(MIGRATIONS) - indexes)) if version >= known else ()
    contents: Contents | None = None
    if version == known:
        try:
            contents = survey(_Asked(path, cursor, nothing.now), nothing.now, deep=deep)
        except apsw.Error as error:
            faults = (*faults, fault_of(translate(error, str(path))))
        except Exception as error:  # noqa: BLE001 - a store may hold anything
            faults = (
                *faults,
                Fault("store_corrupt", f"what it holds cannot be understood: {error!r}", "perdure verify"),
            )
    return Condition(
        store=str(path), now=nothing.now, here=nothing.here, version=version, known=known, least=version,
        facts=_told(path, cursor, facts), missing=missing, database=facts, contents=contents, faults=faults,
    )  # fmt: skip


def _value(cursor: apsw.Cursor, query: str) -> Any:
    found = fetch(cursor, QUERIES[query])
    return found[0][0] if found else None


def _facts(path: Path, connection: apsw.Connection, cursor: apsw.Cursor, *, deep: bool) -> SqliteFacts:
    stat, directory = path.stat(), path.parent.stat()
    log = path.with_name(path.name + "-wal")
    _, log_pages, copied = fetch(cursor, QUERIES["log_state"])[0]
    lock = guard.identity(f"{path}-lock")
    damage = None
    if deep:
        found = [str(row[0]) for row in fetch(cursor, QUERIES["quick_check"])]
        damage = () if found == ["ok"] else tuple(found)
    return SqliteFacts(
        library=_numbers(apsw.sqlite_lib_version()),
        least_library=LEAST_LIBRARY,
        second_library=_second_library(),
        journal="unknown" if connection.readonly("main") else str(_value(cursor, "journal_mode")),
        synchronous=int(_value(cursor, "synchronous")),
        page_size=int(_value(cursor, "page_size")),
        pages=int(_value(cursor, "page_count")),
        free_pages=int(_value(cursor, "freelist_count")),
        log_bytes=log.stat().st_size if log.exists() else 0,
        log_pages=log_pages,
        copied_pages=copied,
        mode=stat.st_mode & 0o777,
        directory_mode=directory.st_mode & 0o777,
        filesystem=network_of(path) or "",
        disk_free=shutil.disk_usage(path.parent).free,
        locked=_is_locked(connection),
        lock_file="" if lock is None else f"{lock[0]}:{lock[1]}",
        damage=damage,
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _second_library() -> str:
    """The version of the standard library's SQLite, if this process has loaded it."""
    module = sys.modules.get("sqlite3")
    return "" if module is None else str(module.sqlite_version)


def _is_locked(connection: apsw.Connection) -> bool:
    """Whether another process keeps the write lock; nothing is written."""
    if connection.readonly("main"):
        return False
    try:
        connection.execute(QUERIES["begin"]).fetchall()
    except apsw.BusyError:
        return True
    connection.execute(QUERIES["rollback"]).fetchall()
    return False


def _told(path: Path, cursor: apsw.Cursor, facts: SqliteFacts) -> tuple[tuple[str, str], ...]:
    free = f", {facts.free_pages * 100 // facts.pages} % free" if facts.pages else ""
    waiting = ""
    if facts.log_pages > EXTEND_PAGES:
        waiting = f", {facts.log_pages - facts.copied_pages:,} of {facts.log_pages:,} pages not yet in the database"
    return (
        ("file", str(path)),
        ("size", f"{facts.pages * facts.page_size:,} bytes{free}"),
        ("journal", f"{facts.journal}, {facts.log_bytes:,} bytes{waiting}"),
        ("commits", "synced to disk (synchronous=FULL)" if facts.synchronous >= 2 else "not synced"),  # noqa: PLR2004
        ("library", f"SQLite {apsw.sqlite_lib_version()} ({str(_value(cursor, 'source_id'))[:10]}), apsw"),
        ("disk", f"{facts.disk_free // (1 << 20):,} MiB free"),
        ("mode", f"{facts.mode:o}, in a directory of {facts.directory_mode:o}"),
    )


def asked(path: Path, cursor: apsw.Cursor, now: int) -> Asked:
    """Return what answers to a survey."""
    return _Asked(path, cursor, now)


class _Asked:
    """What answers to a survey: see ``perdure.store.surveying.Asked``."""

    def __init__(self, path: Path, cursor: apsw.Cursor, now: int) -> None:
        self._path, self._cursor, self._now = path, cursor, now

    def fetch(self, query: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        return fetch(self._cursor, QUERIES[query], values)

    def signs(self) -> dict[int, Sign]:
        workers = [rows.worker_row(row) for row in self.fetch("list_workers")]
        # Asking a lock file that is not there would make it.
        sidecar = None if guard.identity(f"{self._path}-lock") is None else Sidecar(self._path)
        return signs(workers, sidecar, self._now)

    def queues(self, namespace: str) -> list[QueueUsage]:
        return list_queues(self._cursor, namespace, self._now)

    def schedules(self, namespace: str) -> list[ScheduleRow]:
        return list_schedules(self._cursor, namespace, "", PAGE)

    def runs(self, run_keys: Sequence[int]) -> Iterable[RunRow]:
        return runs.get_runs(self._cursor, run_keys).values()

    def events(self, run_key: int, after: int, limit: int) -> list[Event]:
        return reading.read_events(self._cursor, run_key, after, limit)


__all__ = ["SURVEYED", "asked", "examine"]
