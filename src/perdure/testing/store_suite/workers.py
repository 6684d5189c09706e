"""Workers: registered, renewed, retired, and judged by the others."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

from perdure.testing.store_suite.bench import SECOND, Bench, case


@case
def a_registered_worker_is_listed_and_renewed(bench: Bench) -> None:
    key = bench.worker()
    (row,) = bench.store.list_workers()
    assert (row.worker_key, row.beat, row.stopped, row.suspect) == (key, 1, False, None)
    assert bench.store.renew(key, 30 * SECOND, 2)
    assert bench.store.list_workers()[0].beat == 2
    assert not bench.store.renew(key + 1, 30 * SECOND, 1)


@case
def a_longer_lease_ends_later(bench: Bench) -> None:
    key = bench.worker()
    assert bench.store.renew(key, 10 * SECOND, 2)
    short = bench.store.list_workers()[0].lease_until
    assert bench.store.renew(key, 1000 * SECOND, 3)
    assert bench.store.list_workers()[0].lease_until - short >= 900 * SECOND


@case
def a_retired_worker_is_gone_once_it_holds_nothing(bench: Bench) -> None:
    idle, held = bench.worker(), bench.hold()
    for key in (idle, held.worker):
        bench.store.retire_worker(key)
        assert not bench.store.renew(key, 30 * SECOND, 5)
    assert [worker.worker_key for worker in bench.store.list_workers()] == [held.worker]
    bench.store.release(held.worker, [held.key])
    bench.store.retire_worker(held.worker)
    assert bench.store.list_workers() == []


@case
def the_living_are_not_dead(bench: Bench) -> None:
    observer, other, elsewhere = bench.worker(), bench.worker(), bench.worker(bench.open())
    bench.hold("one", other)
    for _ in range(5):
        assert bench.store.dead_workers(observer, grace=1) == []
    assert elsewhere != other


@case
def a_worker_that_retired_with_runs_in_hand_is_dead_to_the_others(bench: Bench) -> None:
    observer, held = bench.worker(), bench.hold()
    bench.store.retire_worker(held.worker)
    assert bench.store.dead_workers(observer, grace=SECOND) == [held.worker]


@case
def nobody_is_dead_to_itself(bench: Bench) -> None:
    held = bench.hold()
    bench.store.retire_worker(held.worker)
    assert bench.store.dead_workers(held.worker, grace=1) == []
