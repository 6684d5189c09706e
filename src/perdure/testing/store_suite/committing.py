"""Committing: fenced, whole or not at all, and safe to send again."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

from perdure.model.records import Artifact, CommitItem, Kind, Status, Verdict
from perdure.testing.store_suite.bench import Bench, Holder, case

APPLIED, ALREADY, FENCED, STALE, BAD = Verdict.APPLIED, Verdict.ALREADY, Verdict.FENCED, Verdict.STALE, Verdict.BAD


@case
def events_are_appended_and_the_row_is_left_alone(bench: Bench) -> None:
    held = bench.hold()
    before = bench.row(held.key)
    item = held.steps(3)
    assert held.commit(item) == [APPLIED]
    assert bench.log(held.key)[2:] == item.events
    assert bench.row(held.key) == before


@case
def nothing_is_a_batch_too(bench: Bench) -> None:
    assert bench.store.commit([]) == []


@case
def a_batch_of_many_runs_is_answered_in_its_order(bench: Bench) -> None:
    worker = bench.worker()
    bench.create_many(400)
    claims = bench.claim(worker, 400)
    items = [CommitItem(claim.row.run_key, claim.row.epoch, []) for claim in claims]
    for number, claim in enumerate(claims):
        items[number] = Holder(bench.store, worker, claim).steps()
        if number % 10 == 0:
            items[number].epoch += 1
    verdicts = bench.store.commit(items)
    assert verdicts == [FENCED if number % 10 == 0 else APPLIED for number in range(400)]
    assert [len(bench.log(item.run_key)) for item in items] == [2 if number % 10 == 0 else 3 for number in range(400)]


@case
def what_is_sent_again_is_there_already(bench: Bench) -> None:
    held, other = bench.hold("one"), bench.hold("two")
    item = held.steps(2)
    assert held.commit(item) == [APPLIED]
    assert held.commit(item) == [ALREADY]
    assert bench.store.commit([item, other.steps()]) == [ALREADY, APPLIED]
    end = held.end()
    assert held.commit(end) == [APPLIED]
    assert held.commit(end) == [ALREADY]
    assert len(bench.log(held.key)) == 5


@case
def a_resend_is_recognised_after_others_took_over(bench: Bench) -> None:
    held = bench.hold()
    item = held.suspend(wake_at=0)
    assert held.commit(item) == [APPLIED]
    successor = bench.retake(held.key)
    assert held.commit(item) == [ALREADY]
    assert successor.commit(successor.steps()) == [APPLIED]
    assert held.commit(item) == [ALREADY]


@case
def who_lost_its_claim_writes_nothing(bench: Bench) -> None:
    held = bench.hold()
    bench.store.release(held.worker, [held.key])
    log = bench.log(held.key)
    assert held.commit(held.steps()) == [FENCED]
    successor = bench.retake(held.key)
    assert held.commit(held.end()) == [FENCED]
    assert bench.log(held.key)[:-1] == log
    assert successor.commit(successor.steps()) == [APPLIED]


@case
def the_epoch_alone_does_not_let_in_who_does_not_hold_the_run(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.suspend(Status.WAITING))
    assert held.commit(held.steps()) == [FENCED]
    never_claimed = bench.create("two")
    event = held.steps().events[0]._replace(run_key=never_claimed.run_key, seq=2, epoch=0)
    assert bench.store.commit([CommitItem(never_claimed.run_key, 0, [event])]) == [FENCED]
    assert bench.store.commit([CommitItem(10**9, 1, [event._replace(run_key=10**9)])]) == [FENCED]
    assert bench.store.commit([CommitItem(never_claimed.run_key, 0, [])]) == [FENCED]


@case
def another_epoch_may_not_pass_for_a_resend(bench: Bench) -> None:
    held = bench.hold()
    item = held.steps()
    held.commit(item)
    assert bench.store.commit([replace(item, epoch=held.epoch + 1)]) == [FENCED]


@case
def several_items_of_a_run_may_share_a_batch(bench: Bench) -> None:
    held = bench.hold()
    assert held.commit(held.steps(), held.steps(2), held.end()) == [APPLIED] * 3
    assert bench.row(held.key).status is Status.COMPLETED


@case
def after_the_end_of_its_hold_a_batch_writes_nothing_more_for_a_run(bench: Bench) -> None:
    held = bench.hold()
    assert held.commit(held.suspend(Status.WAITING), held.steps()) == [APPLIED, FENCED]
    assert len(bench.log(held.key)) == 3


@case
def a_log_has_no_gaps_and_no_second_version_of_an_event(bench: Bench) -> None:
    held = bench.hold()
    first = held.steps()
    after_a_gap = held.steps()
    assert held.commit(after_a_gap) == [BAD]
    assert held.commit(first) == [APPLIED]
    other_version = replace(first, events=[first.events[0]._replace(payload=b"other", hash=b"other")])
    assert held.commit(other_version) == [BAD]
    assert held.commit(after_a_gap) == [APPLIED]


@case
def an_event_goes_into_no_log_but_its_own(bench: Bench) -> None:
    one, two = bench.hold("one"), bench.hold("two")
    assert bench.store.commit([CommitItem(one.key, one.epoch, two.steps().events)]) == [BAD]
    assert len(bench.log(two.key)) == 2


@case
def a_bad_item_takes_down_later_ones_of_its_run_and_nobody_elses(bench: Bench) -> None:
    good, bad = bench.hold("good"), bench.hold("bad")
    broken: Any = bad.steps()
    broken.events[0] = broken.events[0]._replace(payload={"no": "bytes"})
    batch = [good.steps(), broken, good.steps(), bad.steps(), good.end()]
    assert bench.store.commit(batch) == [APPLIED, BAD, APPLIED, BAD, APPLIED]
    assert len(bench.log(bad.key)) == 2
    assert bench.row(good.key).status is Status.COMPLETED
    assert bench.store.commit([broken]) == [BAD]


@case
def an_item_is_written_whole_or_not_at_all(bench: Bench) -> None:
    held = bench.hold()
    data = b"kept only with its event"
    artifact = Artifact(sha256(data).digest(), len(data), data)
    item = held.steps(2, artifacts=[artifact])
    no_bytes: Any = "no bytes"
    item.events[1] = item.events[1]._replace(hash=no_bytes)
    assert held.commit(item) == [BAD]
    assert len(bench.log(held.key)) == 2
    assert bench.store.get_artifact(artifact.hash) is None


@case
def news_that_the_holder_has_not_seen_makes_its_ending_stale(bench: Bench) -> None:
    held = bench.hold()
    bench.store.request_cancel(held.key, "enough")
    end = held.end(inbox_seen=0)
    assert held.commit(end) == [STALE]
    assert bench.row(held.key).status is Status.RUNNING
    ((run_key, counter, (request,)),) = bench.store.unread(held.worker)
    assert (run_key, counter) == (held.key, 1)
    seen = replace(end, take=[request.inbox_key], inbox_seen=counter)
    assert held.commit(seen) == [APPLIED]
    assert bench.store.unread(held.worker) == []


@case
def news_that_the_holder_has_not_seen_makes_any_event_stale_that_depends_on_it(bench: Bench) -> None:
    held, other = bench.hold("one"), bench.hold("two")
    bench.store.request_cancel(held.key, "enough")
    blind = held.steps(inbox_seen=0)
    assert bench.store.commit([blind, other.steps(inbox_seen=0)]) == [STALE, APPLIED]
    assert held.commit(blind) == [STALE]
    assert len(bench.log(held.key)) == 2
    assert held.commit(replace(blind, inbox_seen=1)) == [APPLIED]


@case
def an_inbox_row_is_consumed_once(bench: Bench) -> None:
    held = bench.hold()
    bench.store.request_cancel(held.key, "enough")
    ((_, _, (request,)),) = bench.store.unread(held.worker)
    item = held.steps(take=[request.inbox_key])
    assert held.commit(item) == [APPLIED]
    assert held.commit(item) == [ALREADY]
    assert held.commit(held.steps(take=[request.inbox_key])) == [STALE]
    assert len(bench.log(held.key)) == 3


@case
def news_is_consumed_by_its_own_run_only(bench: Bench) -> None:
    held, other = bench.hold("one"), bench.hold("two")
    bench.store.request_cancel(held.key, "enough")
    ((_, _, (request,)),) = bench.store.unread(held.worker)
    assert other.commit(other.steps(take=[request.inbox_key])) == [STALE]
    assert len(bench.store.unread(held.worker)) == 1


@case
def an_artifact_is_kept_with_the_event_that_refers_to_it(bench: Bench) -> None:
    one, two = bench.hold("one"), bench.hold("two")
    data = b"x" * 100_000
    artifact = Artifact(sha256(data).digest(), len(data), data)
    assert bench.store.commit([one.keep(artifact), two.keep(artifact)]) == [APPLIED, APPLIED]
    assert bench.store.get_artifact(artifact.hash) == data


@case
def the_end_of_a_run_is_in_its_row(bench: Bench) -> None:
    for status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED):
        held = bench.hold(status.word)
        step, end = held.steps(), held.end(status, reason="because")
        assert held.commit(step, end) == [APPLIED, APPLIED]
        row = bench.row(held.key)
        last = end.events[-1]
        assert (row.status, row.reason, row.ended_at) == (status, "because", last.at)
        assert (row.worker_key, row.seq, row.hash) == (None, last.seq, last.hash)
        assert bench.store.held(held.worker) == {}
        assert bench.claim(held.worker, now=bench.store.now() + 10**15) == []


@case
def a_blocked_or_paused_run_is_held_by_nobody_and_claimed_by_nobody(bench: Bench) -> None:
    for status in (Status.BLOCKED, Status.PAUSED):
        held = bench.hold(status.word)
        assert held.commit(held.end(status, reason="drift")) == [APPLIED]
        row = bench.row(held.key)
        assert (row.status, row.reason, row.worker_key, row.ended_at) == (status, "drift", None, None)
        assert bench.claim(held.worker, only=held.key) == []


@case
def text_that_few_expect_is_stored_as_it_is(bench: Bench) -> None:
    held = bench.hold("rün-✓ #1", meta=b"\x00\xff")
    event = held.event(Kind.STEP_COMPLETED, bytes(range(256)), key="greet/säy [✓]#1")
    assert held.commit(CommitItem(held.key, held.epoch, [event])) == [APPLIED]
    assert bench.store.read_events(held.key, after=2) == [event]
    assert bench.row(held.key).meta == b"\x00\xff"
