"""Who lives, and taking back what the dead hold: for tools, which hold nothing themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.runtime.limits import Limits

if TYPE_CHECKING:
    from perdure.model.records import RunRow, WorkerRow
    from perdure.store.protocol import Store

CRASH_CAP: Final = Limits().crash_cap
GRACE: Final = 10**9
"""No frozen worker is called dead by one that has just come to look."""


def live_workers(store: Store) -> dict[int, WorkerRow]:
    """Return the workers that live, by their keys."""
    dead = set(store.dead_workers(0, grace=GRACE))
    return {one.worker_key: one for one in store.list_workers() if one.worker_key not in dead and not one.stopped}


def take_back(store: Store, run: RunRow) -> None:
    """Take a run from its holder if that is dead, as the next worker would, so that it can be dealt with at once."""
    if run.worker_key is not None and run.worker_key in store.dead_workers(0, grace=GRACE):
        store.reclaim(0, [run.worker_key], cap=CRASH_CAP)


def take_all_back(store: Store) -> None:
    """Take from all dead workers what they hold, as the next worker would."""
    store.reclaim(0, store.dead_workers(0, grace=GRACE), cap=CRASH_CAP)


__all__ = ["live_workers", "take_all_back", "take_back"]
