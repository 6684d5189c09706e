"""SQLAlchemy 2: engines give connections, sessionmakers give sessions; on PostgreSQL and SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.errors import DefinitionError, TransactionEnded
from perdure.transactional.links import Holder, let_go_later
from perdure.transactional.source import AsyncSource, SyncSource, passes, refuse
from perdure.transactional.statements import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection, Engine
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker
    from sqlalchemy.orm import Session, sessionmaker

    from perdure.model.durations import Duration
    from perdure.transactional.links import Link, Rows

SyncT = TypeVar("SyncT", bound="Connection | Session")
AsyncT = TypeVar("AsyncT", bound="AsyncConnection | AsyncSession")
SessionT = TypeVar("SessionT", bound="Session")
AsyncSessionT = TypeVar("AsyncSessionT", bound="AsyncSession")

DIALECTS = {"postgresql": "postgres", "sqlite": "sqlite"}
_BUSY = 5


class _Bound:
    """What both sources have in common."""

    _database: Any = None
    _given: tuple[type, ...] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self._database, '__qualname__', repr(self._database))})"

    def may_pass(self, error: BaseException) -> bool:
        """Whether another transaction is in the way."""
        cause = getattr(error, "orig", None) or error
        return passes(cause) or getattr(cause, "sqlite_errorcode", 0) & 0xFF == _BUSY

    @property
    def _dialect(self) -> str:
        return _dialect(self._target)

    @property
    def _target(self) -> Any:
        """The engine or sessionmaker."""
        return self._database if isinstance(self._database, self._given) else self._database()


class SQLAlchemy(_Bound, SyncSource[SyncT]):
    """A database by SQLAlchemy, for plain functions.

    Args:
        database: an ``Engine`` (``connection()`` is then a ``Connection``), a ``sessionmaker`` (a ``Session``), or a
            function that returns either. PostgreSQL and SQLite.
        schema: where ``perdure_steps`` is, on PostgreSQL; by default where the connection looks for tables.
        settle: how long a failed attempt tries to find out whether it is committed.
        keep: after how long rows of ``perdure_steps`` may go; by default never. See ``forget``.
        create: whether its tables are made at the first use; if not, call ``migrate()``.

    Raises:
        DefinitionError: an argument makes no sense.
    """

    _other = ", or use AsyncSQLAlchemy"

    @overload
    def __init__(
        self: SQLAlchemy[Connection],
        database: Engine | Callable[[], Engine],
        *,
        schema: str | None = None,
        settle: Duration = "10s",
        keep: Duration | None = None,
        create: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self: SQLAlchemy[SessionT],
        database: sessionmaker[SessionT] | Callable[[], sessionmaker[SessionT]],
        *,
        schema: str | None = None,
        settle: Duration = "10s",
        keep: Duration | None = None,
        create: bool = True,
    ) -> None: ...
    def __init__(self, database: Any, **options: Any) -> None:
        from sqlalchemy import Engine
        from sqlalchemy.orm import sessionmaker

        super().__init__(**options)
        self._given = (Engine, sessionmaker)
        if not isinstance(database, self._given) and not callable(database):
            refuse(database, "an Engine, a sessionmaker, or a function that returns either")
        self._database = database

    def _link(self) -> _Link:
        return _Link(self._target)


class AsyncSQLAlchemy(_Bound, AsyncSource[AsyncT]):
    """A database by SQLAlchemy, for coroutine functions. As ``SQLAlchemy`` in all else.

    Args:
        database: an ``AsyncEngine`` (``connection()`` is then an ``AsyncConnection``), an ``async_sessionmaker`` (an
            ``AsyncSession``), or a function that returns either.
        schema: where ``perdure_steps`` is, on PostgreSQL; by default where the connection looks for tables.
        settle: how long a failed attempt tries to find out whether it is committed.
        keep: after how long rows of ``perdure_steps`` may go; by default never.
        create: whether its tables are made at the first use.

    Raises:
        DefinitionError: an argument makes no sense.
    """

    _other = ", or use SQLAlchemy"

    @overload
    def __init__(
        self: AsyncSQLAlchemy[AsyncConnection],
        database: AsyncEngine | Callable[[], AsyncEngine],
        *,
        schema: str | None = None,
        settle: Duration = "10s",
        keep: Duration | None = None,
        create: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncSQLAlchemy[AsyncSessionT],
        database: async_sessionmaker[AsyncSessionT] | Callable[[], async_sessionmaker[AsyncSessionT]],
        *,
        schema: str | None = None,
        settle: Duration = "10s",
        keep: Duration | None = None,
        create: bool = True,
    ) -> None: ...
    def __init__(self, database: Any, **options: Any) -> None:
        from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

        super().__init__(**options)
        self._given = (AsyncEngine, async_sessionmaker)
        if not isinstance(database, self._given) and not callable(database):
            refuse(database, "an AsyncEngine, an async_sessionmaker, or a function that returns either")
        self._database = database

    def _link(self) -> _AsyncLink:
        return _AsyncLink(self._target)


class _Refusing(Holder[Any]):
    """Keeps the user's code from committing."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self._block: Any = None
        self._raw: Any = None
        self._handed = False
        self.dialect = _dialect(target)

    @property
    def is_open(self) -> bool:
        # SQLite's driver knows when a text that was sent past SQLAlchemy has ended it; PostgreSQL tells by the row.
        return bool(self._block.is_active and (self.dialect != "sqlite" or self._raw.in_transaction))

    def hand_over(self) -> None:
        self._handed = True

    def take_back(self) -> None:
        self._handed = False

    def _guard(self, connection: Connection) -> None:
        from sqlalchemy import event

        event.listen(connection, "commit", self._refuse)

    def _refuse(self, _connection: object) -> None:
        if self._handed:
            self.meddled = True
            raise TransactionEnded("the transaction is Perdure's to commit")

    def _refuse_autocommit(self, level: str) -> None:
        if level == "AUTOCOMMIT":
            raise DefinitionError(
                "its connections commit each statement by itself", advice="make an engine without AUTOCOMMIT"
            )


class _Link(_Refusing):
    async def begin(self) -> None:
        from sqlalchemy import Engine

        self.held = self._target.connect() if isinstance(self._target, Engine) else self._target()
        self._block = self.connection.begin()
        connection = self._connection
        self._refuse_autocommit(connection.get_isolation_level())
        self._raw = connection.connection.driver_connection
        if self.dialect == "sqlite" and not self._raw.in_transaction:
            connection.exec_driver_sql(statements("sqlite", None)["begin"])
        self._guard(connection)

    @property
    def _connection(self) -> Connection:
        from sqlalchemy import Connection

        held = self.connection
        return held if isinstance(held, Connection) else held.connection()

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        from sqlalchemy import text

        result = self._connection.execute(text(sql), dict(parameters))
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else []

    async def commit(self) -> None:
        self._block.commit()
        self.connection.close()

    async def rollback(self) -> None:
        if self.held is None:
            return
        if self._block is not None and self._block.is_active:
            self._block.rollback()
        else:
            self.held.invalidate()  # a refused commit leaves it inactive, and nobody would roll it back
        self.held.close()

    def abandon(self) -> None:
        if self.held is not None:
            self.held.invalidate()
            self.held.close()


class _AsyncLink(_Refusing):
    is_async = True

    async def begin(self) -> None:
        from sqlalchemy.ext.asyncio import AsyncEngine

        if isinstance(self._target, AsyncEngine):
            self.held = connection = await self._target.connect()
            self._block = await connection.begin()
        else:
            self.held = self._target()
            self._block = await self.connection.begin()
            connection = await self.connection.connection()
        self._raw = (await connection.get_raw_connection()).driver_connection
        self._refuse_autocommit(await connection.get_isolation_level())
        if self.dialect == "sqlite" and not self._raw.in_transaction:
            await connection.exec_driver_sql(statements("sqlite", None)["begin"])
        assert connection.sync_connection is not None
        self._guard(connection.sync_connection)

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        from sqlalchemy import text

        result = await self.connection.execute(text(sql), dict(parameters))
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else []

    async def commit(self) -> None:
        await self._block.commit()
        await self.connection.close()

    async def rollback(self) -> None:
        if self.held is None:
            return
        if self._block is not None and self._block.is_active:
            await self._block.rollback()
        else:
            await self.held.invalidate()
        await self.held.close()

    def abandon(self) -> None:
        raw = self._raw
        if hasattr(raw, "pgconn"):
            raw.pgconn.finish()
        elif hasattr(raw, "terminate"):
            raw.terminate()
        elif hasattr(raw, "stop"):
            raw.stop()
        if self.held is not None:
            let_go_later(self.held.close)


def borrow(connection: Any) -> Link[Any] | None:
    """Return a link that only executes, on a connection of somebody else's; None if that is not SQLAlchemy's."""
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    if isinstance(connection, (scoped_session, async_scoped_session)):
        connection = connection()
    if not isinstance(connection, (Connection, Session, AsyncConnection, AsyncSession)):
        return None
    engine = connection.get_bind() if isinstance(connection, (Session, AsyncSession)) else connection.engine
    link = (_Link if isinstance(connection, (Connection, Session)) else _AsyncLink)(engine)
    link.held = connection
    return link


def _dialect(target: Any) -> str:
    bind = target.kw.get("bind") if hasattr(target, "kw") else target
    name = getattr(getattr(bind, "dialect", None), "name", None)
    if name not in DIALECTS:
        raise DefinitionError(
            f"this works on PostgreSQL and SQLite, not on {name or 'a sessionmaker without an engine'}",
            advice="bind the sessionmaker to an engine" if name is None else "use idempotency keys there",
        )
    return DIALECTS[name]


__all__ = ["AsyncSQLAlchemy", "SQLAlchemy", "borrow"]
