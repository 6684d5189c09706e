"""Tombstones: what is left of runs that were purged, and who may not be created because of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.store.purging import tombstone

if TYPE_CHECKING:
    from perdure.model.records import NewRun, Tombstone
    from perdure.store.postgres.session import Session


def get_tombstone(session: Session, run_id: str, namespace: str) -> Tombstone | None:
    """What is left of the run that had an id, if it was purged."""
    found = session.fetch("get_tombstone", namespace, run_id)
    return tombstone(found[0]) if found else None


def buried(session: Session, run: NewRun) -> Tombstone:
    """What stands in the way of a run that could be neither created nor found."""
    found = get_tombstone(session, run.run_id, run.namespace)
    if found is None:
        found = tombstone(session.fetch("find_tombstone", run.namespace, run.idempotency_key)[0])
    return found


__all__ = ["buried", "get_tombstone"]
