"""The model of a disk does what it says, and notes of SQLite what SQLite does."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from pathlib import Path

import apsw
import pytest

from tests.power.record import SECTOR, Cut, Disk, Link, Operation, Record, Resize, Sync, SyncNames, Unlink, Write
from tests.power.vfs import recording

pytestmark = pytest.mark.only("sqlite")

OLD, NEW = b"o", b"n"
SEEDS = range(400)


def contents(operations: list[Operation], seed: int, *, synced: int) -> bytes:
    """What is in a file after a cut that leaves anything of what was done to it."""
    record = Record({1: OLD * synced}, {"file": 1}, operations)
    found = Disk(record).after(Cut(len(operations), "mixed", seed))["file"]
    assert found is not None
    return found


def sectors(contents: bytes) -> tuple[bytes, ...]:
    return tuple(contents[at : at + SECTOR] for at in range(0, len(contents), SECTOR))


def test_what_was_synced_is_there_whatever_comes_after_it() -> None:
    operations: list[Operation] = [
        Write(1, 0, NEW * 2 * SECTOR),
        Sync(1),
        Write(1, SECTOR, b"x" * SECTOR),
        Write(1, 9999, b"y"),
    ]
    assert {contents(operations, seed, synced=1)[:SECTOR] for seed in SEEDS} == {NEW * SECTOR}


def test_any_sectors_of_what_was_not_synced_may_be_there() -> None:
    operations: list[Operation] = [Write(1, 0, NEW * 3 * SECTOR)]
    whole = {OLD * SECTOR, NEW * SECTOR}
    found = {sectors(contents(operations, seed, synced=3 * SECTOR)) for seed in SEEDS}
    assert len([one for one in found if whole.issuperset(one)]) == 2**3


def test_a_sector_may_be_torn_but_no_byte_changes_that_was_not_written() -> None:
    operations: list[Operation] = [Write(1, 10, NEW * (SECTOR - 20))]
    found = {contents(operations, seed, synced=SECTOR) for seed in SEEDS}
    assert {one[:10] + one[-10:] for one in found} == {OLD * 20}
    changes = {sum(one != two for one, two in pairwise(left)) for left in found}
    assert changes == {0, 2}, "what is new is in one piece"
    assert len(found) > 10


def test_the_size_of_a_file_and_its_contents_are_there_apart_from_each_other() -> None:
    operations: list[Operation] = [Write(1, SECTOR, NEW * 2 * SECTOR), Resize(1, 4 * SECTOR)]
    found = {contents(operations, seed, synced=SECTOR) for seed in SEEDS}
    assert {len(one) // SECTOR for one in found} == {1, 3, 4}
    assert any(len(one) > SECTOR and NEW not in one for one in found), "it has grown, and nothing has arrived"
    assert {one[:SECTOR] for one in found} == {OLD * SECTOR}


@pytest.mark.parametrize(
    ("operations", "left"),
    [
        ([Link("file", 1), Write(1, 0, NEW), Sync(1)], {None, NEW}),
        ([Link("file", 1), Write(1, 0, NEW), Sync(1), SyncNames(".")], {NEW}),
        ([Link("file", 1), SyncNames("."), Unlink("file")], {None, b""}),
        ([Link("folder", None), Link("folder/file", 1), SyncNames("folder")], {None}),
        (
            [Link("file", 1), Write(1, 0, OLD), Sync(1), SyncNames("."), Unlink("file"), Link("file", 2)],
            {OLD, None, b""},
        ),
    ],
)  # fmt: skip
def test_a_name_is_there_for_certain_once_its_directory_was_synced(
    operations: list[Operation], left: set[bytes | None]
) -> None:
    disks = [Disk(Record(operations=operations)).after(Cut(len(operations), "mixed", seed)) for seed in SEEDS]
    assert {disk.get("file") for disk in disks} == left
    assert all("folder" in disk or "folder/file" not in disk for disk in disks)


def test_a_cut_leaves_the_same_whenever_it_is_asked_for() -> None:
    record = Record(operations=[Link("file", 1), *(Write(1, 700 * n, NEW * 900) for n in range(9)), Sync(1)])
    cuts = [Cut(at, "mixed", 5) for at in range(11)]
    through = Disk(record)
    assert [through.after(cut) for cut in cuts] == [Disk(record).after(cut) for cut in cuts]


def test_directories_are_noted_as_synced_when_sqlite_does_so(tmp_path: Path) -> None:
    synced: list[str] = []
    probe = apsw.VFS("perdure-power-probe", "unix")
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    pointer = probe.xGetSystemCall("openDirectory")
    assert pointer is not None
    real = kind(pointer)

    def open_directory(path: bytes, descriptor: int) -> int:
        synced.append(path.decode())
        return int(real(path, descriptor))

    call = kind(open_directory)
    address = ctypes.cast(call, ctypes.c_void_p).value
    assert address is not None
    with recording(tmp_path) as recorder:
        probe.xSetSystemCall("openDirectory", address)
        try:
            first, second = (apsw.Connection(str(tmp_path / "file"), vfs=recorder.vfs) for _ in range(2))
            for statement in ("CREATE TABLE t (a)", "PRAGMA journal_mode = WAL"):
                first.execute(statement).fetchall()
            for connection in (first, second, first):
                connection.execute("INSERT INTO t VALUES (1)").fetchall()
            first.close()
            second.close()
        finally:
            probe.xSetSystemCall("openDirectory", pointer)
            probe.unregister()
    noted = sum(isinstance(done, SyncNames) for done in recorder.record.operations)
    assert len(synced) == noted
    assert noted >= 4, "two journals, and the log by each connection"
