"""Runs that are enqueued, and signals that are sent, within a transaction of the user's own."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import apsw
import psycopg
import pytest
import sqlalchemy

import perdure.sync
from perdure import Engine, Signal, workflow
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
STORM = bool(os.environ.get("PERDURE_STORM"))
LARGE = "x" * 100_000
done = Signal[str]("done")


@workflow
async def echo(what: str) -> str:
    return what


@workflow
async def gather(count: int) -> list[str]:
    return [await done.wait() for _ in range(count)]


WORKFLOWS: list[Any] = [echo, gather]


class Undo(Exception):
    pass


@asynccontextmanager
async def transaction(bank: Bank, *, keep: bool) -> AsyncGenerator[Any]:
    """A connection of the bank's kind in a transaction that is kept or rolled back; nothing of it is Perdure's."""
    async with AsyncExitStack() as stack:
        stack.enter_context(suppress(Undo))
        begun = bank.source.begin()
        yield await stack.enter_async_context(begun) if bank.source.is_async else stack.enter_context(begun)
        if not keep:
            raise Undo


def left_in(bank: Bank) -> list[Any]:
    """How much an outbox holds; asked by the library that the relay uses: two would drop each other's locks."""
    query = "SELECT count(*) FROM perdure_outbox"
    if bank.kind != "apsw":
        return look(bank.address, query)
    with closing(apsw.Connection(bank.address)) as connection:
        connection.set_busy_timeout(5000)
        return connection.execute(query).fetchall()


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
        await until(lambda: left_in(bank) == [(0,)])


def test_what_is_rolled_back_never_was_and_what_is_committed_comes_once_and_in_order(
    bank: Bank, made_store: Callable[[], str], database: str
) -> None:
    if database == "postgres" and bank.kind not in {"sqlite3", "sqlalchemy-async-postgres"} and not STORM:
        pytest.skip("what the user's database is and what the store's is go together well enough")
    asyncio.run(rolled_back_and_committed(bank, made_store()))


# -- processes die


@pytest.fixture(params=["sqlite", "postgres", "same"])
def place(
    request: pytest.FixtureRequest, made_store: Callable[[], str], new_database: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """A store, and a database of a user's: a file, one on PostgreSQL, and the store's own."""
    store = made_store()
    if is_postgres(store) and request.param != "same" and not STORM:
        pytest.skip("a store on PostgreSQL is in the user's own database here")
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
    until_empty(address)
    # What was sent a second time would come before this.
    assert asyncio.run(paid_up(crew.store, orders)) == {order: f"{order} 1 2 3" for order in orders}
    assert set(asyncio.run(orders_of(crew.store))) == set(orders)
    begun = {(one.run, one.idem) for one in crew.ledger.entries("begin")}
    assert sorted(run for run, _ in begun) == sorted(orders)


async def paid_up(store: str, orders: Iterable[str]) -> dict[str, Any]:
    async with Engine(store, workflows=orders_module.WORKFLOWS).client() as client:
        handles = [client.get(order) for order in orders]
        for handle in handles:
            await handle.signal(orders_module.paid, 3)
        return {handle.run_id: await handle.result(30) for handle in handles}


@pytest.mark.crash
def test_callers_and_relays_die_at_every_point_and_each_committed_order_is_shipped_once(
    place: tuple[str, str], tmp_path: Path
) -> None:
    store, address = place
    crew = Crew(tmp_path, store)
    try:
        told = (crew.store, crew.ledger, address)
        for number, point in enumerate(("before", "after")):
            caller = crew.start(orders_module.take, *told, [f"{number}a", f"{number}b"], point)
            assert ended(caller) == -signal.SIGKILL
        for point in (points.RELAY, points.RELAYED):
            dying = crew.start(orders_module.work, *told, {"reached": Bomb(point, 1)})
            assert ended(dying) == -signal.SIGKILL
        assert look(address, "SELECT count(*) FROM perdure_outbox") != [(0,)]
        for _ in range(2):
            crew.start(orders_module.work, *told, {})
        check(crew, address, "0a", "1a", "1b")
    finally:
        crew.close()


def until_empty(address: str) -> None:
    limit = CLOCK.monotonic() + 20
    while look(address, "SELECT count(*) FROM perdure_outbox") != [(0,)]:
        assert CLOCK.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.crash
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not STORM, reason="PERDURE_STORM is not set")
def test_callers_and_workers_are_killed_at_any_moment_and_each_committed_order_is_shipped_once(
    place: tuple[str, str], tmp_path: Path
) -> None:
    store, address = place
    crew, chance, taken = Crew(tmp_path, store), Random(11), []  # noqa: S311 - not for secrets
    try:
        told = (crew.store, crew.ledger, address)
        for number in range(100):
            orders, point = [f"{number}-{n}" for n in range(5)], chance.choice(["before", "after"])
            workers = [crew.start(orders_module.work, *told, {}) for _ in range(2)]
            assert ended(crew.start(orders_module.take, *told, orders, point)) == -signal.SIGKILL
            taken += orders[:-1] if point == "before" else orders
            time.sleep(chance.random() * 0.2)
            for worker in workers:
                worker.kill()
                ended(worker)
        crew.start(orders_module.work, *told, {})
        check(crew, address, *taken)
    finally:
        crew.close()


POINTS = (points.TRANSACT, points.TRANSACTED, points.COMMIT)


@pytest.mark.crash
def test_a_run_that_a_transactional_step_enqueues_is_part_of_its_transaction(
    place: tuple[str, str], tmp_path: Path
) -> None:
    store, address = place
    crew = Crew(tmp_path, store)
    try:
        told = (crew.store, crew.ledger, address)
        asyncio.run(trade_some(store, POINTS))
        for point in POINTS:
            dying = crew.start(orders_module.work, *told, {"reached": Bomb(point, 1), "concurrency": 1})
            assert ended(dying) == -signal.SIGKILL
        crew.start(orders_module.work, *told, {})
        shipped = {point: asyncio.run(outcome(store, point)) for point in POINTS}
        for point, run_id in shipped.items():
            assert asyncio.run(outcome(store, run_id)) == point
        until_empty(address)
        assert sorted(asyncio.run(orders_of(store))) == sorted([*shipped, *shipped.values()])
        assert sorted(look(address, "SELECT entry FROM ledger")) == sorted((point,) for point in POINTS)
        begun = {(one.run, one.idem) for one in crew.ledger.entries("begin")}
        assert sorted(run for run, _ in begun) == sorted(shipped.values())
    finally:
        crew.close()


async def trade_some(store: str, names: Iterable[str]) -> None:
    async with Engine(store).client() as client:
        for name in names:
            await client.enqueue(orders_module.trade, name, run_id=name)


async def outcome(store: str, run_id: str) -> Any:
    async with Engine(store, workflows=orders_module.WORKFLOWS).client() as client:
        handle = client.get(run_id)
        handle.is_expected = True
        return await handle.result(30)


# -- relays


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what happens in a database rings no bell
            await asyncio.sleep(0.005)


async def several_relays(bank: Bank, store: str) -> None:
    count = 250
    options: dict[str, Any] = {"workflows": WORKFLOWS, "outboxes": [bank.source]}
    async with Engine(store, **options).client() as client:
        async with transaction(bank, keep=True) as connection:
            handles = await client.enqueue_many(gather, [3] * 10, run_ids=list(map(str, range(10))), within=connection)
            many = await client.enqueue_many(echo, [str(n) for n in range(count)], within=connection)
            for word in ("one", "two", "three"):
                for handle in handles:
                    await handle.signal(done, word, within=connection)
        async with Engine(store, **options), Engine(store, **options), asyncio.timeout(30):
            for handle in handles:
                assert await handle.result() == ["one", "two", "three"]
            assert [await one.result() for one in many] == [str(n) for n in range(count)]
            await until(lambda: look(bank.address, "SELECT count(*) FROM perdure_outbox") == [(0,)])
        assert len(await orders_of(store)) == count + 10


def test_several_relays_at_once_bring_everything_once_and_in_order(
    plain_bank: Bank, made_store: Callable[[], str]
) -> None:
    asyncio.run(several_relays(plain_bank, made_store()))


async def set_aside(address: str, source: SQLite, store: str) -> None:
    async with Engine(store, workflows=WORKFLOWS, outboxes=[source]) as engine:
        await engine.run(echo, "gone", run_id="purged")
        assert (await engine.prune(older_than=1e-6)).runs == 1
        await engine.enqueue(echo, "this", run_id="taken")
        with source.begin() as connection:
            # Of these two the relay takes it that they were brought before.
            purged = await engine.enqueue(echo, "gone", run_id="purged", within=connection)
            await purged.signal(done, "x", within=connection)
            await engine.enqueue(echo, "that", run_id="taken", within=connection)
            await engine.get("late").signal(done, "x", within=connection)
            await engine.enqueue(echo, "changed", run_id="changed", within=connection)
            connection.execute("UPDATE perdure_outbox SET payload = x'22' WHERE run = 'changed'")
            good = await engine.enqueue(echo, "good", within=connection)
        assert await good.result(20) == "good"
        await until(lambda: len(source.stuck()) == 3)
        found = {one.run_id: (one.kind, one.code) for one in source.stuck()}
        assert found == {
            "taken": ("run", "run_conflict"), "late": ("signal", "run_not_found"), "changed": ("run", "integrity"),
        }  # fmt: skip
        assert not any(secret in one.reason for one in source.stuck() for secret in ("this", "that", "x22"))
        late = await engine.enqueue(gather, 1, run_id="late")
        (waits,) = [one for one in source.stuck() if one.run_id == "late"]
        assert source.retry(waits.id) == 1
        assert await late.result(20) == ["x"]
        await until(lambda: len(source.stuck()) == 2)
        assert source.discard(*(one.id for one in source.stuck())) == 2
        # What was brought at last is told before its row is gone.
        await until(lambda: look(address, "SELECT count(*) FROM perdure_outbox") == [(0,)])


@pytest.mark.only("sqlite")
def test_what_cannot_be_sent_is_set_aside_and_keeps_nobody(
    new_database: Callable[[str], str], made_store: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    address = new_database("sqlite")
    asyncio.run(set_aside(address, SQLite(address), made_store()))
    assert len([one for one in caplog.records if "set aside" in one.message]) == 3


async def away(addresses: list[str], store: str) -> None:
    source = Psycopg(lambda: addresses[0])
    async with Engine(store, workflows=WORKFLOWS, outboxes=[source]) as engine:
        assert await engine.run(echo, "here") == "here"
        source_there = Psycopg(addresses[1])
        source_there.migrate()
        with source_there.begin() as connection:
            handle = await engine.enqueue(echo, "back", within=connection)
        addresses.pop(0)
        assert await handle.result(20) == "back"


@pytest.mark.postgres
@pytest.mark.only("sqlite")
def test_a_database_that_is_away_costs_nothing_but_its_own_entries(
    new_database: Callable[[str], str], made_store: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(away(["postgresql://nobody@127.0.0.1:1/nothing", new_database("postgres")], made_store()))
    assert len([one for one in caplog.records if "is not to be had" in one.message]) == 1


# -- what is refused


@workflow
async def inside() -> str:
    try:
        with closing(sqlite3.connect(":memory:")) as mine:
            await ENGINES[0].enqueue(echo, "x", within=mine)
    except DefinitionError as error:
        return error.message
    return "done"


ENGINES: list[Engine] = []


async def refused(bank: Bank, store: str) -> None:
    async with Engine(store, workflows=[echo, inside], outboxes=[bank.source]) as engine:
        ENGINES[:] = [engine]
        assert "a workflow's own code" in await engine.run(inside)
        with pytest.raises(DefinitionError, match="takes no str"):
            await engine.enqueue(echo, "x", within="a connection")  # type: ignore[call-overload]
        plain = open_database(bank.address)
        with closing(plain), pytest.raises(NoTransaction, match="commits by itself"):
            await engine.enqueue(echo, "x", within=plain)
        eng = sqlalchemy.create_engine("sqlite://", isolation_level="AUTOCOMMIT")
        with eng.connect() as connection, pytest.raises(NoTransaction, match="commits by itself"):
            await engine.enqueue(echo, "x", within=connection)
        eng.dispose()
        with closing(apsw.Connection(":memory:")) as raw, pytest.raises(NoTransaction):
            await engine.enqueue(echo, "x", within=raw)
        other = sqlite3.connect(":memory:")
        wanted = StepsTable if bank.source.dialect == "sqlite" else DefinitionError
        with closing(other), pytest.raises(wanted, match=r"perdure_outbox|no outbox"):
            await engine.enqueue(echo, "x", within=other)
        assert look(bank.address, "SELECT count(*) FROM perdure_outbox") == [(0,)]


@pytest.mark.only("sqlite")
def test_what_is_in_no_transaction_or_has_no_outbox_is_refused(plain_bank: Bank, made_store: Callable[[], str]) -> None:
    asyncio.run(refused(plain_bank, made_store()))


@pytest.mark.postgres
@pytest.mark.only("sqlite")
def test_the_blocking_engine_refuses_what_works_on_a_loop(
    new_database: Callable[[str], str], made_store: Callable[[], str]
) -> None:
    address = new_database("postgres")

    async def connect() -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(address)

    async def blocking(desk: perdure.sync.Engine) -> None:
        with closing(sqlite3.connect(":memory:")) as mine:
            desk.enqueue(echo, "x", within=mine)

    engine = perdure.sync.Engine(made_store(), outboxes=[AsyncPsycopg(address)])
    with engine.client() as desk, asyncio.Runner() as runner:
        connection = runner.run(connect())
        with pytest.raises(ColourError, match="event loop"):
            desk.enqueue(echo, "x", within=connection)
        with pytest.raises(ColourError, match="running event loop"):
            runner.run(blocking(desk))
        runner.run(connection.close())


# -- in the store's own database


async def direct(store: str) -> None:
    base = store.partition("?schema=")[0]
    async with Engine(store, workflows=WORKFLOWS) as engine:
        async with await psycopg.AsyncConnection.connect(base) as first:
            mine = await engine.enqueue(echo, "a", idempotency_key="k", within=first)
            again = await engine.enqueue(echo, "a", idempotency_key="k", within=first)
            assert mine.run_id == again.run_id
            with pytest.raises(RunConflict):
                await engine.enqueue(echo, "b", idempotency_key="k", within=first)
            async with await psycopg.AsyncConnection.connect(base) as second:
                # Who wants the same id waits for the first one's end; the loop does not, and it can be given up.
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(engine.enqueue(echo, "b", run_id=mine.run_id, within=second), 0.1)
                await second.rollback()
                waiting = asyncio.ensure_future(engine.enqueue(echo, "b", run_id=mine.run_id, within=second))
                assert await engine.run(echo, "meanwhile") == "meanwhile"
                await first.commit()
                with pytest.raises(RunConflict):
                    await waiting
            assert await mine.result(20) == "a"
            for value in ("early", "late"):
                put_off = await engine.enqueue(echo, value, idempotency_key="d", debounce=0.01, within=first)
                await first.commit()
            assert await put_off.result(20) in {"early", "late"}
            with pytest.raises(DefinitionError, match="outbox"):
                await mine.signal(done, "x", within=first)
        # Not spoken to as the store's own connections are: other texts, other rights, another store.
        schema = store.partition("?schema=")[2]
        settings = (
            "SET client_encoding = 'LATIN1'",
            f"REVOKE INSERT ON {schema}.events FROM CURRENT_USER",
            f"UPDATE {schema}.store_info SET value = 'another' WHERE name = 'id'",  # noqa: S608 - a name of ours
        )
        for setting in settings:
            async with await psycopg.AsyncConnection.connect(base) as other:
                await other.execute(setting)
                with pytest.raises(DefinitionError, match="outbox"):
                    await engine.enqueue(echo, "x", within=other)
                assert other.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
                await other.rollback()


@pytest.mark.only("postgres")
def test_in_the_stores_own_database_runs_are_created_in_the_transaction_itself(made_store: Callable[[], str]) -> None:
    asyncio.run(direct(made_store()))
