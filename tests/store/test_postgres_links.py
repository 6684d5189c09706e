"""Connections that are lost, at the worst moments too: nothing is lost with them, and nothing is done twice."""

from __future__ import annotations

import psycopg
import pytest

from perdure.errors import StoreBusy, StoreReadOnly, StoreUnreachable
from perdure.model.records import Kind, Status, Verdict
from perdure.store.open import open_store
from perdure.store.postgres.arrays import bigints
from perdure.testing.store_suite import Bench
from perdure.testing.store_suite.bench import ROUTE, soon
from tests.servers.server import ROLE
from tests.store.talking import finish
from tests.store.wire import wired

pytestmark = pytest.mark.postgres
APPLIED, ALREADY, FENCED, BAD = Verdict.APPLIED, Verdict.ALREADY, Verdict.FENCED, Verdict.BAD


@pytest.fixture
def line(postgres_url):
    """A bench at the far end of a wire, and the wire."""
    with wired(postgres_url) as (wire, url), Bench(lambda: open_store(url, durability="process")) as bench:
        yield bench, wire


@pytest.fixture
def own(servers):
    """A server of the test's own, since its sessions are ended, and a bench on it."""
    server = servers.server()
    with Bench(lambda: open_store(server.url("perdure"), durability="process")) as bench:
        yield server, bench


def test_a_commit_whose_answer_was_lost_is_found_to_be_there(line):
    bench, wire = line
    one, two = bench.hold("one"), bench.hold("two")
    item = one.steps()
    wire.cut_after(item.events[0].hash)
    assert one.commit(item) == [ALREADY]
    assert wire.cuts == 1
    batch = [one.steps(2), two.end()]
    wire.cut_after(batch[1].events[0].hash)
    assert bench.store.commit(batch) == [ALREADY, ALREADY]
    assert wire.cuts == 2
    assert bench.row(two.key).status is Status.COMPLETED
    assert one.commit(one.steps()) == [APPLIED]


def test_what_was_claimed_without_an_answer_is_claimed(line):
    bench, wire = line
    made = bench.create_many(3)
    worker = bench.worker()
    wire.cut_after(b"COMMIT")
    claims = bench.claim(worker)
    assert wire.cuts == 1
    assert [claim.row for claim in claims] == [bench.row(one.row.run_key) for one in made]
    assert all(claim.complete and claim.events == bench.log(claim.row.run_key) for claim in claims)
    assert all(bench.kinds(one.row.run_key) == [Kind.RUN_CREATED, Kind.RUN_CLAIMED] for one in made)


def test_what_was_claimed_while_the_database_went_away_is_given_at_the_next_try(line):
    bench, wire = line
    worker = bench.worker()
    bench.create("earlier")
    assert bench.claim(worker)  # the connection is there
    row = bench.create()
    wire.cut_after(b"COMMIT", for_good=True)
    with pytest.raises(StoreUnreachable):
        bench.claim(worker)
    wire.accept()
    assert soon(lambda: reachable(bench))
    bench.create("later")
    (claim,) = bench.claim(worker)
    assert claim.row == bench.row(row.run_key)
    assert claim.events == bench.log(row.run_key)
    assert [claim.row.run_id for claim in bench.claim(worker)] == ["later"]


def reachable(bench):
    """Whether all connections have come back."""
    store = bench.store
    try:
        for link in (store._writer, store._committer, store._claimer, store._reader):
            link.read(lambda session: session.fetch_value("clock"))
    except StoreUnreachable:
        return False
    return True


def test_runs_whose_creation_was_not_answered_are_new_all_the_same(line):
    bench, wire = line
    worker = bench.worker()
    new = [bench.new("a"), bench.new("b")]
    wire.cut_after(new[1].uid)
    made = bench.store.create_runs(new, claim_for=worker)
    assert wire.cuts == 1
    assert [(one.is_new, one.row.status) for one in made] == [(True, Status.RUNNING)] * 2
    for one in made:
        assert one.claim is not None
        assert one.claim.events == bench.log(one.row.run_key)


def test_a_resumption_and_a_block_are_done_once(line):
    bench, wire = line
    held = bench.hold()
    held.commit(held.end(Status.FAILED))
    wire.cut_after(b"COMMIT")
    row = bench.store.resume_run(held.key, held.epoch, b"{}")
    assert row is not None
    assert row.status is Status.PENDING
    wire.cut_after(b"COMMIT")
    assert bench.store.block_run(held.key, row.epoch, b"{}", "drift") is True
    assert wire.cuts == 2
    assert bench.kinds(held.key)[-3:] == [Kind.RUN_FAILED, Kind.RUN_RESUMED, Kind.RUN_BLOCKED]


def test_verbs_go_on_after_their_sessions_were_ended(own):
    server, bench_there = own
    bench = bench_there
    held = bench.hold()
    for _ in range(3):
        server.terminate_backends()
        assert held.commit(held.steps()) == [APPLIED]
        assert bench.store.renew(held.worker, 10**6, 2)
        assert bench.store.held(held.worker) == {held.key: held.epoch}
        assert [worker.worker_key for worker in bench.store.list_workers()] == [held.worker]


def test_each_connection_that_was_opened_again_is_counted(own):
    server, bench = own
    held = bench.hold()
    assert held.commit(held.steps()) == [APPLIED]
    assert bench.claim(held.worker) == []
    assert bench.store.gauge().reconnects == 0
    server.terminate_backends()
    assert held.commit(held.steps()) == [APPLIED]
    assert bench.claim(held.worker) == []
    assert bench.store.gauge().reconnects == 2  # who commits, and who looks for what is to be claimed


def test_a_hasty_thread_neither_claims_nor_commits_nor_creates(bench_there):
    bench = bench_there
    held = bench.hold()
    bench.create("more")
    bench.store.hasty = True
    try:
        for verb in (lambda: held.commit(held.steps()), lambda: bench.claim(held.worker), lambda: bench.create("two")):
            with pytest.raises(StoreBusy):
                verb()
    finally:
        bench.store.hasty = False
    assert len(bench.claim(held.worker)) == 1


@pytest.fixture
def bench_there(postgres_url):
    with Bench(lambda: open_store(postgres_url, durability="process")) as bench:
        yield bench


def test_a_database_that_is_away_is_told_at_once_and_tried_again_later(line):
    bench, wire = line
    held = bench.hold()
    wire.refuse()
    item = held.steps()
    for _ in range(3):
        with pytest.raises(StoreUnreachable) as refused:
            held.commit(item)
        assert refused.value.advice
    wire.accept()
    assert soon(lambda: reachable(bench))
    assert held.commit(item) == [APPLIED]


def test_who_gets_in_each_others_way_is_undone_and_tried_again(bench_there):
    bench = bench_there
    tries = []

    def deadlock(connection):
        # What the server says of a deadlock, without the wait for one.
        tries.append(connection)
        if len(tries) < 3:
            connection.script(b"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40P01'; END $$")
        return "done"

    assert bench.store._writer.write(deadlock) == "done"
    assert len(tries) == 3


def test_a_session_that_turned_read_only_is_given_up(own):
    server, bench = own
    held = bench.hold()
    held.commit(held.steps())
    committer = bench.store._committer
    opened = committer.opened
    committer.read(lambda session: session.script(b"SET default_transaction_read_only = on"))
    assert held.commit(held.steps()) == [APPLIED]
    assert committer.opened == opened + 1
    with server.connect() as connection:
        connection.execute(f"ALTER ROLE {ROLE} SET default_transaction_read_only = on")
    server.terminate_backends()
    with pytest.raises(StoreReadOnly) as refused:
        held.commit(held.steps())
    with server.connect() as connection:
        connection.execute(f"ALTER ROLE {ROLE} RESET default_transaction_read_only")
    assert refused.value.advice


def test_who_looks_without_waiting_stays_with_no_server_that_takes_no_writes(own):
    _, bench = own
    held = bench.hold()
    store, looks = bench.store, bench.store._looks
    assert store.start_unread(held.worker) is None  # there is no connection yet
    assert store.unread(held.worker) == []
    looks.read(lambda session: session.script(b"SET default_transaction_read_only = on"))
    opened = looks.opened

    def is_turned_away():
        talk = store.start_unread(held.worker)
        assert talk is not None
        finish(talk)
        try:
            return talk.outcome() != []
        except StoreBusy:
            return True

    assert soon(is_turned_away)  # it is asked once a second
    assert store.unread(held.worker) == []
    assert looks.opened == opened + 1


def test_a_bad_item_among_many_takes_down_its_own_run_only(bench_there):
    worker = bench_there.worker()
    held = [bench_there.hold(f"run-{number}", worker) for number in range(20)]
    items = [one.steps() for one in held]
    items[3].events[0] = items[3].events[0]._replace(key="no \0 text")
    items[7].events[0] = items[7].events[0]._replace(took=1 << 70)
    items[11].epoch += 1
    verdicts = bench_there.store.commit(items)
    assert verdicts == [
        {3: BAD, 7: BAD, 11: FENCED}.get(number, APPLIED) for number in range(20)
    ]  # fmt: skip
    lengths = [len(bench_there.log(one.key)) for one in held]
    assert lengths == [2 if number in {3, 7, 11} else 3 for number in range(20)]


def test_a_closed_store_says_so(postgres_url):
    store = open_store(postgres_url)
    store.close()
    store.close()
    with pytest.raises(StoreUnreachable, match="closed"):
        store.get_run("one")


def test_a_claim_skips_what_others_are_about_to_take(bench_there):
    first, second = bench_there.create("first"), bench_there.create("second")
    worker = bench_there.worker()
    other = bench_there.open()

    def meanwhile(session):
        session.fetch("fence", bigints([first.run_key]))
        return other.claim_runs(worker, [ROUTE], 5)

    claims = bench_there.store._writer.write(meanwhile)
    assert [claim.row.run_key for claim in claims] == [second.run_key]


def test_the_environment_may_name_the_server(postgres_url, monkeypatch):
    parts = psycopg.conninfo.conninfo_to_dict(postgres_url.partition("?")[0])
    for name, variable in (("host", "PGHOST"), ("port", "PGPORT"), ("user", "PGUSER"), ("dbname", "PGDATABASE")):
        monkeypatch.setenv(variable, str(parts.get(name, "")))
    schema = postgres_url.rpartition("=")[2]
    with open_store(f"postgresql://?schema={schema}", durability="process") as store:
        assert store.created
