"""What was done to queues and schedules by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.deeds import KEPT, Deed
from perdure.store.sqlite.rows import fetch
from perdure.store.sqlite.sql import QUERIES
from perdure.store.texts import storable

if TYPE_CHECKING:
    import apsw


def record_deed(cursor: apsw.Cursor, noun: str, name: str, namespace: str, deed: Deed) -> None:
    """Note a deed inside the caller's transaction, and forget those of long ago."""
    at, what, author, detail, _ = deed
    cursor.execute(QUERIES["record_deed"], (noun, namespace, name, at, what, storable(author), detail))
    cursor.execute(QUERIES["trim_deeds"], (noun, namespace, name, KEPT))


def list_deeds(cursor: apsw.Cursor, noun: str, name: str | None, namespace: str, limit: int) -> list[Deed]:
    """What was done to a queue or schedule, or to all of them, the latest first."""
    found = (
        fetch(cursor, QUERIES["list_all_deeds"], (noun, namespace, limit))
        if name is None
        else fetch(cursor, QUERIES["list_deeds"], (noun, namespace, name, limit))
    )
    return list(map(Deed._make, found))


__all__ = ["list_deeds", "record_deed"]
