"""What benchmarks fill a store with is what the store itself would have written."""

from __future__ import annotations

import pytest

from benchmarks import filling, workloads
from perdure.model.records import Status
from perdure.store.open import open_store
from perdure.store.protocol import Filter, Route
from perdure.testing.store_suite.bench import Bench

COUNT = 30
ASLEEP = Route(workloads.asleep.name, workloads.asleep.version)


@pytest.fixture
def bench(new_store):
    target = new_store()
    models = filling.make_models(target)
    for sort in ([models.finished], [models.cancelled], [models.sleeping], models.foreign):
        filling.fill(target, sort, COUNT)
    with Bench(lambda: open_store(target, durability="process")) as bench:
        yield bench  # leaving the bench checks every log and every row


def count(bench, *status):
    return len(bench.store.list_runs(Filter(status=status, limit=1000)))


def test_copies_are_in_the_state_of_their_models(bench):
    assert count(bench, Status.COMPLETED) == COUNT + 1
    assert count(bench, Status.CANCELLED) == COUNT + 1
    assert count(bench, Status.SLEEPING) == COUNT + 1
    assert count(bench, Status.PENDING) == COUNT + filling.FOREIGN_ROUTES


def test_copies_are_runs_of_their_own(bench):
    rows = bench.store.list_runs(Filter(limit=1000))
    assert len({row.run_id for row in rows}) == len({row.uid for row in rows}) == len({row.hash for row in rows})
    for row in rows:
        assert row.run_id.encode() in (bench.store.read_events(row.run_key)[0].args or b"")


def test_a_copy_can_be_claimed(bench):
    foreign = [Route("elsewhere", f"foreign-{number}") for number in range(filling.FOREIGN_ROUTES)]
    worker = bench.worker(routes=[*foreign, ASLEEP])
    due = bench.store.next_due([ASLEEP]).due
    assert due > bench.store.now()
    assert bench.store.claim_runs(worker, [ASLEEP], 100) == []
    assert len(bench.store.claim_runs(worker, [ASLEEP], 100, now=2 * due)) == COUNT + 1
    assert len(bench.store.claim_runs(worker, foreign, 100)) == filling.FOREIGN_ROUTES // 2 + COUNT // 2


def test_new_runs_come_after_the_copies(bench):
    last = max(row.run_key for row in bench.store.list_runs(Filter(limit=1000)))
    assert bench.create().run_key == last + 1
