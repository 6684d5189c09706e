"""Forking: the beginning of a run's log becomes that of another run."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

import os
from contextlib import suppress
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any

from perdure.errors import IntegrityError, RunNotFound
from perdure.model import forking
from perdure.model.chain import check
from perdure.model.forking import Fork, Lineage
from perdure.model.payloads import note
from perdure.model.records import Kind, Status, Verdict
from perdure.store.protocol import PAGE, Filter
from perdure.testing.store_suite.bench import SECOND, Bench, case

if TYPE_CHECKING:
    from perdure.model.records import Created


def _order(bench: Bench, run_key: int, seq: int, run_id: str = "fork", **changes: Any) -> Fork:
    origin = bench.row(run_key)
    lineage = Lineage(origin.run_id, origin.uid, seq, "say#1", origin.uid)
    first = bench.store.read_events(run_key, 0, 1)[0]
    fork = Fork(run_key, seq, run_id, os.urandom(16), bench.store.now(), forking.origin(run_id, first, lineage))
    return fork._replace(**changes)


@case
def the_forks_of_a_run_are_found_by_it(bench: Bench) -> None:
    """And are not those of their forks, nor shown with a tag that nobody has given them."""
    held = bench.hold(meta=note(tags={"customer": "42"}))
    held.commit(held.steps(5))

    def forks(run_key: int) -> list[str]:
        return [row.run_id for row in bench.store.list_runs(Filter(tags=((forking.ORIGIN_TAG, str(run_key)),)))]

    assert forks(held.key) == []
    first = bench.store.fork_run(_order(bench, held.key, 4, "first")).row
    bench.store.fork_run(_order(bench, held.key, 3, "second"))
    bench.store.fork_run(_order(bench, first.run_key, 2, "of the first"))
    assert sorted(forks(held.key)) == ["first", "second"]
    assert forks(first.run_key) == ["of the first"]
    assert bench.row(first.run_key).meta == bench.row(held.key).meta


@case
def a_fork_begins_with_what_its_origin_recorded(bench: Bench) -> None:
    held = bench.hold(meta=note(tags={"customer": "42"}), priority=7, partition="p", namespace="n", version="2")
    held.commit(held.steps(5))
    origin, log = bench.row(held.key), bench.log(held.key)
    fork = _order(bench, held.key, 4)
    made = bench.store.fork_run(fork)
    assert made.is_new
    row, copy = bench.row(made.row.run_key), bench.log(made.row.run_key)
    assert row == made.row
    for name in ("namespace", "workflow", "version", "queue", "priority", "partition", "meta", "format"):
        assert getattr(row, name) == getattr(origin, name), name
    assert (row.run_id, row.uid, row.status, row.worker_key) == ("fork", fork.uid, Status.PENDING, None)
    assert (row.parent_key, row.idempotency_key, row.ended_at, row.crashes) == (None, None, None, 0)
    check(fork.uid, copy)
    assert [event[1:10] for event in copy[:4]] == [event[1:10] for event in log[:4]]
    assert [event.args for event in copy[1:4]] == [event.args for event in log[1:4]]
    assert copy[0].args == fork.origin
    end = copy[4]
    assert (end.kind, end.epoch, end.at) == (Kind.RUN_FORKED, log[3].epoch + 1, row.created_at)
    assert (row.seq, row.hash, row.epoch) == (end.seq, end.hash, end.epoch)
    assert row.created_at == max(fork.created_at, log[3].at)
    tagged = bench.store.list_runs(Filter(tags=(("customer", "42"),), namespace="n"))
    assert [one.run_id for one in tagged] == ["fork", "one"]
    assert (bench.row(held.key), bench.log(held.key)) == (origin, log)
    assert held.commit(held.end()) == [Verdict.APPLIED]


@case
def a_fork_is_claimed_like_any_run(bench: Bench) -> None:
    held = bench.hold(priority=3)
    held.commit(held.steps(2))
    made = bench.store.fork_run(_order(bench, held.key, 3))
    bench.create("later")
    claims = bench.claim(bench.worker())
    assert [claim.row.run_id for claim in claims] == ["fork", "later"]
    (claim,) = claims[:1]
    assert claim.row.epoch == made.row.epoch + 1
    assert [event.kind for event in claim.events] == [
        Kind.RUN_CREATED, Kind.RUN_CLAIMED, Kind.STEP_COMPLETED, Kind.RUN_FORKED, Kind.RUN_CLAIMED,
    ]  # fmt: skip


@case
def a_run_in_any_state_is_forked(bench: Bench) -> None:
    for status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.BLOCKED):
        held = bench.hold(status.word)
        held.commit(held.steps())
        held.commit(held.end(status, reason="because"))
        row = bench.store.fork_run(_order(bench, held.key, 3, f"fork of {status.word}")).row
        assert (row.status, row.reason, row.ended_at) == (Status.PENDING, None, None)
    held = bench.hold("sleeping")
    held.commit(held.steps())
    held.commit(held.suspend(wake_at=bench.store.now() + 60 * SECOND))
    assert bench.store.fork_run(_order(bench, held.key, 3, "fork of sleeping")).row.wake_at is None


@case
def a_fork_is_forked_in_turn(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.steps(3))
    first = bench.store.fork_run(_order(bench, held.key, 4)).row
    again = bench.retake(first.run_key)
    again.commit(again.steps(2))
    second = bench.store.fork_run(_order(bench, first.run_key, again.seq + 1, "second")).row
    log = bench.log(second.run_key)
    assert [event.kind for event in log].count(Kind.RUN_FORKED) == 2
    epochs = [event.epoch for event in log]
    assert epochs == sorted(epochs)


@case
def a_fork_that_is_made_again_is_there_already(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.steps(3))
    fork = _order(bench, held.key, 4)
    made = bench.store.fork_run(fork)
    log = bench.log(made.row.run_key)
    again = bench.open().fork_run(fork)
    assert (again.row.run_key, again.is_new) == (made.row.run_key, True)
    assert bench.log(made.row.run_key) == log
    other = bench.store.fork_run(_order(bench, held.key, 3))
    assert (other.row, other.is_new) == (made.row, False)
    taken = bench.store.fork_run(_order(bench, held.key, 3, "one"))
    assert (taken.row.run_key, taken.is_new) == (held.key, False)
    assert len(bench.store.list_runs(Filter())) == 2


@case
def of_forks_of_one_id_at_once_one_is_made(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.steps(3))
    orders = [_order(bench, held.key, 4) for _ in range(4)]
    stores = [bench.open() for _ in orders]
    together, made = Barrier(len(orders)), []

    def fork(number: int) -> None:
        _ = together.wait()
        made.append(stores[number].fork_run(orders[number]))

    threads = [Thread(target=fork, args=(number,)) for number in range(len(orders))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.is_new for one in made].count(True) == 1
    assert len({one.row.run_key for one in made}) == 1
    assert len(bench.log(made[0].row.run_key)) == 5


@case
def a_log_of_many_pages_is_copied_whole(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.steps(2 * PAGE + 10))
    log = bench.log(held.key)
    for seq in (PAGE, PAGE + 1, 2 * PAGE + 12):
        row = bench.store.fork_run(_order(bench, held.key, seq, f"fork at {seq}")).row
        copy = bench.log(row.run_key)
        check(row.uid, copy)
        assert [event[1:10] for event in copy[:-1]] == [event[1:10] for event in log[:seq]]
        assert copy[-1].kind == Kind.RUN_FORKED


@case
def what_is_not_there_is_not_forked(bench: Bench) -> None:
    held = bench.hold()
    for order, error in (
        (_order(bench, held.key, 2, origin_key=10**9), RunNotFound),
        (_order(bench, held.key, 7), IntegrityError),
    ):
        made: Created | None = None
        with suppress(error):
            made = bench.store.fork_run(order)
        assert made is None
    assert [row.run_id for row in bench.store.list_runs(Filter())] == ["one"]
