"""How schedules are changed in any database: what is judged, and what is noted of what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perdure.model.firing import TAKEN
from perdure.model.records import Verdict
from perdure.model.schedules import Occurrence, OccurrenceKind, ScheduleRow, listed, names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import Created
    from perdure.model.schedules import ScheduleChange
    from perdure.store.rows import Row

CANCELLED: Final = "the next run of its schedule is due"
"""Why runs are cancelled that are in the way of the next."""

NEVER: Final = -1 << 62
"""Before every instant."""

_FOLLOWED: Final = 100
"""Runs of a schedule of which it is known whether they have ended: the latest."""


def schedule_row(row: Row) -> ScheduleRow:
    """A row of the ``schedule_rows`` view."""
    return ScheduleRow._make(row[: len(ScheduleRow._fields)])


def judge(change: ScheduleChange, found: tuple[Any, ...] | None) -> Verdict:
    """Judge a change by what there is of its schedule: its key, how often it was changed, and who did so last."""
    row = change.row
    if found is None:
        return Verdict.APPLIED if row.change == 1 else Verdict.STALE
    _, changes, token = found
    if changes == row.change:
        return Verdict.ALREADY if token == row.token else Verdict.STALE
    return Verdict.APPLIED if changes == row.change - 1 else Verdict.STALE


def settled(change: ScheduleChange, created: Sequence[Created]) -> tuple[ScheduleRow, list[Occurrence]]:
    """Return the schedule's row and records of occurrences, once it is known which runs are new."""
    new = [one.row.run_id for one in created if one.is_new]
    records = [
        record._replace(kind=OccurrenceKind.SKIPPED, run_id=None, reason=f"{TAKEN}: {record.run_id}")
        if record.run_id is not None and record.run_id not in new
        else record
        for record in change.occurrences
    ]
    active = [*names(change.row.active), *new][-_FOLLOWED:]
    return change.row._replace(active=listed(active), recorded=change.row.recorded + len(records)), records


def values(row: ScheduleRow, route: int) -> tuple[object, ...]:
    """A schedule's values as the queries that write it take them."""
    return (
        row.namespace, row.key, route, int(row.state), row.change, row.token, row.revision, row.build, row.since,
        row.created_at, row.watermark, row.next_at, row.cadence, row.policy, row.origin, row.codec, row.payload,
        row.waiting, row.active, row.recorded, row.fault,
    )  # fmt: skip


__all__ = ["CANCELLED", "NEVER", "judge", "schedule_row", "settled", "values"]
