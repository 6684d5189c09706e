"""Runs that are enqueued, and signals that are sent, within a transaction of the user's own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
import sqlalchemy

import perdure.sync
from perdure import Engine, Signal, step, workflow
from perdure.errors import (
    ColourError, DefinitionError, NoTransaction, RunConflict, RunNotFound, StepsTable,
)  # fmt: skip
from perdure.store.open import is_postgres
from perdure.transactional import AsyncPsycopg, Psycopg, SQLite
from tests.transactional.banks import Bank
from tests.transactional.databases import look, open_database

LARGE = "x" * 100_000
done = Signal[str]("done")


@workflow
async def echo(what: str) -> str:
    return what


@workflow
async def gather(count: int) -> list[str]:
    return [await done.wait() for _ in range(count)]


WORKFLOWS: list[Any] = [echo, gather]


@asynccontextmanager
async def transaction(bank: Bank, *, keep: bool) -> AsyncGenerator[Any]:
    """A connection of the bank's kind in a transaction that is kept or rolled back; nothing of it is Perdure's."""

    class Undo(Exception):
        pass

    try:
        if bank.source.is_async:
            async with bank.source.begin() as connection:
                yield connection
                if not keep:
                    raise Undo
        else:
            with bank.source.begin() as connection:
                yield connection
                if not keep:
                    raise Undo
    except Undo:
        pass


async def rolled_back_and_committed(bank: Bank, store: str) -> None:
    async with Engine(store, workflows=WORKFLOWS, outboxes=[bank.source]) as engine:
        async with transaction(bank, keep=False) as connection:
            await engine.enqueue(echo, "no", run_id="no", within=connection)
            await engine.get("kept").signal(done, "no", within=connection)
        async with transaction(bank, keep=True) as connection:
            kept = await engine.enqueue(gather, 3, run_id="kept", within=connection)
            many = await engine.enqueue_many(echo, [LARGE, "b"], within=connection)
            for word in ("one", LARGE, "three"):
                await kept.signal(done, word, within=connection)
            with pytest.raises(RunNotFound):
                await kept.view()
        async with asyncio.timeout(20):
            assert await kept.result() == ["one", LARGE, "three"]
            assert [await one.result() for one in many] == [LARGE, "b"]
        with pytest.raises(RunNotFound):
            await engine.get("no").view()
        while look(bank.address, "SELECT count(*) FROM perdure_outbox") != [(0,)]:
            await asyncio.sleep(0)


def test_what_is_rolled_back_never_was_and_what_is_committed_comes_once_and_in_order(
    bank: Bank, made_store: Callable[[], str]
) -> None:
    asyncio.run(rolled_back_and_committed(bank, made_store()))
