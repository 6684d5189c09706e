from __future__ import annotations

import apsw
import pytest

from perdure.errors import NotAStore, StoreTooNew
from perdure.store.migrate import Migration, load_migrations, pending
from perdure.store.open import open_store
from perdure.store.sqlite.connect import connect
from perdure.store.sqlite.schema import MIGRATIONS, migrate
from tests.store.children import child

pytestmark = pytest.mark.only("sqlite")

SECOND = Migration(2, "colour", "PRAGMA user_version = 2; ALTER TABLE runs ADD COLUMN colour TEXT;")


def write(folder, *names):
    for name in names:
        (folder / name).write_text("SELECT 1;")


def test_migrations_are_read_in_their_order(tmp_path):
    write(tmp_path, "0002_more.sql", "0001_initial.sql")
    assert [(found.number, found.name) for found in load_migrations(tmp_path)] == [(1, "initial"), (2, "more")]


@pytest.mark.parametrize(
    "names", [["0002_more.sql"], ["0001_a.sql", "0001_b.sql"], ["0001_a.sql", "0003_c.sql"], ["one.sql"]]
)
def test_a_missing_or_misnamed_migration_is_an_error(names, tmp_path):
    write(tmp_path, *names)
    with pytest.raises(ValueError, match=r"missing|named"):
        load_migrations(tmp_path)


def test_only_what_is_lacking_is_applied():
    both = (*MIGRATIONS, SECOND)
    assert pending(both, 0, store="s") == both
    assert pending(both, 1, store="s") == (SECOND,)
    assert pending(both, 2, store="s") == ()
    with pytest.raises(StoreTooNew):
        pending(both, 3, store="s")


def test_an_old_store_is_brought_up_to_date_and_keeps_its_runs(bench):
    bench.create()
    connection = connect(bench.store.path)
    assert not migrate(connection, bench.store.path, (*MIGRATIONS, SECOND))
    assert connection.execute("SELECT run_id, colour FROM runs").fetchall() == [("one", None)]
    with pytest.raises(StoreTooNew):
        migrate(connection, bench.store.path)
    connection.close()


def test_a_migration_that_fails_changes_nothing(bench):
    bench.create()
    broken = Migration(2, "broken", SECOND.sql + " CREATE TABLE runs (a);")
    connection = connect(bench.store.path)
    with pytest.raises(apsw.SQLError, match="already exists"):
        migrate(connection, bench.store.path, (*MIGRATIONS, broken))
    connection.close()
    with open_store(bench.store.path) as store:
        assert store.get_run("one")


@pytest.mark.parametrize("version", [0, 1])
def test_a_file_that_became_another_programs_meanwhile_is_not_touched(version, tmp_path):
    """It was empty when it was looked at."""
    connection = apsw.Connection(str(tmp_path / "other.db"))
    connection.execute(f"CREATE TABLE colours (a); PRAGMA user_version = {version}")
    with pytest.raises(NotAStore):
        migrate(connection, tmp_path / "other.db")
    assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("colours",)]
    connection.close()


def test_a_store_that_another_process_migrated_meanwhile_is_too_new(tmp_path):
    code = """
from pathlib import Path
from perdure.store.migrate import Migration
from perdure.store.sqlite.connect import connect
from perdure.store.sqlite.schema import MIGRATIONS, migrate
path = Path(sys.argv[1])
newer = connect(path)
migrate(newer, path, (*MIGRATIONS, Migration(2, "more", "PRAGMA user_version = 2")))
say("open"); hear()
"""
    with open_store(tmp_path / "store.db"), child(code, tmp_path / "store.db") as newer:
        assert newer.hear() == ["open"]
        with pytest.raises(StoreTooNew):
            open_store(tmp_path / "store.db")
