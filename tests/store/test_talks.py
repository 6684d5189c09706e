"""Verbs that no thread waits for do what those do that a thread waits for, or nothing that these would not find."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from perdure.errors import StoreBusy
from perdure.model.queues import Limits, QueueRow
from perdure.model.records import CommitItem, InboxKind, Kind, Message, Status, Verdict
from perdure.store.open import open_store
from perdure.store.postgres.address import parse_address
from perdure.store.postgres.claims import EASY
from perdure.store.postgres.runs import IN_A_STATEMENT
from perdure.store.protocol import Route
from perdure.testing.store_suite import CASES, Bench, Holder
from perdure.testing.store_suite.bench import ROUTE, SECOND
from tests.store.talking import TalkingStore, finish
from tests.store.wire import wired

pytestmark = pytest.mark.postgres
APPLIED, ALREADY, FENCED = Verdict.APPLIED, Verdict.ALREADY, Verdict.FENCED
LAWS = (
    "creating",
    "committing",
    "claiming",
    "queueing",
    "reclaiming",
    "refusing",
    "cancelling",
    "undoing",
    "workers",
    "concurrency",
)


@pytest.fixture
def url(made_schema):
    return made_schema()


@pytest.fixture
def bench(url):
    with Bench(lambda: open_store(url, durability="process")) as opened:
        # Both connections are there, and what is said most is prepared.
        held = opened.hold("first")
        held.commit(held.steps())
        opened.create("second")
        assert opened.claim(held.worker)
        yield opened


def of(*modules):
    """Cases of these modules, but for one that tells what is written from what was there, which is all the same."""
    return [
        case
        for case in CASES
        if case.__module__.rpartition(".")[2] in modules and case.__name__ != "what_is_sent_again_is_there_already"
    ]


@pytest.mark.parametrize("case", of(*LAWS), ids=lambda case: case.__name__)
def test_a_store_that_is_talked_with_keeps_the_laws(case, url):
    with Bench(lambda: TalkingStore(open_store(url, durability="process"))) as opened:
        case(opened)


def test_what_is_said_is_prepared_once_and_claims_and_commits_go_through(bench):
    store = TalkingStore(bench.store)
    worker = bench.worker()
    for number in range(3):
        made = bench.create(f"run-{number}")
        (claim,) = store.claim_runs(worker, [ROUTE], 5)
        assert claim.row == bench.row(made.run_key)
        assert claim.events == bench.log(made.run_key)
        assert store.commit([Holder(store, worker, claim).steps(2)]) == [APPLIED]
    assert store.talked == 6
    assert store.claim_runs(worker, [ROUTE], 5) == []
    assert store.talked == 7


def test_runs_are_created_in_one_breath_and_what_is_there_is_left_to_the_verb_that_waits(bench):
    store = TalkingStore(bench.store)
    made = store.create_runs([bench.new(f"new-{number}") for number in range(3 * IN_A_STATEMENT)])
    assert [one.row for one in made] == [bench.row(one.row.run_key) for one in made]
    assert all(one.is_new and bench.kinds(one.row.run_key) == [Kind.RUN_CREATED] for one in made)
    worker = bench.worker()
    (one,) = store.create_runs([bench.new("claimed")], claim_for=worker)
    assert one.claim.row == bench.row(one.row.run_key)
    assert one.claim.events == bench.log(one.row.run_key)
    assert store.talked == 2
    there, new = store.create_runs([bench.new("new-3"), bench.new("other")])
    assert (there.is_new, there.row) == (False, made[3].row)
    assert (new.is_new, new.row) == (True, bench.row(new.row.run_key))
    assert store.talked == 2


def test_a_run_whose_creation_was_not_answered_is_found_to_be_new(bench, url):
    with wired(url) as (wire, far), Bench(lambda: open_store(far, durability="process")) as other:
        store = TalkingStore(other.store)
        for run_id in ("a", "b"):  # the second is talked about, after which all is prepared
            assert store.create_runs([other.new(run_id)])[0].is_new
        assert store.talked == 1
        new, worker, now = [other.new("lost")], other.worker(), other.store.now()
        wire.cut_after(b"lost")
        talk = other.store.start_create(new, claim_for=worker, now=now)
        finish(talk)
        with pytest.raises(StoreBusy):
            talk.outcome()
        assert wire.cuts == 1
        (made,) = other.store.create_runs(new, claim_for=worker, now=now + SECOND)
        assert made.is_new
        assert made.claim.row == other.row(made.row.run_key)
        assert made.claim.events == other.log(made.row.run_key)
        assert [event.kind for event in made.claim.events] == [Kind.RUN_CREATED, Kind.RUN_CLAIMED]


def test_what_is_locked_before_anything_is_known_is_not_all_that_is_claimed(bench):
    store = TalkingStore(bench.store)
    worker, due = bench.worker(), bench.store.now() + SECOND
    for number in range(2):  # the second is locked at once
        bench.create(f"ready-{number}")
        assert len(store.claim_runs(worker, [ROUTE], 5)) == 1
    bench.create("later", delay_until=due)
    bench.create("ready")
    claims = store.claim_runs(worker, [ROUTE], 5, now=due)
    assert sorted(claim.row.run_id for claim in claims) == ["later", "ready"]
    assert store.talked == 3
    assert store.claim_runs(worker, [ROUTE], 5) == []
    bench.create("free")
    (claim,) = bench.claim(bench.worker())  # nothing is left locked
    assert claim.row.run_id == "free"


def test_what_is_locked_before_anything_is_known_is_of_no_queue_with_limits(bench):
    slow, later = (Route(ROUTE.workflow, queue=name) for name in ("slow", "later"))
    routes = [ROUTE, slow, later]
    store, worker = TalkingStore(bench.store), bench.worker(routes=routes)
    bench.store.define_queues([QueueRow(0, "", "slow", Limits(concurrency=1))])
    numbers = iter(range(100))

    def claimed():
        return sorted(claim.row.queue for claim in store.claim_runs(worker, routes, 9))

    def create(*queues):
        for queue in queues:
            bench.create(f"run-{next(numbers)}", queue=queue)

    for _ in range(2):  # the second is locked at once
        create("", "later")
        assert claimed() == ["", "later"]
    assert store.talked == 2
    create("", "slow")
    assert claimed() == ["", "slow"]
    assert store.talked == 2
    create("")
    assert claimed() == [""]
    for _ in range(2):
        create("", "later")
        assert claimed() == ["", "later"]
    assert store.talked == 4
    bench.store.define_queues([QueueRow(0, "", "later", Limits(concurrency=3))])  # four are under way
    create("", "later")
    assert claimed() == [""]
    create("", "slow")
    assert claimed() == [""]


def test_of_a_batch_with_one_refused_item_the_verb_that_waits_tells_which(bench):
    one, two = bench.hold("one"), bench.hold("two")
    bench.store.release(two.worker, [two.key])
    bench.retake(two.key)
    items = [one.steps(), two.steps()]
    talk = bench.store.start_commit(items)
    finish(talk)
    with pytest.raises(StoreBusy):
        talk.outcome()
    assert bench.store.commit(items) == [ALREADY, FENCED]
    assert bench.kinds(one.key)[-1] == Kind.STEP_COMPLETED


def test_a_commit_whose_answer_is_lost_is_found_to_be_there(bench, url):
    with wired(url) as (wire, far), Bench(lambda: open_store(far, durability="process")) as other:
        held = other.hold("held")
        assert held.commit(held.steps()) == [APPLIED]
        item = held.steps(2)
        wire.cut_after(item.events[0].hash)
        talk = other.store.start_commit([item])
        finish(talk)
        with pytest.raises(StoreBusy):
            talk.outcome()
        assert wire.cuts == 1
        assert other.store.commit([item]) == [ALREADY]


def test_what_was_claimed_without_an_answer_is_given_by_the_verb_that_waits(bench, url):
    with wired(url) as (wire, far), Bench(lambda: open_store(far, durability="process")) as other:
        worker, store = other.worker(), TalkingStore(other.store)
        for run_id in ("a", "b"):  # the second is talked about, after which all is prepared
            other.create(run_id)
            assert len(store.claim_runs(worker, [ROUTE], 5)) == 1
        assert store.talked == 1
        made = other.create("made")
        talk = other.store.start_claims(worker, [ROUTE], 5)
        wire.cut_after(b"claim_runs")
        finish(talk)
        with pytest.raises(StoreBusy):
            talk.outcome()
        assert wire.cuts == 1
        assert other.store.start_claims(worker, [ROUTE], 5) is None  # it must first be known what became of that
        (claim,) = other.claim(worker)
        assert claim.row == other.row(made.run_key)
        assert other.kinds(made.run_key) == [Kind.RUN_CREATED, Kind.RUN_CLAIMED]


SLOW = """
CREATE FUNCTION {0}.slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock(hashtext('{0}')); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON {0}.runs DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (new.status = 2) EXECUTE FUNCTION {0}.slow();
"""
"""Has the server take its time with the commit of a claim, for as long as a lock is held."""


def test_what_the_server_is_still_claiming_when_the_connection_is_lost_is_not_forgotten(bench, url):
    schema = parse_address(url).schema
    with (
        wired(url) as (wire, far),
        Bench(lambda: open_store(far, durability="process")) as other,
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(parse_address(url).conninfo, autocommit=True) as server,
    ):
        worker, store = other.worker(), TalkingStore(other.store)
        for run_id in ("a", "b"):
            other.create(run_id)
            assert len(store.claim_runs(worker, [ROUTE], 5)) == 1
        made = other.create("made")
        server.execute(SLOW.format(schema))
        server.execute("SELECT pg_advisory_lock(hashtext(%s))", [schema])
        talk = other.store.start_claims(worker, [ROUTE], 5)
        while (claiming := _waiting_for(server, server.info.backend_pid)) is None:
            assert not talk.go_on()
        wire.refuse()
        wire.accept()
        finish(talk)
        with pytest.raises(StoreBusy):
            talk.outcome()
        again = pool.submit(other.claim, worker)
        while not (again.done() or _waiting_for(server, claiming[0])):
            pass
        server.execute("SELECT pg_advisory_unlock(hashtext(%s))", [schema])
        (claim,) = again.result()
        assert claim.row == other.row(made.run_key)
        assert other.kinds(made.run_key) == [Kind.RUN_CREATED, Kind.RUN_CLAIMED]


def _waiting_for(server, holder):
    """Which of the server's processes waits for a lock that another one holds."""
    waiting = "SELECT pid FROM pg_locks WHERE NOT granted AND %s = ANY (pg_blocking_pids(pid))"
    return server.execute(waiting, [holder]).fetchone()


def test_no_queue_is_locked_while_an_event_loop_does_something_else(bench, url):
    address, slow = parse_address(url), Route(ROUTE.workflow, queue="slow")
    bench.store.define_queues([QueueRow(0, "", "slow", Limits(concurrency=9))])
    worker = bench.worker(routes=[slow])
    for run_id in ("a", "b", "c"):
        bench.create(run_id, queue="slow")
    talk = bench.store.start_claims(worker, [slow], 1)
    with psycopg.connect(address.conninfo, autocommit=True) as server:
        while not talk.go_on():
            server.execute(SQL("SELECT 1 FROM {}.queues FOR UPDATE NOWAIT").format(Identifier(address.schema)))
    with pytest.raises(StoreBusy):
        talk.outcome()
    assert len(bench.store.claim_runs(worker, [slow], 1)) == 1
    assert bench.store.start_claims(worker, [slow], 1) is None  # as long as there is more
    assert len(bench.store.claim_runs(worker, [slow], 5)) == 2
    assert bench.store.claim_runs(worker, [slow], 5) == []
    talk = bench.store.start_claims(worker, [slow], 1)
    finish(talk)
    assert talk.outcome() == []


def test_a_claim_that_is_abandoned_has_claimed_nothing_and_locks_nothing(bench):
    made, worker = bench.create("made"), bench.worker()
    talk = bench.store.start_claims(worker, [ROUTE], 5)
    while not talk._is_piped:
        assert not talk.go_on()
    talk.abandon()  # the run is being locked
    assert bench.row(made.run_key).status is Status.PENDING
    with pytest.raises(StoreBusy):
        talk.outcome()
    other = bench.open()
    (claim,) = other.claim_runs(worker, [ROUTE], 5)
    assert claim.row.run_id == "made"
    assert bench.claim(worker) == []


def test_closing_a_store_ends_what_is_being_said(bench, url):
    held = bench.hold("held")
    store = open_store(url, durability="process")
    assert store.commit([held.steps()]) == [APPLIED]
    bench.create("third")
    assert store.claim_runs(held.worker, [ROUTE], 5)
    talk = store.start_commit([held.steps()])
    claims = store.start_claims(held.worker, [ROUTE], 5)
    store.close()
    assert talk.go_on()
    assert claims.go_on()
    for ended in (talk, claims):
        with pytest.raises(StoreBusy):
            ended.outcome()
    assert store.start_commit([held.steps()]) is None


def test_while_a_connection_is_used_nobody_else_talks_on_it(bench):
    one, two = bench.hold("one"), bench.hold("two")
    talk = bench.store.start_commit([one.steps()])
    assert bench.store.start_commit([two.steps()]) is None
    finish(talk)
    assert talk.outcome() == [APPLIED]
    assert talk.go_on()
    assert bench.store.start_commit([two.steps()]) is not None


def test_more_than_fits_into_the_socket_is_sent_as_it_can_be(url):
    with wired(url) as (wire, far), Bench(lambda: open_store(far, durability="process")) as bench:
        _send_much(bench, wire)


def _send_much(bench, wire):
    first = bench.hold("first")
    assert first.commit(first.steps()) == [APPLIED]
    held = [bench.hold(f"run-{number}") for number in range(40)]
    talk = bench.store.start_commit([one.steps() for one in held])  # after which it is prepared
    finish(talk)
    assert talk.outcome() == [APPLIED] * len(held)
    items = [CommitItem(one.key, one.epoch, []) for one in held]
    for one, item in zip(held, items, strict=True):
        item.events = [one.event(Kind.STEP_COMPLETED, b'"' + b"x" * 500_000 + b'"', "greet/say#3")]
    with wire.held_up():
        talk = bench.store.start_commit(items)
        assert talk.unsent
    finish(talk)
    assert talk.outcome() == [APPLIED] * len(items)
    assert len(bench.log(held[-1].key)[-1].payload) == 500_002


def test_what_no_query_takes_is_left_to_the_verb_that_waits(bench):
    one, two = bench.hold("one"), bench.hold("two")
    item = one.steps()
    item.events[0] = item.events[0]._replace(took=1 << 70)
    assert bench.store.start_commit([item]) is None
    assert bench.store.commit([item]) == [Verdict.BAD]
    talk = bench.store.start_commit([two.steps()])  # the connection is as good as before
    finish(talk)
    assert talk.outcome() == [APPLIED]


def test_where_there_is_much_to_read_somebody_waits_for_it(bench):
    worker = bench.worker()
    held = bench.hold("long", worker)
    assert held.commit(held.steps(EASY)) == [APPLIED]
    bench.store.release(worker, [held.key])
    talk = bench.store.start_claims(worker, [ROUTE], 5)
    finish(talk)
    with pytest.raises(StoreBusy):
        talk.outcome()
    (claim,) = bench.claim(worker)
    assert claim.row.seq == EASY + 4


def test_what_others_have_done_is_looked_at_in_one_breath(bench, url):
    held = bench.hold("held")
    bench.store.deliver([Message(InboxKind.SIGNAL, held.key, name="word", payload=b'"news"')])
    ends = bench.hold("ends")
    ends.commit(ends.end())
    first = bench.row(bench.create("urgent").run_key)
    bench.store.request_cancel(first.run_key, "not any more")
    store = bench.store
    looks = [
        (store.unread, store.start_unread, (held.worker,)),
        (store.over, store.start_over, ([held.key, ends.key, first.run_key], 5)),
        (store.urgent, store.start_urgent, ([ROUTE], 5)),
    ]
    for look, start, asked in looks:
        seen = look(*asked)
        talk = start(*asked)
        finish(talk)
        assert talk.outcome() == seen
    assert store.start_urgent([Route("never", "1", "", "")], 5) is None
    assert store.start_urgent([ROUTE], 0) is None


def test_a_file_is_asked_at_once(store_path):
    with Bench(lambda: open_store(store_path, durability="process")) as bench:
        held = bench.hold()
        assert bench.store.start_commit([held.steps()]) is None
        assert bench.store.start_claims(held.worker, [ROUTE], 5) is None
