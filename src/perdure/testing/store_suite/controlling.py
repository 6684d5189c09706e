"""Control from outside: cancel, resume, block."""

# ruff: noqa: D103 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

import json

from perdure.errors import RunNotFound, WrongState
from perdure.model.records import InboxKind, Kind, Status, Verdict
from perdure.testing.store_suite.bench import SECOND, Bench, case


@case
def a_run_that_nobody_could_let_end_is_cancelled_at_once(bench: Bench) -> None:
    pending = bench.create("pending")
    delayed = bench.create("delayed", delay_until=bench.store.now() + 60 * SECOND)
    worker = bench.worker(routes=())
    sleeping, blocked, released = (bench.hold(name, worker) for name in ("sleeping", "blocked", "released"))
    sleeping.commit(sleeping.suspend(wake_at=bench.store.now() + 60 * SECOND))
    blocked.commit(blocked.end(Status.BLOCKED, reason="drift"))
    bench.store.release(released.worker, [released.key])
    for key in (pending.run_key, delayed.run_key, sleeping.key, blocked.key, released.key):
        epoch = bench.row(key).epoch
        assert bench.store.request_cancel(key, "enough") is Status.CANCELLED
        row = bench.row(key)
        assert (row.status, row.reason, row.epoch, row.wake_at) == (Status.CANCELLED, "enough", epoch + 1, None)
        last = bench.log(key)[-1]
        assert (last.kind, last.epoch, last.at) == (Kind.RUN_CANCELLED, row.epoch, row.ended_at)
        assert json.loads(last.payload or b"") == {"reason": "enough"}
    assert bench.claim(bench.worker(), now=bench.store.now() + 3600 * SECOND) == []


@case
def the_holder_of_a_run_is_asked_to_cancel_it(bench: Bench) -> None:
    held = bench.hold()
    assert bench.store.unread(held.worker) == []
    assert bench.store.request_cancel(held.key, "enough") is Status.RUNNING
    ((run_key, counter, (request,)),) = bench.store.unread(held.worker)
    assert (run_key, counter) == (held.key, 1)
    assert (request.kind, request.run_key) == (InboxKind.CANCEL, held.key)
    assert json.loads(request.payload or b"") == {"reason": "enough"}
    assert bench.row(held.key).inbox == 1
    assert bench.row(held.key).epoch == held.epoch


@case
def cancelling_twice_asks_once(bench: Bench) -> None:
    held = bench.hold()
    bench.store.request_cancel(held.key, "enough")
    bench.store.request_cancel(held.key, "again")
    ((_, counter, requests),) = bench.store.unread(held.worker)
    assert (counter, len(requests)) == (1, 1)
    pending = bench.create("two")
    assert bench.store.request_cancel(pending.run_key, "enough") is Status.CANCELLED
    assert bench.store.request_cancel(pending.run_key, "again") is Status.CANCELLED
    assert bench.kinds(pending.run_key) == [Kind.RUN_CREATED, Kind.RUN_CANCELLED]


@case
def a_run_that_has_ended_stays_as_it_ended(bench: Bench) -> None:
    for status in (Status.COMPLETED, Status.FAILED):
        held = bench.hold(status.word)
        held.commit(held.end(status))
        log = bench.log(held.key)
        assert bench.store.request_cancel(held.key, "too late") is status
        assert bench.log(held.key) == log
        assert bench.store.block_run(held.key, held.epoch, b"{}", "too late") is False


@case
def news_of_a_run_that_has_ended_is_dropped(bench: Bench) -> None:
    held = bench.hold()
    bench.store.request_cancel(held.key, "enough")
    assert held.commit(held.end()) == [Verdict.APPLIED]
    resumed = bench.create("two")
    assert bench.store.unread(held.worker) == []
    assert bench.row(resumed.run_key).inbox == 0


@case
def a_run_that_is_not_there_cannot_be_controlled(bench: Bench) -> None:
    for verb in (
        lambda: bench.store.request_cancel(10**9, "x"),
        lambda: bench.store.resume_run(10**9, 0, b"{}"),
        lambda: bench.store.block_run(10**9, 0, b"{}", "x"),
    ):
        try:
            verb()
        except RunNotFound:
            continue
        raise AssertionError("a run that is not there was controlled")


@case
def a_reason_may_be_any_text(bench: Bench) -> None:
    text = "nul \0, lone \ud800, fine ✓"
    cancelled, blocked, failed = bench.create("cancelled"), bench.create("blocked"), bench.hold("failed")
    bench.store.request_cancel(cancelled.run_key, text)
    assert bench.store.block_run(blocked.run_key, blocked.epoch, b"{}", text) is True
    assert failed.commit(failed.end(Status.FAILED, reason=text)) == [Verdict.APPLIED]
    for run_key in (cancelled.run_key, blocked.run_key, failed.key):
        assert "fine ✓" in str(bench.row(run_key).reason)


@case
def an_ended_or_parked_run_is_resumed_with_a_new_epoch(bench: Bench) -> None:
    for status in (Status.FAILED, Status.CANCELLED, Status.BLOCKED, Status.PAUSED):
        held = bench.hold(status.word)
        held.commit(held.end(status, reason="because"))
        row = bench.resume(held.key, b'{"supersede":[]}')
        assert row == bench.row(held.key)
        assert (row.status, row.epoch, row.ended_at, row.reason) == (Status.PENDING, held.epoch + 1, None, None)
        last = bench.log(held.key)[-1]
        assert (last.kind, last.payload, last.epoch) == (Kind.RUN_RESUMED, b'{"supersede":[]}', row.epoch)
        assert bench.retake(held.key).epoch == row.epoch + 1


@case
def a_run_on_its_way_is_not_resumed(bench: Bench) -> None:
    held, completed, sleeping = bench.hold("held"), bench.hold("completed"), bench.hold("sleeping")
    completed.commit(completed.end())
    sleeping.commit(sleeping.suspend(Status.WAITING))
    for key in (bench.create("pending").run_key, held.key, completed.key, sleeping.key):
        log = bench.log(key)
        try:
            bench.resume(key)
        except WrongState as error:
            found = error.fields["status"]
        else:
            raise AssertionError("a run that was on its way was resumed")
        assert found == bench.row(key).status.word
        assert bench.log(key) == log


@case
def a_run_is_resumed_at_the_epoch_that_was_seen(bench: Bench) -> None:
    for status in (Status.FAILED, Status.CANCELLED, Status.BLOCKED):
        held = bench.hold(status.word)
        held.commit(held.end(status))
        seen = bench.row(held.key).epoch
        bench.resume(held.key)
        again = bench.retake(held.key)
        again.commit(again.end(status))
        row, log = bench.row(held.key), bench.log(held.key)
        assert bench.store.resume_run(held.key, seen, b"{}") is None
        assert (bench.row(held.key), bench.log(held.key)) == (row, log)
        assert bench.store.resume_run(held.key, row.epoch, b"{}") == bench.row(held.key)


@case
def a_run_is_blocked_at_the_epoch_that_was_seen(bench: Bench) -> None:
    row = bench.create()
    assert bench.store.block_run(row.run_key, row.epoch + 1, b"{}", "drift") is False
    assert bench.store.block_run(row.run_key, row.epoch, b'{"reason":"drift"}', "drift") is True
    blocked = bench.row(row.run_key)
    assert (blocked.status, blocked.reason, blocked.epoch) == (Status.BLOCKED, "drift", row.epoch + 1)
    assert bench.kinds(row.run_key)[-1] is Kind.RUN_BLOCKED
    assert bench.store.block_run(row.run_key, blocked.epoch, b"{}", "again") is False
    assert bench.claim(bench.worker()) == []


@case
def a_held_run_is_not_blocked_from_outside(bench: Bench) -> None:
    held = bench.hold()
    assert bench.store.block_run(held.key, held.epoch, b"{}", "drift") is False
    assert held.commit(held.steps()) == [Verdict.APPLIED]
