"""What is in the user's own database is behind the same codecs: outcomes of steps there, and entries of an outbox."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perdure import Engine, Signal, step, step_context, workflow
from perdure.codecs import Encryption, new_key
from perdure.testing import explore_crashes
from perdure.transactional import SQLite

SECRET = "s3cret-of-the-customer"  # noqa: S105 - it is to be found nowhere
word = Signal[str]("word")


@pytest.mark.only("sqlite")
def test_outcomes_and_entries_of_an_outbox_are_unreadable_and_read(made_store, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    accounts = SQLite(file)
    codecs = [Encryption(new_key())]

    @step(transactional=accounts)
    def book(text: str) -> str:
        accounts.connection().execute("CREATE TABLE IF NOT EXISTS bookings (what TEXT)")
        accounts.connection().execute("INSERT INTO bookings VALUES ('something')")
        return text + "!"

    @workflow
    async def sells(text: str) -> str:
        return await book.aio(text) + await word.wait()

    async def main() -> None:
        engine = Engine(made_store(), workflows=[sells], codecs=codecs, outboxes=[accounts], durability="process")
        async with engine, asyncio.timeout(20):
            with closing(sqlite3.connect(file)) as connection, connection:
                handle = await engine.enqueue(sells, SECRET, run_id="r", within=connection)
                await handle.signal(word, SECRET, within=connection)
                rows = connection.execute("SELECT * FROM perdure_outbox").fetchall()
            assert len(rows) == 2
            assert not any(SECRET in repr(value) for row in rows for value in row)
            assert await handle.result() == f"{SECRET}!{SECRET}"

    asyncio.run(main())
    with closing(sqlite3.connect(file)) as connection:
        (row,) = connection.execute("SELECT * FROM perdure_steps").fetchall()
    assert not any(SECRET in repr(value) for value in row)
    assert SECRET.encode() not in file.read_bytes()


def test_an_outcome_that_is_found_in_the_users_database_is_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", new_key())
    file = tmp_path / "shop.db"
    accounts = SQLite(file)

    @step(transactional=accounts)
    def book(text: str) -> str:
        connection = accounts.connection()
        connection.execute("CREATE TABLE IF NOT EXISTS bookings (what TEXT)")
        connection.execute("INSERT INTO bookings VALUES (?)", (step_context().run_id,))
        return text + "!"

    @workflow
    async def sells(text: str) -> str:
        return await book.aio(text)

    explore_crashes(sells, SECRET)
    with closing(sqlite3.connect(file)) as connection:
        outcomes = connection.execute("SELECT outcome FROM perdure_steps WHERE outcome IS NOT NULL").fetchall()
        bookings = connection.execute("SELECT what FROM bookings").fetchall()
    assert len(outcomes) == len(bookings) > 5  # one of each life, wherever that was crashed
