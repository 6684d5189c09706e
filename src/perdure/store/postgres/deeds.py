"""What was done to queues and schedules by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.deeds import KEPT, Deed
from perdure.store.texts import storable

if TYPE_CHECKING:
    from perdure.store.postgres.session import Session


def record_deed(session: Session, noun: str, name: str, namespace: str, deed: Deed) -> None:
    """Note a deed inside the caller's transaction, and forget those of long ago."""
    at, what, author, detail, _ = deed
    session.change("record_deed", noun, namespace, name, at, what, storable(author), detail)
    session.change("trim_deeds", noun, namespace, name, KEPT)


def list_deeds(session: Session, noun: str, name: str | None, namespace: str, limit: int) -> list[Deed]:
    """What was done to a queue or schedule, or to all of them, the latest first."""
    found = (
        session.fetch("list_all_deeds", noun, namespace, limit)
        if name is None
        else session.fetch("list_deeds", noun, namespace, name, limit)
    )
    return list(map(Deed._make, found))


__all__ = ["list_deeds", "record_deed"]
