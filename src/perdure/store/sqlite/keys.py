"""Keys that payloads are encrypted with, as the store keeps them: wrapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.records import StoredKey
from perdure.store.sqlite.rows import fetch
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    import apsw


def read_keys(cursor: apsw.Cursor) -> list[StoredKey]:
    """Read all keys, the oldest first."""
    return [StoredKey(*row) for row in fetch(cursor, QUERIES["read_keys"])]


def add_key(cursor: apsw.Cursor, key: StoredKey) -> None:
    """Add a key, unless it is there."""
    cursor.execute(QUERIES["add_key"], tuple(key))


def rewrap_key(cursor: apsw.Cursor, old: StoredKey, new: StoredKey) -> bool:
    """Have a key wrapped by another master key, if it is as it was."""
    values = (old.key_id, old.master, old.wrapped, new.master, new.wrapped)
    return bool(cursor.execute(QUERIES["rewrap_key"], values).connection.changes())


__all__ = ["add_key", "read_keys", "rewrap_key"]
