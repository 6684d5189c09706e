"""Who is dead on PostgreSQL: session locks are believed where they can be, and nobody who lives is taken for dead."""

from __future__ import annotations

import os

import pytest

from perdure.errors import StoreError
from perdure.store.open import open_store
from perdure.store.postgres.liveness import FREE_FOR, SETTLED, Sight, Watch
from perdure.testing.store_suite import Bench
from perdure.testing.store_suite.bench import SECOND, soon
from tests.store.children import child

STORM = "PERDURE_STORM" in os.environ
HEARTBEAT = 10 * SECOND
TICK = SECOND // 10
ALIVE = Sight(
    1, "start", "session", locked=True, beat=5, ended=False, stopped=False, up_for=3600 * SECOND, up_since="start"
)
FREE = ALIVE._replace(locked=False)


class Looks:
    """An observer that looks at one worker, and whose own time is told."""

    def __init__(self):
        self.time = 1000 * SECOND
        self.session = 1
        self.watch = Watch(lambda: self.time / 1e6)
        self.at(ALIVE)

    def at(self, sight, after=TICK, grace=HEARTBEAT):
        """Whether the worker is dead to one more look."""
        self.time += after
        return self.watch.dead([sight], opened=self.session, grace=grace) == [1]

    def patiently(self, sight, seconds, **options):
        """For how long (µs) it was looked at until it was dead; None if that never was."""
        for waited in range(0, round(seconds * SECOND), TICK):
            if self.at(sight, **options):
                return waited
        return None


@pytest.fixture
def looks():
    """An observer whose session has lasted."""
    looks = Looks()
    assert looks.patiently(ALIVE, 5) is None
    return looks


def test_a_free_lock_is_believed_after_a_moment(looks):
    assert looks.patiently(FREE, 5) == FREE_FOR


def test_a_lock_that_was_taken_again_meanwhile_is_not_missed(looks):
    for _ in range(20):
        assert looks.patiently(FREE, 0.4) is None
        assert not looks.at(ALIVE)
        assert looks.patiently(FREE, 0.4) is None
        assert not looks.at(FREE._replace(session="another"))


def test_a_free_lock_under_a_lease_that_has_ended_says_all(looks):
    assert looks.at(FREE._replace(ended=True))


def test_an_observer_that_was_stopped_has_seen_nothing_meanwhile(looks):
    assert not looks.at(FREE)
    assert not looks.at(FREE, after=3600 * SECOND)
    frozen = ALIVE._replace(ended=True)
    assert not looks.at(frozen)
    assert not looks.at(frozen, after=3600 * SECOND)


def test_a_new_session_of_the_observers_proves_nothing_for_a_while():
    looks = Looks()
    assert looks.patiently(FREE, 10) == SETTLED - TICK
    looks = Looks()
    looks.patiently(ALIVE, 5)
    looks.session += 1
    assert looks.patiently(FREE, 10) == SETTLED


def test_a_server_that_has_just_started_proves_nothing(looks):
    assert looks.patiently(FREE._replace(up_for=SETTLED - 1), 30) is None


@pytest.mark.parametrize("sight", [FREE._replace(server="earlier"), FREE._replace(session="")])
def test_where_the_lock_says_nothing_only_the_lease_counts(looks, sight):
    assert looks.patiently(sight, 100) is None
    assert looks.at(sight._replace(ended=True))


def test_who_shares_its_sessions_with_others_goes_by_leases(looks):
    looks.session = None
    assert looks.patiently(FREE, 30) is None
    assert looks.at(FREE._replace(ended=True))


def test_a_frozen_worker_is_dead_after_a_grace_with_the_same_beat(looks):
    frozen = ALIVE._replace(ended=True)
    assert looks.patiently(frozen, 9.9) is None
    assert not looks.at(frozen._replace(beat=6))
    assert looks.patiently(frozen._replace(beat=6), 20) == HEARTBEAT - TICK


def test_a_worker_that_has_stopped_is_dead_to_the_others(looks):
    assert looks.at(ALIVE._replace(stopped=True))


# -- on a server


WORKER = """
bench = Bench(lambda: open_store(sys.argv[1], durability="process"))
key = bench.worker()
say(key)
while (word := hear()) != "end":
    say(bench.store.renew(key, int(word), 2))
"""
LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"


def settled(bench, observer):
    """Look until a free lock would be believed."""
    watch = bench.store._workers._watches
    bench.store.dead_workers(observer, grace=HEARTBEAT)
    opened = watch[observer]._since
    return soon(
        lambda: (bench.store.dead_workers(observer, grace=HEARTBEAT), watch[observer]._last - opened >= SETTLED)[1]
    )


def dead(bench, observer):
    return bench.store.dead_workers(observer, grace=HEARTBEAT)


@pytest.fixture
def own(servers):
    """A server of the test's own, and a bench on it."""
    server = servers.server()
    with Bench(lambda: open_store(server.url("perdure"))) as bench:
        yield server, bench


@pytest.mark.postgres
@pytest.mark.crash
def test_a_killed_worker_is_dead_within_a_second(own):
    server, bench = own
    observer = bench.worker()
    with child(WORKER, server.url("perdure")) as process:
        key = int(process.hear()[0])
        assert settled(bench, observer)
        clock = bench.store.clock
        process.kill()
        began = clock.monotonic()
        assert soon(lambda: dead(bench, observer) == [key])
        assert FREE_FOR / SECOND <= clock.monotonic() - began < 2


@pytest.mark.slow
@pytest.mark.postgres
def test_a_worker_whose_sessions_are_ended_lives_on(own):
    server, bench = own
    observer, other = bench.worker(), bench.worker(bench.open())
    assert settled(bench, observer)
    sessions = set()
    for _ in range(4 if STORM else 3):  # the first and the third see different ones, however late a worker comes back
        server.terminate_backends()
        sessions.add(next(row.sidecar for row in all_workers(bench) if row.worker_key == other))
        assert soon(lambda: settled(bench, observer))
        assert dead(bench, observer) == []
    assert len(sessions) > 1


@pytest.mark.postgres
def test_a_worker_whose_session_has_ended_is_in_doubt_until_its_row_names_another(own):
    server, bench = own
    key = bench.worker()
    assert not bench.store.doubtful(key)
    server.kill_hard()
    assert soon(lambda: bench.store.doubtful(key))
    server.start()
    assert soon(lambda: not bench.store.doubtful(key))


def all_workers(bench):
    found = []

    def ask():
        try:
            found[:] = bench.store.list_workers()
        except StoreError:
            return False
        return len(found) == 2 and all(row.sidecar for row in found)

    assert soon(ask)
    return found


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_nobody_is_taken_for_dead_because_the_server_was_started_again(own, mode):
    server, bench = own
    observer, held = bench.worker(), bench.hold(worker=bench.worker(bench.open()))
    with child(WORKER, server.url("perdure")) as process:
        silent = int(process.hear()[0])
        assert settled(bench, observer)
        process.kill()
        for _ in range(2 if STORM or mode == "immediate" else 1):
            server.restart(mode)
            assert soon(lambda: tried(lambda: settled(bench, observer)))
            assert tried(lambda: dead(bench, observer)) == []
        # Whoever lives has locked again; who died before the restart is told by its lease.
        rows = {row.worker_key: row for row in bench.store.list_workers()}
        assert len({rows[observer].boot, rows[held.worker].boot}) == 1
        assert rows[silent].boot != rows[observer].boot
    assert held.commit(held.steps()) == [1]


def tried(ask):
    try:
        return ask()
    except StoreError:
        return None


@pytest.mark.postgres
def test_behind_a_pooler_only_leases_count(servers):
    server = servers.server()
    bouncer = servers.bouncer(server)
    with Bench(lambda: open_store(bouncer.url("perdure"))) as bench:
        observer = bench.worker()
        with child(WORKER, bouncer.url("perdure")) as process, server.connect() as admin:
            key = int(process.hear()[0])
            assert admin.execute(LOCKS).fetchone() == (0,)
            process.say(60 * SECOND)
            assert process.hear() == ["True"]
            process.kill()
            assert settled(bench, observer)
            assert dead(bench, observer) == []
            bench.store.renew(key, 0, 3)
            assert soon(lambda: dead(bench, observer) == [key])


@pytest.mark.postgres
def test_in_a_crowd_each_looks_less_often(own):
    _, bench = own
    workers = [bench.worker() for _ in range(25)]
    bench.store.retire_worker(bench.hold(worker=workers[1]).worker)
    observer = workers[0]
    assert dead(bench, observer) == [workers[1]]
    assert dead(bench, observer) == []
    assert soon(lambda: dead(bench, observer) == [workers[1]])
