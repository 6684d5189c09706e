"""Schedules: each change whole, conditional on what was seen, and made once."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from perdure.model.cadence import Interval
from perdure.model.firing import fire, stamped
from perdure.model.payloads import REFERENCE
from perdure.model.records import Artifact, Status, Verdict
from perdure.model.schedules import (
    KEPT,
    NextFiring,
    Occurrence,
    OccurrenceKind,
    Policy,
    ScheduleChange,
    ScheduleRow,
    ScheduleState,
    listed,
    names,
)
from perdure.store.protocol import Route
from perdure.testing.store_suite.bench import ROUTE, SECOND, Bench, case, soon
from perdure.testing.store_suite.concurrency import at_once

if TYPE_CHECKING:
    from perdure.store.protocol import Store

NOON = 1_893_499_200_000_000
HOUR = 3600 * SECOND
APPLIED, ALREADY, STALE, BAD = Verdict.APPLIED, Verdict.ALREADY, Verdict.STALE, Verdict.BAD


def schedule(key: str = "hourly", **changes: Any) -> ScheduleRow:
    """A schedule to be: every hour from noon on."""
    row = ScheduleRow(
        schedule_key=0, namespace="", key=key, workflow="greet", version="", queue="", state=ScheduleState.ACTIVE,
        change=1, token=os.urandom(16), revision=0, build="b", since=NOON, created_at=NOON, watermark=NOON - 1,
        next_at=NOON, cadence=Interval(HOUR, NOON).encode(), policy=Policy(overlap="allow").encode(),
        origin=b'{"module":"app"}', codec=0, payload=b'"input"', waiting=listed([]), active=listed([]), recorded=0,
        fault=None,
    )  # fmt: skip
    return row._replace(**changes)


def define(bench: Bench, key: str = "hourly", **changes: Any) -> ScheduleRow:
    """Define a schedule; the row it has got."""
    assert bench.store.change_schedules([ScheduleChange(schedule(key, **changes))]) == [APPLIED]
    return found(bench, key)


def found(bench: Bench, key: str = "hourly") -> ScheduleRow:
    """A schedule as it is."""
    row = bench.store.get_schedule(key)
    assert row is not None
    return row


def fired(row: ScheduleRow, now: int = NOON) -> ScheduleChange:
    """What becomes of a schedule whose occurrences are due."""
    return fire(row, now, os.urandom, ())


def due(store: Store, now: int = NOON, **options: Any) -> list[str]:
    """Keys of the schedules that are due."""
    return [row.key for row in store.due_schedules([ROUTE], now=now, **options)]


@case
def a_schedule_is_found_as_it_was_defined(bench: Bench) -> None:
    assert bench.store.get_schedule("hourly") is None
    assert bench.store.list_schedules() == []
    new = schedule()
    assert bench.store.change_schedules([ScheduleChange(new)]) == [APPLIED]
    row = found(bench)
    assert row == new._replace(schedule_key=row.schedule_key)
    assert row.schedule_key > 0


@case
def schedules_are_listed_by_key_page_by_page(bench: Bench) -> None:
    for key in ("b", "a", "B", "ä", "c"):
        define(bench, key)
    bench.store.change_schedules([ScheduleChange(schedule("elsewhere", namespace="other"))])
    assert [row.key for row in bench.store.list_schedules()] == ["B", "a", "b", "c", "ä"]
    assert [row.key for row in bench.store.list_schedules("", "a", 2)] == ["b", "c"]
    assert [row.key for row in bench.store.list_schedules("other")] == ["elsewhere"]


@case
def a_change_is_conditional_on_what_was_seen(bench: Bench) -> None:
    seen = define(bench)
    assert bench.store.change_schedules([fired(seen)]) == [APPLIED]
    now = found(bench)
    late = fired(seen, NOON + HOUR)
    assert bench.store.change_schedules([late]) == [STALE]
    assert found(bench) == now
    assert bench.store.get_run(late.runs[0].run_id) is not None
    assert bench.store.get_run(late.runs[1].run_id) is None
    assert bench.store.change_schedules([ScheduleChange(schedule())]) == [STALE]
    assert bench.store.change_schedules([ScheduleChange(schedule("other", change=2))]) == [STALE]
    assert bench.store.get_schedule("other") is None


@case
def a_change_that_is_sent_again_was_made_already(bench: Bench) -> None:
    new = ScheduleChange(schedule())
    assert bench.store.change_schedules([new]) == [APPLIED]
    assert bench.store.change_schedules([new]) == [ALREADY]
    change = fired(found(bench))
    assert bench.store.change_schedules([change]) == [APPLIED]
    row, log = found(bench), bench.store.list_occurrences(found(bench).schedule_key)
    assert bench.store.change_schedules([change]) == [ALREADY]
    assert (found(bench), bench.store.list_occurrences(row.schedule_key)) == (row, log)


@case
def firing_creates_the_runs_and_says_so_in_one_go(bench: Bench) -> None:
    row = define(bench)
    change = fired(row, NOON + HOUR)
    assert bench.store.change_schedules([change], now=NOON + HOUR) == [APPLIED]
    after = found(bench)
    ids = ["hourly@2030-01-01T12:00:00Z", "hourly@2030-01-01T13:00:00Z"]
    assert (after.watermark, after.next_at, after.recorded, after.change) == (NOON + HOUR, NOON + 2 * HOUR, 2, 2)
    assert sorted(names(after.active)) == ids
    assert bench.store.list_occurrences(row.schedule_key) == [
        Occurrence(OccurrenceKind.STARTED, at, at, 1, NOON + HOUR, run_id)
        for at, run_id in zip((NOON + HOUR, NOON), reversed(ids), strict=True)
    ]
    claims = bench.claim(bench.worker(), now=NOON + HOUR)
    assert [claim.row.run_id for claim in claims] == ids
    assert (claims[0].events[0].payload, claims[0].events[0].args) == (b'"input"', change.runs[0].origin)


@case
def of_a_change_that_cannot_be_written_nothing_is(bench: Bench) -> None:
    rows = [define(bench, key) for key in ("a", "b", "c")]
    changes = [fired(row) for row in rows]
    bad = changes[1]._replace(row=changes[1].row._replace(watermark=1 << 70))
    assert bench.store.change_schedules([changes[0], bad, changes[2]]) == [APPLIED, BAD, APPLIED]
    assert found(bench, "b") == rows[1]
    assert bench.store.get_run(bad.runs[0].run_id) is None
    assert bench.store.change_schedules([changes[1]]) == [APPLIED]


@case
def what_is_due_comes_earliest_first_page_by_page(bench: Bench) -> None:
    for number, key in enumerate(("third", "first", "second", "later")):
        define(bench, key, next_at=NOON + (3, 1, 2, 4)[number])
    define(bench, "foreign", workflow="other")
    define(bench, "never", next_at=None)
    assert due(bench.store, NOON) == []
    assert due(bench.store, NOON + 3) == ["first", "second", "third"]
    assert due(bench.store, NOON + 3, limit=2) == ["first", "second"]
    second = found(bench, "second")
    assert due(bench.store, NOON + 3, after=(NOON + 2, second.schedule_key)) == ["third"]
    assert bench.store.due_schedules([], now=NOON + 3) == []
    routes = [ROUTE, Route("other"), Route("nobody")]
    assert [row.key for row in bench.store.due_schedules(routes, now=NOON + 1)] == ["foreign", "first"]


@case
def schedules_of_one_instant_all_come(bench: Bench) -> None:
    bench.store.change_schedules([ScheduleChange(schedule(f"s{number:03}")) for number in range(150)])
    seen: list[str] = []
    after: tuple[int, int] | None = None
    while page := bench.store.due_schedules([ROUTE], after=after, limit=40, now=NOON):
        seen += [row.key for row in page]
        after = (NOON, page[-1].schedule_key)
    assert sorted(seen) == [f"s{number:03}" for number in range(150)]


@case
def the_next_firing_is_the_earliest(bench: Bench) -> None:
    assert bench.store.next_firing([ROUTE]) == NextFiring(None, waits=False)
    assert bench.store.next_firing([]) == NextFiring(None, waits=False)
    define(bench, "b", next_at=NOON + 2)
    define(bench, "a", next_at=NOON + 1)
    define(bench, "foreign", next_at=NOON, workflow="other")
    assert bench.store.next_firing([ROUTE]) == NextFiring(NOON + 1, waits=False)
    assert bench.store.next_firing([ROUTE, Route("other")]) == NextFiring(NOON, waits=False)
    assert bench.store.next_firing([ROUTE], after=NOON + 1) == NextFiring(NOON + 2, waits=False)
    assert bench.store.next_firing([ROUTE], after=NOON + 2) == NextFiring(None, waits=False)


@case
def what_waits_for_runs_comes_when_all_have_ended(bench: Bench) -> None:
    one, two = bench.hold("one"), bench.hold("two")
    define(bench, waiting=listed([NOON]), active=listed(["one", "two", "purged"]), next_at=NOON + HOUR)
    assert bench.store.next_firing([ROUTE]) == NextFiring(NOON + HOUR, waits=True)
    assert due(bench.store) == []
    assert sorted(names(found(bench).active)) == ["one", "two"]
    assert one.commit(one.end(Status.FAILED)) == [APPLIED]
    assert two.commit(two.end(Status.BLOCKED)) == [APPLIED]
    assert bench.store.next_firing([ROUTE]) == NextFiring(NOON + HOUR, waits=True)
    assert names(found(bench).active) == ["two"]
    bench.store.request_cancel(two.key, "enough")
    assert bench.store.next_firing([ROUTE]) == NextFiring(0, waits=True)
    assert bench.store.next_firing([ROUTE], after=NOON) == NextFiring(NOON + HOUR, waits=True)
    assert due(bench.store) == ["hourly"]
    assert due(bench.store, NOON + HOUR) == ["hourly"]


@case
def a_schedule_that_is_paused_or_removed_does_not_come(bench: Bench) -> None:
    for state in (ScheduleState.PAUSED, ScheduleState.REMOVED):
        row = define(bench, state.name, waiting=listed([NOON]))
        assert due(bench.store) == [state.name]
        changed = stamped(row, os.urandom)._replace(state=state, next_at=None)
        assert bench.store.change_schedules([ScheduleChange(changed)]) == [APPLIED]
        assert due(bench.store) == []
        assert bench.store.next_firing([ROUTE]) == NextFiring(None, waits=False)
        assert found(bench, state.name).state == state
    assert [row.key for row in bench.store.list_schedules()] == ["PAUSED"]


@case
def an_occurrence_whose_id_is_taken_is_skipped(bench: Bench) -> None:
    taken = bench.create("hourly@2030-01-01T12:00:00Z", payload=b'"other"')
    row = define(bench)
    assert bench.store.change_schedules([fired(row, NOON + HOUR)]) == [APPLIED]
    assert names(found(bench).active) == ["hourly@2030-01-01T13:00:00Z"]
    started, skipped = bench.store.list_occurrences(row.schedule_key)
    assert (started.kind, started.run_id) == (OccurrenceKind.STARTED, "hourly@2030-01-01T13:00:00Z")
    assert (skipped.kind, skipped.run_id) == (OccurrenceKind.SKIPPED, None)
    assert taken.run_id in str(skipped.reason)
    assert len(bench.log(taken.run_key)) == 1


@case
def runs_in_the_way_are_cancelled_with_the_change(bench: Bench) -> None:
    pending, held = bench.create("pending"), bench.hold("held")
    row = define(bench, active=listed(["pending", "held", "purged"]))
    change = ScheduleChange(stamped(row, os.urandom), cancel=("pending", "held", "purged"))
    assert bench.store.change_schedules([change]) == [APPLIED]
    assert bench.row(pending.run_key).status is Status.CANCELLED
    assert [key for key, _, _ in bench.store.unread(held.worker)] == [held.key]
    assert names(found(bench).active) == ["held"]


@case
def of_what_became_of_occurrences_the_latest_are_kept(bench: Bench) -> None:
    row = define(bench)
    for first in range(0, 2 * KEPT, KEPT // 2):
        row = found(bench)
        skips = tuple(
            Occurrence(OccurrenceKind.SKIPPED, at, at + 1, 2, NOON, None, "why")
            for at in range(first, first + KEPT // 2)
        )
        assert bench.store.change_schedules([ScheduleChange(stamped(row, os.urandom), skips)]) == [APPLIED]
    assert found(bench).recorded == 2 * KEPT
    kept = bench.store.list_occurrences(row.schedule_key)
    assert [one.first for one in kept] == list(range(2 * KEPT - 1, KEPT - 1, -1))
    assert kept[0] == Occurrence(OccurrenceKind.SKIPPED, 2 * KEPT - 1, 2 * KEPT, 2, NOON, None, "why")
    assert len(bench.store.list_occurrences(row.schedule_key, 3)) == 3


@case
def a_fault_is_noted_until_the_next_change(bench: Bench) -> None:
    row = define(bench)
    bench.store.fault_schedule(row.schedule_key, "no zone \0")
    faulty = found(bench)
    assert "no zone" in str(faulty.fault)
    assert faulty._replace(fault=None) == row
    assert bench.store.change_schedules([fired(row)]) == [APPLIED]
    assert found(bench).fault is None


@case
def a_large_input_is_kept_with_its_schedule(bench: Bench) -> None:
    data = b'"' + b"x" * 200_000 + b'"'
    artifact = Artifact(sha256(data).digest(), len(data), data)
    new = schedule(codec=REFERENCE, payload=artifact.hash)
    assert bench.store.change_schedules([ScheduleChange(new, artifacts=(artifact,))]) == [APPLIED]
    assert bench.store.get_artifact(artifact.hash) == data
    assert bench.store.change_schedules([fire(found(bench), NOON, os.urandom, [artifact])]) == [APPLIED]
    (claim,) = bench.claim(bench.worker(), now=NOON)
    assert (claim.events[0].codec, claim.events[0].payload) == (REFERENCE, artifact.hash)


@case
def of_many_who_fire_at_once_one_does(bench: Bench) -> None:
    keys = [f"s{number:02}" for number in range(20)]
    bench.store.change_schedules([ScheduleChange(schedule(key)) for key in keys])
    stores = [bench.store, bench.store, bench.open(), bench.open()]

    def fire_all(store: Store, last: int) -> list[tuple[str, int]]:
        won: list[tuple[str, int]] = []
        for now in range(NOON, last + 1, HOUR):
            while rows := store.due_schedules([ROUTE], now=now):
                changes = [fired(row, now) for row in rows]
                verdicts = store.change_schedules(changes, now=now)
                for change, verdict in zip(changes, verdicts, strict=True):
                    if verdict is APPLIED:
                        won += [(change.row.key, record.first) for record in change.occurrences]
        return won

    last = NOON + 5 * HOUR
    counted = Counter(one for won in at_once([partial(fire_all, store, last) for store in stores]) for one in won)
    assert set(counted.values()) == {1}
    assert sorted(counted) == [(key, at) for key in keys for at in range(NOON, last + 1, HOUR)]
    for key in keys:
        assert len(names(found(bench, key).active)) == 6


@case
def of_many_who_define_it_at_once_one_does(bench: Bench) -> None:
    stores = [bench.store, bench.store, bench.open(), bench.open()]
    verdicts = at_once([partial(store.change_schedules, [ScheduleChange(schedule())]) for store in stores])
    assert sorted(verdict for (verdict,) in verdicts) == [APPLIED, STALE, STALE, STALE]


@case
def another_handle_hears_of_a_new_schedule(bench: Bench) -> None:
    other = bench.open()
    other.changed()
    define(bench)
    assert soon(other.changed)
    assert due(other) == ["hourly"]
