"""What the limits of a queue let through, held against what they say."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from perdure.model.builds import is_superseded
from perdure.model.queues import (
    Gate,
    Held,
    Limits,
    QueueRow,
    Ready,
    admitted,
    merged,
    next_turn,
    opens_at,
)

LIMIT = st.none() | st.integers(1, 4)
KEYS = st.none() | st.sampled_from(["a", "b", "c", "d"])
HELD = st.lists(st.builds(Held, st.integers(1, 3), KEYS, st.integers(1, 3)), max_size=4)
READY = st.lists(
    st.builds(Ready, st.integers(0, 9), st.integers(1, 999), KEYS, st.booleans(), st.none()),
    max_size=12,
    unique_by=lambda one: one.run_key,
)
ROWS = st.builds(
    lambda c, w, p, s, paused, turn: QueueRow(1, "", "q", Limits(c, w, p, s, s and 10), paused=paused, turn=turn),
    LIMIT, LIMIT, LIMIT, LIMIT, st.booleans(), st.sampled_from(["", "a", "b", "d", "z"]),
)  # fmt: skip


@given(ROWS, HELD, st.integers(0, 5), READY)
def test_no_limit_is_ever_passed_and_none_is_left_unused(row, held, begun, ready):
    chosen = admitted(Gate(row, 1, held, begun), ready)
    limits = row.limits
    total, mine = sum(one.runs for one in held), sum(one.runs for one in held if one.worker_key == 1)
    parts = Counter({one.partition: 0 for one in ready})
    for one in held:
        parts[one.partition] += one.runs
    parts.update(one.partition for one in chosen)
    new = sum(one.is_new for one in chosen)

    def passes(one):
        return (
            not row.paused
            and (limits.concurrency is None or total + len(chosen) < limits.concurrency)
            and (limits.per_worker is None or mine + len(chosen) < limits.per_worker)
            and (limits.per_partition is None or one.partition is None or parts[one.partition] < limits.per_partition)
            and (limits.starts is None or not one.is_new or begun + new < limits.starts)
        )

    if chosen:
        assert not row.paused
        assert limits.concurrency is None or total + len(chosen) <= limits.concurrency
        assert limits.per_worker is None or mine + len(chosen) <= limits.per_worker
        assert limits.starts is None or new == 0 or begun + new <= limits.starts
        for one in chosen:
            fits = limits.per_partition is None or one.partition is None
            assert fits or parts[one.partition] <= limits.per_partition
    keys = {one.run_key for one in chosen}
    assert [one for one in ready if one.run_key not in keys and passes(one)] == []


@given(READY)
def test_without_partition_keys_the_order_is_that_of_ranks(ready):
    chosen = admitted(Gate(QueueRow(1, "", "q", Limits(concurrency=3)), 1, [], 0), ready)
    assert [one.run_key for one in chosen] == [
        one.run_key for one in sorted(ready, key=lambda one: (one.rank, one.run_key))[:3]
    ]


@given(READY, st.sampled_from(["", "a", "b", "d", "z"]), st.integers(1, 12))
def test_in_turn_no_key_is_served_twice_before_each_that_waits_is_served(ready, turn, room):
    row = QueueRow(1, "", "q", Limits(concurrency=room, per_partition=100), turn=turn)
    chosen = admitted(Gate(row, 1, [], 0), ready)
    served = Counter(one.partition for one in chosen)
    waiting = Counter(one.partition for one in ready) - served
    for key in waiting:
        assert all(times <= served[key] + 1 for times in served.values())
    if chosen and len(served) > 1:
        first = [one.partition or "" for one in chosen[: len(served)]]
        # From the key after the one that was served last, through all, and round.
        assert first == sorted(first, key=lambda key: (key <= turn, key))
    assert [one.rank for one in chosen] == sorted(one.rank for one in chosen)


def test_the_turn_is_that_of_the_key_served_last():
    row = QueueRow(1, "", "q", Limits(per_partition=1), turn="b")
    one = Ready(0, 1, "c", True, None)
    assert next_turn(row, [one, one._replace(partition="a")]) == "a"
    assert next_turn(row, [one, one._replace(partition=None)]) == "c"
    assert next_turn(row, []) == "b"
    assert next_turn(row._replace(limits=Limits(1)), [one]) == "b"


@given(st.lists(st.integers(0, 100), max_size=12), st.integers(1, 4), st.integers(1, 30))
def test_a_rate_opens_as_soon_as_no_period_would_have_too_many(asked, starts, period):
    """Runs are let begin whenever the rate is open, asked for at random: exact at each border."""
    limits = Limits(starts=starts, period=period)
    begun: list[int] = []
    for now in sorted(asked):
        opens = opens_at(limits, sorted(begun, reverse=True), now)
        within = sum(at > now - period for at in begun)
        assert (opens is None) == (within < starts)
        if opens is None:
            begun.append(now)
        else:
            assert sum(at > opens - period for at in begun) < starts
            assert sum(at > opens - 1 - period for at in begun) >= starts
    for at in begun:
        assert sum(at <= other < at + period for other in begun) <= starts


def test_several_queues_are_merged_by_rank():
    one = Ready(1, 1, None, True, None)
    assert [
        r.run_key for r in merged({1: [one, one._replace(rank=5, run_key=2)], 2: [one._replace(rank=3, run_key=3)]}, 2)
    ] == [1, 3]


def test_an_older_build_does_not_take_a_definition_back():
    old = QueueRow(1, "", "q", build="b", since=20)
    assert is_superseded(old, old._replace(build="a", since=10))
    assert not is_superseded(old, old._replace(build="c", since=30))
    assert not is_superseded(old, old._replace(since=10))
