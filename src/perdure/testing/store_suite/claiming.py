"""Claiming runs and releasing them."""

# ruff: noqa: D103 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

from perdure.model.records import Kind, Status, Verdict
from perdure.store.protocol import PAGE, Route
from perdure.testing.store_suite.bench import ROUTE, SECOND, Bench, case


@case
def claims_go_by_age_and_respect_the_limit(bench: Bench) -> None:
    created = bench.store.now()
    for age, run_id in enumerate(("young", "middle", "old")):
        bench.create(run_id, created_at=created - age * SECOND)
    worker = bench.worker()
    assert [claim.row.run_id for claim in bench.claim(worker, 2)] == ["old", "middle"]
    assert [claim.row.run_id for claim in bench.claim(worker, 2)] == ["young"]
    assert bench.claim(worker, 2) == []
    assert bench.claim(worker, 0) == []


@case
def a_higher_priority_goes_first(bench: Bench) -> None:
    created = bench.store.now()
    bench.create("low", priority=-1, created_at=created - 2 * SECOND)
    bench.create("normal", created_at=created - SECOND)
    bench.create("high", priority=1, created_at=created)
    assert [claim.row.run_id for claim in bench.claim(bench.worker())] == ["high", "normal", "low"]


@case
def a_claim_gives_the_run_a_new_epoch_and_its_whole_log(bench: Bench) -> None:
    row = bench.create()
    worker = bench.worker()
    (claim,) = bench.claim(worker, facts=b'{"build":"b"}')
    assert claim.row == bench.row(row.run_key)
    assert (claim.row.status, claim.row.worker_key, claim.row.epoch) == (Status.RUNNING, worker, row.epoch + 1)
    assert claim.complete
    assert claim.events == bench.log(row.run_key)
    last = claim.events[-1]
    assert (last.kind, last.payload, last.epoch) == (Kind.RUN_CLAIMED, b'{"build":"b"}', claim.row.epoch)
    assert bench.store.held(worker) == {row.run_key: claim.row.epoch}


@case
def a_worker_claims_only_what_it_can_execute(bench: Bench) -> None:
    bench.create("other-workflow", workflow="other")
    bench.create("other-version", version="2")
    bench.create("other-queue", queue="slow")
    bench.create("other-namespace", namespace="n")
    worker = bench.worker()
    assert bench.claim(worker) == []
    routes = [Route("greet", queue="slow"), Route("greet", version="2"), Route("never", version="seen")]
    claims = bench.store.claim_runs(worker, routes, 10)
    assert {claim.row.run_id for claim in claims} == {"other-version", "other-queue"}
    assert bench.store.claim_runs(worker, [], 10) == []
    assert bench.store.next_due([]).due is None


@case
def claims_of_several_routes_go_by_age_together(bench: Bench) -> None:
    created = bench.store.now()
    for age, (run_id, version) in enumerate([("d", "1"), ("c", "2"), ("b", "1"), ("a", "2")]):
        bench.create(run_id, version=version, created_at=created - age)
    claims = bench.store.claim_runs(bench.worker(), [Route("greet", "1"), Route("greet", "2")], 3)
    assert [claim.row.run_id for claim in claims] == ["a", "b", "c"]


@case
def one_run_can_be_asked_for(bench: Bench) -> None:
    bench.create("one")
    two = bench.create("two")
    three = bench.create("three", workflow="other")
    worker = bench.worker()
    assert [claim.row.run_id for claim in bench.claim(worker, only=two.run_key)] == ["two"]
    assert bench.claim(worker, only=two.run_key) == []
    assert bench.claim(worker, only=three.run_key) == []
    assert bench.claim(worker, only=10**9) == []


@case
def a_worker_that_is_not_registered_or_has_retired_claims_nothing(bench: Bench) -> None:
    bench.create()
    assert bench.claim(12345) == []
    worker = bench.worker()
    bench.store.retire_worker(worker)
    assert bench.claim(worker) == []


@case
def a_sleeping_run_wakes_at_its_time_and_not_before(bench: Bench) -> None:
    held = bench.hold()
    wake = bench.store.now() + 60 * SECOND
    assert held.commit(held.suspend(wake_at=wake)) == [Verdict.APPLIED]
    row = bench.row(held.key)
    assert (row.status, row.worker_key, row.wake_at, row.epoch) == (Status.SLEEPING, None, wake, held.epoch)
    assert bench.store.next_due([ROUTE]).due == wake
    assert bench.claim(held.worker, now=wake - 1) == []
    (claim,) = bench.claim(held.worker, now=wake)
    assert claim.row.epoch == held.epoch + 1
    assert (claim.row.wake_at, claim.row.status) == (None, Status.RUNNING)
    assert claim.events[-2].kind == Kind.RUN_SUSPENDED


@case
def a_run_that_waits_for_no_time_is_not_claimed(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.suspend(Status.WAITING, awaits='["approved"]'))
    assert bench.claim(held.worker, now=bench.store.now() + 10**15) == []
    assert bench.store.next_due([ROUTE]).due is None


@case
def what_was_due_earlier_goes_first_whether_new_or_woken(bench: Bench) -> None:
    now = bench.store.now()
    held = bench.hold("woken", created_at=now - 90 * SECOND)
    held.commit(held.suspend(wake_at=now - 30 * SECOND))
    bench.create("older", created_at=now - 40 * SECOND)
    bench.create("newer", created_at=now - 20 * SECOND)
    assert [claim.row.run_id for claim in bench.claim(held.worker, now=now)] == ["older", "woken", "newer"]


@case
def a_clock_that_was_set_back_neither_hides_a_run_nor_bends_its_log(bench: Bench) -> None:
    now = bench.store.now()
    row = bench.create(created_at=now)
    (claim,) = bench.claim(bench.worker(), now=now - 3600 * SECOND)
    assert claim.row.run_key == row.run_key
    assert claim.events[-1].at == now


@case
def a_log_longer_than_a_page_is_claimed_in_part_and_read_on(bench: Bench) -> None:
    held = bench.hold()
    for _ in range(4):
        held.commit(held.steps(PAGE // 4))
    held.commit(held.suspend(wake_at=0))
    (claim,) = bench.claim(held.worker)
    assert not claim.complete
    log = list(claim.events)
    while page := bench.store.read_events(held.key, log[-1].seq):
        log += page
    assert [event.seq for event in log] == list(range(1, PAGE + 5))
    assert log[-1].kind == Kind.RUN_CLAIMED
    assert log[-1].hash == claim.row.hash


@case
def a_log_of_nearly_a_page_is_claimed_whole(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.steps(PAGE - 4))
    held.commit(held.suspend(wake_at=0))
    (claim,) = bench.claim(held.worker)
    assert claim.complete
    assert claim.events == bench.log(held.key)
    assert len(claim.events) == PAGE


@case
def released_runs_are_claimable_at_once_and_still_running(bench: Bench) -> None:
    worker = bench.worker()
    mine = [bench.hold(name, worker) for name in ("a", "b")]
    others = bench.hold("c")
    assert bench.store.release(worker, [mine[0].key, others.key, 10**9]) == 1
    row = bench.row(mine[0].key)
    assert (row.status, row.worker_key, row.epoch, row.crashes) == (Status.RUNNING, None, mine[0].epoch + 1, 0)
    assert bench.kinds(row.run_key)[-1] is Kind.RUN_RELEASED
    assert bench.store.held(worker) == {mine[1].key: mine[1].epoch}
    assert bench.store.held(others.worker) == {others.key: others.epoch}
    assert bench.store.release(worker, [mine[0].key]) == 0
    assert bench.retake(row.run_key).epoch == mine[0].epoch + 2


@case
def a_release_is_no_crash_however_often(bench: Bench) -> None:
    row = bench.create()
    worker = bench.worker()
    for _ in range(10):
        bench.retake(row.run_key, worker)
        assert bench.store.release(worker, [row.run_key]) == 1
    assert bench.row(row.run_key).crashes == 0
