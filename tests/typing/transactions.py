"""What editors and type checkers infer of transactional steps and their connections."""

from __future__ import annotations

import sqlite3
from collections.abc import Coroutine
from typing import TYPE_CHECKING, assert_type

import apsw
import sqlalchemy
from psycopg import AsyncConnection, Connection
from psycopg.rows import TupleRow
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncConnection as AsyncAlchemyConnection
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from perdure import Engine, Handle, step, workflow
from perdure.sync import Engine as BlockingEngine
from perdure.transactional import Apsw, AsyncPsycopg, AsyncSQLAlchemy, Psycopg, SQLAlchemy, SQLite

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

remote = AsyncPsycopg("")


@step(transactional=remote, timeout="30s")
async def transfer(amount: int) -> str:
    assert_type(remote.connection(), AsyncConnection[TupleRow])
    return str(amount)


local = SQLite("bank.db", keep="30d")


@step(transactional=local)
def note(amount: int) -> bytes:
    assert_type(local.connection(), sqlite3.Connection)
    return str(amount).encode()


@workflow
async def ship(order: str) -> int:
    return len(order)


async def calls() -> None:
    call: Coroutine[object, None, str] = transfer(1)
    assert_type(await call, str)
    assert_type(note(1), bytes)
    async with remote.begin() as connection:
        assert_type(connection, AsyncConnection[TupleRow])
    with local.begin() as file:
        assert_type(file, sqlite3.Connection)
    assert_type(await remote.forget(older_than="30d"), int)
    assert_type(local.forget(older_than="30d"), int)


def sources(pool: ConnectionPool[Connection[str]], later: AsyncConnectionPool[AsyncConnection[str]]) -> None:
    assert_type(Psycopg("").connection(), Connection[TupleRow])
    assert_type(Psycopg(pool).connection(), Connection[str])
    assert_type(AsyncPsycopg(later).connection(), AsyncConnection[str])
    assert_type(AsyncPsycopg(lambda: later).connection(), AsyncConnection[str])
    assert_type(Apsw("bank.db").connection(), apsw.Connection)
    engine, async_engine = create_engine("sqlite://"), create_async_engine("sqlite+aiosqlite://")
    assert_type(SQLAlchemy(engine).connection(), sqlalchemy.Connection)
    assert_type(SQLAlchemy(sessionmaker(engine)).connection(), Session)
    later_connection = AsyncSQLAlchemy(async_engine).connection()
    assert_type([later_connection], list[AsyncAlchemyConnection])
    assert_type(AsyncSQLAlchemy(async_sessionmaker(async_engine)).connection(), AsyncSession)


step(transactional="bank.db")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


async def within(
    engine: Engine,
    desk: BlockingEngine,
    psycopgs: AsyncConnection[TupleRow],
    session: Session,
    file: sqlite3.Connection,
    raw: apsw.Connection,
    later: AsyncSession,
) -> None:
    assert_type(await engine.enqueue(ship, "x", within=psycopgs), Handle[int])
    assert_type(await engine.enqueue_many(ship, ["x"], within=later), list[Handle[int]])
    assert_type(await engine.get("x").signal("paid", 1, within=raw), bool)
    assert_type(desk.enqueue(ship, "x", within=session).result(), int)
    assert_type(desk.enqueue(ship, "x", within=file).signal("paid", within=file), bool)
    Engine(outboxes=[remote, local])
