"""Purging in records: which runs are purged, and how far it has come; and what is said of a run that was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from perdure.errors import RunPurged
from perdure.model.durations import to_datetime

if TYPE_CHECKING:
    from perdure.model.records import Status, Tombstone


@dataclass(frozen=True, slots=True)
class Purgeable:
    """Which runs are to be purged: those of a namespace that have ended so, before an instant (µs).

    Whatever it says, a run is kept as long as its parent is there and has not completed.
    """

    statuses: tuple[Status, ...]
    before: int
    namespace: str = ""
    workflow: str | None = None
    besides: tuple[str, ...] = ()
    """Not those of these workflows."""


class EndedRun(NamedTuple):
    """A run that has ended, as much of it as purging goes by. ``ended_at``: µs UTC."""

    run_key: int
    workflow: str
    status: Status
    ended_at: int


EndedPlace = tuple[int, int, int, int]
"""A place in the order of ended runs: route, status, when it ended, run key."""


class EndedPage(NamedTuple):
    """Runs that may be purged, and where to go on looking; None: there are no more."""

    runs: list[EndedRun]
    after: EndedPlace | None


class Collected(NamedTuple):
    """What one pass has deleted for good of purged runs, and whether there is more to delete now."""

    runs: int
    rows: int
    artifacts: int
    more: bool


def refused(found: Tombstone, run_id: str) -> RunPurged:
    """Return what is raised where a run is to be created whose id or idempotency key was that of a purged one."""
    error = purged(found.run_id, found.status.word, found.ended_at, found.purged_at)
    if found.run_id != run_id:
        error.add_note(f"it had the idempotency key {found.idempotency_key!r}")
    return error


def purged(run_id: str, status: str, ended_at: int, purged_at: int) -> RunPurged:
    """Return what is raised about a run that has been purged; instants in µs."""
    ended, gone = to_datetime(ended_at), to_datetime(purged_at)
    how = "was cancelled" if status == "cancelled" else status
    return RunPurged(
        f"run {run_id!r} {how} on {ended:%Y-%m-%d %H:%M:%S} UTC, and was purged on {gone:%Y-%m-%d %H:%M:%S} UTC",
        run_id=run_id,
        status=status,
        ended_at=ended,
        purged_at=gone,
        advice="it is not begun anew under this id: choose another one for new work",
    )


__all__ = ["Collected", "EndedPage", "EndedPlace", "EndedRun", "Purgeable", "purged", "refused"]
