"""Timelines: what was when, by what a log says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perdure.gantt import Scale
from perdure.model import payloads
from perdure.model.records import Event, Kind
from perdure.model.timeline import LANES, Timeline

SECOND = 1_000_000


def log(*events):
    """A log of kinds at seconds; more as keywords of the event."""
    made = []
    for seq, (at, kind, *more) in enumerate(events, 1):
        fields = more[0] if more else {}
        base = Event(1, seq, round(at * SECOND), 1, kind, None, None, None, 0, None, None, b"")
        made.append(base._replace(**fields))
    return made


def told(line, key):
    return [
        (one.kind, one.start / SECOND, None if one.end is None else one.end / SECOND, one.outcome)
        for one in line.lanes[key].spans
    ]


def test_attempts_backoffs_waits_and_holds_are_spans():
    line = Timeline()
    step = {"key": "charge#1", "attempt": 1}
    line.feed(
        log(
            (0, Kind.RUN_CREATED),
            (1, Kind.RUN_CLAIMED, {"payload": payloads.note(pid=7)}),
            (1.1, Kind.STEP_STARTED, step),
            (2, Kind.STEP_FAILED, {**step, "took": SECOND, "payload": payloads.failed(b"{}", next_at=5 * SECOND)}),
            (2, Kind.RUN_SUSPENDED, {"payload": payloads.note(status="retrying", wake_at=5 * SECOND)}),
            (5, Kind.RUN_CLAIMED, {"payload": payloads.note(pid=8)}),
            (6, Kind.STEP_COMPLETED, {"key": "charge#1", "attempt": 2, "took": SECOND}),
            (9, Kind.TIMER_FIRED, {"key": "@timer#1"}),
            (9.5, Kind.CHILD_STARTED, {"key": "bill#1"}),
            (9.7, Kind.STEP_STARTED, {"key": "pack#1", "attempt": 1}),
            (10, Kind.RUN_RECLAIMED),
            (11, Kind.RUN_CLAIMED),
            (12, Kind.CHILD_ENDED, {"key": "bill#1", "args": payloads.note(status="failed")}),
            (13, Kind.RUN_FAILED),
        )
    )
    assert told(line, "charge#1") == [
        ("attempt", 1, 2, "failed"),
        ("backoff", 2, 5, ""),
        ("attempt", 5, 6, "completed"),
    ]
    assert told(line, "@timer#1") == [("timer", 6, 9, "completed")]
    assert told(line, "bill#1") == [("child", 9.5, 12, "failed")]
    assert told(line, "pack#1") == [("attempt", 9.7, 10, "interrupted")]
    assert [(one.kind, one.start // SECOND, one.end // SECOND, one.pid) for one in line.run] == [
        ("pending", 0, 1, None),
        ("running", 1, 2, 7),
        ("retrying", 2, 5, None),
        ("running", 5, 10, 8),
        ("pending", 10, 11, None),
        ("running", 11, 13, None),
    ]
    assert [word for _, word in line.marks] == ["run_reclaimed"]


kinds = st.sampled_from([kind for kind in Kind if kind is not Kind.RUN_SUSPENDED])


@given(st.lists(st.tuples(kinds, st.sampled_from("abc"), st.integers(0, 5)), max_size=40), st.integers(0, 40))
def test_any_log_gives_spans_in_order_however_it_is_cut(entries, cut):
    at, events = 0, []
    for seq, (kind, key, pause) in enumerate(entries, 1):
        at += pause * SECOND
        events.append(Event(1, seq, at, 1, kind, key, 1, None, 0, None, None, b""))
    whole, parted = Timeline(), Timeline()
    whole.feed(events)
    parted.feed(events[:cut])
    parted.feed(events[cut:])
    assert whole == parted
    for one in [*whole.run, *(span for lane in whole.lanes.values() for span in lane.spans)]:
        assert one.end is None or one.start <= one.end <= at
    ends = [one.end for one in whole.run]
    assert all(end is not None for end in ends[:-1])


def test_of_long_logs_the_latest_lanes_are_kept():
    line = Timeline()
    line.feed(log(*((n, Kind.STEP_COMPLETED, {"key": f"s#{n}", "took": 1}) for n in range(LANES + 5))))
    assert line.omitted == 5
    assert next(iter(line.lanes)) == "s#5"


spans = st.tuples(st.integers(0, 10**9), st.integers(1, 10**12)).map(lambda one: (one[0], one[0] + one[1]))


@given(st.lists(spans, max_size=8), st.lists(st.integers(0, 2 * 10**12), min_size=2, max_size=9))
def test_later_is_further_right_and_nothing_leaves_the_line(active, instants):
    start, end = 0, max((to for _, to in active), default=1)
    scale = Scale(active, start, end)
    places = [scale.at(one) for one in sorted(instants)]
    assert places == sorted(places)
    assert all(-1e-6 <= place <= 100 + 1e-6 for place in places)
    assert scale.at(start) == 0
    assert abs(scale.at(end) - 100) < 1e-6


def test_what_was_executed_is_seen_however_long_the_run_slept():
    fortnight = 14 * 86400 * SECOND
    scale = Scale([(0, SECOND), (fortnight, fortnight + SECOND)], 0, fortnight + SECOND)
    assert scale.at(SECOND) > 35
    assert scale.at(fortnight) < 65
    assert [piece.is_break for piece in scale.pieces] == [False, True, False]
