"""Schedules: what is due, and changes of them, each in the transaction that creates its runs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from perdure.model.deeds import SCHEDULE
from perdure.model.records import Verdict
from perdure.model.schedules import KEPT, NextFiring, Occurrence
from perdure.store.scheduling import CANCELLED, NEVER, judge, schedule_row, settled, values
from perdure.store.sqlite import control, reading, runs
from perdure.store.sqlite.deeds import record_deed
from perdure.store.sqlite.faults import REFUSED
from perdure.store.sqlite.rows import fetch, json_list
from perdure.store.sqlite.sql import QUERIES
from perdure.store.tails import DAMAGED
from perdure.store.texts import storable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from perdure.model.schedules import ScheduleChange, ScheduleRow


def get_schedule(cursor: apsw.Cursor, key: str, namespace: str) -> ScheduleRow | None:
    """The schedule of this key, also if it is removed."""
    found = fetch(cursor, QUERIES["get_schedule"], (namespace, key))
    return schedule_row(found[0]) if found else None


def list_schedules(cursor: apsw.Cursor, namespace: str, after: str, limit: int) -> list[ScheduleRow]:
    """A page of schedules, by key."""
    return [schedule_row(row) for row in fetch(cursor, QUERIES["list_schedules"], (namespace, after, limit))]


def due_schedules(
    cursor: apsw.Cursor, routes: Sequence[int], after: tuple[int, int] | None, limit: int, now: int
) -> list[ScheduleRow]:
    """A page of schedules that are due, earliest first; before the first, those that need not wait any more."""
    ready: dict[int, ScheduleRow] = {}
    found: list[ScheduleRow] = []
    since = (NEVER, 0) if after is None else after
    for route in routes:
        if after is None:
            rows = map(schedule_row, fetch(cursor, QUERIES["ready_schedules"], (route,)))
            ready |= {row.schedule_key: row for row in rows}
        found += map(schedule_row, fetch(cursor, QUERIES["due_schedules"], (route, now, *since, limit)))
    found.sort(key=lambda row: (row.next_at, row.schedule_key))
    return [*ready.values(), *(row for row in found[:limit] if row.schedule_key not in ready)]


def next_firing(cursor: apsw.Cursor, routes: Sequence[int], after: int | None) -> NextFiring:
    """When the earliest schedule of these routes is due, and whether any waits for a run to end."""
    due, waits, ready = fetch(cursor, QUERIES["next_firing"], (json_list(routes), NEVER if after is None else after))[0]
    return NextFiring(0 if ready and after is None else due, bool(waits))


def change_schedules(
    cursor: apsw.Cursor, changes: Sequence[ScheduleChange], routes: Sequence[int], now: int
) -> list[Verdict]:
    """Make schedules others, each whole or not at all, inside the caller's transaction."""
    verdicts: list[Verdict] = []
    for change, route in zip(changes, routes, strict=True):
        try:
            with cursor.connection:  # a savepoint
                verdicts.append(_change(cursor, change, route, now))
        except REFUSED:
            verdicts.append(Verdict.BAD)
    return verdicts


def fault_schedule(cursor: apsw.Cursor, schedule_key: int, fault: str) -> None:
    """Note why a schedule could not be fired."""
    cursor.execute(QUERIES["fault_schedule"], (schedule_key, storable(fault)))


def list_occurrences(cursor: apsw.Cursor, schedule_key: int, limit: int) -> list[Occurrence]:
    """What became of a schedule's occurrences, latest first."""
    return [Occurrence._make(row) for row in fetch(cursor, QUERIES["list_occurrences"], (schedule_key, limit))]


def _change(cursor: apsw.Cursor, change: ScheduleChange, route: int, now: int) -> Verdict:
    row = change.row
    wanted = (row.namespace, row.key)
    found = fetch(cursor, QUERIES["find_schedule"], wanted)
    verdict = judge(change, found[0] if found else None)
    if verdict is not Verdict.APPLIED:
        return verdict
    for run_id in change.cancel:
        _cancel(cursor, run_id, row.namespace, now)
    created = (
        runs.create_runs(cursor, change.runs, [route] * len(change.runs), claim_for=None, facts=b"", now=now)
        if change.runs
        else []
    )
    row, records = settled(change, created)
    cursor.execute(QUERIES["change_schedule" if found else "create_schedule"], values(row, route))
    key = found[0][0] if found else fetch(cursor, QUERIES["find_schedule"], wanted)[0][0]
    for number, record in enumerate(records, row.recorded + 1 - len(records)):
        cursor.execute(QUERIES["record_occurrence"], (key, number, *record))
    if records:
        cursor.execute(QUERIES["trim_occurrences"], (key, row.recorded - KEPT))
    for artifact in change.artifacts:
        cursor.execute(QUERIES["keep_artifact"], artifact)
        # Runs have keys above nought.
        cursor.execute(QUERIES["use_artifact"], (artifact.hash, -key))
    if change.deed is not None:
        record_deed(cursor, SCHEDULE, row.key, row.namespace, change.deed._replace(at=now))
    return verdict


def _cancel(cursor: apsw.Cursor, run_id: str, namespace: str, now: int) -> None:
    found = reading.get_run(cursor, run_id, namespace)
    # One whose log is damaged is set aside by whoever looks at it next; the schedule goes on.
    with suppress(*DAMAGED):
        if found is not None:
            control.request_cancel(cursor, found.run_key, CANCELLED, now=now)


__all__ = [
    "change_schedules", "due_schedules", "fault_schedule", "get_schedule", "list_occurrences", "list_schedules",
    "next_firing",
]  # fmt: skip
