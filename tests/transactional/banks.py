"""Databases of a user's, one for each kind of source: accounts, and a ledger that any number of equal rows fit into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import apsw
import sqlalchemy
from psycopg_pool import ConnectionPool
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from perdure.transactional import Apsw, AsyncPsycopg, AsyncSQLAlchemy, Psycopg, SQLAlchemy, SQLite
from tests.transactional.databases import furnish, look

MOVE = (
    "INSERT INTO ledger VALUES ('{entry}', {amount})",
    "UPDATE accounts SET balance = balance - {amount} WHERE name = 'here'",
    "UPDATE accounts SET balance = balance + {amount} WHERE name = 'there'",
)
TOTAL = 1000


def moves(entry: str, amount: int) -> list[str]:
    """The statements of one transfer."""
    return [one.format(entry=entry, amount=amount) for one in MOVE]


@dataclass
class Bank:
    """A database and a source of it."""

    kind: str
    address: str
    source: Any
    close: Callable[[], object] = lambda: None

    def move(self, entry: str, amount: int) -> None:
        """Transfer, in the transaction of the step that this is called in."""
        connection = self.source.connection()
        for statement in moves(entry, amount):
            connection.execute(sqlalchemy.text(statement) if "sqlalchemy" in self.kind else statement)

    async def move_async(self, entry: str, amount: int) -> None:
        """The same, for async sources."""
        connection = self.source.connection()
        for statement in moves(entry, amount):
            await connection.execute(sqlalchemy.text(statement) if "sqlalchemy" in self.kind else statement)

    @property
    def entries(self) -> list[str]:
        """What was transferred, sorted."""
        return [entry for (entry,) in look(self.address, "SELECT entry FROM ledger ORDER BY entry")]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Steps with their epochs, and whether they are committed."""
        query = "SELECT step, epoch, outcome IS NOT NULL FROM perdure_steps ORDER BY step"
        return [(step, epoch, bool(done)) for step, epoch, done in look(self.address, query)]

    def check(self) -> None:
        """No money is made or lost, and balances are what the ledger says."""
        ((here,), (there,)) = look(self.address, "SELECT balance FROM accounts ORDER BY name")
        ((moved,),) = look(self.address, "SELECT coalesce(sum(amount), 0) FROM ledger")
        assert (here + there, there) == (TOTAL, moved)


def _by_engine(address: str) -> str:
    return address.replace("postgresql:", "postgresql+psycopg:") if "postgresql:" in address else f"sqlite:///{address}"


def _by_async_engine(address: str) -> str:
    return _by_engine(address).replace("sqlite:", "sqlite+aiosqlite:")


def _engine(address: str, kind: str) -> Bank:
    engine = sqlalchemy.create_engine(_by_engine(address))
    target: Any = sessionmaker(engine) if "session" in kind else engine
    return Bank(kind, address, SQLAlchemy(target, settle="3s"), engine.dispose)


def _async_engine(address: str, kind: str) -> Bank:
    # Nothing is kept between transactions: the loops of tests come and go.
    engine = create_async_engine(_by_async_engine(address), poolclass=sqlalchemy.NullPool)
    target: Any = async_sessionmaker(engine) if "session" in kind else engine
    return Bank(kind, address, AsyncSQLAlchemy(target, settle="3s"))


def _pool(address: str, kind: str) -> Bank:
    pool = ConnectionPool(address, min_size=1, max_size=4, open=True)
    return Bank(kind, address, Psycopg(pool, settle="3s"), pool.close)


MAKERS: dict[str, Callable[[str, str], Bank]] = {
    "sqlite3": lambda address, kind: Bank(kind, address, SQLite(address, settle="3s")),
    "apsw": lambda address, kind: Bank(kind, address, Apsw(lambda: _apsw(address), settle="3s")),
    "sqlalchemy-sqlite": _engine,
    "sqlalchemy-aiosqlite-session": _async_engine,
    "psycopg": lambda address, kind: Bank(kind, address, Psycopg(address, settle="3s")),
    "psycopg-pool": _pool,
    "async-psycopg": lambda address, kind: Bank(kind, address, AsyncPsycopg(address, settle="3s")),
    "sqlalchemy-postgres-session": _engine,
    "sqlalchemy-async-postgres": _async_engine,
}
ON_SQLITE = [kind for kind in MAKERS if "sqlite" in kind or kind == "apsw"]


def _apsw(address: str) -> apsw.Connection:
    connection = apsw.Connection(address)
    connection.set_busy_timeout(5000)
    return connection


def make_bank(kind: str, address: str) -> Bank:
    """A bank of a kind in an empty database."""
    furnish(address)
    return MAKERS[kind](address, kind)
