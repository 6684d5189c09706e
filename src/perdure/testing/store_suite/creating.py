"""Creating runs."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

from hashlib import sha256

from perdure.model.chain import check
from perdure.model.records import Artifact, Kind, Status
from perdure.testing.store_suite.bench import ROUTE, SECOND, Bench, case


@case
def a_new_run_is_pending_with_its_first_event(bench: Bench) -> None:
    new = bench.new(meta=b"{}", partition="p", deadline_at=7, queue="", priority=3)
    (created,) = bench.store.create_runs([new])
    row = created.row
    assert created.is_new
    assert created.claim is None
    assert (row.status, row.worker_key, row.seq, row.crashes, row.inbox) == (Status.PENDING, None, 1, 0, 0)
    for name in ("run_id", "uid", "workflow", "version", "meta", "partition", "deadline_at", "priority", "created_at"):
        assert getattr(row, name) == getattr(new, name), name
    (event,) = bench.log(row.run_key)
    assert (event.seq, event.kind, event.payload, event.args) == (1, Kind.RUN_CREATED, new.payload, new.origin)
    check(new.uid, [event])
    assert row.hash == event.hash
    assert bench.store.get_run(new.run_id) == row


@case
def a_store_has_the_same_id_whoever_opens_it(bench: Bench) -> None:
    assert bench.store.store_id
    assert bench.open().store_id == bench.store.store_id


@case
def the_same_id_finds_the_run_that_is_there(bench: Bench) -> None:
    first = bench.create("one")
    (again,) = bench.store.create_runs([bench.new("one", payload=b'"other"')])
    assert not again.is_new
    assert again.row == first
    assert len(bench.log(first.run_key)) == 1


@case
def the_same_id_in_another_namespace_is_another_run(bench: Bench) -> None:
    here, there = bench.store.create_runs([bench.new("one"), bench.new("one", namespace="other")])
    assert here.row.run_key != there.row.run_key
    assert bench.store.get_run("one", "other") == there.row


@case
def an_idempotency_key_finds_its_run_under_any_id(bench: Bench) -> None:
    first = bench.create("one", idempotency_key="k")
    (again,) = bench.store.create_runs([bench.new("two", idempotency_key="k")])
    assert again.row == first
    assert bench.store.get_run("two") is None
    assert bench.store.create_runs([bench.new("two", idempotency_key="k", namespace="other")])[0].is_new


@case
def one_batch_may_name_a_run_twice(bench: Bench) -> None:
    bench.create("old")
    made = bench.store.create_runs([bench.new(run_id) for run_id in ("a", "old", "a", "b")])
    assert [created.is_new for created in made] == [True, False, False, True]
    assert [created.row.run_id for created in made] == ["a", "old", "a", "b"]
    assert made[0].row.run_key == made[2].row.run_key


@case
def a_run_created_for_a_worker_is_claimed_in_the_same_transaction(bench: Bench) -> None:
    worker = bench.worker()
    (made,) = bench.store.create_runs([bench.new()], claim_for=worker, facts=b'{"build":"b"}')
    assert made.claim is not None
    assert made.claim.row == made.row == bench.row(made.row.run_key)
    assert (made.row.status, made.row.worker_key, made.row.seq) == (Status.RUNNING, worker, 2)
    assert made.claim.complete
    assert made.claim.events == bench.log(made.row.run_key)
    assert [(event.kind, event.epoch) for event in made.claim.events] == [(Kind.RUN_CREATED, 0), (Kind.RUN_CLAIMED, 1)]
    assert made.claim.events[1].payload == b'{"build":"b"}'


@case
def a_run_that_was_there_is_not_claimed_by_creating_it(bench: Bench) -> None:
    bench.create("one")
    (made,) = bench.store.create_runs([bench.new("one")], claim_for=bench.worker())
    assert made.claim is None
    assert made.row.worker_key is None


@case
def a_worker_that_is_not_registered_claims_nothing_by_creating(bench: Bench) -> None:
    (made,) = bench.store.create_runs([bench.new()], claim_for=12345)
    assert made.is_new
    assert made.claim is None
    assert made.row.status is Status.PENDING


@case
def a_delayed_run_waits_for_its_time(bench: Bench) -> None:
    now = bench.store.now()
    worker = bench.worker()
    (made,) = bench.store.create_runs([bench.new(delay_until=now + 10 * SECOND)], claim_for=worker, now=now)
    assert made.claim is None
    assert made.row.wake_at == now + 10 * SECOND
    assert bench.store.next_due([ROUTE]).due == now + 10 * SECOND
    assert bench.claim(worker, now=now + 9 * SECOND) == []
    assert [claim.row.run_key for claim in bench.claim(worker, now=now + 10 * SECOND)] == [made.row.run_key]
    assert bench.store.next_due([ROUTE]).due is None


@case
def a_large_input_is_kept_as_an_artifact(bench: Bench) -> None:
    data = b"x" * 200_000
    artifact = Artifact(sha256(data).digest(), len(data), data)
    bench.store.create_runs([bench.new("one", artifacts=(artifact,)), bench.new("two", artifacts=(artifact,))])
    assert bench.store.get_artifact(artifact.hash) == data
    assert bench.store.get_artifact(b"unknown") is None


@case
def a_large_batch_is_created_whole(bench: Bench) -> None:
    made = bench.create_many(1500)
    assert [created.row.run_id for created in made] == [f"run-{number}" for number in range(1500)]
    assert len({created.row.run_key for created in made}) == 1500
