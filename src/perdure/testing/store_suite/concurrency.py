"""Many at once: of what only one may do, exactly one does it."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

from collections import Counter
from functools import partial
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.model.records import CommitItem, Status, Verdict
from perdure.testing.store_suite.bench import ROUTE, Bench, Holder, case

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


def at_once(functions: Sequence[Callable[[], T]]) -> list[T]:
    """Call functions in threads that start together; their results, or the first error of any."""
    barrier = Barrier(len(functions))
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def call(number: int, function: Callable[[], T]) -> None:
        barrier.wait(30)
        try:
            results[number] = function()
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread that asked
            errors.append(error)

    threads = [Thread(target=call, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error
    return [results[number] for number in range(len(functions))]


@case
def every_run_is_claimed_by_one_worker(bench: Bench) -> None:
    bench.create_many(120)
    stores = [bench.store, bench.store, bench.open(), bench.open()]
    workers = [bench.worker(store) for store in stores]

    def claim_all(number: int) -> list[int]:
        found: list[int] = []
        while claims := stores[number].claim_runs(workers[number], [ROUTE], 7):
            found += [claim.row.run_key for claim in claims]
        return found

    found = at_once([partial(claim_all, number) for number in range(4)])
    counted = Counter(key for keys in found for key in keys)
    assert len(counted) == 120
    assert set(counted.values()) == {1}
    for worker, keys in zip(workers, found, strict=True):
        assert bench.store.held(worker).keys() == set(keys)


@case
def a_run_is_created_once(bench: Bench) -> None:
    stores = [bench.store, bench.store, bench.open(), bench.open()]
    batches = [[bench.new(f"run-{number}") for number in range(30)] for _ in stores]
    made = at_once([partial(store.create_runs, batch) for store, batch in zip(stores, batches, strict=True)])
    for runs in zip(*made, strict=True):
        assert sum(created.is_new for created in runs) == 1
        assert len({created.row.run_key for created in runs}) == 1


@case
def a_dead_workers_runs_are_taken_once(bench: Bench) -> None:
    dead = bench.worker()
    keys = {bench.hold(f"run-{number}", dead).key for number in range(20)}
    stores = [bench.store, bench.open(), bench.open()]
    observers = [bench.worker(store) for store in stores]
    taken = at_once(
        [partial(store.reclaim, observer, [dead], cap=5) for store, observer in zip(stores, observers, strict=True)]
    )
    counted = Counter(reclaimed.run_key for done in taken for reclaimed in done)
    assert counted == Counter(keys)
    assert {bench.row(key).crashes for key in keys} == {1}


@case
def a_commit_and_a_reclaim_leave_one_truth(bench: Bench) -> None:
    other = bench.open()
    for number in range(20):
        held = bench.hold(f"run-{number}")
        observer = bench.worker(other)
        item = held.end()
        both: list[Callable[[], Any]] = [
            partial(held.commit, item), partial(other.reclaim, observer, [held.worker], cap=5),
        ]  # fmt: skip
        verdicts, taken = at_once(both)
        if verdicts == [Verdict.APPLIED]:
            assert taken == []
            assert bench.row(held.key).status is Status.COMPLETED
        else:
            assert verdicts == [Verdict.FENCED]
            assert len(taken) == 1
            assert bench.row(held.key).status is Status.RUNNING


@case
def a_cancel_and_an_ending_leave_one_truth(bench: Bench) -> None:
    other = bench.open()
    for number in range(20):
        held = bench.hold(f"run-{number}")
        item = held.end(inbox_seen=0)
        both: list[Callable[[], Any]] = [
            partial(held.commit, item), partial(other.request_cancel, held.key, "enough"),
        ]  # fmt: skip
        verdicts, told = at_once(both)
        assert (verdicts, told) in (([Verdict.APPLIED], Status.COMPLETED), ([Verdict.STALE], Status.RUNNING))


@case
def many_threads_commit_through_one_store(bench: Bench) -> None:
    holders = [bench.hold(f"run-{number}") for number in range(8)]

    def work(held: Holder) -> list[Verdict]:
        return [verdict for _ in range(25) for verdict in held.commit(held.steps())]

    assert at_once([partial(work, held) for held in holders]) == [[Verdict.APPLIED] * 25] * 8
    for held in holders:
        assert [event.seq for event in bench.log(held.key)] == list(range(1, 28))


@case
def one_item_sent_by_many_is_written_once(bench: Bench) -> None:
    held = bench.hold()
    item = held.steps(3)
    stores = [bench.store, bench.open(), bench.open()]
    verdicts = at_once([partial(store.commit, [item]) for store in stores])
    assert sorted(verdict for (verdict,) in verdicts) == [Verdict.APPLIED, Verdict.ALREADY, Verdict.ALREADY]
    empty = CommitItem(held.key, held.epoch, [])
    assert held.commit(empty) == [Verdict.APPLIED]
