"""A store's file that is removed or replaced while it is open: nothing is read or written in its place."""

from __future__ import annotations

import shutil

import apsw
import pytest

from perdure.errors import StoreGone
from perdure.store.open import open_store
from perdure.store.sqlite.store import SqliteStore

VERBS = {
    "reads": lambda store: store.get_run("one"),
    "beats": lambda store: store.renew(1, 10**6, 2),
}
"""What opens a connection that was not open yet."""


class Disk(apsw.VFS):
    """SQLite's own file system; before or after the next database is opened, something happens to the file."""

    def __init__(self):
        self.before = self.after = None
        self.base = "unix"
        super().__init__("perdure-mover", self.base)

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        if flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            self._happen("before")
        opened = apsw.VFSFile(self.base, name, flags)
        if flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            self._happen("after")
        return opened

    def _happen(self, when):
        what = getattr(self, when)
        setattr(self, when, None)
        if what is not None:
            what()


@pytest.fixture
def disk():
    made = Disk()
    yield made
    made.unregister()


def remove(path):
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).rename(path.with_name(f"gone{suffix}"))


def replace(path, by):
    remove(path)
    shutil.copy(by, path)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # apsw's, of an open that fails
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("happens", ["removed", "replaced"])
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_file_that_goes_while_a_connection_is_opened_is_gone_and_nothing_else(
    disk, tmp_path, empty_store, when, happens, verb
):
    path = tmp_path / "store.db"
    with SqliteStore(path, vfs="perdure-mover", durability="process") as store:
        setattr(disk, when, lambda: remove(path) if happens == "removed" else replace(path, empty_store))
        for _ in range(2):
            with pytest.raises(StoreGone, match="removed or replaced"):
                verb(store)


def test_what_fails_because_the_file_is_gone_says_so(store_path):
    with open_store(store_path) as store:
        store.get_run("one")
        remove(store.path)
        with pytest.raises(StoreGone), store._reader:
            raise apsw.IOError
        with pytest.raises(StoreGone), store._writer:
            raise apsw.FullError


def test_a_store_is_not_taken_for_one_that_was_put_in_its_place_while_it_was_opened(disk, tmp_path, empty_store):
    path = tmp_path / "store.db"
    shutil.copy(empty_store, path)
    open_store(path).close()

    def swap():
        path.rename(path.with_name("old"))
        shutil.copy(empty_store, path)

    disk.after = swap
    with pytest.raises(StoreGone):
        SqliteStore(path, vfs="perdure-mover")
