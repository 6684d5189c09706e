"""What became of runs lately is told as the store would tell it, though it is asked for little of that."""

from __future__ import annotations

import os

import pytest

from perdure.model.records import NewRun
from perdure.store.open import open_store
from perdure.store.protocol import Filter
from perdure.testing import ManualClock
from perdure.web.lately import BUCKETS, FRESH, WINDOWS, Lately

SECOND = 1_000_000


@pytest.mark.parametrize("steps", [[7, 61, 1, 59, 3600, 30, 14, 2, 7200, 5]], ids=["unevenly"])
def test_what_is_kept_is_what_the_store_says(path, steps):
    clock = ManualClock()
    lately, asked = Lately(), []
    with open_store(path, create=False, clock=clock) as store:
        traffic = store.traffic

        def counting(since, until, buckets, **options):
            asked.append(buckets)
            return traffic(since, until, buckets, **options)

        store.traffic = counting
        for number, seconds in enumerate(steps):
            run = NewRun(f"run {number}", os.urandom(16), "greet", "1", store.now(), 0, b"1", b"{}")
            (made,) = store.create_runs([run])
            clock.advance(seconds)
            store.request_cancel(made.row.run_key, "", force=True)
            for window in WINDOWS:
                told = lately.of(store, "", None, window)
                assert told == Lately().of(store, "", None, window), (number, window)
                assert len(told["buckets"]) == BUCKETS
            assert sum(one["cancelled"] for one in told["buckets"]) == number + 1
    # Every second look is that of one who knows nothing.
    assert sum(asked[::2]) < sum(asked[1::2]) / 3


def test_what_is_many_is_counted_once_in_a_while_and_what_is_few_each_time(path):
    clock = ManualClock()
    clock.advance(1)
    lately, exact = Lately(clock, many=2), Lately(clock)
    with open_store(path, create=False, clock=clock) as store:

        def seen(one):
            told = one.of(store, "", None, "1h")
            found = sum(number.number for number in one.count(store, Filter(), None))
            return found, sum(bucket["created"] for bucket in told["buckets"])

        for number, first in enumerate([1, 2, 2, 2], 1):
            run = NewRun(f"run {number}", os.urandom(16), "greet", "1", store.now(), 0, b"1", b"{}")
            store.create_runs([run])
            assert seen(lately) == (first, first)
            assert seen(exact) == (number, number)
        clock.lapse(FRESH)
        assert seen(lately) == (4, 4)
        store.create_runs([NewRun("run 5", os.urandom(16), "greet", "1", store.now(), 0, b"1", b"{}")])
        lately.forget()
        assert seen(lately) == (5, 5)
