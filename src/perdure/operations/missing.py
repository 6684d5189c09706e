"""Runs that are not there: whether they never were, or have been purged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import RunNotFound
from perdure.model.purging import purged

if TYPE_CHECKING:
    from perdure.store.protocol import Store


def missing(store: Store, run_id: str, namespace: str) -> RunNotFound:
    """Return what is raised where a run is not there.

    Raises:
        StoreError: the store cannot be read.
    """
    found = store.get_tombstone(run_id, namespace)
    if found is not None:
        return purged(found.run_id, found.status.word, found.ended_at, found.purged_at)
    return RunNotFound(
        f"no run {run_id!r} in {store.url}" + (f", namespace {namespace!r}" if namespace else ""),
        run_id=run_id,
        advice="list what is there with `perdure runs`",
    )


__all__ = ["missing"]
