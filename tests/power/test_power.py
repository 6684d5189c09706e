"""G4: whatever is acknowledged is there after a power cut at any point, and everything goes on to its end.

In ``make test`` the power is cut just before and just after each sync, and a few times in between; in ``make storm`` at
every operation, again and again, and once more while the runs go on after that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random

import apsw
import pytest

from perdure.errors import StoreError, StoreUnreachable
from perdure.store.migrate import Migration
from perdure.store.open import open_store
from perdure.store.sqlite.connect import connect
from perdure.store.sqlite.inspect import inspect
from perdure.store.sqlite.schema import MIGRATIONS, migrate
from perdure.store.sqlite.store import SqliteStore
from perdure.testing.store_suite import Bench
from tests.power.aftermath import Aftermath, Damaged, Lost, look
from tests.power.again import look_again
from tests.power.lives import STORE, Life, lead
from tests.power.record import Cut, Disk, Record, Resize, Write, lay_out
from tests.power.vfs import recording

pytestmark = [pytest.mark.only("sqlite"), pytest.mark.slow]

STORM = bool(os.environ.get("PERDURE_STORM"))
SEEDS = range(4) if STORM else range(1)
BETWEEN = 40
"""Cuts at any operation, in ``make test``."""
AGAIN = 20 if STORM else 1
"""Cuts after which the power goes once more, while everything goes on."""
LONG = 100_000
"""Bytes that no single write of SQLite's has."""
LOG_HEADER = 32
"""Bytes that are written when the write-ahead log begins anew."""


def disk_at(folder: Path) -> Path:
    disk = folder / "disk"
    disk.mkdir()
    return disk


def around_syncs(record: Record, seed: int) -> set[Cut]:
    """Just after each sync, with nothing besides what is synced; and just before it, with any part of the rest."""
    syncs = record.syncs()
    return {Cut(at, "lost") for at in syncs} | {Cut(at - 1, "mixed", seed) for at in syncs}


def anywhere(record: Record, seed: int) -> set[Cut]:
    """At every operation in the storm, at some otherwise."""
    points = range(len(record.operations) + 1)
    return {Cut(at, "mixed", seed) for at in (points if STORM else Random(seed).sample(points, BETWEEN))}


def while_extended(record: Record) -> set[Cut]:
    """While the log's file is being extended, many times."""
    extended = [at for at, done in enumerate(record.operations, 1) if isinstance(done, Write) and len(done.data) > LONG]
    assert extended, "the log's file is extended"
    return {Cut(at, "mixed", seed) for at in extended for seed in range(10)}


def cut_at(cuts: Iterable[Cut], life: Life, folder: Path) -> Aftermath:
    aftermath = Aftermath(life, folder)
    for cut in sorted(cuts):
        aftermath.check(cut)
    print(f"{aftermath.cuts} cuts of {len(life.record.operations)} operations left {aftermath.states} states")
    return aftermath


@pytest.mark.timeout(3600 if STORM else 60)
def test_nothing_acknowledged_is_lost_and_everything_goes_on_wherever_the_power_is_cut(tmp_path: Path) -> None:
    life = lead(disk_at(tmp_path))
    record = life.record
    headers = [done for done in record.operations if isinstance(done, Write) and len(done.data) == LOG_HEADER]
    assert len(headers) > 2, "the log begins anew"
    assert any(isinstance(done, Resize) for done in record.operations), "the database grows"
    cuts = {cut for seed in SEEDS for cut in around_syncs(record, seed) | anywhere(record, seed)}
    aftermath = cut_at(cuts | while_extended(record), life, tmp_path / "cuts")
    assert aftermath.states > 20


@pytest.mark.timeout(3600 if STORM else 60)
def test_the_power_may_go_once_more_while_everything_goes_on(tmp_path: Path) -> None:
    life = lead(disk_at(tmp_path))
    some = Random(len(life.record.operations))
    for number, at in enumerate(sorted(some.sample(life.record.syncs(), AGAIN))):
        cut = Cut(at - 1, "mixed", number)
        left = tmp_path / f"left-{number}"
        lay_out(Disk(life.record).after(cut), left)
        again = lead(left, said=life.record.said_before(cut))
        assert again.results == life.results
        cuts = sorted(around_syncs(again.record, number))
        cut_at(cuts if STORM else some.sample(cuts, BETWEEN // 2), again, tmp_path / f"cuts-{number}")


# -- a store that is being made, or changed


def test_a_store_whose_making_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    with recording(disk_at(tmp_path)) as recorder:
        SqliteStore(tmp_path / "disk" / STORE, vfs=recorder.vfs).close()
    cuts = len(recorder.record.operations) + 1
    for seed in range(40 if STORM else 2):
        disk = Disk(recorder.record)
        for at in range(cuts):
            left = tmp_path / f"{seed}-{at}"
            lay_out(disk.after(Cut(at, "mixed", seed)), left)
            with suppress(StoreUnreachable):  # there is none yet
                assert inspect(left / STORE).problems == ()
            assert look(left / STORE).facts == set()


def test_what_is_acknowledged_first_is_there(tmp_path: Path) -> None:
    with recording(disk_at(tmp_path)) as recorder:
        path = tmp_path / "disk" / STORE
        with Bench(lambda: SqliteStore(path, vfs=recorder.vfs)) as bench:
            bench.create("first")
            cut = Cut(len(recorder.record.operations), "lost")
    lay_out(Disk(recorder.record).after(cut), tmp_path / "left")
    with open_store(tmp_path / "left" / STORE) as store:
        assert store.get_run("first")


def test_a_migration_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = disk_at(tmp_path)
    path = folder / STORE
    SqliteStore(path).close()
    more = "CREATE TABLE more (a TEXT) STRICT; DROP INDEX runs_child; PRAGMA user_version = 2;"
    with recording(folder) as recorder:
        opened = connect(path, vfs=recorder.vfs)
        migrate(opened, path, (*MIGRATIONS, Migration(2, "more", more)))
        recorder.record.say("migrated")
        opened.close()
    seen = set()
    disk = Disk(recorder.record)
    for at in range(len(recorder.record.operations) + 1):
        cut = Cut(at, "mixed", at)
        left = tmp_path / str(at)
        lay_out(disk.after(cut), left)
        found = apsw.Connection(str(left / STORE))
        assert found.execute("PRAGMA integrity_check").get == "ok"
        names = {str(name) for (name,) in found.execute("SELECT name FROM sqlite_schema")}
        version = found.execute("PRAGMA user_version").get
        assert {"more", "runs_child"} & names == ({"more"} if version == 2 else {"runs_child"})
        assert version == 2 or "migrated" not in recorder.record.said_before(cut)
        seen.add(version)
        found.close()
    assert seen == {1, 2}


# -- that it would be noticed


def made_before(folder: Path) -> Path:
    disk = disk_at(folder)
    SqliteStore(disk / STORE).close()
    return disk


def test_commits_that_are_not_synced_are_found_out(tmp_path: Path) -> None:
    life = lead(made_before(tmp_path), durability="process")
    with pytest.raises(Lost) as lost:
        cut_at(around_syncs(life.record, 0) | anywhere(life.record, 0), life, tmp_path / "cuts")
    _, command = lost.value.__notes__[0].split("tests.power.again ")
    file, at, fate, seed = command.split()
    assert fate in {"lost", "mixed"}
    with pytest.raises(Lost):
        look_again(Path(file), Cut(int(at), "lost" if fate == "lost" else "mixed", int(seed)), tmp_path / "again")


@pytest.mark.parametrize("deaf_to", [apsw.SQLITE_OPEN_MAIN_DB, apsw.SQLITE_OPEN_WAL], ids=["database", "log"])
def test_a_disk_that_does_not_sync_what_it_is_told_to_is_found_out(tmp_path: Path, deaf_to: int) -> None:
    life = lead(made_before(tmp_path), deaf_to=deaf_to)
    with pytest.raises((Lost, Damaged, StoreError)):
        cut_at(anywhere(life.record, 0), life, tmp_path / "cuts")
