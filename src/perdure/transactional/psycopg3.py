"""PostgreSQL by psycopg 3: connections made anew, or those of a pool."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.transactional.links import Holder, let_go_later
from perdure.transactional.source import AsyncSource, SyncSource, passes, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from psycopg import AsyncConnection, Connection
    from psycopg.rows import TupleRow
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

    from perdure.model.durations import Duration
    from perdure.transactional.links import Link, Rows

SyncT = TypeVar("SyncT", bound="Connection[Any]")
AsyncT = TypeVar("AsyncT", bound="AsyncConnection[Any]")

_PARAMETER = re.compile(r"(?<!:):(\w+)")
_IDLE = 0
"""psycopg's ``TransactionStatus.IDLE``."""


class _Server:
    """What both sources have in common."""

    _database: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_shown(self._database)})"

    def may_pass(self, error: BaseException) -> bool:
        """Whether another transaction is in the way."""
        return passes(error)


class Psycopg(_Server, SyncSource[SyncT]):
    """PostgreSQL by psycopg, for plain functions.

    Args:
        database: a conninfo or URL (each transaction connects anew), a ``psycopg_pool.ConnectionPool`` that is open, or
            a function that returns either. What commits survive is as the server has it (``synchronous_commit``).
        schema: where ``perdure_steps`` is; by default where the connection looks for tables.
        settle: how long a failed attempt tries to find out whether it is committed.
        keep: after how long rows of ``perdure_steps`` may go; by default never. See ``forget``.
        create: whether its tables are made at the first use; if not, call ``migrate()``.

    Raises:
        DefinitionError: an argument makes no sense.
    """

    _other = ", or use AsyncPsycopg"

    @overload
    def __init__(
        self: Psycopg[Connection[TupleRow]],
        database: str,
        *,
        schema: str | None = None,
        settle: Duration = "10s",
        keep: Duration | None = None,
        create: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self,
        database: ConnectionPool[SyncT] | Callable[[], ConnectionPool[SyncT]],
        *,
        schema: str | None = None,
        settle: Duration = "10s",
        keep: Duration | None = None,
        create: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self: Psycopg[Connection[TupleRow]],
        database: Callable[[], str],
        *,
        schema: str | None = None,
        settle: Duration = "10s",
        keep: Duration | None = None,
        create: bool = True,
    ) -> None: ...
    def __init__(self, database: Any, **options: Any) -> None:
        super().__init__(**options)
        self._database = _checked(database, "ConnectionPool")

    def _link(self) -> _Link:
        return _Link(_resolved(self._database))


class AsyncPsycopg(_Server, AsyncSource[AsyncT]):
    """PostgreSQL by psycopg, for coroutine functions. As ``Psycopg`` in all else.

    Args:
        database: a conninfo or URL, a ``psycopg_pool.AsyncConnectionPool`` that is open, or a function that returns
            either.
        schema: where ``perdure_steps`` is; by default where the connection looks for tables.
        settle: how long a failed attempt tries to find out whether it is committed.
        keep: after how long rows of ``perdure_steps`` may go; by default never.
        create: whether its tables are made at the first use.

    Raises:
        DefinitionError: an argument makes no sense.
    """

    _other = ", or use Psycopg"

    @overload
    def __init__(
        self: AsyncPsycopg[AsyncConnection[TupleRow]],
        database: str,
        *,
        schema: str | None = None,
        settle: Duration = "10s",
        keep: Duration | None = None,
        create: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self,
        database: AsyncConnectionPool[AsyncT] | Callable[[], AsyncConnectionPool[AsyncT]],
        *,
        schema: str | None = None,
        settle: Duration = "10s",
        keep: Duration | None = None,
        create: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncPsycopg[AsyncConnection[TupleRow]],
        database: Callable[[], str],
        *,
        schema: str | None = None,
        settle: Duration = "10s",
        keep: Duration | None = None,
        create: bool = True,
    ) -> None: ...
    def __init__(self, database: Any, **options: Any) -> None:
        super().__init__(**options)
        self._database = _checked(database, "AsyncConnectionPool")

    def _link(self) -> _AsyncLink:
        return _AsyncLink(_resolved(self._database))


class _Transaction(Holder[Any]):
    dialect = "postgres"

    def __init__(self, database: Any) -> None:
        self._database = database
        self._block: Any = None

    @property
    def is_open(self) -> bool:
        return bool(self.connection.info.transaction_status != _IDLE)  # what is broken fails at the next statement


class _Link(_Transaction):
    async def begin(self) -> None:
        if isinstance(self._database, str):
            from psycopg import Connection

            self.held = Connection.connect(self._database)
        else:
            self.held = self._database.getconn()
        block = self.connection.transaction()
        block.__enter__()
        self._block = block

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        from psycopg import Cursor
        from psycopg.rows import tuple_row

        with Cursor(self.connection, row_factory=tuple_row) as cursor:
            cursor.execute(_converted(sql), parameters or None)
            return [] if cursor.description is None else cursor.fetchall()

    async def commit(self) -> None:
        block, self._block = self._block, None
        block.__exit__(None, None, None)
        self._let_go()

    async def rollback(self) -> None:
        if self.held is None:
            return
        if self._block is not None:
            self._block.__exit__(RuntimeError, RuntimeError(), None)
        self._let_go()

    def _let_go(self) -> None:
        connection, self.held = self.held, None
        if connection is None:
            return
        if isinstance(self._database, str):
            connection.close()
        else:
            self._database.putconn(connection)

    def abandon(self) -> None:
        if self.held is not None:
            self.held.pgconn.finish()
            self._let_go()


class _AsyncLink(_Transaction):
    is_async = True

    async def begin(self) -> None:
        if isinstance(self._database, str):
            from psycopg import AsyncConnection

            self.held = await AsyncConnection.connect(self._database)
        else:
            self.held = await self._database.getconn()
        block = self.connection.transaction()
        await block.__aenter__()
        self._block = block

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        from psycopg import AsyncCursor
        from psycopg.rows import tuple_row

        async with AsyncCursor(self.connection, row_factory=tuple_row) as cursor:
            await cursor.execute(_converted(sql), parameters or None)
            return [] if cursor.description is None else await cursor.fetchall()

    async def commit(self) -> None:
        block, self._block = self._block, None
        await block.__aexit__(None, None, None)
        await self._let_go()

    async def rollback(self) -> None:
        if self.held is None:
            return
        if self._block is not None:
            await self._block.__aexit__(RuntimeError, RuntimeError(), None)
        await self._let_go()

    async def _let_go(self) -> None:
        connection, self.held = self.held, None
        if connection is None:
            return
        if isinstance(self._database, str):
            await connection.close()
        else:
            await self._database.putconn(connection)

    def abandon(self) -> None:
        if self.held is not None:
            self.held.pgconn.finish()
            let_go_later(self._let_go)


@lru_cache
def _converted(sql: str) -> bytes:
    return _PARAMETER.sub(r"%(\1)s", sql).encode()


def borrow(connection: object) -> Link[Any] | None:
    """Return a link that only executes, on a connection of somebody else's; None if that is not psycopg's."""
    from psycopg import AsyncConnection, Connection

    if not isinstance(connection, (Connection, AsyncConnection)):
        return None
    link = _Link("") if isinstance(connection, Connection) else _AsyncLink("")
    link.held = connection
    return link


def _checked(database: Any, pool: str) -> Any:
    if not (isinstance(database, str) or callable(database) or hasattr(database, "getconn")):
        refuse(database, f"a conninfo, a psycopg_pool.{pool}, or a function that returns either")
    return database


def _resolved(database: Any) -> Any:
    return database() if callable(database) else database


def _shown(database: Any) -> str:
    """Name it without its password."""
    return "…" if isinstance(database, str) else getattr(database, "__qualname__", repr(database))


__all__ = ["AsyncPsycopg", "Psycopg", "borrow"]
