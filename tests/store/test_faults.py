"""Locked, full and failing disks: nothing that was answered is lost, and nothing is written by halves."""

from __future__ import annotations

from threading import Thread

import apsw
import pytest

from perdure.errors import StoreBusy, StoreError, StoreFull
from perdure.model.records import CommitItem, Verdict
from perdure.store.sqlite import commit
from perdure.store.sqlite.connect import PATIENCE_MS
from perdure.store.sqlite.connection import CHECKPOINT_PAGES
from perdure.store.sqlite.faults import OutcomeUnknown
from perdure.store.sqlite.store import SqliteStore
from perdure.testing.store_suite import Bench
from tests.store.children import child

pytestmark = pytest.mark.only("sqlite")

APPLIED = [Verdict.APPLIED]

LOCKER = """
import apsw
db = apsw.Connection(sys.argv[1])
db.set_busy_timeout(10_000)
while word := hear():
    db.execute(word.replace("-", " "))
    say("done")
"""


@pytest.fixture
def locker(bench):
    with child(LOCKER, bench.store.path) as process:
        yield process


def order(process, statement):
    process.say(statement)
    assert process.hear() == ["done"]


def test_a_commit_that_may_not_wait_is_turned_away_at_once(bench, locker):
    held = bench.hold()
    item = held.steps()
    order(locker, "BEGIN-IMMEDIATE")
    began = bench.store.now()
    with pytest.raises(StoreBusy):
        bench.store.commit([item], wait=False)
    assert bench.store.now() - began < PATIENCE_MS * 1000 / 2
    order(locker, "ROLLBACK")
    assert bench.store.commit([item], wait=False) == APPLIED


def test_a_hasty_thread_waits_for_nothing_and_others_do(bench, locker):
    row = bench.create()
    made = []
    order(locker, "BEGIN-IMMEDIATE")
    bench.store.hasty = True
    for verb in (lambda: bench.create("two"), lambda: bench.store.request_cancel(row.run_key, "enough")):
        with pytest.raises(StoreBusy):
            verb()
    patient = Thread(target=lambda: made.append(bench.create("two")))
    patient.start()
    patient.join(0.05)
    assert patient.is_alive()
    order(locker, "ROLLBACK")
    patient.join()
    assert made[0].run_id == "two"
    assert bench.create("three").run_id == "three"
    bench.store.hasty = False


def test_a_commit_that_may_wait_does(bench, locker):
    held = bench.hold()
    verdicts = []
    order(locker, "BEGIN-IMMEDIATE")
    with pytest.raises(StoreBusy):
        bench.store.commit([held.steps(0)], wait=False)
    waiting = Thread(target=lambda: verdicts.append(bench.store.commit([held.steps()])))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    order(locker, "ROLLBACK")
    waiting.join()
    assert verdicts == [APPLIED]


def test_reading_waits_for_no_writer(bench, locker):
    held = bench.hold()
    order(locker, "BEGIN-IMMEDIATE")
    assert bench.store.get_run("one")
    assert bench.store.unread(held.worker) == []
    assert bench.claim(held.worker) == []
    order(locker, "ROLLBACK")


def test_a_heartbeat_waits_for_no_thread_of_its_own_process(bench):
    worker = bench.worker()
    bench.store._writer.acquire(wait=True)
    try:
        with pytest.raises(StoreBusy):
            bench.store.commit([nothing_of_run_one()], wait=False)
        assert bench.store.renew(worker, 10**6, 2)
    finally:
        bench.store._writer.release()


def nothing_of_run_one():
    return CommitItem(1, 1, [])


def test_who_may_not_wait_leaves_the_checkpoint_to_who_may(bench):
    held = bench.hold()
    turned_away = 0
    for _ in range(CHECKPOINT_PAGES):
        item = held.steps()
        try:
            assert bench.store.commit([item], wait=False) == APPLIED
        except StoreBusy:
            turned_away += 1
            assert bench.store.commit([item]) == APPLIED
    assert 1 <= turned_away <= 5


def test_the_log_does_not_grow_for_ever(bench):
    held = bench.hold()
    for _ in range(40):
        assert set(held.commit(*[held.steps(25) for _ in range(10)])) == {Verdict.APPLIED}
        bench.store.create_runs([bench.new(f"run-{held.last.seq}", payload=bytes(500_000))])
    assert bench.store.path.with_name("store.db-wal").stat().st_size < 12 << 20
    assert bench.store.path.stat().st_size > 15 << 20


# -- a disk that fails when told to


class Disk(apsw.VFS):
    """SQLite's own file system, until a fault is set."""

    def __init__(self):
        self.fault = None
        self.base = "unix"
        super().__init__("perdure-test", self.base)

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        return DiskFile(self, name, flags)


class DiskFile(apsw.VFSFile):
    def __init__(self, disk, name, flags):
        self.disk = disk
        self.is_log = bool(flags[0] & apsw.SQLITE_OPEN_WAL)
        super().__init__(disk.base, name, flags)

    def xWrite(self, data, offset):  # noqa: N802
        if self.is_log and self.disk.fault == "full":
            raise apsw.FullError
        super().xWrite(data, offset)

    def xSync(self, flags):  # noqa: N802
        if self.is_log and self.disk.fault == "sync":
            raise apsw.IOError
        super().xSync(flags)


@pytest.fixture
def disk():
    made = Disk()
    yield made
    made.unregister()


@pytest.fixture
def failing(disk, tmp_path):
    with Bench(lambda: SqliteStore(tmp_path / "store.db", vfs="perdure-test")) as opened:
        yield opened
        disk.fault = None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_loses_nothing_and_halves_nothing(failing, disk):
    one, two = failing.hold("one"), failing.hold("two")
    items = [one.steps(), two.steps()]
    disk.fault = "full"
    for _ in range(2):
        with pytest.raises(StoreFull) as refused:
            failing.store.commit(items)
        assert refused.value.advice
    with pytest.raises(StoreFull):
        failing.create("three")
    assert len(failing.log(one.key)) == 2
    disk.fault = None
    assert failing.store.commit(items) == [Verdict.APPLIED, Verdict.APPLIED]
    assert failing.create("three").run_id == "three"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_after_a_sync_that_failed_the_disk_is_asked_what_it_has(failing, disk):
    held = failing.hold()
    item = held.steps()
    connection = failing.store._writer._connection
    disk.fault = "sync"
    with pytest.raises(StoreError) as failed:
        failing.store.commit([item])
    assert not isinstance(failed.value, OutcomeUnknown)
    with pytest.raises(OutcomeUnknown):
        failing.create("two")
    disk.fault = None
    assert len(failing.log(held.key)) == 2
    assert failing.store.commit([item]) == APPLIED
    assert failing.store._writer._connection is not connection


def test_what_was_written_although_its_commit_failed_counts_as_written(bench):
    held = bench.hold()
    item, lost = held.steps(), held.steps()
    bench.store.commit([item])
    writer = bench.store._writer
    writer.acquire(wait=True)
    try:
        commit._decide(writer, [item], APPLIED, OutcomeUnknown("?"))
        with pytest.raises(StoreError):
            commit._decide(writer, [lost], APPLIED, OutcomeUnknown("?"))
    finally:
        writer.release()
