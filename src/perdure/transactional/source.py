"""What all sources have in common: whose transaction code is in, the tables, and what goes when."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from perdure.clock import SystemClock
from perdure.errors import ColourError, DefinitionError, NoTransaction, StepsTable, StoreTooNew, StoreUnsafe
from perdure.model.durations import seconds
from perdure.model.outbox import EntryKind, Stuck
from perdure.model.records import APPLICATION_ID
from perdure.store.migrate import pending
from perdure.telemetry import lines
from perdure.telemetry.logs import say
from perdure.transactional.links import ConnectionT
from perdure.transactional.statements import SCHEMA_TABLE, migrations, qualified, split
from perdure.transactional.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable
    from contextlib import AbstractAsyncContextManager
    from contextvars import Token

    from perdure.model.durations import Duration
    from perdure.transactional.links import Link

T = TypeVar("T")

BATCH = 500
"""Rows that are deleted in one transaction."""
TIDY = 3_600.0
"""Seconds between two looks for what is too old."""
_clock = SystemClock()


class Source(Generic[ConnectionT]):
    """A database of the user's that steps are transactional in.

    Attributes:
        is_async: whether it serves async steps; else sync ones.
        schema: where its tables are, on PostgreSQL; None: where the connection looks for them.
        settle: seconds in which a failed attempt must be able to find out whether it is committed.
        keep: seconds after which rows may go, or None: they stay until ``forget``.
        is_checked: whether the database is known to be no store of Perdure's.
    """

    is_async = False

    def __init__(
        self, *, schema: str | None = None, settle: Duration = "10s", keep: Duration | None = None, create: bool = True
    ) -> None:
        self.schema = schema
        self.settle = seconds(settle, what="settle")
        self.keep = None if keep is None else seconds(keep, what="keep", allow_zero=False)
        self._create = create
        self._here: ContextVar[Transaction[ConnectionT] | None] = ContextVar("perdure_transaction", default=None)
        self._is_ready = False
        self.is_checked = False
        self._tidied: float | None = None

    def connection(self) -> ConnectionT:
        """Return the connection of the transaction in which this code is called: a step's, or that of ``begin()``.

        Raises:
            NoTransaction: there is none, or it has ended.
        """
        transaction = self._here.get()
        if transaction is None:
            raise NoTransaction(
                f"no transaction of {self!r} is open here",
                advice="call it in the body of a step with transactional= this very source; outside a run, in a "
                f"{'async ' if self.is_async else ''}with source.begin() block",
            )
        return transaction.connection

    def sql(self) -> str:
        """Return the statements that make the tables, for whoever may execute them."""
        return "\n".join(qualified(one.sql, self.schema) for one in migrations(self._dialect))

    # -- what the runtime asks for

    def check_colour(self, step: str, *, is_async: bool) -> None:
        """Refuse a step of the wrong colour.

        Raises:
            ColourError: it is of the other one.
        """
        if is_async and not self.is_async:
            raise ColourError(
                f"step {step} is async, and {type(self).__name__} works on threads",
                advice=f"make the step a plain def{self._other}",
            )
        if self.is_async and not is_async:
            raise ColourError(
                f"step {step} is a plain def, and {type(self).__name__} works on the event loop",
                advice=f"make the step async def{self._other}",
            )

    _other = ""
    """Which source serves the other colour."""

    def transaction(self) -> Transaction[ConnectionT]:
        """Return a new transaction."""
        return Transaction(self, self._link())

    def enter(self, transaction: Transaction[ConnectionT]) -> Token[Transaction[ConnectionT] | None]:
        """Make it what ``connection()`` is of, in this context."""
        return self._here.set(transaction)

    def leave(self, token: Token[Transaction[ConnectionT] | None]) -> None:
        """Undo ``enter``."""
        self._here.reset(token)

    def may_pass(self, error: BaseException) -> bool:
        """Whether a claim that failed so would succeed once others have ended their transactions."""
        del error
        raise NotImplementedError

    async def pause(self, delay: float) -> None:
        """Let time pass."""
        del delay
        raise NotImplementedError

    def within(self, limit: float) -> AbstractAsyncContextManager[object]:
        """Raise ``TimeoutError`` out of a block that takes longer, if that can be."""
        del limit
        return nullcontext()

    async def ready(self) -> None:
        """See to it that the tables are there, once.

        Raises:
            StepsTable: they are not and cannot be made, or they are a newer Perdure's.
        """
        if not self._is_ready:
            await self._migrate(create=self._create)

    async def tidy(self, now: int) -> None:
        """Delete some of what is older than ``keep``, now and then; never raises an ``Exception``."""
        if self.keep is None or (self._tidied is not None and _clock.monotonic() < self._tidied + TIDY):
            return
        self._tidied = _clock.monotonic()
        try:
            await self._forget(now - round(self.keep * 1e6), BATCH)
        except Exception as error:  # noqa: BLE001 - the step itself is committed
            say(lines.SOURCE_NOT_TIDIED, error=error, source=repr(self))

    # -- what differs

    @property
    def dialect(self) -> str:
        """``postgres`` or ``sqlite``."""
        return self._dialect

    @property
    def _dialect(self) -> str:
        return "postgres"

    def _link(self) -> Link[ConnectionT]:
        raise NotImplementedError

    def check_owner(self, application_id: int) -> None:
        """Refuse a SQLite database that is a store: it is no place for tables of others.

        Raises:
            StoreUnsafe: it is one.
        """
        if application_id == APPLICATION_ID:
            raise StoreUnsafe(
                f"{self!r} is a store of Perdure's, and no place for tables of yours",
                advice="give the path of a database of your own",
            )
        self.is_checked = True

    # -- the tables

    async def _migrate(self, *, create: bool) -> None:
        transaction = self.transaction()
        await transaction.begin()
        try:
            known = migrations(self._dialect)
            version = await self._version(transaction)
            left = self._pending(version)
            if left and not create:
                raise self._missing(version)
            if left:
                if self._dialect == "postgres":
                    await transaction.execute("alone")
                    left = self._pending(await self._version(transaction))
                try:
                    for migration in left:
                        for statement in split(qualified(migration.sql, self.schema)):
                            await transaction.run(statement)
                        if migration.number > 1:
                            await transaction.execute("set_version", version=migration.number)
                except Exception as error:
                    if self.may_pass(error):
                        raise
                    raise self._missing(version) from error
                await transaction.commit()
            say(lines.SOURCE_READY, source=repr(self), version=len(known))
        finally:
            await transaction.rollback()
        self._is_ready = True

    async def _version(self, transaction: Transaction[ConnectionT]) -> int:
        if not await transaction.execute("is_there", table=SCHEMA_TABLE, schema=self.schema or ""):
            return 0
        ((version,),) = await transaction.execute("version")
        return int(version)

    def _pending(self, version: int) -> list[Any]:
        try:
            return list(pending(migrations(self._dialect), version, store=repr(self)))
        except StoreTooNew as error:
            raise StepsTable(error.message, found=version, advice="upgrade Perdure") from None

    def _missing(self, version: int) -> StepsTable:
        what = "perdure_steps is not there" if version == 0 else f"perdure_steps is at version {version}"
        return StepsTable(
            f"{self!r}: {what}, and it cannot be made",
            found=version,
            advice="have whoever may make tables call source.migrate(), or execute what source.sql() returns; the "
            "application needs SELECT, INSERT, UPDATE and DELETE on perdure_steps and perdure_outbox, and SELECT on "
            "perdure_steps_schema",
        )

    async def _forget(self, before: int, limit: int) -> int:
        transaction = self.transaction()
        await self.ready()
        await transaction.begin()
        try:
            gone = len(await transaction.execute("forget", before=before, limit=limit))
            await transaction.commit()
        finally:
            await transaction.rollback()
        return gone

    async def _stuck(self) -> list[Stuck]:
        transaction = await self._begun()
        try:
            rows = await transaction.execute("stuck")
        finally:
            await transaction.rollback()
        return [
            Stuck(id_, namespace, EntryKind(kind).name.lower(), run, at, code, reason)
            for id_, namespace, kind, run, at, code, reason in rows
        ]

    async def _each_stuck(self, statement: str, ids: Iterable[int]) -> int:
        wanted = list(ids) or [one.id for one in await self._stuck()]
        transaction = await self._begun()
        try:
            done = sum([len(await transaction.execute(statement, id=one)) for one in wanted])
            await transaction.commit()
        finally:
            await transaction.rollback()
        return done

    async def _begun(self) -> Transaction[ConnectionT]:
        await self.ready()
        transaction = self.transaction()
        await transaction.begin()
        return transaction

    async def _forget_all(self, older_than: Duration) -> int:
        before = _clock.now() - round(seconds(older_than, what="older_than", allow_zero=False) * 1e6)
        gone = 0
        while (batch := await self._forget(before, BATCH)) > 0:
            gone += batch
        return gone

    def _refuse_nested(self) -> None:
        if self._here.get() is not None:
            raise NoTransaction(
                f"a transaction of {self!r} is open here already",
                advice="use connection(); for what is to be undone in part, a savepoint of the driver",
            )


class SyncSource(Source[ConnectionT]):
    """A source for plain functions."""

    is_async = False

    @contextmanager
    def begin(self) -> Generator[ConnectionT]:
        """A transaction outside of runs, for tests and scripts: committed in the end, rolled back on an exception.

        Raises:
            NoTransaction: one is open here.
        """
        self._refuse_nested()
        transaction = self.transaction()
        token = self.enter(transaction)
        try:
            drive(transaction.begin())
            yield transaction.connection
            drive(transaction.commit())
        finally:
            self.leave(token)
            drive(transaction.rollback())

    def migrate(self) -> None:
        """Make the tables, or bring them up to date.

        Raises:
            StepsTable: that cannot be done.
        """
        drive(self._migrate(create=True))

    def forget(self, *, older_than: Duration) -> int:
        """Delete the rows of steps that were begun longer ago than that; returns how many.

        Raises:
            DefinitionError: that is no duration.
        """
        return drive(self._forget_all(older_than))

    def stuck(self) -> list[Stuck]:
        """Return the entries of the outbox that could not be sent and were set aside, oldest first, with reasons."""
        return drive(self._stuck())

    def retry(self, *ids: int) -> int:
        """Let entries that were set aside be sent again, all if none is named; returns how many those are."""
        return drive(self._each_stuck("retry", ids))

    def discard(self, id: int, *ids: int) -> int:  # noqa: A002 - as it is called in the table
        """Delete entries that were set aside; returns how many those were."""
        return drive(self._each_stuck("discard", (id, *ids)))

    async def pause(self, delay: float) -> None:
        """Let time pass, on this thread."""
        Event().wait(delay)


class AsyncSource(Source[ConnectionT]):
    """A source for coroutine functions."""

    is_async = True

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[ConnectionT]:
        """A transaction outside of runs, for tests and scripts: committed in the end, rolled back on an exception.

        Raises:
            NoTransaction: one is open here.
        """
        self._refuse_nested()
        transaction = self.transaction()
        token = self.enter(transaction)
        try:
            await transaction.begin()
            yield transaction.connection
            await transaction.commit()
        finally:
            self.leave(token)
            await transaction.rollback()

    async def migrate(self) -> None:
        """Make the tables, or bring them up to date.

        Raises:
            StepsTable: that cannot be done.
        """
        await self._migrate(create=True)

    async def forget(self, *, older_than: Duration) -> int:
        """Delete the rows of steps that were begun longer ago than that; returns how many.

        Raises:
            DefinitionError: that is no duration.
        """
        return await self._forget_all(older_than)

    async def stuck(self) -> list[Stuck]:
        """Return the entries of the outbox that could not be sent and were set aside, oldest first, with reasons."""
        return await self._stuck()

    async def retry(self, *ids: int) -> int:
        """Let entries that were set aside be sent again, all if none is named; returns how many those are."""
        return await self._each_stuck("retry", ids)

    async def discard(self, id: int, *ids: int) -> int:  # noqa: A002 - as it is called in the table
        """Delete entries that were set aside; returns how many those were."""
        return await self._each_stuck("discard", (id, *ids))

    async def pause(self, delay: float) -> None:
        """Let time pass."""
        await asyncio.sleep(delay)

    def within(self, limit: float) -> AbstractAsyncContextManager[object]:
        """Raise ``TimeoutError`` out of a block that takes longer."""
        return asyncio.timeout(limit)


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Execute a coroutine that never suspends, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("a sync source has suspended")


def refuse(what: object, wanted: str) -> NoReturn:
    """Refuse what a source cannot be made of.

    Raises:
        DefinitionError: always.
    """
    raise DefinitionError(f"a source cannot be made of {type(what).__name__}", advice=f"give {wanted}")


def passes(error: BaseException) -> bool:
    """Whether PostgreSQL says that of transactions in each other's way this one had to go, or a lock was not to be had.

    By SQLSTATE: serialization_failure, deadlock_detected, lock_not_available.
    """
    return getattr(error, "sqlstate", None) in {"40001", "40P01", "55P03"}


__all__ = ["AsyncSource", "Source", "SyncSource", "drive", "passes", "refuse"]
