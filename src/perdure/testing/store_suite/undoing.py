"""Runs with registered compensations, which only their code can execute; and runs past their deadline."""

# ruff: noqa: D103 - a case's name is its law

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perdure.model.records import InboxKind, Kind, Message, Status, Verdict
from perdure.testing.store_suite.bench import ROUTE, SECOND, Bench, case
from perdure.testing.store_suite.messaging import inbox

if TYPE_CHECKING:
    from perdure.testing.store_suite.bench import Holder

UNDO = '["refund#1", "release#1"]'


def _suspended(bench: Bench, name: str = "one") -> Holder:
    """A run that waits with compensations registered, and whose code nobody has any more."""
    held = bench.hold(name)
    held.commit(held.suspend(Status.WAITING, undo=UNDO))
    bench.store.retire_worker(held.worker)
    return held


@case
def what_is_registered_is_noted_with_the_commit_it_rides_on(bench: Bench) -> None:
    held = bench.hold()
    assert held.commit(held.steps(undo=UNDO)) == [Verdict.APPLIED]
    assert bench.row(held.key).undo == UNDO
    held.commit(held.steps())
    assert bench.row(held.key).undo == UNDO
    held.commit(held.steps(undo='["refund#1"]'))
    assert bench.row(held.key).undo == '["refund#1"]'
    held.commit(held.suspend())
    assert bench.row(held.key).undo == '["refund#1"]'
    both = bench.hold("two"), bench.hold("three")
    bench.store.commit([both[0].steps(undo=UNDO), both[1].steps()])
    assert [bench.row(one.key).undo for one in both] == [UNDO, None]
    both[0].commit(both[0].steps(undo=""))
    assert bench.row(both[0].key).undo is None


@case
def an_end_leaves_nothing_registered(bench: Bench) -> None:
    for status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED):
        held = bench.hold(status.word)
        held.commit(held.steps(undo=UNDO))
        held.commit(held.end(status))
        assert bench.row(held.key).undo is None
    held = bench.hold("blocked")
    held.commit(held.end(Status.BLOCKED, undo=UNDO))
    assert bench.row(held.key).undo == UNDO


@case
def a_run_with_something_to_undo_stays_asked_where_nobody_has_its_code(bench: Bench) -> None:
    held = _suspended(bench)
    assert bench.store.request_cancel(held.key, "enough") is Status.WAITING
    assert bench.store.request_cancel(held.key, "again") is Status.WAITING
    assert bench.row(held.key).status is Status.WAITING
    assert bench.store.urgent([ROUTE], 10) == [held.key]
    (row,) = inbox(bench, bench.retake(held.key))
    assert (row.kind, json.loads(row.payload or b"")) == (InboxKind.CANCEL, {"reason": "enough"})


@case
def a_run_with_something_to_undo_stays_asked_also_by_another_run(bench: Bench) -> None:
    held, other = _suspended(bench), bench.hold("other")
    cancel = Message(InboxKind.CANCEL, held.key, payload=b'{"reason":"enough"}')
    other.commit(other.steps(sends=[cancel]))
    assert bench.row(held.key).status is Status.WAITING
    assert bench.store.urgent([ROUTE], 10) == [held.key]


@case
def a_run_that_its_dead_worker_left_with_something_to_undo_stays_asked(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.steps(undo=UNDO))
    bench.store.reclaim(0, [held.worker], cap=5)
    assert bench.store.request_cancel(held.key, "enough") is Status.RUNNING
    assert bench.store.urgent([ROUTE], 10) == [held.key]


@case
def a_blocked_run_with_something_to_undo_is_asked_for_when_it_is_resumed(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.end(Status.BLOCKED, undo=UNDO))
    assert bench.store.request_cancel(held.key, "enough") is Status.BLOCKED
    assert bench.claim(bench.worker()) == []
    bench.resume(held.key)
    assert [row.kind for row in inbox(bench, bench.retake(held.key))] == [InboxKind.CANCEL]


@case
def force_ends_a_run_that_nobody_holds_and_names_what_is_not_undone(bench: Bench) -> None:
    parent = bench.hold("parent")
    for number, name in enumerate(("asked", "fresh", "blocked", "plain", "served")):
        held = bench.hold(name, parent_key=parent.key)
        undo = None if name in ("plain", "served") else UNDO
        held.commit(held.end(Status.BLOCKED, undo=undo) if name == "blocked" else held.suspend(undo=undo))
        if name != "served":
            bench.store.retire_worker(held.worker)
        if name == "asked":
            bench.store.request_cancel(held.key, "please")
        assert bench.store.request_cancel(held.key, "now", force=True) is Status.CANCELLED
        row, last = bench.row(held.key), bench.log(held.key)[-1]
        assert (row.status, row.reason, row.undo) == (Status.CANCELLED, "now", None)
        assert last.kind == Kind.RUN_CANCELLED
        left = [] if undo is None else json.loads(UNDO)
        assert json.loads(last.payload or b"") == {"reason": "now", "forced": True, "not_undone": left}
        assert len(inbox(bench, parent)) == number + 1
    assert bench.store.urgent([ROUTE], 10) == []


@case
def force_only_asks_who_holds_the_run(bench: Bench) -> None:
    held = bench.hold()
    assert bench.store.request_cancel(held.key, "now", force=True) is Status.RUNNING
    assert [row.kind for row in inbox(bench, held)] == [InboxKind.CANCEL]
    held.commit(held.end(Status.COMPLETED))
    assert bench.store.request_cancel(held.key, "now", force=True) is Status.COMPLETED


@case
def a_run_that_is_to_be_cancelled_is_blocked_all_the_same_while_something_is_to_be_undone(bench: Bench) -> None:
    poisoned = bench.hold("poisoned")
    poisoned.commit(poisoned.steps(undo=UNDO))
    bench.store.request_cancel(poisoned.key, "enough")
    bench.store.reclaim(0, [poisoned.worker], cap=1)
    worker = bench.worker()
    again = bench.retake(poisoned.key, worker)
    bench.store.reclaim(0, [worker], cap=1)
    assert bench.row(again.key).status is Status.BLOCKED
    refused = bench.hold("refused", bench.worker(build="b"))
    refused.commit(refused.steps(undo=UNDO))
    bench.store.request_cancel(refused.key, "enough")
    payload = json.dumps({"code": "drift", "reason": "drift: moved", "build": "b"}).encode()
    bench.store.refuse_run(refused.key, refused.epoch, "b", payload)
    assert bench.row(refused.key).status is Status.BLOCKED
    bench.resume(refused.key)
    assert [row.kind for row in inbox(bench, bench.retake(refused.key))] == [InboxKind.CANCEL]


@case
def overdue_are_runs_that_nobody_holds_and_whose_deadline_has_passed(bench: Bench) -> None:
    now = bench.store.now()
    past, future = now - 10 * SECOND, now + 3600 * SECOND
    worker = bench.worker()
    pending = bench.create("pending", deadline_at=past)
    bench.create("later", deadline_at=future)
    bench.create("never")
    waiting = bench.hold("waiting", worker, deadline_at=past - SECOND)
    waiting.commit(waiting.suspend(Status.WAITING))
    paused = bench.create("paused", deadline_at=past + SECOND)
    bench.store.pause_run(paused.run_key, "")
    bench.hold("held", worker, deadline_at=past)
    for status in (Status.BLOCKED, Status.FAILED, Status.COMPLETED):
        held = bench.hold(status.word, worker, deadline_at=past)
        held.commit(held.end(status))
    asked = bench.hold("asked", worker, deadline_at=past)
    asked.commit(asked.suspend(Status.WAITING))
    bench.store.request_cancel(asked.key, "enough")
    found = [(waiting.key, past - SECOND), (pending.run_key, past), (paused.run_key, past + SECOND)]
    assert bench.store.overdue(10) == found
    assert bench.store.overdue(2) == found[:2]
    assert bench.store.overdue(10, now=past - SECOND) == found[:1]
    assert bench.store.overdue(10, now=past - 2 * SECOND) == []


@case
def a_resume_lets_a_deadline_go_that_has_passed(bench: Bench) -> None:
    now = bench.store.now()
    for name, at, left in (("past", now - SECOND, None), ("future", now + 3600 * SECOND, now + 3600 * SECOND)):
        held = bench.hold(name, deadline_at=at)
        held.commit(held.end(Status.CANCELLED))
        assert bench.row(held.key).deadline_at == at
        assert bench.resume(held.key).deadline_at == left
