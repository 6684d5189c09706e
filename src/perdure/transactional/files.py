"""SQLite: a file of the user's, by the standard library's ``sqlite3`` or by ``apsw``."""

from __future__ import annotations

import sqlite3
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import apsw

from perdure.errors import DefinitionError
from perdure.model.durations import seconds
from perdure.transactional.links import Holder
from perdure.transactional.source import SyncSource, refuse
from perdure.transactional.statements import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perdure.model.durations import Duration
    from perdure.transactional.links import Link, Rows

T = TypeVar("T")
Database: TypeAlias = "str | PathLike[str] | Callable[[], T]"
"""A file, or a function that opens a connection."""

_BUSY = 5


class _File(SyncSource[T]):
    _other = ", or give AsyncSQLAlchemy an engine on aiosqlite"

    def __init__(
        self, database: Database[T], *, timeout: Duration, settle: Duration, keep: Duration | None, create: bool
    ) -> None:
        super().__init__(settle=settle, keep=keep, create=create)
        if not callable(database) and not isinstance(database, (str, PathLike)):
            refuse(database, "the path of a file, or a function that opens a connection")
        self._database = database
        self._timeout = seconds(timeout, what="timeout")

    def __repr__(self) -> str:
        shown = getattr(self._database, "__qualname__", repr(self._database))
        return f"{type(self).__name__}({shown})"

    @property
    def _dialect(self) -> str:
        return "sqlite"

    @property
    def _path(self) -> str:
        assert isinstance(self._database, (str, PathLike))
        return fspath(self._database)

    def open(self) -> T:
        """Open a connection, outside of any transaction."""
        raise NotImplementedError


class SQLite(_File[sqlite3.Connection]):
    """A SQLite file of yours, by the standard library's ``sqlite3``; for plain functions.

    Transactions are ``BEGIN IMMEDIATE``: from the body's beginning to its end nobody else writes. Whether what is
    committed survives a power cut is as you have set the file up (``PRAGMA synchronous``).

    Args:
        database: the path of a file, or a function that opens a connection, for pragmas and row factories of yours.
        timeout: how long a statement waits for other writers; before the body has begun it waits on.
        settle: how long a failed attempt tries to find out whether it is committed.
        keep: after how long rows of ``perdure_steps`` may go; by default never. See ``forget``.
        create: whether its tables are made at the first use; if not, call ``migrate()``.

    Raises:
        DefinitionError: an argument makes no sense.
    """

    def __init__(
        self,
        database: Database[sqlite3.Connection],
        *,
        timeout: Duration = "5s",
        settle: Duration = "10s",
        keep: Duration | None = None,
        create: bool = True,
    ) -> None:
        super().__init__(database, timeout=timeout, settle=settle, keep=keep, create=create)

    def open(self) -> sqlite3.Connection:
        """Open a connection, outside of any transaction."""
        if callable(self._database):
            return self._database()
        return sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None)

    def may_pass(self, error: BaseException) -> bool:
        """Whether another writer is in the way."""
        return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == _BUSY

    def _link(self) -> _SQLiteLink:
        return _SQLiteLink(self)


class _SQLiteLink(Holder[sqlite3.Connection]):
    def __init__(self, source: SQLite) -> None:
        self._source = source

    @property
    def is_open(self) -> bool:
        return self.connection.in_transaction

    async def begin(self) -> None:
        self.held = self._source.open()
        if self.is_open:
            raise DefinitionError(
                f"{self._source!r}: its connections are in a transaction from the beginning",
                advice="open them with isolation_level=None, and without autocommit=False",
            )
        await self.execute(_SQL["begin"], {})

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        cursor = self.connection.cursor(sqlite3.Cursor)
        cursor.row_factory = None
        try:
            return cursor.execute(sql, dict(parameters)).fetchall()
        finally:
            cursor.close()

    def hand_over(self) -> None:
        self.connection.set_authorizer(self._authorize)

    def take_back(self) -> None:
        if self.held is not None:
            self.held.set_authorizer(None)

    def _authorize(self, action: int, *_details: str | None) -> int:
        if action == sqlite3.SQLITE_TRANSACTION:
            self.meddled = True
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    async def commit(self) -> None:
        await self.execute(_SQL["commit"], {})
        self.connection.close()

    async def rollback(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        if self.held is not None:
            self.held.close()


class Apsw(_File[apsw.Connection]):
    """A SQLite file of yours, by ``apsw``; for plain functions. As ``SQLite`` in all else.

    Args:
        database: the path of a file, or a function that opens a connection.
        timeout: as for ``SQLite``, and so are the others.
        settle: how long a failed attempt tries to find out whether it is committed.
        keep: after how long rows of ``perdure_steps`` may go; by default never.
        create: whether its tables are made at the first use.

    Raises:
        DefinitionError: an argument makes no sense.
    """

    def __init__(
        self,
        database: Database[apsw.Connection],
        *,
        timeout: Duration = "5s",
        settle: Duration = "10s",
        keep: Duration | None = None,
        create: bool = True,
    ) -> None:
        super().__init__(database, timeout=timeout, settle=settle, keep=keep, create=create)

    def open(self) -> apsw.Connection:
        """Open a connection, outside of any transaction."""
        if callable(self._database):
            return self._database()
        connection = apsw.Connection(self._path)
        connection.set_busy_timeout(round(self._timeout * 1000))
        return connection

    def may_pass(self, error: BaseException) -> bool:
        """Whether another writer is in the way."""
        return isinstance(error, apsw.BusyError)

    def _link(self) -> _ApswLink:
        return _ApswLink(self)


class _ApswLink(Holder[apsw.Connection]):
    def __init__(self, source: Apsw) -> None:
        self._source = source

    @property
    def is_open(self) -> bool:
        return self.connection.in_transaction

    async def begin(self) -> None:
        self.held = self._source.open()
        await self.execute(_SQL["begin"], {})

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        cursor = self.connection.cursor()
        cursor.row_trace = None
        return list(cursor.execute(sql, dict(parameters)))

    def hand_over(self) -> None:
        self.connection.authorizer = self._authorize

    def take_back(self) -> None:
        if self.held is not None:
            self.held.authorizer = None

    def _authorize(self, action: int, *_details: str | None) -> int:
        if action == apsw.SQLITE_TRANSACTION:
            self.meddled = True
            return apsw.SQLITE_DENY
        return apsw.SQLITE_OK

    async def commit(self) -> None:
        await self.execute(_SQL["commit"], {})
        self.connection.close()

    async def rollback(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        if self.held is not None:
            self.held.close(True)  # also with statements of the user's that are not at their end


def borrow(connection: object) -> Link[Any] | None:
    """Return a link that only executes, on a connection of somebody else's; None if that is not SQLite's."""
    if isinstance(connection, sqlite3.Connection):
        plain = _SQLiteLink(SQLite(lambda: connection))
        plain.held = connection
        return plain
    if isinstance(connection, apsw.Connection):
        link = _ApswLink(Apsw(lambda: connection))
        link.held = connection
        return link
    return None


_SQL = statements("sqlite", None)

__all__ = ["Apsw", "SQLite", "borrow"]
