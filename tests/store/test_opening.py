from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from perdure.errors import StoreUnreachable, StoreUnsafe
from perdure.model.records import Verdict
from perdure.store.open import open_store, store_path
from perdure.store.sqlite.connection import EXTEND_PAGES
from perdure.store.sqlite.sql import QUERIES
from perdure.testing.store_suite import Bench
from tests.store import children


@pytest.mark.parametrize(
    ("target", "file"),
    [
        ("orders.db", "orders.db"),
        ("data/orders.db", "data/orders.db"),
        ("data/", "data/perdure.db"),
        (".perdure", ".perdure/perdure.db"),
        ("there.d", "there.d/perdure.db"),
        ("sqlite:///orders.db", "orders.db"),
        ("sqlite:///with%20space.db", "with space.db"),
        (Path("orders.db"), "orders.db"),
    ],
)
def test_a_target_names_a_file(target, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.d").mkdir()
    assert store_path(target) == tmp_path / file


def test_an_absolute_url_names_a_file(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/orders.db") as store:
        assert store.path == tmp_path / "orders.db"
        assert store.url == f"sqlite:///{tmp_path}/orders.db"
        assert store_path(store.url) == store.path


@pytest.mark.parametrize("target", ["postgresql://user:secret@host/db", "mysql://host", "sqlite://", ":memory:", "",
                                    "sqlite:///x.db?mode=ro", "sqlite:///:memory:"])  # fmt: skip
def test_what_is_no_file_is_refused_with_advice(target):
    with pytest.raises(StoreUnreachable) as refused:
        open_store(target)
    assert refused.value.advice
    assert "secret" not in str(refused.value) + str(refused.value.fields)


def test_a_store_says_whether_it_is_new(tmp_path):
    with open_store(tmp_path / "new" / "store.db") as store:
        assert store.created
    with open_store(tmp_path / "new" / "store.db") as store:
        assert not store.created


def test_an_empty_file_becomes_a_store(tmp_path):
    (tmp_path / "store.db").touch()
    with open_store(tmp_path / "store.db", create=False) as store:
        assert store.created


def test_a_store_that_is_not_there_is_not_made_unasked(tmp_path):
    with pytest.raises(StoreUnreachable):
        open_store(tmp_path / "new" / "store.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_nobody_else_can_read_a_store(tmp_path):
    with Bench(lambda: open_store(tmp_path / "a" / "b")) as bench:
        bench.hold()
        folder = tmp_path / "a" / "b"
        found = {path.name: path.stat().st_mode & 0o777 for path in [*folder.iterdir(), folder, folder.parent]}
    assert found == {
        "perdure.db": 0o600, "perdure.db-wal": 0o600, "perdure.db-shm": 0o600, "perdure.db-lock": 0o600,
        "a": 0o700, "b": 0o700,
    }  # fmt: skip


@pytest.mark.parametrize(("durability", "synchronous"), [("disk", 2), ("process", 1)])
def test_every_writing_connection_is_as_durable_as_promised(durability, synchronous, tmp_path):
    with Bench(lambda: open_store(tmp_path / "store.db", durability=durability)) as bench:
        bench.worker()
        for link in (bench.store._writer, bench.store._heart):
            with link as cursor:
                assert cursor.execute(QUERIES["synchronous"]).get == synchronous
                assert cursor.execute(QUERIES["journal_mode"]).get == "wal"


def test_a_library_that_does_not_sync_as_it_is_told_opens_nothing(tmp_path):
    """Read back is what is in force: here the library takes the setting and leaves things as they are."""

    def takes_no_setting(action, name, value, *_):
        return apsw.SQLITE_IGNORE if (action, name) == (apsw.SQLITE_PRAGMA, "synchronous") and value else apsw.SQLITE_OK

    def hook(connection):
        connection.execute("PRAGMA synchronous = NORMAL").fetchall()
        connection.authorizer = takes_no_setting

    apsw.connection_hooks.append(hook)
    try:
        with pytest.raises(StoreUnsafe, match="did not accept synchronous"):
            open_store(tmp_path / "store.db")
    finally:
        apsw.connection_hooks.remove(hook)


def test_every_connection_is_careful(tmp_path):
    with open_store(tmp_path / "store.db") as store:
        for link in (store._writer, store._heart, store._reader):
            with link as cursor:
                asked = ["PRAGMA foreign_keys", "PRAGMA cell_size_check", "PRAGMA trusted_schema"]
                assert [cursor.execute(pragma).get for pragma in asked] == [1, 1, 0]


def test_every_table_is_strict(tmp_path):
    with open_store(tmp_path / "store.db") as store, store._reader as cursor:
        loose = cursor.execute("SELECT name FROM pragma_table_list WHERE type = 'table' AND strict = 0").fetchall()
    assert [name for (name,) in loose if not name.startswith("sqlite_")] == []


def test_a_closed_store_stays_closed(tmp_path):
    store = open_store(tmp_path / "store.db")
    store.close()
    store.close()
    with pytest.raises(StoreUnreachable):
        store.get_run("one")
    with pytest.raises(StoreUnreachable):
        store.now() and store.release(1, [])


def test_many_processes_may_make_one_store(tmp_path):
    code = """
say("ready"); hear()
with Bench(lambda: open_store(sys.argv[1])) as bench:
    bench.hold(sys.argv[2])
    say(int(bench.store.created))
"""
    started = [children.Child(code, tmp_path / "data" / "store.db", number) for number in range(8)]
    try:
        for process in started:
            process.hear()
        for process in started:
            process.say("go")
        assert sorted(process.finish() for process in started) == [["0"]] * 7 + [["1"]]
    finally:
        for process in started:
            process.close()
    with open_store(tmp_path / "data" / "store.db") as store:
        assert all(store.get_run(str(number)) for number in range(8))
    assert children.integrity(tmp_path / "data" / "store.db") == ["ok"]


def test_who_opens_no_store_loads_no_sqlite():
    code = "import sys, perdure.store.protocol, perdure.store.open; assert not {'apsw', 'sqlite3'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_log_file_is_extended_once_it_grows(tmp_path):
    with Bench(lambda: open_store(tmp_path / "store.db")) as bench:
        held = bench.hold()
        log = tmp_path / "store.db-wal"
        assert log.stat().st_size < 1 << 20
        for _ in range(EXTEND_PAGES):
            assert held.commit(held.steps()) == [Verdict.APPLIED]
        size = log.stat().st_size
        assert size >= 4 << 20
        bench.hold("two")
        assert log.stat().st_size == size
    with open_store(tmp_path / "store.db") as store:
        assert store.get_run("two")


def test_the_log_file_is_left_alone_where_nothing_is_synced(tmp_path):
    with Bench(lambda: open_store(tmp_path / "store.db", durability="process")) as bench:
        held = bench.hold()
        for _ in range(2 * EXTEND_PAGES):
            assert held.commit(held.steps()) == [Verdict.APPLIED]
        assert (tmp_path / "store.db-wal").stat().st_size < 4 << 20
