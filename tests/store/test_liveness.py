"""The truth table of liveness, with real processes: killed, stopped, and merely slow."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.store.sqlite.liveness import Watch, boot_now
from perdure.store.sqlite.sidecar import Lock, Sidecar, process_started
from tests.servers.behind import vandalise
from tests.store.children import child, found_dead

on_sqlite = pytest.mark.only("sqlite")
SECOND = 1_000_000
WORKER = """
bench = Bench(lambda: open_store(sys.argv[1], durability="process"))
key = bench.worker()
say(key)
for beat in range(2, 10**6):
    say(int(bench.store.renew(key, int(hear()), beat)))
"""


def renew(process, lease):
    process.say(lease)
    return process.hear()


def test_a_killed_worker_is_dead_before_its_lease_ends(bench, store):
    observer = bench.worker()
    with child(WORKER, store) as process:
        key = int(process.hear()[0])
        assert bench.store.dead_workers(observer, grace=SECOND) == []
        process.kill()
        assert found_dead(bench.store, observer) == [key]


def test_children_of_a_killed_worker_do_not_keep_it_alive(bench, store):
    code = WORKER.replace(
        "say(key)",
        """
import subprocess
child = subprocess.Popen(["sleep", "60"], stdout=sys.stderr, close_fds=False)
say(key, child.pid)
""",
    )
    observer = bench.worker()
    with child(code, store) as process:
        key, grandchild = map(int, process.hear())
        process.kill()
        assert found_dead(bench.store, observer) == [key]
        os.kill(grandchild, signal.SIGKILL)


def test_a_forked_child_is_not_the_worker(bench, store):
    code = WORKER.replace(
        "say(key)",
        """
inner, outer = os.pipe()
if os.fork() == 0:
    os.close(outer)
    os.read(inner, 1)
    os._exit(0)
say(key)
""",
    )
    observer = bench.worker()
    with child(code, store) as process:
        key = int(process.hear()[0])
        assert bench.store.dead_workers(observer, grace=SECOND) == []
        process.kill()
        assert found_dead(bench.store, observer) == [key]


def test_a_stopped_worker_is_dead_only_after_a_grace_with_the_same_beat(bench, store):
    observer = bench.worker()
    grace = SECOND // 10
    with child(WORKER, store) as process:
        key = int(process.hear()[0])
        assert renew(process, 1) == ["1"]
        process.signal(signal.SIGSTOP)
        began = boot_now()
        looks = 1
        while bench.store.dead_workers(observer, grace=grace) == []:
            looks += 1
        assert boot_now() - began >= grace
        assert looks >= 3
        assert bench.store.dead_workers(observer, grace=grace) == [key]
        process.signal(signal.SIGCONT)
        assert renew(process, 1) == ["1"]
        assert bench.store.dead_workers(observer, grace=grace) == []
        assert renew(process, 60 * SECOND) == ["1"]
        assert bench.store.dead_workers(observer, grace=0) == []


def test_a_held_lock_under_a_live_lease_is_alive_however_long_its_beat_stands_still(bench):
    observer, _other = bench.worker(), bench.worker()
    for _ in range(5):
        assert bench.store.dead_workers(observer, grace=0) == []


@on_sqlite
def test_an_observer_that_was_stopped_itself_has_seen_nothing(bench):
    observer, other = bench.worker(), bench.worker()
    bench.store.renew(other, 0, 7)
    grace = 10 * SECOND
    watch = bench.store._workers._watches.setdefault(observer, Watch())
    assert bench.store.dead_workers(observer, grace=grace) == []
    watch._last -= 3600 * SECOND
    assert bench.store.dead_workers(observer, grace=grace) == []
    watch._last -= 3600 * SECOND
    assert bench.store.dead_workers(observer, grace=grace) == [other]


@on_sqlite
def test_a_worker_that_takes_over_after_a_grace_looks_again_for_each_beat(bench):
    observer, other = bench.worker(), bench.worker()
    watch = bench.store._workers._watches.setdefault(observer, Watch())
    for beat in range(2, 8):
        bench.store.renew(other, 0, beat)
        watch._last -= 3600 * SECOND
        assert bench.store.dead_workers(observer, grace=10 * SECOND) == []


@on_sqlite
def test_a_worker_of_another_boot_is_dead(bench):
    observer, other = bench.worker(), bench.worker()
    vandalise(bench.store.path, "UPDATE workers SET boot = 'earlier' WHERE worker_key = ?", other)
    assert bench.store.dead_workers(observer, grace=SECOND) == [other]


def test_a_held_run_whose_worker_has_no_row_is_taken(bench, store):
    observer, held = bench.worker(), bench.hold()
    vandalise(store, "DELETE FROM workers WHERE worker_key = ?", held.worker)
    assert bench.store.dead_workers(observer, grace=SECOND) == [held.worker]
    assert [taken.run_key for taken in bench.store.reclaim(observer, [held.worker], cap=5)] == [held.key]


@on_sqlite
def test_a_lock_file_that_was_replaced_proves_nothing(bench):
    observer, live, late = bench.worker(), bench.worker(), bench.worker()
    bench.store.renew(late, 0, 2)
    lock = bench.store.path.with_name("store.db-lock")
    lock.rename(lock.with_name("gone"))
    assert bench.store.dead_workers(observer, grace=SECOND) == [late]
    assert bench.store.renew(live, 60 * SECOND, 3)
    rows = {row.worker_key: row.sidecar for row in bench.store.list_workers()}
    assert rows[live] == Sidecar(bench.store.path).mark() != rows[late]


@on_sqlite
def test_each_renewal_locks_again_what_something_dropped(bench):
    key = bench.worker()
    (row,) = bench.store.list_workers()
    sidecar = Sidecar(bench.store.path)

    def lock():
        return sidecar.probe(key, row.sidecar, row.pid, row.pid_started)

    assert lock() is Lock.HELD
    # Closing any descriptor of the file drops the locks of the process: what a careless backup would do.
    os.close(os.open(sidecar.path, os.O_RDONLY))
    assert lock() is Lock.FREE
    assert bench.store.renew(key, SECOND, 2)
    assert lock() is Lock.HELD


@on_sqlite
def test_the_lock_file_is_opened_once_per_process(bench):
    key = bench.worker()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for beat in range(2, 12):
        bench.store.renew(key, SECOND, beat)
        bench.store.dead_workers(key, grace=SECOND)
    # The heartbeat's own connection may have been opened meanwhile; the lock file was not.
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 3


@on_sqlite
def test_other_handles_of_the_process_do_not_drop_a_workers_lock(bench):
    key, held = bench.worker(), bench.hold()
    bench.open().close()
    second = bench.open()
    bench.worker(second)
    second.close()
    look = WORKER.replace("say(key)", "say(key, *bench.store.dead_workers(key, grace=10**6))")
    with child(look, bench.store.path) as process:
        assert process.hear()[1:] == []
    assert held.worker != key


@on_sqlite
def test_a_retired_workers_byte_is_free(bench):
    key = bench.worker()
    (row,) = bench.store.list_workers()
    bench.store.retire_worker(key)
    assert Sidecar(bench.store.path).probe(key, row.sidecar, row.pid, row.pid_started) is Lock.FREE


def test_a_process_is_told_from_a_later_one_with_its_number():
    assert process_started(os.getpid()) == process_started(os.getpid()) > 0
    assert process_started(2**22 + 1) == 0


@on_sqlite
def test_what_the_store_knows_better_is_filled_in(bench):
    key = bench.worker()
    (row,) = bench.store.list_workers()
    assert row == replace(row, worker_key=key, pid=os.getpid(), pid_started=process_started(os.getpid()))
    assert row.boot
    assert row.sidecar
    assert 0 < row.lease_until - boot_now() <= 60 * SECOND
