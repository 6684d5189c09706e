"""Open a store by path or URL: the only module that names concrete stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from perdure.errors import StoreUnreachable
from perdure.store.protocol import Durability

if TYPE_CHECKING:
    from perdure.model.clock import Clock
    from perdure.store.sqlite.store import SqliteStore

DEFAULT_FILE = "perdure.db"
"""The store's file in a data directory."""


def open_store(
    target: str | Path, *, durability: Durability = "disk", create: bool = True, clock: Clock | None = None
) -> SqliteStore:
    """Open the store at ``target``, and create it (with its directory) if it is not there.

    Args:
        target: a database file, a data directory (then ``perdure.db`` in it), or ``sqlite:///path``. A path that does
            not exist is a directory if it ends in a separator or has no suffix.
        durability: what "committed" means.
        create: whether a store that does not exist is made.
        clock: what judges due times; the system's by default.

    Raises:
        StoreUnreachable: there is nothing there, or it cannot be opened.
        NotAStore: the file belongs to something else; it was not touched.
        StoreTooNew: a newer Perdure has written it.
        StoreUnsafe: it lies on a network file system.
        StoreError: any other fault, by its kind.
    """
    path = store_path(target)
    # Imported here, so that whoever never opens a store never loads SQLite.
    from perdure.store.sqlite.store import SqliteStore

    return SqliteStore(path, durability=durability, create=create, clock=clock)


def store_path(target: str | Path) -> Path:
    """Return the absolute path of the file that ``target`` names.

    Raises:
        StoreUnreachable: it names no file: another kind of database, or one in memory.
    """
    text = str(target)
    if text.startswith(("postgresql://", "postgres://")):
        raise StoreUnreachable(
            "this Perdure has no PostgreSQL store",
            store=text.partition("@")[2] or text,
            advice="the PostgreSQL extra is not available yet; use a path or sqlite:///path",
        )
    scheme, separator, rest = text.partition("://")
    if separator:
        if scheme != "sqlite" or not rest.startswith("/") or "?" in rest:
            raise StoreUnreachable(
                f"{text!r} is not the address of a store",
                store=text,
                advice="write sqlite:///relative.db, sqlite:////absolute.db, or a plain path",
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


__all__ = ["DEFAULT_FILE", "Durability", "open_store", "store_path"]
