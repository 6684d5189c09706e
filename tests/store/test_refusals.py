"""What is not a store, or cannot be one, is refused and left as it was."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import contextmanager

import pytest

from perdure.errors import NotAStore, StoreCorrupt, StoreError, StoreReadOnly, StoreTooNew, StoreUnreachable
from perdure.store.open import open_store
from perdure.store.sqlite import files
from perdure.testing.store_suite import Bench
from tests.servers.behind import vandalise


def folder(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_database_of_another_program_is_not_touched(mode, tmp_path):
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute(f"PRAGMA journal_mode={mode}")
    other.executescript("CREATE TABLE runs (a); INSERT INTO runs VALUES (1)")
    before = folder(tmp_path)
    with pytest.raises(NotAStore):
        open_store(tmp_path / "other.db")
    assert folder(tmp_path) == before
    other.close()


@pytest.mark.parametrize("content", [b"hello\n", b"SQLite format 4" + bytes(200), b"x" * 10_000])
def test_a_file_that_is_no_database_is_not_touched(content, tmp_path):
    (tmp_path / "notes.txt").write_bytes(content)
    with pytest.raises(NotAStore):
        open_store(tmp_path / "notes.txt")
    assert folder(tmp_path) == {"notes.txt": content}


@pytest.mark.parametrize("left", [10, 50, 5000])
def test_a_store_that_was_cut_off_is_called_damaged(left, tmp_path):
    with Bench(lambda: open_store(tmp_path / "store.db")) as bench:
        bench.create_many(50)
    path = tmp_path / "store.db"
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(StoreCorrupt) as refused:
        open_store(path)
    assert refused.value.advice
    assert path.stat().st_size == left


@pytest.mark.parametrize(
    "sql", ["PRAGMA user_version = 99", "UPDATE store_info SET value = '99' WHERE name = 'least_format'"]
)
def test_a_store_of_a_newer_perdure_is_refused(sql, tmp_path):
    with open_store(tmp_path / "store.db"):
        pass
    vandalise(tmp_path / "store.db", sql)
    with pytest.raises(StoreTooNew):
        open_store(tmp_path / "store.db")


def test_what_lies_under_a_file_cannot_be_opened(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnreachable):
        open_store(tmp_path / "file" / "store.db")


@contextmanager
def changed(command, undo):
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"{command[0]} is not possible here: {error}")
    try:
        yield
    finally:
        subprocess.run(undo, check=True, capture_output=True)


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    path = tmp_path / "store.db"
    with Bench(lambda: open_store(path)) as bench:
        bench.create()
    # Its owner may be root, whom a mode does not hinder.
    with changed(["chattr", "+i", str(path)], ["chattr", "-i", str(path)]), pytest.raises(StoreReadOnly) as refused:
        open_store(path)
    assert "-wal" in refused.value.advice
    with open_store(path) as store:
        assert store.get_run("one")


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    path = tmp_path / "store.db"
    with open_store(path):
        pass
    lock, unlock = ["chattr", "+i", str(tmp_path)], ["chattr", "-i", str(tmp_path)]
    with changed(lock, unlock), pytest.raises((StoreReadOnly, StoreUnreachable)) as refused:
        open_store(path)
    assert refused.value.advice
    with changed(lock, unlock), pytest.raises(StoreError):
        open_store(tmp_path / "new.db")


@pytest.mark.parametrize(
    ("magic", "mounted", "name"),
    [
        (0x6969, "nfs4", "NFS"), (0xFF534D42, "cifs", "CIFS"), (0x01021997, "9p", "9p"), (0xEF53, "ext4", None),
        (0x65735546, "fuse.sshfs", "fuse.sshfs"), (0x65735546, "virtiofs", "virtiofs"),
        (0x65735546, "fuseblk", None), (0x65735546, "", None), (None, "", None),
    ],
)  # fmt: skip
def test_network_file_systems_are_known(magic, mounted, name):
    assert files.network_name(magic, lambda: mounted) == name


def test_the_file_system_is_asked_what_it_is(tmp_path):
    mounted = files._mount_type(tmp_path)
    known = {"ext4": 0xEF53, "tmpfs": 0x01021994, "xfs": 0x58465342, "btrfs": 0x9123683E, "overlay": 0x794C7630}
    if mounted not in known:
        pytest.skip(f"the type of {mounted!r} is not in this test's table")
    assert files._statfs_type(tmp_path) == known[mounted]
