"""Messages: kept once, in their order, and no run that waits for one sleeps on."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from perdure.errors import StoreError
from perdure.model.records import Artifact, Delivery, InboxKind, Message, Status, Verdict
from perdure.testing.store_suite.bench import SECOND, Bench, Holder, case
from perdure.testing.store_suite.concurrency import at_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.model.records import InboxRow

DELIVERED, DUPLICATE, ENDED, UNKNOWN = Delivery.DELIVERED, Delivery.DUPLICATE, Delivery.ENDED, Delivery.UNKNOWN
APPLIED, ALREADY, STALE = Verdict.APPLIED, Verdict.ALREADY, Verdict.STALE


def signal(run_key: int | None, name: str = "approved", **changes: Any) -> Message:
    """A signal for a run."""
    return Message(InboxKind.SIGNAL, run_key, name=name, payload=b"true")._replace(**changes)


def inbox(bench: Bench, held: Holder) -> list[InboxRow]:
    """What has come in for a run that is held."""
    return [row for run_key, _, rows in bench.store.unread(held.worker) if run_key == held.key for row in rows]


@case
def a_message_is_in_the_inbox_of_its_run(bench: Bench) -> None:
    held, other = bench.hold("one"), bench.hold("two")
    message = signal(held.key, payload=b'{"by":"ann"}', codec=3)._replace(author="cli ann")
    now = bench.store.now()
    assert bench.store.deliver([message], now=now) == [DELIVERED]
    ((run_key, counter, (row,)),) = bench.store.unread(held.worker)
    assert (run_key, counter) == (held.key, 1)
    assert (row.kind, row.name, row.codec, row.payload, row.sent_at) == (2, "approved", 3, b'{"by":"ann"}', now)
    assert row.author == "cli ann"
    assert bench.row(held.key).inbox == 1
    assert inbox(bench, other) == []
    assert len(bench.log(held.key)) == 2


@case
def nothing_is_delivered_at_once(bench: Bench) -> None:
    assert bench.store.deliver([]) == []


@case
def a_run_is_found_by_its_id_and_namespace(bench: Bench) -> None:
    here, there = bench.hold("one"), bench.hold("one", namespace="n")
    message = signal(None, run_id="one", namespace="n")
    assert bench.store.deliver([message]) == [DELIVERED]
    assert [row.run_key for row in inbox(bench, there)] == [there.key]
    assert inbox(bench, here) == []
    nowhere = [message._replace(namespace="m"), message._replace(run_id="two"), signal(10**9)]
    assert bench.store.deliver(nowhere) == [UNKNOWN] * 3


@case
def messages_are_kept_in_the_order_they_were_sent(bench: Bench) -> None:
    held = bench.hold()
    for first in range(0, 30, 10):
        batch = [signal(held.key, payload=b"%d" % number) for number in range(first, first + 10)]
        assert bench.store.deliver(batch) == [DELIVERED] * 10
    ((_, counter, rows),) = bench.store.unread(held.worker)
    assert counter == 30
    assert [row.payload for row in rows] == [b"%d" % number for number in range(30)]


@case
def what_comes_before_it_is_waited_for_is_kept(bench: Bench) -> None:
    row = bench.create()
    assert bench.store.deliver([signal(row.run_key)]) == [DELIVERED]
    assert bench.row(row.run_key).inbox == 1
    held = bench.retake(row.run_key)
    assert [row.name for row in inbox(bench, held)] == ["approved"]
    assert held.commit(held.suspend(Status.WAITING, awaits=["other"], inbox_seen=1)) == [APPLIED]
    again = bench.store.deliver([signal(row.run_key, "other")])
    assert again == [DELIVERED]
    held = bench.retake(row.run_key)
    assert [row.name for row in inbox(bench, held)] == ["approved", "other"]


@case
def a_message_with_the_same_dedup_key_is_delivered_once(bench: Bench) -> None:
    held = bench.hold()
    one = signal(held.key, dedup="a")
    assert bench.store.deliver([one, one, one._replace(dedup="b"), one._replace(name="rejected")]) == [
        DELIVERED, DUPLICATE, DELIVERED, DELIVERED,
    ]  # fmt: skip
    assert bench.store.deliver([one._replace(payload=b"false")]) == [DUPLICATE]
    assert bench.row(held.key).inbox == 3
    assert len(inbox(bench, held)) == 3
    other = bench.hold("two")
    assert bench.store.deliver([one._replace(run_key=other.key)]) == [DELIVERED]


@case
def messages_without_a_dedup_key_are_all_delivered(bench: Bench) -> None:
    held = bench.hold()
    assert bench.store.deliver([signal(held.key)] * 3) == [DELIVERED] * 3
    assert bench.row(held.key).inbox == 3


@case
def a_message_that_was_consumed_is_known_until_the_run_has_completed(bench: Bench) -> None:
    held = bench.hold()
    message = signal(held.key, dedup="a")
    bench.store.deliver([message])
    (row,) = inbox(bench, held)
    taking = held.steps(take=[row.inbox_key])
    assert held.commit(taking) == [APPLIED]
    assert inbox(bench, held) == []
    assert bench.store.deliver([message]) == [DUPLICATE]
    assert bench.row(held.key).inbox == 1
    assert held.commit(taking) == [ALREADY]
    assert held.commit(held.steps(take=[row.inbox_key])) == [STALE]
    again = bench.hold("two")
    bench.store.deliver([signal(again.key, dedup="a")])
    (row,) = inbox(bench, again)
    again.commit(again.end(Status.FAILED, take=[row.inbox_key]))
    assert bench.store.deliver([signal(again.key, dedup="a")]) == [DUPLICATE]
    again = Holder(bench.store, again.worker, _resumed(bench, again.key))
    again.commit(again.end())
    assert bench.store.deliver([signal(again.key, dedup="a")]) == [ENDED]


def _resumed(bench: Bench, run_key: int) -> Any:
    bench.resume(run_key)
    (claim,) = bench.claim(bench.worker(), only=run_key)
    return claim


@case
def a_run_is_woken_by_a_signal_it_awaits_and_by_no_other(bench: Bench) -> None:
    worker = bench.worker()
    for status in (Status.WAITING, Status.SLEEPING, Status.RETRYING):
        held = bench.hold(status.word, worker)
        far = bench.store.now() + 3600 * SECOND
        held.commit(held.suspend(status, wake_at=far, awaits=["approved", "rejected"]))
        assert bench.store.deliver([signal(held.key, "other")]) == [DELIVERED]
        assert bench.claim(worker) == []
        before = bench.row(held.key)
        assert bench.store.deliver([signal(held.key, "rejected"), signal(held.key, "approved")]) == [DELIVERED] * 2
        assert bench.row(held.key) == before._replace(inbox=3)
        (claim,) = bench.claim(worker)
        assert (claim.row.run_key, claim.row.inbox, claim.row.wake_at) == (held.key, 3, None)


@case
def who_is_woken_waits_in_line_by_its_priority(bench: Bench) -> None:
    low, high = bench.hold("low"), bench.hold("high", priority=5)
    for held in (low, high):
        held.commit(held.suspend(Status.WAITING, awaits=["approved"]))
    assert bench.store.deliver([signal(low.key), signal(high.key)]) == [DELIVERED] * 2
    assert [claim.row.run_key for claim in bench.claim(bench.worker())] == [high.key, low.key]


@case
def a_parent_that_waits_is_woken_by_the_end_of_any_child(bench: Bench) -> None:
    worker = bench.worker()
    for kind in (
        InboxKind.CHILD_COMPLETED, InboxKind.CHILD_FAILED, InboxKind.CHILD_CANCELLED, InboxKind.CHILD_TAKEN,
    ):  # fmt: skip
        held = bench.hold(kind.name, worker)
        held.commit(held.suspend(Status.WAITING))
        assert bench.store.deliver([Message(kind, held.key, name="child")]) == [DELIVERED]
        (claim,) = bench.claim(worker)
        assert claim.row.run_key == held.key


@case
def a_run_that_is_paused_blocked_or_claimable_already_is_not_woken(bench: Bench) -> None:
    worker = bench.worker()
    pending = bench.create("pending", priority=3, delay_until=bench.store.now() + 3600 * SECOND)
    for status in (Status.PAUSED, Status.BLOCKED):
        held = bench.hold(status.word, worker)
        held.commit(held.end(status))
        assert bench.store.deliver([signal(held.key)]) == [DELIVERED]
        assert bench.store.deliver([Message(InboxKind.CHILD_FAILED, held.key, name="child")]) == [DELIVERED]
    assert bench.store.deliver([signal(pending.run_key)]) == [DELIVERED]
    assert bench.claim(worker) == []


@case
def a_run_that_has_ended_hears_nothing(bench: Bench) -> None:
    for status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED):
        held = bench.hold(status.word)
        held.commit(held.end(status))
        cancel = Message(InboxKind.CANCEL, held.key, payload=b'{"reason":"late"}')
        messages = [signal(held.key), cancel, cancel._replace(kind=InboxKind.PAUSE)]
        assert bench.store.deliver(messages) == [ENDED] * 3
        assert bench.row(held.key).inbox == 0


@case
def the_end_of_a_child_is_kept_for_a_parent_that_may_be_resumed(bench: Bench) -> None:
    for status in (Status.FAILED, Status.CANCELLED, Status.BLOCKED):
        held = bench.hold(status.word)
        held.commit(held.end(status))
        assert bench.store.deliver([Message(InboxKind.CHILD_COMPLETED, held.key, name="child")]) == [DELIVERED]
        bench.resume(held.key)
        assert [row.name for row in inbox(bench, bench.retake(held.key))] == ["child"]
    held = bench.hold("completed")
    held.commit(held.end())
    assert bench.store.deliver([Message(InboxKind.CHILD_COMPLETED, held.key, name="child")]) == [ENDED]


@case
def what_was_acknowledged_outlives_a_failure_and_a_cancel_but_no_completion(bench: Bench) -> None:
    for status in (Status.FAILED, Status.CANCELLED):
        held = bench.hold(status.word)
        bench.store.deliver([signal(held.key)])
        bench.store.request_cancel(held.key, "enough")
        bench.store.pause_run(held.key, "lunch")
        assert len(inbox(bench, held)) == 3
        held.commit(held.end(status, inbox_seen=3))
        bench.resume(held.key)
        assert [row.name for row in inbox(bench, bench.retake(held.key))] == ["approved"]
    alone, others = bench.hold("completed"), bench.hold("another")
    for held in (alone, others):
        bench.store.deliver([signal(held.key, dedup="a")])
    bench.store.commit([alone.end(), others.end(), *(one.end(Status.FAILED) for one in [bench.hold("third")])])
    for held in (alone, others):
        assert bench.store.deliver([signal(held.key, dedup="a")]) == [ENDED]


@case
def what_a_message_refers_to_is_kept_with_it(bench: Bench) -> None:
    held = bench.hold()
    data = b"s" * 100_000
    artifact = Artifact(sha256(data).digest(), len(data), data)
    message = signal(held.key, payload=artifact.hash, codec=1, artifacts=(artifact,))
    assert bench.store.deliver([message, message]) == [DELIVERED] * 2
    assert bench.store.get_artifact(artifact.hash) == data


@case
def messages_that_cannot_be_stored_are_refused_whole(bench: Bench) -> None:
    held = bench.hold()
    broken: Any = {"no": "bytes"}
    try:
        bench.store.deliver([signal(held.key), signal(held.key, payload=broken)])
    except (StoreError, TypeError):
        pass
    else:
        raise AssertionError("what is no payload was delivered")
    assert bench.row(held.key).inbox == 0


@case
def a_message_goes_out_with_the_events_that_send_it(bench: Bench) -> None:
    sender, waiting, held = bench.hold("sender"), bench.hold("waiting"), bench.hold("held")
    waiting.commit(waiting.suspend(Status.WAITING, awaits=["approved"]))
    by_id = signal(None, run_id="held")
    item = sender.steps(sends=[signal(waiting.key), by_id, signal(10**9)])
    assert sender.commit(item) == [APPLIED]
    assert bench.row(held.key).inbox == bench.row(waiting.key).inbox == 1
    assert sender.commit(item) == [ALREADY]
    assert bench.row(held.key).inbox == bench.row(waiting.key).inbox == 1
    assert [claim.row.run_key for claim in bench.claim(bench.worker())] == [waiting.key]


@case
def nothing_is_sent_without_the_events(bench: Bench) -> None:
    sender, held = bench.hold("sender"), bench.hold("held")
    sends = [signal(held.key)]
    broken: Any = {"no": "bytes"}
    assert sender.commit(replace(sender.steps(sends=sends), epoch=sender.epoch + 1)) == [Verdict.FENCED]
    sender = bench.hold("stale")
    assert sender.commit(sender.steps(inbox_seen=5, sends=sends)) == [STALE]
    sender = bench.hold("empty")
    assert sender.commit(replace(sender.steps(sends=sends), events=[])) == [Verdict.BAD]
    sender = bench.hold("gap")
    sender.steps()
    assert sender.commit(sender.steps(sends=sends)) == [Verdict.BAD]
    sender, good = bench.hold("broken"), bench.hold("good")
    batch = [sender.steps(sends=[*sends, signal(held.key, payload=broken)]), good.steps(sends=sends)]
    assert bench.store.commit(batch) == [Verdict.BAD, APPLIED]
    assert bench.row(held.key).inbox == 1
    assert len(bench.log(sender.key)) == 2


@case
def a_message_and_a_suspension_in_one_batch_never_miss_each_other(bench: Bench) -> None:
    for order in ("sender first", "sender last"):
        sender, held = bench.hold(f"sender, {order}"), bench.hold(f"held, {order}")
        suspend = held.suspend(Status.WAITING, awaits=["approved"], inbox_seen=0)
        send = sender.steps(sends=[signal(held.key)])
        if order == "sender first":
            sent, suspended = bench.store.commit([send, suspend])
        else:
            suspended, sent = bench.store.commit([suspend, send])
        assert sent is APPLIED
        assert suspended in (APPLIED, STALE)
        if suspended is APPLIED:
            held = bench.retake(held.key)
        assert len(inbox(bench, held)) == 1


@case
def a_run_may_send_to_itself(bench: Bench) -> None:
    held = bench.hold()
    item = held.suspend(Status.WAITING, awaits=["approved"], inbox_seen=0, sends=[signal(held.key)])
    assert held.commit(item) == [APPLIED]
    assert [row.name for row in inbox(bench, bench.retake(held.key))] == ["approved"]


@case
def a_signal_and_a_run_that_goes_to_sleep_never_miss_each_other(bench: Bench) -> None:
    other = bench.open()
    worker = bench.worker()
    for number in range(20):
        held = bench.hold(f"run-{number}", worker)
        item = held.suspend(Status.WAITING, awaits=["approved"], inbox_seen=0)
        both: list[Callable[[], Any]] = [partial(held.commit, item), partial(other.deliver, [signal(held.key)])]
        (verdict,), told = at_once(both)
        assert told == [DELIVERED]
        if verdict is APPLIED:
            (claim,) = bench.claim(worker)
            assert (claim.row.run_key, claim.row.inbox) == (held.key, 1)
        else:
            assert verdict is STALE
            assert len(inbox(bench, held)) == 1


@case
def a_timeout_and_a_signal_leave_one_truth(bench: Bench) -> None:
    other = bench.open()
    for number in range(20):
        held = bench.hold(f"run-{number}")
        item = held.steps(inbox_seen=0)
        both: list[Callable[[], Any]] = [partial(held.commit, item), partial(other.deliver, [signal(held.key)])]
        (verdict,), _ = at_once(both)
        assert verdict in (APPLIED, STALE)
        assert len(inbox(bench, held)) == 1
        assert len(bench.log(held.key)) == (3 if verdict is APPLIED else 2)


@case
def many_senders_lose_nothing_and_send_nothing_twice(bench: Bench) -> None:
    held = bench.hold()
    stores = [bench.store, bench.open(), bench.open()]
    shared = [signal(held.key, dedup=f"shared-{number}") for number in range(10)]

    def send(number: int) -> list[Delivery]:
        own = [signal(held.key, f"own-{number}", payload=b"%d" % count) for count in range(10)]
        return [told for pair in zip(own, shared, strict=True) for told in stores[number].deliver(pair)]

    told = [one for batch in at_once([partial(send, number) for number in range(3)]) for one in batch]
    assert (told.count(DELIVERED), told.count(DUPLICATE)) == (40, 20)
    rows = inbox(bench, held)
    assert bench.row(held.key).inbox == len(rows) == 40
    for number in range(3):
        assert [row.payload for row in rows if row.name == f"own-{number}"] == [b"%d" % count for count in range(10)]


@case
def runs_that_send_to_each_other_at_once_all_get_through(bench: Bench) -> None:
    holders = [bench.hold(f"run-{number}") for number in range(4)]
    stores = [bench.store, bench.open(), bench.open(), bench.open()]

    def work(number: int) -> list[Verdict]:
        held, targets = holders[number], [holders[number - 1].key, holders[number - 2].key, holders[number - 3].key]
        return [
            verdict
            for _ in range(8)
            for verdict in stores[number].commit([held.steps(sends=[signal(key) for key in targets])])
        ]

    assert at_once([partial(work, number) for number in range(4)]) == [[APPLIED] * 8] * 4
    assert {bench.row(held.key).inbox for held in holders} == {24}
