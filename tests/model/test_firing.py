"""What is decided about occurrences: each once, whatever the policy, however late."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import DefinitionError
from perdure.model import cadence, defining, firing
from perdure.model.cadence import Interval, jittered
from perdure.model.defining import Defined
from perdure.model.firing import AT_ONCE, QUEUED, decide, due, fire
from perdure.model.schedules import (
    MANY,
    OVERLAPS,
    OccurrenceKind,
    Policy,
    ScheduleRow,
    ScheduleState,
    decode_policy,
    listed,
    names,
    numbers,
)

SECOND, MINUTE, HOUR, DAY = 10**6, 60 * 10**6, 3600 * 10**6, 86400 * 10**6
NOON = 1_893_499_200_000_000


def row(when=None, policy=None, **changes):
    made = ScheduleRow(
        schedule_key=1, namespace="", key="k", workflow="w", version="1", queue="", state=ScheduleState.ACTIVE,
        change=1, token=b"t", revision=0, build="b", since=NOON, created_at=NOON, watermark=NOON, next_at=None,
        cadence=(when or Interval(HOUR, NOON + HOUR)).encode(), policy=(policy or Policy()).encode(), origin=b'{"w":1}',
        codec=0, payload=b"1", waiting="[]", active="[]", recorded=0, fault=None,
    )._replace(**changes)  # fmt: skip
    if made.state == ScheduleState.ACTIVE and "next_at" not in changes:
        made = made._replace(next_at=due(made, cadence.decode(made.cadence), decode_policy(made.policy)))
    return made


def parts(made):
    return cadence.decode(made.cadence), decode_policy(made.policy)


def reasons(change):
    return [(record.first, record.last, record.times, record.reason) for record in change.occurrences if record.reason]


policies = st.builds(
    Policy,
    overlap=st.sampled_from(OVERLAPS),
    catch_up=st.integers(SECOND, 5 * HOUR),
    jitter=st.sampled_from([0, 1, MINUTE, 7 * MINUTE]),
)
cadences = st.one_of(
    st.builds(Interval, st.integers(7 * MINUTE, 3 * HOUR), st.integers(NOON, NOON + HOUR)),
    st.builds(
        cadence.Cron,
        st.sampled_from(["*/10 * * * *", "3,7 */2 * * *", "0 12-14 * * *"]),
        st.sampled_from(["UTC", "Asia/Kathmandu"]),
    ),
)


@given(cadences, policies, st.data())
def test_every_occurrence_is_decided_once_and_none_before_it_is_due(when, policy, data):
    """Through any looks at any instants, runs that end in between or not, clocks that go back."""
    now, made, active = NOON, row(when, policy), {}
    started, skipped = [], []
    for _ in range(data.draw(st.integers(1, 8))):
        now += data.draw(st.sampled_from([-HOUR, 0, 1, MINUTE, HOUR, 5 * HOUR, DAY]))
        for run_id in [run_id for run_id in active if data.draw(st.booleans())]:
            del active[run_id]
        made = made._replace(active=listed(list(active)))
        while True:
            before = made
            change = fire(made, now, os.urandom, ())
            made = change.row
            assert made.watermark >= before.watermark
            assert made.change == before.change + 1
            for run in change.runs:
                occurrence = json.loads(run.origin)["scheduled_at"]
                assert occurrence <= now or occurrence in numbers(before.waiting)
                active[run.run_id] = run
            made = made._replace(active=listed(list(active)))
            started += [record.first for record in change.occurrences if record.kind == OccurrenceKind.STARTED]
            skipped += [(one.first, one.last, one.times) for one in change.occurrences if one.reason is not None]
            if policy.overlap != "allow":
                assert len(change.runs) <= 1
                assert not change.runs or before.active == "[]"
            if made.next_at is None or made.next_at > now:
                break
    expected, at = [], NOON
    while (at := when.next(at)) is not None and at <= made.watermark:
        expected.append(at)
    spread = [one for first, last, _ in skipped for one in expected if first <= one <= last]
    assert all(times == sum(first <= one <= last for one in expected) for first, last, times in skipped)
    assert sorted([*started, *spread, *numbers(made.waiting)]) == expected
    # And all that is due is decided.
    following = when.next(made.watermark)
    assert made.next_at == (None if following is None else jittered("k", following, policy.jitter))
    if now >= made.watermark:
        assert made.next_at is None or made.next_at > now


def test_what_was_missed_by_more_than_the_window_is_skipped_as_one():
    made = row(policy=Policy(overlap="allow", catch_up=2 * HOUR))
    change = fire(made, NOON + 10 * HOUR + 5, os.urandom, ())
    assert reasons(change) == [(NOON + HOUR, NOON + 8 * HOUR, 8, firing.MISSED)]
    assert [run.run_id for run in change.runs] == ["k@2030-01-01T21:00:00Z", "k@2030-01-01T22:00:00Z"]


def test_what_is_exactly_as_late_as_the_window_is_started():
    made = row(policy=Policy(overlap="allow", catch_up=2 * HOUR))
    assert len(fire(made, NOON + 3 * HOUR, os.urandom, ()).runs) == 3
    assert reasons(fire(made, NOON + 3 * HOUR + 1, os.urandom, ())) == [(NOON + HOUR, NOON + HOUR, 1, firing.MISSED)]


def test_what_jitter_has_put_off_is_late_from_when_it_was_due():
    made = row(policy=Policy(overlap="allow", catch_up=HOUR, jitter=30 * MINUTE))
    first = "k@2030-01-01T13:00:00Z"
    assert fire(made, made.next_at + HOUR, os.urandom, ()).runs[0].run_id == first
    late = fire(made, made.next_at + HOUR + 1, os.urandom, ())
    assert first not in [run.run_id for run in late.runs]
    assert reasons(late)[0] == (NOON + HOUR, NOON + HOUR, 1, firing.MISSED)


class Counting:
    """A cadence that counts how often it is asked for the next occurrence."""

    def __init__(self, when):
        self.when, self.asked = when, 0

    def next(self, after):
        self.asked += 1
        return self.when.next(after)

    def latest(self, until):
        return self.when.latest(until)


@pytest.mark.parametrize(
    "when", [Interval(SECOND, NOON), cadence.Cron("* * * * * *", "Europe/Berlin")], ids=["interval", "cron"]
)
@pytest.mark.parametrize("overlap", OVERLAPS)
def test_a_century_of_missed_seconds_is_not_walked_through(when, overlap):
    now, counting = NOON + 100 * 365 * DAY, Counting(when)
    made = row(when, Policy(overlap=overlap, catch_up=99 * 365 * DAY))
    decision = decide(made, counting, decode_policy(made.policy), now)
    assert counting.asked <= AT_ONCE + 2
    assert decision.skipped[0][2] == firing.MISSED
    assert fire(made, now, os.urandom, ()).occurrences[0].times == MANY or isinstance(when, Interval)
    if overlap == "allow":
        assert len(decision.starts) == AT_ONCE
    else:
        assert len(decision.starts) == 1
        assert overlap == "queue" or decision.watermark == now


def test_skip_skips_while_a_run_goes_on():
    made = row(active=listed(["run"]))
    change = fire(made, NOON + HOUR, os.urandom, ())
    assert (change.runs, reasons(change)) == ((), [(NOON + HOUR, NOON + HOUR, 1, firing.OVERLAPPED)])
    change = fire(change.row._replace(active="[]"), NOON + 2 * HOUR, os.urandom, ())
    assert [run.run_id for run in change.runs] == ["k@2030-01-01T14:00:00Z"]


def test_queue_starts_one_after_the_other_and_no_more_than_so_many_wait():
    made = row(policy=Policy(overlap="queue", catch_up=DAY * 365), active=listed(["run"]))
    now = NOON + (QUEUED + 3) * HOUR
    change = fire(fire(made, now, os.urandom, ()).row, now, os.urandom, ())
    waiting = numbers(change.row.waiting)
    assert waiting == [NOON + number * HOUR for number in range(1, QUEUED + 1)]
    assert reasons(change) == [(NOON + (QUEUED + 1) * HOUR, now, 3, firing.FULL)]
    for left in range(QUEUED, 0, -1):
        change = fire(change.row._replace(active="[]"), now, os.urandom, ())
        assert [run.run_id for run in change.runs] == [firing.run_id("k", NOON + (QUEUED + 1 - left) * HOUR)]
        assert len(numbers(change.row.waiting)) == left - 1


def test_cancel_has_what_runs_give_way_and_starts_the_last():
    made = row(policy=Policy(overlap="cancel", catch_up=DAY), active=listed(["run"]))
    change = fire(made, NOON + HOUR, os.urandom, ())
    assert (change.cancel, change.runs, numbers(change.row.waiting)) == (("run",), (), [NOON + HOUR])
    # It is asked once for each occurrence, and what waited meanwhile gives way as well.
    assert fire(change.row, NOON + HOUR + 1, os.urandom, ()).cancel == ()
    change = fire(change.row, NOON + 3 * HOUR, os.urandom, ())
    assert change.cancel == ("run",)
    assert numbers(change.row.waiting) == [NOON + 3 * HOUR]
    assert [first for first, _, _, why in reasons(change) if why == firing.SUPERSEDED] == [NOON + HOUR, NOON + 2 * HOUR]
    change = fire(change.row._replace(active="[]"), NOON + 3 * HOUR + 1, os.urandom, ())
    assert [run.run_id for run in change.runs] == ["k@2030-01-01T15:00:00Z"]
    assert (change.cancel, change.row.waiting) == ((), "[]")


def test_jitter_puts_an_occurrence_off_but_does_not_rename_it():
    made = row(policy=Policy(jitter=30 * MINUTE))
    assert NOON + HOUR < made.next_at < NOON + 90 * MINUTE
    assert fire(made, made.next_at - 1, os.urandom, ()).runs == ()
    (run,) = fire(made, made.next_at, os.urandom, ()).runs
    assert run.run_id == "k@2030-01-01T13:00:00Z"
    assert json.loads(run.meta) == {"schedule": "k", "scheduled_at": NOON + HOUR}


def test_the_id_of_a_run_tells_parts_of_a_second_only_where_there_are_any():
    assert firing.run_id("k", NOON + 250_000) == "k@2030-01-01T12:00:00.250000Z"


def test_a_run_is_as_its_schedule_says():
    made = row(policy=Policy(priority=3, tags={"team": "ops"}), version="2", queue="q", namespace="n")
    (run,) = fire(made, NOON + HOUR, os.urandom, ()).runs
    assert (run.workflow, run.version, run.queue, run.namespace) == ("w", "2", "q", "n")
    assert (run.priority, run.payload, run.created_at) == (3, b"1", NOON + HOUR)
    assert json.loads(run.meta)["tags"] == {"team": "ops"}


# -- definitions


def define(old, new, now=NOON):
    return defining.define(old, new, now, os.urandom)


def test_a_new_schedule_begins_with_what_comes_next():
    came_to, change = define(None, row(next_at=None))
    assert came_to is Defined.NEW
    assert (change.row.change, change.row.next_at) == (1, NOON + HOUR)


def test_the_unchanged_schedule_keeps_its_phase():
    old = row()
    later = row(Interval(HOUR, NOON + 90 * MINUTE), created_at=NOON + 30 * MINUTE, watermark=NOON + 30 * MINUTE)
    assert define(old, later, NOON + 30 * MINUTE) == (Defined.SAME, None)


def test_another_input_is_taken_over_without_another_cadence():
    old = row()
    came_to, change = define(old, row(Interval(HOUR, NOON + 90 * MINUTE), payload=b"2"), NOON + 30 * MINUTE)
    assert came_to is Defined.CHANGED
    assert (change.row.payload, change.row.cadence, change.row.next_at) == (b"2", old.cadence, old.next_at)


def test_another_cadence_begins_anew_and_what_was_due_is_skipped():
    old, now = row(), NOON + 150 * MINUTE
    came_to, change = define(old, row(Interval(DAY, now + DAY)), now)
    assert came_to is Defined.CHANGED
    assert reasons(change) == [(NOON + HOUR, NOON + 2 * HOUR, 2, firing.REPLACED)]
    assert (change.row.watermark, change.row.next_at) == (now, now + DAY)


def test_another_cadence_does_not_lower_the_watermark():
    old = fire(row(), NOON + 2 * HOUR, os.urandom, ()).row
    change = define(old, row(Interval(MINUTE, NOON + MINUTE)), NOON)[1]
    assert change.row.watermark == NOON + 2 * HOUR
    assert change.row.next_at == NOON + 2 * HOUR + MINUTE


@given(
    st.booleans(), st.sampled_from([0, 1]), st.sampled_from([0, 1]), st.sampled_from("ab"), st.sampled_from("ab"),
    st.integers(0, 2), st.integers(0, 2),
)  # fmt: skip
def test_which_definition_holds(differ, old_revision, new_revision, old_build, new_build, old_since, new_since):
    """The higher revision; else the later one, unless an older build speaks again."""
    old = row(revision=old_revision, build=old_build, since=old_since)
    new = row(revision=new_revision, build=new_build, since=new_since, payload=b"2" if differ else b"1")
    came_to, change = define(old, new)
    is_older = new_revision < old_revision or (
        new_revision == old_revision and new_build != old_build and new_since < old_since
    )
    assert came_to is (Defined.SAME if not differ else Defined.OLDER if is_older else Defined.CHANGED)
    held = old if change is None else change.row
    assert held.payload == (b"2" if differ and not is_older else b"1")
    assert held.revision == max(old_revision, new_revision)
    assert held.build == (old_build if is_older else new_build)


def test_a_schedule_that_comes_back_decides_nothing_twice():
    old = fire(row(), NOON + 2 * HOUR, os.urandom, ()).row
    gone = defining.remove(old, NOON + 2 * HOUR, os.urandom).row
    assert (gone.state, gone.next_at, gone.payload) == (ScheduleState.REMOVED, None, b"")
    # Also where the clock has gone back meanwhile.
    back = define(gone, row(Interval(MINUTE, NOON + MINUTE)), NOON)[1].row
    assert back.next_at == NOON + 2 * HOUR + MINUTE
    assert (back.schedule_key, back.change, back.state) == (1, gone.change + 1, ScheduleState.ACTIVE)


def test_what_was_due_when_a_schedule_is_removed_is_skipped():
    made = row(waiting=listed([NOON]))
    change = defining.remove(made, NOON + 2 * HOUR, os.urandom)
    assert reasons(change) == [(NOON, NOON, 1, firing.REMOVED), (NOON + HOUR, NOON + 2 * HOUR, 2, firing.REMOVED)]


def test_a_paused_schedule_fires_nothing_and_goes_on_with_what_comes_next():
    paused = defining.pause(row(), os.urandom).row
    assert (paused.state, paused.next_at) == (ScheduleState.PAUSED, None)
    assert defining.pause(paused, os.urandom) is None
    # Who defines it again does not resume it.
    _, change = define(paused, row(payload=b"2"), NOON + 3 * HOUR)
    assert (change.row.state, change.row.next_at) == (ScheduleState.PAUSED, None)
    change = defining.resume(paused, NOON + 3 * HOUR, os.urandom)
    assert reasons(change) == [(NOON + HOUR, NOON + 3 * HOUR, 3, firing.PAUSED)]
    assert (change.row.state, change.row.next_at) == (ScheduleState.ACTIVE, NOON + 4 * HOUR)
    assert defining.resume(change.row, NOON, os.urandom) is None


def test_a_cadence_that_cannot_be_read_here_can_be_removed_paused_and_replaced():
    for damaged in (b"", b"[]", b"{}", b'{"cron":"* * * * *","tz":"No/Where","start":null,"end":null}'):
        made = row(next_at=NOON)._replace(cadence=damaged)
        with pytest.raises((DefinitionError, ValueError, LookupError, TypeError)):
            fire(made, NOON, os.urandom, ())
        assert defining.remove(made, NOON, os.urandom).row.state == ScheduleState.REMOVED
        assert defining.pause(made, os.urandom).row.state == ScheduleState.PAUSED
        assert define(made, row(), NOON + 1)[1].row.next_at == NOON + HOUR


def test_a_trigger_changes_nothing_of_the_cadence():
    made = row(active=listed(["run"]))
    change = firing.trigger(made, "k@trigger-1", NOON + 5, os.urandom, ())
    assert replace_change(change.row) == replace_change(made)
    assert [run.run_id for run in change.runs] == ["k@trigger-1"]
    assert json.loads(change.runs[0].origin)["scheduled_at"] == NOON + 5
    assert [record.kind for record in change.occurrences] == [OccurrenceKind.TRIGGERED]


def replace_change(made):
    return made._replace(change=0, token=b"")


def test_policies_are_decoded_as_they_were_encoded():
    policy = replace(Policy(), tags={"a": "b"}, overlap="queue")
    assert decode_policy(policy.encode()) == policy
    assert names(listed(["ä", "b"])) == ["ä", "b"]
