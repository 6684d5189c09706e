"""perdure db: make, check and describe the database under a store."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from perdure.store.open import inspect_store, open_store
from tests.servers.behind import is_postgres


def test_migrate_makes_a_store_once(perdure, store):
    made = perdure("db", "migrate")
    assert (made.exit_code, "made, schema 1" in made.stdout) == (0, True)
    again = perdure("db", "migrate")
    assert (again.exit_code, "up to date, schema 1" in again.stdout) == (0, True)
    with open_store(store, create=False) as opened:
        assert not opened.created


def test_check_says_whether_all_is_well_and_makes_nothing(perdure, store):
    before = perdure("db", "check")
    assert before.exit_code != 0
    assert "there is no store" in before.stdout + before.stderr
    assert perdure("runs").exit_code == 3
    perdure("db", "migrate")
    after = perdure("db", "check")
    assert after.exit_code == 0
    assert "✓ schema 1" in after.stdout
    data = json.loads(perdure("db", "check", "--json").stdout)
    assert (data["version"], data["known"], data["problems"]) == (1, 1, [])
    assert data["facts"]


@pytest.mark.only("sqlite")
def test_sql_is_what_a_migration_does_on_sqlite(perdure, store):
    script = perdure("db", "sql").stdout
    apply = "import sqlite3, sys; sqlite3.connect(sys.argv[1], isolation_level=None).executescript(sys.stdin.read())"
    subprocess.run([sys.executable, "-c", apply, store], input=script, text=True, check=True)
    assert perdure("db", "check").exit_code == 0
    with open_store(store) as opened:
        assert not opened.created
    assert perdure("db", "sql").stdout.split() == ["BEGIN", "IMMEDIATE;", "COMMIT;"]


@pytest.mark.only("postgres")
def test_sql_is_what_a_migration_does_on_postgres(perdure, store):
    import psycopg

    script = perdure("db", "sql").stdout
    assert inspect_store(store).version == 0
    with psycopg.connect(store.partition("?")[0], autocommit=True) as connection:
        connection.execute(script)
    assert perdure("db", "check").exit_code == 0
    with open_store(store) as opened:
        assert not opened.created
    assert "CREATE" not in perdure("db", "sql").stdout


def test_check_finds_what_is_amiss(perdure, store, tmp_path):
    perdure("db", "migrate")
    if is_postgres(store):
        import psycopg

        with psycopg.connect(store.partition("?")[0], autocommit=True) as connection:
            schema = store.rpartition("=")[2]
            connection.execute(f"SET search_path = {schema}")
            connection.execute("UPDATE store_info SET value = '9' WHERE name LIKE '%version'")
    else:
        change = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA user_version = 9')"
        subprocess.run([sys.executable, "-c", change, store], check=True)
    found = perdure("db", "check")
    assert (found.exit_code, "upgrade Perdure" in found.stdout) == (1, True)


@pytest.mark.only("sqlite")
def test_the_database_of_another_program_is_told_from_a_store(perdure, tmp_path):
    other = tmp_path / "other.db"
    make = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('CREATE TABLE t (a)'); db.commit()"
    subprocess.run([sys.executable, "-c", make, other], check=True)
    told = perdure("db", "check", "--store", other)
    assert (told.exit_code, "another program" in told.stderr) == (3, True)


def test_a_database_that_is_not_there_is_told(perdure):
    told = perdure("db", "check", "--store", "postgresql://127.0.0.1:1/nowhere")
    assert (told.exit_code, "cannot be reached" in told.stderr) == (3, True)
