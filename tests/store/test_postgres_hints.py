"""Hints that others have committed: heard soon, sent seldom, and never believed to be all."""

from __future__ import annotations

import threading

import psycopg
import pytest

from perdure.store.open import open_store
from perdure.store.postgres.hints import FLOOR
from perdure.testing.store_suite import Bench
from perdure.testing.store_suite.bench import soon
from tests.store.children import child

pytestmark = pytest.mark.postgres


def quiet(store):
    """Ask until the store has nothing new to tell for a while."""
    nobody = threading.Event()
    return any(not store.changed() and not nobody.wait(FLOOR / 4) and not store.changed() for _ in range(200))


@pytest.fixture
def alone(servers):
    """A bench on a server where nobody else commits anything."""
    server = servers.server(autovacuum="off")
    with Bench(lambda: open_store(server.url("perdure"))) as bench:
        yield bench, server


def test_what_others_commit_is_heard_long_before_it_would_be_looked_for(alone):
    bench, _ = alone
    other = bench.open()
    clock = bench.store.clock
    other.changed()
    waits = []
    for number in range(10):
        assert quiet(bench.store)
        other.create_runs([bench.new(f"run-{number}")])
        began = clock.monotonic()
        assert soon(bench.store.changed)
        waits.append(clock.monotonic() - began)
    assert sorted(waits)[5] < FLOOR / 2


def test_a_lost_hint_is_made_up_for(alone):
    bench, server = alone
    assert quiet(bench.store)
    with server.connect() as connection:
        connection.execute("CREATE TABLE public.other (number int)")
    assert soon(bench.store.changed, 5 * FLOOR)


def test_many_commits_share_a_hint(alone):
    bench, server = alone
    held = bench.hold()
    other = bench.open()
    other.changed()
    items = [held.steps() for _ in range(300)]
    with server.connect() as ear:
        ear.execute("LISTEN perdure")
        for item in items:
            other.commit([item])
        other.close()
        hints = list(ear.notifies(timeout=0.2))
    assert 1 <= len(hints) <= len(items) / 5


def test_who_closes_has_told_what_it_did(alone):
    bench, server = alone
    run = bench.create()
    with server.connect() as ear:
        ear.execute("LISTEN perdure")
        with open_store(server.url("perdure")) as store:
            store.request_cancel(run.run_key, "enough")
        assert len(list(ear.notifies(timeout=0.2))) == 1


def test_hints_go_on_after_their_session_was_ended(alone):
    bench, server = alone
    other = bench.open()
    other.changed()
    assert quiet(bench.store)
    server.terminate_backends()
    assert soon(lambda: listens(server))
    assert quiet(bench.store)
    other.create_runs([bench.new("late")])
    assert soon(bench.store.changed)


def listens(server):
    try:
        with server.connect() as connection:
            query = (
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' OR query LIKE '%pg_current_snapshot%'"
            )
            return connection.execute(query).fetchone()[0] >= 2
    except psycopg.OperationalError:
        return False


def test_behind_a_pooler_commits_are_looked_for(servers):
    server = servers.server(autovacuum="off")
    bouncer = servers.bouncer(server)
    with Bench(lambda: open_store(bouncer.url("perdure"))) as bench:
        other = bench.open()
        assert quiet(bench.store)
        other.create_runs([bench.new()])
        assert soon(bench.store.changed, 2)


def test_asking_never_waits(alone):
    bench, server = alone
    bench.store.changed()
    server.stop("immediate")
    clock = bench.store.clock
    nobody = threading.Event()
    for _ in range(20):
        began = clock.monotonic()
        bench.store.changed()
        assert clock.monotonic() - began < 0.05
        nobody.wait(0.02)
    server.start()


def test_who_hears_the_hints_of_many_gives_its_own_more_seldom(alone):
    bench, server = alone
    one = bench.open()
    one.changed()
    assert quiet(one)
    hints = one._hints
    usual = hints._gap
    with server.connect() as others:
        for _ in range(5):
            others.execute("SELECT pg_notify('perdure', '')")
        assert soon(lambda: hints._gap > 4 * usual)
    one.create_runs([bench.new()])
    assert soon(lambda: hints._due is None and hints._gap == usual)


HUNGRY = """
import resource, threading
from perdure.errors import StoreUnreachable
from perdure.testing.store_suite.bench import soon
from tests.store.children import child

store = open_store(sys.argv[1])
store.changed()
say("ready"); hear()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
# None is left for a new connection, nor to wait with.
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
say("none left"); hear()
try:
    store.get_run("r")
except StoreUnreachable:
    pass
else:
    raise AssertionError("connected without a descriptor")
hints = [thread for thread in threading.enumerate() if thread.name == "perdure-hints"]
assert len(hints) == 1
hints[0].join(1)
assert hints[0].is_alive()
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
assert soon(lambda: not store.changed())
say("well"); hear()
assert soon(store.changed)
say("heard")
"""


def test_hints_go_on_in_a_process_that_had_no_file_descriptors_left(alone):
    bench, server = alone
    with child(HUNGRY, server.url("perdure")) as process:
        assert process.hear() == ["ready"]
        process.say("go")
        assert process.hear() == ["none", "left"]
        server.terminate_backends()
        process.say("go")
        assert process.hear() == ["well"]
        process.say("go")
        bench.create()
        assert process.finish() == ["heard"]
