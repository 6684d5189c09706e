"""Cancel and pause: asked of who can see to it, done at once where nobody could."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from perdure.errors import RunNotFound
from perdure.model.records import Delivery, InboxKind, Kind, Message, Status, Verdict
from perdure.store.protocol import Route
from perdure.testing.store_suite.bench import ROUTE, SECOND, Bench, case
from perdure.testing.store_suite.concurrency import at_once
from perdure.testing.store_suite.messaging import inbox, signal

if TYPE_CHECKING:
    from collections.abc import Callable

SUSPENDED = (Status.SLEEPING, Status.WAITING, Status.RETRYING)


@case
def a_suspended_run_is_cancelled_by_who_claims_it_next(bench: Bench) -> None:
    worker = bench.worker()
    for status in SUSPENDED:
        held = bench.hold(status.word, worker)
        held.commit(held.suspend(status, wake_at=bench.store.now() + 3600 * SECOND))
        before = bench.row(held.key)
        assert bench.store.request_cancel(held.key, "enough") is status
        assert bench.row(held.key) == before._replace(inbox=1)
        again = bench.retake(held.key, worker)
        (row,) = inbox(bench, again)
        assert (row.kind, json.loads(row.payload or b"")) == (InboxKind.CANCEL, {"reason": "enough"})


@case
def a_paused_released_or_resumed_run_is_cancelled_by_who_claims_it_next(bench: Bench) -> None:
    worker = bench.worker()
    paused, released, resumed = (bench.hold(name, worker) for name in ("paused", "released", "resumed"))
    paused.commit(paused.end(Status.PAUSED))
    bench.store.release(worker, [released.key])
    resumed.commit(resumed.end(Status.FAILED))
    bench.resume(resumed.key)
    for held, status in ((paused, Status.PAUSED), (released, Status.RUNNING), (resumed, Status.PENDING)):
        assert bench.store.request_cancel(held.key, "enough") is status
        assert bench.row(held.key).status is status
        assert [row.kind for row in inbox(bench, bench.retake(held.key, worker))] == [InboxKind.CANCEL]


@case
def a_run_to_be_cancelled_is_claimed_before_every_other(bench: Bench) -> None:
    worker = bench.worker()
    late = bench.hold("late", worker, priority=-9)
    late.commit(late.suspend(Status.WAITING))
    bench.create("first", priority=10**6)
    assert bench.store.urgent([ROUTE], 10) == []
    bench.store.request_cancel(late.key, "enough")
    assert bench.store.urgent([ROUTE], 10) == [late.key]
    assert bench.store.urgent([Route("other")], 10) == []
    assert bench.store.urgent([], 10) == []
    assert bench.store.urgent([ROUTE], 0) == []
    assert [claim.row.run_id for claim in bench.claim(worker, 1)] == ["late"]
    assert bench.store.urgent([ROUTE], 10) == []
    assert [claim.row.run_id for claim in bench.claim(worker, 1)] == ["first"]


@case
def urgent_runs_are_listed_up_to_a_limit(bench: Bench) -> None:
    worker = bench.worker()
    other = Route("other")
    bench.worker(routes=[other])
    keys: set[int] = set()
    for number in range(6):
        held = bench.hold(f"run-{number}", worker, workflow="other" if number % 2 else "greet")
        held.commit(held.suspend(Status.WAITING))
        bench.store.request_cancel(held.key, "enough")
        keys.add(held.key)
    assert set(bench.store.urgent([ROUTE, other], 10)) == keys
    assert len(bench.store.urgent([ROUTE, other], 4)) == 4


@case
def a_run_whose_holder_was_asked_and_died_or_let_go_stays_urgent(bench: Bench) -> None:
    released, reclaimed = bench.hold("released"), bench.hold("reclaimed")
    for held in (released, reclaimed):
        bench.store.request_cancel(held.key, "enough")
    bench.store.release(released.worker, [released.key])
    bench.store.reclaim(bench.worker(), [reclaimed.worker], cap=5)
    assert set(bench.store.urgent([ROUTE], 10)) == {released.key, reclaimed.key}
    assert [row.kind for row in inbox(bench, bench.retake(reclaimed.key))] == [InboxKind.CANCEL]


@case
def asking_a_suspended_run_twice_asks_once(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.suspend(Status.WAITING))
    assert bench.store.request_cancel(held.key, "enough") is Status.WAITING
    assert bench.store.request_cancel(held.key, "again") is Status.WAITING
    assert bench.row(held.key).inbox == 1
    assert len(inbox(bench, bench.retake(held.key, held.worker))) == 1


@case
def a_run_that_nobody_serves_any_more_is_cancelled_at_once_after_all(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.suspend(Status.WAITING, awaits=["approved"]))
    bench.store.deliver([signal(held.key, "other")])
    assert bench.store.request_cancel(held.key, "enough") is Status.WAITING
    bench.store.retire_worker(held.worker)
    assert bench.store.request_cancel(held.key, "at last") is Status.CANCELLED
    assert bench.row(held.key).reason == "at last"
    assert bench.store.urgent([ROUTE], 10) == []
    bench.resume(held.key)
    assert [row.name for row in inbox(bench, bench.retake(held.key))] == ["other"]


@case
def who_is_about_to_stop_is_nobody_to_ask(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.suspend(Status.WAITING))
    bench.store.leave_worker(held.worker)
    assert bench.store.request_cancel(held.key, "enough") is Status.CANCELLED


@case
def a_run_that_never_began_or_is_blocked_is_cancelled_at_once_whoever_lives(bench: Bench) -> None:
    blocked, pending = bench.hold("blocked"), bench.create("pending")
    blocked.commit(blocked.end(Status.BLOCKED))
    for key in (blocked.key, pending.run_key):
        assert bench.store.request_cancel(key, "enough") is Status.CANCELLED
        assert bench.kinds(key)[-1] is Kind.RUN_CANCELLED


@case
def a_signal_does_not_put_a_cancel_back_in_line(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.suspend(Status.WAITING, awaits=["approved"]))
    bench.store.request_cancel(held.key, "enough")
    bench.store.deliver([signal(held.key)])
    assert bench.store.urgent([ROUTE], 10) == [held.key]


@case
def a_run_that_nobody_holds_is_paused_at_once(bench: Bench) -> None:
    worker = bench.worker()
    pending = bench.create("pending")
    sleeping, released = bench.hold("sleeping", worker), bench.hold("released", worker)
    sleeping.commit(sleeping.suspend(wake_at=0, awaits=["approved"]))
    bench.store.release(worker, [released.key])
    for key in (pending.run_key, sleeping.key, released.key):
        epoch = bench.row(key).epoch
        assert bench.store.pause_run(key, "lunch") is Status.PAUSED
        row = bench.row(key)
        assert (row.status, row.reason, row.epoch, row.wake_at, row.ended_at) == (
            Status.PAUSED, "lunch", epoch + 1, None, None,
        )  # fmt: skip
        last = bench.log(key)[-1]
        assert (last.kind, last.epoch, json.loads(last.payload or b"")) == (
            Kind.RUN_PAUSED, epoch + 1, {"reason": "lunch"},
        )  # fmt: skip
        log = bench.log(key)
        assert bench.store.pause_run(key, "again") is Status.PAUSED
        assert (bench.row(key), bench.log(key)) == (row, log)
    bench.store.deliver([signal(sleeping.key)])
    assert bench.claim(worker, now=bench.store.now() + 3600 * SECOND) == []
    assert bench.store.next_due([ROUTE]).due is None
    for key in (pending.run_key, sleeping.key, released.key):
        assert bench.resume(key).status is Status.PENDING
    assert len(bench.claim(worker)) == 3


@case
def the_holder_of_a_run_is_asked_to_pause_it(bench: Bench) -> None:
    held = bench.hold()
    assert bench.store.pause_run(held.key, "lunch") is Status.RUNNING
    assert bench.store.pause_run(held.key, "again") is Status.RUNNING
    (row,) = inbox(bench, held)
    assert (row.kind, json.loads(row.payload or b"")) == (InboxKind.PAUSE, {"reason": "lunch"})
    assert bench.row(held.key).inbox == 1
    assert held.commit(held.suspend(inbox_seen=0)) == [Verdict.STALE]
    held = bench.hold("two")
    bench.store.pause_run(held.key, "lunch")
    (row,) = inbox(bench, held)
    assert held.commit(held.end(Status.PAUSED, take=[row.inbox_key], inbox_seen=1)) == [Verdict.APPLIED]
    bench.resume(held.key)
    assert inbox(bench, bench.retake(held.key)) == []


@case
def a_pause_that_was_overtaken_is_forgotten(bench: Bench) -> None:
    outside, resumed = bench.hold("outside"), bench.hold("resumed")
    for held in (outside, resumed):
        bench.store.pause_run(held.key, "lunch")
    bench.store.release(outside.worker, [outside.key])
    assert bench.store.pause_run(outside.key, "lunch") is Status.PAUSED
    resumed.commit(resumed.end(Status.BLOCKED))
    for held in (outside, resumed):
        bench.resume(held.key)
        assert inbox(bench, bench.retake(held.key)) == []


@case
def what_has_ended_is_blocked_or_is_to_be_cancelled_is_not_paused(bench: Bench) -> None:
    for status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.BLOCKED):
        held = bench.hold(status.word)
        held.commit(held.end(status))
        row = bench.row(held.key)
        assert bench.store.pause_run(held.key, "lunch") is status
        assert bench.row(held.key) == row
    held = bench.hold()
    held.commit(held.suspend(Status.WAITING))
    bench.store.request_cancel(held.key, "enough")
    assert bench.store.pause_run(held.key, "lunch") is Status.WAITING
    assert bench.store.urgent([ROUTE], 10) == [held.key]


@case
def a_run_that_is_not_there_is_not_paused(bench: Bench) -> None:
    try:
        bench.store.pause_run(10**9, "lunch")
    except RunNotFound:
        return
    raise AssertionError("a run that is not there was paused")


@case
def a_message_can_ask_for_a_cancel_or_a_pause(bench: Bench) -> None:
    held, pending, sleeping = bench.hold("held"), bench.create("pending"), bench.hold("sleeping")
    sleeping.commit(sleeping.suspend(Status.SLEEPING))
    cancel = Message(InboxKind.CANCEL, held.key, payload=b'{"reason":"enough"}')
    messages = [
        cancel, cancel._replace(run_key=None, run_id="pending"),
        cancel._replace(run_key=sleeping.key, kind=InboxKind.PAUSE), cancel._replace(run_key=10**9),
    ]  # fmt: skip
    assert bench.store.deliver(messages) == [*[Delivery.DELIVERED] * 3, Delivery.UNKNOWN]
    assert [row.kind for row in inbox(bench, held)] == [InboxKind.CANCEL]
    assert (bench.row(pending.run_key).status, bench.row(pending.run_key).reason) == (Status.CANCELLED, "enough")
    assert (bench.row(sleeping.key).status, bench.row(sleeping.key).reason) == (Status.PAUSED, "enough")
    assert held.commit(held.steps(sends=[cancel._replace(run_key=sleeping.key)])) == [Verdict.APPLIED]
    assert bench.store.urgent([ROUTE], 10) == [sleeping.key]


@case
def a_cancel_and_a_run_that_goes_to_sleep_never_miss_each_other(bench: Bench) -> None:
    other = bench.open()
    worker = bench.worker()
    for number in range(20):
        held = bench.hold(f"run-{number}", worker)
        item = held.suspend(Status.SLEEPING, wake_at=bench.store.now() + 3600 * SECOND, inbox_seen=0)
        both: list[Callable[[], Any]] = [
            partial(held.commit, item), partial(other.request_cancel, held.key, "enough"),
        ]  # fmt: skip
        (verdict,), told = at_once(both)
        if verdict is Verdict.APPLIED:
            assert told is Status.SLEEPING
            assert bench.store.urgent([ROUTE], 10) == [held.key]
            assert [claim.row.run_key for claim in bench.claim(worker)] == [held.key]
        else:
            assert (verdict, told) == (Verdict.STALE, Status.RUNNING)
        assert [row.kind for row in inbox(bench, held)] == [InboxKind.CANCEL]
