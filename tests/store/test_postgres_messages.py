"""Messages over connections that are lost: each is delivered once, whatever was answered."""

from __future__ import annotations

import pytest

from perdure.model.records import Delivery, InboxKind, Kind, Message, Status, Verdict
from perdure.store.open import open_store
from perdure.store.protocol import Filter
from perdure.testing.store_suite import Bench
from perdure.testing.store_suite.bench import ROUTE
from tests.store.wire import wired

pytestmark = pytest.mark.postgres


@pytest.fixture
def line(postgres_url):
    """A bench at the far end of a wire, and the wire."""
    with wired(postgres_url) as (wire, url), Bench(lambda: open_store(url, durability="process")) as bench:
        yield bench, wire


def signal(held, payload=b"the very words"):
    return Message(InboxKind.SIGNAL, held.key, name="approved", payload=payload)


def payloads(bench, held):
    return [row.payload for run_key, _, rows in bench.store.unread(held.worker) for row in rows if run_key == held.key]


@pytest.mark.parametrize("last_words", [b"COMMIT", b"the very words"])
def test_a_message_without_a_dedup_key_is_delivered_once_although_the_answer_was_lost(line, last_words):
    bench, wire = line
    held, ended = bench.hold(), bench.hold("ended")
    ended.commit(ended.end())
    wire.cut_after(last_words)
    told = bench.store.deliver([signal(held), signal(held, b"more"), signal(ended)])
    assert wire.cuts == 1
    assert told == [Delivery.DELIVERED, Delivery.DELIVERED, Delivery.ENDED]
    assert payloads(bench, held) == [b"the very words", b"more"]
    assert bench.row(held.key).inbox == 2


def test_what_has_been_consumed_meanwhile_is_not_delivered_again(line, postgres_url):
    bench, wire = line
    held = bench.hold()
    committed = bench.store._writer._transaction

    def consumed_then_lost(session, work):
        """The holder is quick: it has eaten the message before the sender knows that the connection is lost."""
        bench.store._writer._transaction = committed
        wire.cut_after(b"COMMIT")
        try:
            return committed(session, work)
        finally:
            with open_store(postgres_url, durability="process") as other:
                ((_, _, (row,)),) = other.unread(held.worker)
                assert other.commit([held.steps(take=[row.inbox_key])]) == [Verdict.APPLIED]

    bench.store._writer._transaction = consumed_then_lost
    assert bench.store.deliver([signal(held)]) == [Delivery.DELIVERED]
    assert wire.cuts == 1
    assert payloads(bench, held) == []
    assert bench.row(held.key).inbox == 1


def test_a_transaction_that_was_rolled_back_or_never_was_is_not_committed(line):
    bench, _ = line
    writer = bench.store._writer

    def sign(session):
        return session.fetch("sign", None)[0][1]

    def fail(session):
        numbers.append(sign(session))
        raise ZeroDivisionError

    def is_committed(number):
        return writer.read(lambda session: session.fetch_value("is_committed", number))

    numbers = [writer.write(sign)]
    with pytest.raises(ZeroDivisionError):
        writer.write(fail)
    assert [is_committed(number) for number in (*numbers, numbers[0] + 10**9)] == [True, False, False]


def test_what_a_commit_does_to_other_runs_is_done_once_although_the_answer_was_lost(line):
    bench, wire = line
    sender, held = bench.hold("sender"), bench.hold("held")
    item = sender.steps(sends=[signal(held)], children=[bench.new("child", parent_key=sender.key)])
    wire.cut_after(b"COMMIT")
    assert sender.commit(item) == [Verdict.ALREADY]
    assert wire.cuts == 1
    assert payloads(bench, held) == [b"the very words"]
    assert [row.run_id for row in bench.store.list_runs(Filter(parent=sender.key))] == ["child"]
    assert payloads(bench, sender) == []


def test_a_cancel_and_a_pause_are_asked_for_once_although_the_answer_was_lost(line):
    bench, wire = line
    held, sleeping, paused = bench.hold("held"), bench.hold("sleeping"), bench.hold("paused")
    for one in (sleeping, paused):
        one.commit(one.suspend(Status.SLEEPING))
    for key, verb, status in (
        (held.key, bench.store.request_cancel, Status.RUNNING),
        (sleeping.key, bench.store.request_cancel, Status.SLEEPING),
        (paused.key, bench.store.pause_run, Status.PAUSED),
    ):
        wire.cut_after(b"COMMIT")
        assert verb(key, "enough") is status
    assert wire.cuts == 3
    assert bench.row(held.key).inbox == bench.row(sleeping.key).inbox == 1
    assert bench.store.urgent([ROUTE], 10) == [sleeping.key]
    assert bench.kinds(paused.key).count(Kind.RUN_PAUSED) == 1
