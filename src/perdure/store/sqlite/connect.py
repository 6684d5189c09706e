"""Open a SQLite connection that is as safe as the store promises, or none at all."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import apsw

from perdure.clock import SystemClock
from perdure.errors import StoreError, StoreReadOnly, StoreUnreachable, StoreUnsafe
from perdure.store.sqlite import files, guard
from perdure.store.sqlite.faults import translate, translate_os
from perdure.store.sqlite.place import Place
from perdure.store.sqlite.schema import check_format, migrate
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.store.protocol import Durability

PATIENCE_MS: Final = 10_000
"""How long a verb waits for another process's write lock."""

LEAST_LIBRARY: Final = (3, 51, 3)
"""Older libraries can corrupt a write-ahead log that two connections reset at the same instant."""

_FULL, _NORMAL = 2, 1
_STATEMENTS = 128
_opening = threading.RLock()


class Opened(NamedTuple):
    """The first connection to a store, its file, and whether it was made just now."""

    connection: apsw.Connection
    place: Place
    created: bool
    store_id: str


def open_file(path: Path, *, durability: Durability, create: bool, vfs: str | None = None) -> Opened:
    """Open a store's first connection, and bring its schema up to date.

    Raises:
        StoreError: see ``perdure.store.open.open_store``.
    """
    _require_library()
    if guard.was_inherited(path):
        guard.refuse_inherited(str(path))
    files.refuse_network(path)
    # One at a time: between making a file and opening it, closing our descriptor would drop another thread's locks.
    with _opening:
        try:
            there = guard.is_open(path) or files.look_at(path)
            if not there:
                if not create and not path.exists():
                    raise StoreUnreachable(
                        f"there is no store at {path}",
                        store=str(path),
                        advice="check the path; a store is made by the first run or engine that uses it",
                    )
                files.make_file(path)
        except OSError as error:
            raise translate_os(error, str(path)) from error
        place = Place(path)
        connection = connect(path, vfs=vfs)
        try:
            created = migrate(connection, path)
            _use_wal(connection, path)
            _make_durable(connection, path, durability)
            check_format(connection, path)
            place.require()
            store_id = str(connection.execute(QUERIES["store_id"]).get)
        except apsw.Error as error:
            connection.close()
            raise place.explain(error) from error
        except StoreError:
            connection.close()
            raise
        return Opened(connection, place, created, store_id)


def connect(
    path: Path, *, durability: Durability | None = None, query_only: bool = False, vfs: str | None = None
) -> apsw.Connection:
    """Return one more connection to a store; with ``durability`` it is set and read back.

    Raises:
        StoreError: the file cannot be opened for reading and writing.
    """
    try:
        connection = apsw.Connection(
            str(path),
            vfs=vfs,
            statementcachesize=_STATEMENTS,
            flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW,
        )
        be_patient(connection, PATIENCE_MS)
        if connection.readonly("main"):
            raise StoreReadOnly(
                f"the store cannot be written: {path}",
                store=str(path),
                advice="make the file and its directory writable: SQLite keeps -wal and -shm files beside the database",
            )
        for name in ("foreign_keys_on", "trusted_schema_off", "cell_size_check_on"):
            connection.execute(QUERIES[name]).fetchall()
        if query_only:
            connection.execute(QUERIES["query_only_on"]).fetchall()
        if durability is not None:
            _make_durable(connection, path, durability)
    except apsw.Error as error:
        raise translate(error, str(path)) from error
    return connection


def be_patient(connection: apsw.Connection, milliseconds: int) -> None:
    """Wait so long for locks. Blocking locks are fair, but alone they do not wait for everything: both are needed."""
    connection.set_busy_timeout(milliseconds)
    connection.setlk_timeout(milliseconds, 0)


def _require_library() -> None:
    found = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if found < LEAST_LIBRARY:
        raise StoreUnsafe(
            f"apsw is linked to SQLite {apsw.sqlite_lib_version()}, which can corrupt a database used by two processes",
            advice="install apsw from its wheel, which brings a current SQLite",
        )


def _use_wal(connection: apsw.Connection, path: Path) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + PATIENCE_MS / 1000
    while (mode := str(connection.execute(QUERIES["journal_mode"]).get)) != "wal":
        try:
            mode = str(connection.execute(QUERIES["journal_mode_wal"]).get)
        except apsw.BusyError:
            # SQLite does not wait for this lock by itself, because two that wait for it would wait for ever.
            if clock.monotonic() > deadline:
                raise
            time.sleep(0.002)
            continue
        if mode != "wal":
            raise StoreUnsafe(
                f"SQLite keeps no write-ahead log for {path} (journal mode {mode!r})",
                store=str(path),
                advice="put the store on a local disk with a file system that supports shared memory",
            )


def _make_durable(connection: apsw.Connection, path: Path, durability: Durability) -> None:
    # An unknown value would silently mean NORMAL, so what is in force is read back.
    connection.execute(QUERIES[f"synchronous_{durability}"]).fetchall()
    if sys.platform == "darwin" and durability == "disk":
        connection.execute(QUERIES["fullfsync_on"]).fetchall()
    wanted = _FULL if durability == "disk" else _NORMAL
    found = connection.execute(QUERIES["synchronous"]).get
    if found != wanted:
        raise StoreUnsafe(
            f"SQLite did not accept synchronous={wanted} for {path} (found {found})",
            store=str(path),
            advice="commits would not be durable, so the store was not opened",
        )
