"""Runs that are enqueued, and signals that are sent, within a transaction of the user's own."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
import sqlalchemy

import perdure.sync
from perdure import Engine, Signal, step, workflow
from perdure.clock import SystemClock
from perdure.errors import ColourError, DefinitionError, NoTransaction, RunConflict, RunNotFound, StepsTable
from perdure.runtime import points
from perdure.store.open import is_postgres
from perdure.transactional import AsyncPsycopg, Psycopg, SQLite
from tests.crash.procs import Bomb, Crew, ended
from tests.transactional import orders as orders_module
from tests.transactional.banks import Bank
from tests.transactional.databases import furnish, look, open_database
from tests.transactional.orders import rows as orders_of

CLOCK = SystemClock()
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


# -- processes die


@pytest.fixture(params=["sqlite", "postgres", "same"])
def place(
    request: pytest.FixtureRequest, made_store: Callable[[], str], new_database: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """A store, and a database of a user's: a file, one on PostgreSQL, and the store's own."""
    store = made_store()
    if request.param != "same":
        address = new_database(request.param)
        furnish(address)
        yield store, address
        return
    if not is_postgres(store):
        pytest.skip("nobody else has a connection to a store in a file")
    base = store.partition("?schema=")[0]
    with psycopg.connect(base, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA shop")
    address = f"{base}?options=-csearch_path%3Dshop"
    furnish(address)
    yield store, address
    with psycopg.connect(base, autocommit=True) as connection:
        connection.execute("SET client_min_messages = error; DROP SCHEMA shop CASCADE")


def check(crew: Crew, address: str, *orders: str) -> None:
    """The orders that are in the user's database were shipped, each once, and no others."""
    assert sorted(entry for (entry,) in look(address, "SELECT entry FROM ledger")) == sorted(orders)
    ended = crew_ended(crew, orders)
    assert ended == {order: f"{order} 1 2" for order in orders}
    assert set(asyncio.run(orders_of(crew.store))) == set(orders)
    begun = {(one.run, one.idem) for one in crew.ledger.entries("begin")}
    assert sorted(run for run, _ in begun) == sorted(orders)


def crew_ended(crew: Crew, orders: Iterable[str]) -> dict[str, Any]:
    async def wait() -> dict[str, Any]:
        async with Engine(crew.store, workflows=orders_module.WORKFLOWS).client() as client:
            async with asyncio.timeout(30):
                for order in orders:
                    handle = client.get(order)
                    handle.is_expected = True
                    await handle.result()
            return {order: await client.get(order).result() for order in orders}

    return asyncio.run(wait())


@pytest.mark.crash
def test_callers_and_relays_die_at_every_point_and_each_committed_order_is_shipped_once(
    place: tuple[str, str], tmp_path: Path
) -> None:
    store, address = place
    crew = Crew(tmp_path, store)
    try:
        told = (crew.store, crew.ledger, address)
        for number, point in enumerate(("before", "after")):
            caller = crew.start(orders_module.take, *told, [f"{number}a", f"{number}b"], point, orders_module.nothing)
            assert ended(caller) == -signal.SIGKILL
        for point in (points.RELAY, points.RELAYED):
            dying = crew.start(orders_module.work, *told, {"reached": Bomb(point, 1)})
            assert ended(dying) == -signal.SIGKILL
        assert look(address, "SELECT count(*) FROM perdure_outbox") != [(0,)]
        for _ in range(2):
            crew.start(orders_module.work, *told, {})
        check(crew, address, "0a", "1a", "1b")
        until_empty(address)
    finally:
        crew.close()


def until_empty(address: str) -> None:
    limit = CLOCK.monotonic() + 20
    while look(address, "SELECT count(*) FROM perdure_outbox") != [(0,)]:
        assert CLOCK.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.crash
@pytest.mark.parametrize("point", [points.TRANSACT, points.TRANSACTED, points.COMMIT])
def test_a_run_that_a_transactional_step_enqueues_is_part_of_its_transaction(
    place: tuple[str, str], tmp_path: Path, point: str
) -> None:
    store, address = place
    crew = Crew(tmp_path, store)
    try:
        told = (crew.store, crew.ledger, address)
        asyncio.run(trade_one(store))
        dying = crew.start(orders_module.work, *told, {"reached": Bomb(point, 1)})
        assert ended(dying) == -signal.SIGKILL
        crew.start(orders_module.work, *told, {})
        order = asyncio.run(outcome(store, "trade"))
        until_empty(address)
        runs = asyncio.run(orders_of(store))
        assert sorted(runs) == sorted(["trade", order])
        assert look(address, "SELECT entry FROM ledger") == [("book",)]
        assert asyncio.run(outcome(store, order)) == "book"
        begun = {(one.run, one.idem) for one in crew.ledger.entries("begin")}
        assert [run for run, _ in begun] == [order]
    finally:
        crew.close()


async def trade_one(store: str) -> None:
    async with Engine(store).client() as client:
        await client.enqueue(orders_module.trade, "book", run_id="trade")


async def outcome(store: str, run_id: str) -> Any:
    async with Engine(store, workflows=orders_module.WORKFLOWS).client() as client:
        handle = client.get(run_id)
        handle.is_expected = True
        return await handle.result(30)
