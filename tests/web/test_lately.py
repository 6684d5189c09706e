"""What became of runs lately is told as the store would tell it, though it is asked for little of that."""

from __future__ import annotations

import os

import pytest

from perdure.model.records import NewRun
from perdure.store.open import open_store
from perdure.testing import ManualClock
from perdure.web.lately import BUCKETS, WINDOWS, Lately

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
