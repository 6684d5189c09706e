"""The user's own connections, inside transactions that are his: as they are given to ``within=``."""

from __future__ import annotations

import sqlite3
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure.errors import DefinitionError, NoTransaction
from perdure.transactional import alchemy, files, psycopg3
from perdure.transactional.statements import statements

if TYPE_CHECKING:
    import apsw
    import psycopg
    import sqlalchemy.orm
    from sqlalchemy.ext import asyncio as asynchronous

    from perdure.transactional.links import Link, Rows

    Connection: TypeAlias = (
        psycopg.Connection[Any]
        | psycopg.AsyncConnection[Any]
        | sqlalchemy.Connection
        | sqlalchemy.orm.Session
        | asynchronous.AsyncConnection
        | asynchronous.AsyncSession
        | sqlite3.Connection
        | apsw.Connection
    )
    """A connection in a transaction, which whoever gives it commits or rolls back."""

_IDLE = 0
"""psycopg's ``TransactionStatus.IDLE``."""
_LEVEL = "use an engine, or an isolation level, that is not AUTOCOMMIT"


class Guest:
    """A connection of the user's, in a transaction of his. Of a sync driver, no coroutine here ever suspends.

    Attributes:
        dialect: ``postgres`` or ``sqlite``.
        is_async: whether its driver works on the event loop.
        raw: what the driver gives; of SQLAlchemy what is below it, once ``begin`` has returned.
    """

    def __init__(self, link: Link[Any], raw: Any) -> None:
        self._link = link
        self.dialect, self.is_async = link.dialect, link.is_async
        self.raw = raw

    async def begin(self) -> None:
        """See to it that the transaction is under way.

        Raises:
            NoTransaction: there is none, and the driver begins none: every statement would commit by itself.
        """
        raise NotImplementedError

    async def execute(self, name: str, schema: str | None, /, **parameters: Any) -> Rows:
        """Execute one of our statements."""
        return await self._link.execute(statements(self.dialect, schema)[name], parameters)

    async def _touch(self) -> None:
        if self.dialect == "postgres":
            await self.execute("touch", None)
        else:
            await self.execute("begin", None)


class _Postgres(Guest):
    async def begin(self) -> None:
        if self.raw.closed:
            raise NoTransaction("the connection is closed", advice="give one that is open, and in a transaction")
        if self.raw.info.transaction_status != _IDLE:
            return
        if self.raw.autocommit:
            raise _none("begin one: with connection.transaction()")
        await self._touch()


class _SQLite(Guest):
    async def begin(self) -> None:
        if self.raw.in_transaction:
            return
        if self.raw.isolation_level is None or getattr(self.raw, "autocommit", -1) is True:
            raise _none("execute BEGIN first")
        await self._touch()


class _Apsw(Guest):
    async def begin(self) -> None:
        if not self.raw.in_transaction:
            raise _none("begin one: with connection, or BEGIN")


class _Alchemy(Guest):
    async def begin(self) -> None:
        connection = self._link.connection
        connection = connection if hasattr(connection, "exec_driver_sql") else connection.connection()
        level = connection.get_isolation_level()
        self.raw = connection.connection.driver_connection
        await self._settle(level)

    async def _settle(self, level: str) -> None:
        if level == "AUTOCOMMIT":
            raise _none(_LEVEL)
        # SQLAlchemy begins with the first statement; SQLite's driver may leave it at that until something is written.
        if self.dialect == "postgres":
            await self._touch()
            return
        await self.execute("owner", None)
        if self.raw.in_transaction:
            return
        if self.raw.isolation_level is None:
            raise _none(_LEVEL)
        await self._touch()


class _AsyncAlchemy(_Alchemy):
    async def begin(self) -> None:
        connection = self._link.connection
        connection = connection if hasattr(connection, "exec_driver_sql") else await connection.connection()
        level = await connection.get_isolation_level()
        self.raw = (await connection.get_raw_connection()).driver_connection
        await self._settle(level)


def guest(connection: object) -> Guest:
    """Return a connection as what is given to ``within=``.

    Raises:
        DefinitionError: it is none that Perdure knows.
    """
    if (link := files.borrow(connection)) is not None:
        kind = _SQLite if isinstance(connection, sqlite3.Connection) else _Apsw
        return kind(link, connection)
    # What is not loaded has made no connection.
    if "psycopg" in sys.modules and (link := psycopg3.borrow(connection)) is not None:
        return _Postgres(link, connection)
    if "sqlalchemy" in sys.modules and (link := alchemy.borrow(connection)) is not None:
        return (_AsyncAlchemy if link.is_async else _Alchemy)(link, None)
    raise DefinitionError(
        f"within= takes no {type(connection).__name__}",
        advice="give a connection in a transaction: psycopg's, SQLAlchemy's (or a Session), sqlite3's or apsw's",
    )


def _none(advice: str) -> NoTransaction:
    return NoTransaction("the connection is in no transaction: every statement commits by itself", advice=advice)


__all__ = ["Guest", "guest"]
