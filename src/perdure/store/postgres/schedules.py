"""Schedules: what is due, and changes of them, each in the transaction that creates its runs."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from perdure.model.deeds import SCHEDULE
from perdure.model.records import Verdict
from perdure.model.schedules import KEPT, NextFiring, Occurrence
from perdure.store.postgres import control, reading
from perdure.store.postgres.arrays import bigints, texts
from perdure.store.postgres.deeds import record_deed
from perdure.store.postgres.faults import REFUSED
from perdure.store.postgres.runs import Creation, keep
from perdure.store.scheduling import CANCELLED, NEVER, judge, schedule_row, settled, values
from perdure.store.tails import DAMAGED
from perdure.store.texts import storable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.schedules import ScheduleChange, ScheduleRow
    from perdure.store.postgres.session import Session


def get_schedule(session: Session, key: str, namespace: str) -> ScheduleRow | None:
    """The schedule of this key, also if it is removed."""
    found = session.fetch("get_schedule", namespace, key)
    return schedule_row(found[0]) if found else None


def list_schedules(session: Session, namespace: str, after: str, limit: int) -> list[ScheduleRow]:
    """A page of schedules, by key."""
    return [schedule_row(row) for row in session.fetch("list_schedules", namespace, after, limit)]


def due_schedules(
    session: Session, routes: Sequence[int], after: tuple[int, int] | None, limit: int, now: int | None
) -> list[ScheduleRow]:
    """A page of schedules that are due, earliest first; before the first, those that need not wait any more."""
    wanted = bigints(routes)
    since = (NEVER, 0) if after is None else after
    ready = session.fetch("ready_schedules", wanted) if after is None else []
    rows = {row[0]: schedule_row(row) for row in [*ready, *session.fetch("due_schedules", wanted, now, *since, limit)]}
    return list(rows.values())


def next_firing(session: Session, routes: Sequence[int], after: int | None) -> NextFiring:
    """When the earliest schedule of these routes is due, and whether any waits for a run to end."""
    due, waits, ready = session.fetch("next_firing", bigints(routes), NEVER if after is None else after)[0]
    return NextFiring(0 if ready and after is None else due, waits)


class Changing:
    """Changes of schedules; done again they find what has been done."""

    def __init__(self, changes: Sequence[ScheduleChange], routes: Sequence[int], *, now: int) -> None:
        self._now = now
        self._changes = [
            (change, route, Creation(change.runs, [route] * len(change.runs), claim_for=None, facts=b"", now=now))
            for change, route in zip(changes, routes, strict=True)
        ]

    def change(self, session: Session) -> list[Verdict]:
        """Make schedules others, each whole or not at all, inside the caller's transaction."""
        verdicts: list[Verdict] = []
        for change, route, creation in self._changes:
            try:
                verdicts.append(session.alone(partial(self._change, session, change, route, creation)))
            except REFUSED:
                verdicts.append(Verdict.BAD)
        return verdicts

    def _change(self, session: Session, change: ScheduleChange, route: int, creation: Creation) -> Verdict:
        row = change.row
        wanted = (row.namespace, row.key)
        found = session.fetch("find_schedule", *wanted)
        verdict = judge(change, found[0] if found else None)
        if verdict is not Verdict.APPLIED:
            return verdict
        for run_id in change.cancel:
            self._cancel(session, run_id, row.namespace)
        row, records = settled(change, creation.create(session) if change.runs else [])
        if not session.change("change_schedule" if found else "create_schedule", *values(row, route)):
            return Verdict.STALE
        key = found[0][0] if found else session.fetch("find_schedule", *wanted)[0][0]
        if records:
            kinds, firsts, lasts, times, ats, run_ids, reasons = zip(*records, strict=True)
            places = bigints(range(row.recorded + 1 - len(records), row.recorded + 1))
            session.change(
                "record_occurrences", key, places, bigints(kinds), bigints(firsts), bigints(lasts), bigints(times),
                bigints(ats), texts(run_ids), texts(reasons),
            )  # fmt: skip
            session.change("trim_occurrences", key, row.recorded - KEPT)
        if change.artifacts:
            # Runs have keys above nought.
            keep(session, [(-key, artifact) for artifact in change.artifacts])
        if change.deed is not None:
            record_deed(session, SCHEDULE, row.key, row.namespace, change.deed._replace(at=self._now))
        return verdict

    def _cancel(self, session: Session, run_id: str, namespace: str) -> None:
        found = reading.get_run(session, run_id, namespace)
        # One whose log is damaged is set aside by whoever looks at it next; the schedule goes on.
        with suppress(*DAMAGED):
            if found is not None:
                control.request_cancel(session, found.run_key, CANCELLED, now=self._now)


def fault_schedule(session: Session, schedule_key: int, fault: str) -> None:
    """Note why a schedule could not be fired."""
    session.change("fault_schedule", schedule_key, storable(fault))


def list_occurrences(session: Session, schedule_key: int, limit: int) -> list[Occurrence]:
    """What became of a schedule's occurrences, latest first."""
    return [Occurrence._make(row) for row in session.fetch("list_occurrences", schedule_key, limit)]


__all__ = [
    "Changing", "due_schedules", "fault_schedule", "get_schedule", "list_occurrences", "list_schedules", "next_firing",
]  # fmt: skip
