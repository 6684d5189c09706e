"""Open a store by path or URL: the only module that names concrete stores."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from perdure.errors import StoreUnreachable
from perdure.store.protocol import Durability

if TYPE_CHECKING:
    from collections.abc import Generator

    from perdure.model.clock import Clock
    from perdure.model.condition import Condition
    from perdure.store.migrate import Inspection
    from perdure.store.postgres.store import PostgresStore
    from perdure.store.sqlite.store import SqliteStore

DEFAULT_FILE = "perdure.db"
"""The store's file in a data directory."""


_ALMOST = re.compile(r"(sqlite|postgres|postgresql):(?!//)")
"""How a URL begins that has lost a slash, and would be a folder of a strange name."""

POSTGRES = ("postgresql://", "postgres://")
"""How the URL of a PostgreSQL database begins."""


def open_store(
    target: str | Path, *, durability: Durability = "disk", create: bool = True, clock: Clock | None = None
) -> SqliteStore | PostgresStore:
    """Open the store at ``target``, and create it (with its directory, or schema) if it is not there.

    Args:
        target: a database file, a data directory (then ``perdure.db`` in it), ``sqlite:///path`` or
            ``postgresql://user@host/database``. A path that does not exist is a directory if it ends in a separator or
            has no suffix. A PostgreSQL URL takes libpq's options and two of its own: ``schema`` (``perdure`` by
            default) and ``pooled`` (1 behind a pooler in transaction mode, 0 if not; found out by default).
        durability: what "committed" means.
        create: whether a store that does not exist is made.
        clock: what judges due times; the system's by default, on PostgreSQL the server's.

    Raises:
        StoreUnreachable: there is nothing there, or it cannot be opened.
        NotAStore: the file (or schema) belongs to something else; it was not touched.
        StoreTooNew: a newer Perdure has written it.
        StoreUnsafe: it could not keep what it promises.
        StoreError: any other fault, by its kind.
    """
    # Imported here, so that whoever never opens a store of a kind never loads its driver.
    if is_postgres(target):
        with _driver():
            from perdure.store.postgres.store import PostgresStore

        return PostgresStore(str(target), durability=durability, create=create, clock=clock)

    path = store_path(target)
    from perdure.store.sqlite.store import SqliteStore

    return SqliteStore(path, durability=durability, create=create, clock=clock)


def is_postgres(target: str | Path) -> bool:
    """Whether ``target`` is the URL of a PostgreSQL database."""
    return isinstance(target, str) and target.startswith(POSTGRES)


def inspect_store(target: str | Path) -> Inspection:
    """Look at the store at ``target``, and make and change nothing.

    Raises:
        StoreError: there is none, or it cannot be opened.
    """
    if is_postgres(target):
        with _driver():
            from perdure.store.postgres import inspect as postgres
        return postgres.inspect(str(target))
    from perdure.store.sqlite import inspect as sqlite

    return sqlite.inspect(store_path(target))


def examine_store(target: str | Path, *, deep: bool = False) -> Condition:
    """Examine the store at ``target``, also one that is in trouble, and make and change nothing.

    Args:
        target: as for ``open_store``.
        deep: whether to read all of it, which takes as long as that takes.

    Raises:
        StoreUnreachable: that is no address of a store, or its driver is not installed.
    """
    if is_postgres(target):
        with _driver():
            from perdure.store.postgres import examine as postgres
        return postgres.examine(str(target), deep=deep)
    from perdure.store.sqlite import examine as sqlite

    return sqlite.examine(store_path(target), deep=deep)


def migration_script(target: str | Path) -> str:
    """Return the SQL that brings the store at ``target`` up to date, for those who apply it by hand.

    Raises:
        StoreError: it cannot be opened.
    """
    if is_postgres(target):
        with _driver():
            from perdure.store.postgres import inspect as postgres
        return postgres.migration_script(str(target))
    from perdure.store.sqlite import inspect as sqlite

    return sqlite.migration_script(store_path(target))


@contextmanager
def _driver() -> Generator[None]:
    """Where PostgreSQL's driver is loaded: say how it is installed if it is not."""
    try:
        yield
    except ImportError as error:
        # Without its C library, psycopg says so in an ImportError that names no module.
        if error.name is not None and error.name.partition(".")[0] != "psycopg":
            raise
        raise StoreUnreachable(
            "the driver for PostgreSQL is not installed",
            detail=str(error),
            advice="pip install 'perdure[postgres]'",
        ) from error


def store_name(target: str | Path) -> str:
    """Return what messages call the store at ``target``: its file's absolute path, or its URL without passwords.

    Raises:
        StoreUnreachable: it is no address of a store.
    """
    if is_postgres(target):
        from perdure.store.postgres.address import parse_address

        return parse_address(str(target)).label
    return str(store_path(target))


def store_path(target: str | Path) -> Path:
    """Return the absolute path of the file that ``target`` names.

    Raises:
        StoreUnreachable: it names no file: another kind of database, or one in memory.
    """
    text = str(target)
    if text.startswith(POSTGRES):
        raise StoreUnreachable("the address is a database's, not a file's", advice="use a path or sqlite:///path")
    scheme, separator, rest = text.partition("://")
    if separator or _ALMOST.match(text):
        if scheme != "sqlite" or not rest.startswith("/") or "?" in rest:
            raise StoreUnreachable(
                f"{text!r} is not the address of a store",
                store=text,
                advice="write sqlite:///relative.db, sqlite:////absolute.db, postgresql://host/name, or a plain path",
            )
        text = unquote(rest[1:])
    if text in {"", ":memory:"}:
        raise StoreUnreachable(
            "a store in memory would keep nothing",
            store=text,
            advice="give the path of a file or directory",
        )
    path = Path(text).expanduser()
    if path.is_dir() or (not path.exists() and (text.endswith(("/", "\\")) or not path.suffix)):
        path /= DEFAULT_FILE
    return path.resolve()


__all__ = [
    "DEFAULT_FILE",
    "Durability",
    "examine_store",
    "inspect_store",
    "is_postgres",
    "migration_script",
    "open_store",
    "store_name",
    "store_path",
]
