"""Numbers of runs, buckets of time, places in lists."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import DefinitionError
from perdure.model.counting import Counted, Sampled, counts, edges, latency, traffic_of
from perdure.model.places import TOP, Place, cursor_of, place_at
from perdure.model.records import Status
from perdure.store.listing import beyond

PLACES = st.builds(Place, st.integers(0, 2**63 - 1), st.integers(1, 2**63 - 1))


@given(PLACES, st.booleans())
def test_a_cursor_stands_for_its_place_and_can_be_put_into_a_url(place, by_end):
    cursor = cursor_of(place, by_end=by_end)
    assert place_at(cursor, by_end=by_end) == place <= TOP
    assert cursor.isascii()
    assert cursor.replace("-", "").isalnum()
    with pytest.raises(DefinitionError):
        place_at(cursor, by_end=not by_end)


@given(st.one_of(st.text(max_size=20), st.from_regex(r"[cex]-?[0-9a-gA]{1,18}-[0-9a-g]{0,18}", fullmatch=True)))
def test_what_is_no_cursor_is_refused_and_what_is_one_is_written_in_one_way(text):
    try:
        place = place_at(text, by_end=text.startswith("e"))
    except DefinitionError:
        return
    assert cursor_of(place, by_end=text.startswith("e")) == text


@given(st.text(min_size=1, max_size=5), st.text(max_size=5))
def test_what_begins_so_is_from_the_prefix_to_what_is_beyond_it_and_nothing_else_is(prefix, other):
    assert prefix <= prefix + other < beyond(prefix)
    assert (prefix <= other < beyond(prefix)) is other.startswith(prefix)


@given(st.integers(0, 10**16), st.integers(1, 10**16), st.integers(1, 1000))
def test_buckets_are_of_one_length_and_leave_nothing_out(since, length, number):
    bounds = edges(since, since + length, number)
    widths = [high - low for low, high in pairwise(bounds)]
    assert (bounds[0], bounds[-1]) == (since, since + length)
    assert 1 <= len(widths) <= number
    assert len(set(widths[:-1])) <= 1
    assert 0 < widths[-1] <= widths[0]


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(taken):
    found = latency(taken, max(taken))
    assert found is not None
    for percent, value in ((50, found.p50), (95, found.p95)):
        at_most = [one for one in taken if one / 1e6 <= value]
        assert len(at_most) * 100 >= percent * len(taken)
        assert sum(1 for one in at_most if one / 1e6 < value) * 100 < percent * len(taken)
    assert latency([], 0) is None


def test_numbers_are_summed_up_by_status_and_by_workflow():
    found = counts([
        Counted("b", Status.FAILED, 2), Counted("a", Status.PENDING, 1), Counted("b", Status.PENDING, 4),
        Counted("c", Status.RUNNING, 0),
    ])  # fmt: skip
    assert found.by_status == {Status.PENDING: 5, Status.FAILED: 2}
    assert found.by_workflow == {"a": {Status.PENDING: 1}, "b": {Status.PENDING: 4, Status.FAILED: 2}}
    assert (found.total, found.exact) == (7, True)


def test_traffic_says_whether_its_percentiles_are_of_all_runs():
    whole = Sampled(3, {Status.COMPLETED: 1, Status.CANCELLED: 5}, [(2_000_000, 1_000_000)], (2_000_000, 1_000_000))
    part = whole._replace(ended={Status.COMPLETED: 1, Status.FAILED: 1})
    found = traffic_of([0, 10, 20], [whole, whole])
    assert found.exact
    one = found.buckets[0]
    assert (one.created, one.completed, one.failed, one.cancelled) == (3, 1, 0, 5)
    assert one.latency is not None
    assert (one.latency.p95, one.latency.max) == (2, 2)
    assert one.execution is not None
    assert one.execution.p50 == 1
    assert not traffic_of([0, 10, 20], [whole, part]).exact
