"""Keys that payloads are encrypted with, as the store keeps them: wrapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.records import StoredKey

if TYPE_CHECKING:
    from perdure.store.postgres.session import Session


def read_keys(session: Session) -> list[StoredKey]:
    """Read all keys, the oldest first."""
    return [StoredKey(*row) for row in session.fetch("read_keys")]


def add_key(session: Session, key: StoredKey) -> None:
    """Add a key, unless it is there."""
    session.change("add_key", *key)


def rewrap_key(session: Session, old: StoredKey, new: StoredKey) -> bool:
    """Have a key wrapped by another master key, if it is as it was."""
    return bool(session.change("rewrap_key", old.key_id, old.master, old.wrapped, new.master, new.wrapped))


__all__ = ["add_key", "read_keys", "rewrap_key"]
