"""One transaction of a source: claims rows of steps, keeps outcomes in them, and ends; over any driver."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol

from perdure.errors import NoTransaction
from perdure.model.transactions import Row
from perdure.transactional.links import ConnectionT
from perdure.transactional.statements import statements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from perdure.model.transactions import Mark
    from perdure.transactional.links import Link, Rows

PATIENCE = 5.0
"""Seconds that a rollback may take before the connection is dropped."""
_NEW, _OPEN, _ENDED = range(3)


class Home(Protocol):
    """What a transaction is of: a source."""

    schema: str | None
    is_checked: bool

    async def ready(self) -> None:
        """See to it that the tables are there."""
        ...

    def check_owner(self, application_id: int) -> None:
        """Refuse a store."""
        ...

    def within(self, limit: float) -> AbstractAsyncContextManager[object]:
        """Raise ``TimeoutError`` out of a block that takes longer."""
        ...


class Transaction(Generic[ConnectionT]):
    """A transaction, begun by ``begin`` or ``claim``, ended by ``commit``, ``rollback`` or ``abandon``."""

    def __init__(self, source: Home, link: Link[ConnectionT]) -> None:
        self._source = source
        self._link = link
        self._stage = _NEW

    @property
    def connection(self) -> ConnectionT:
        """What the user's code works with.

        Raises:
            NoTransaction: it has ended.
        """
        if self._stage is not _OPEN:
            raise NoTransaction(
                "the transaction has ended", advice="await what works in it in the step's body, before that returns"
            )
        return self._link.connection

    @property
    def meddled(self) -> bool:
        """Whether the user's code was kept from ending it."""
        return self._link.meddled

    async def begin(self) -> None:
        """Connect and begin."""
        self._stage = _OPEN
        await self._link.begin()
        if self._link.dialect == "sqlite" and not self._source.is_checked:
            ((owner,),) = await self.execute("owner")
            self._source.check_owner(owner)

    async def claim(self, marks: Sequence[Mark], *, idle: float | None = None, wait: float | None = None) -> list[Row]:
        """Begin, and claim the rows of these marks."""
        await self._source.ready()
        await self.begin()
        if self._link.dialect == "postgres" and (idle is not None or wait is not None):
            await self.execute("bounds", idle=_ms(idle), lock=_ms(wait))
        rows: list[Row] = []
        for mark in marks:
            (found,) = await self.execute(
                "claim", id=mark.id, run=mark.run_id, step=mark.key, epoch=mark.epoch, attempt=mark.attempt, at=mark.at
            )
            epoch, outcome, args, codec, seal = found
            rows.append(Row(epoch, _bytes(outcome), _bytes(args), codec, _bytes(seal)))
        self._link.hand_over()
        return rows

    async def keep(self, mark: Mark, outcome: bytes, args: bytes, codec: int, seal: bytes) -> bool:
        """Write an outcome into a claimed row; False if this is no longer the transaction that has claimed it."""
        self._link.take_back()
        if self._link.meddled or not self._link.is_open:
            return False
        values = {"outcome": outcome, "args": args, "codec": codec, "seal": seal}
        return bool(await self.execute("keep", id=mark.id, attempt=mark.attempt, at=mark.at, **values))

    async def execute(self, name: str, **parameters: Any) -> Rows:
        """Execute one of our statements."""
        return await self._link.execute(statements(self._link.dialect, self._source.schema)[name], parameters)

    async def run(self, sql: str) -> None:
        """Execute a statement of a migration."""
        await self._link.execute(sql, {})

    async def commit(self) -> None:
        """Commit, and let the connection go."""
        self._link.take_back()
        await self._link.commit()
        self._stage = _ENDED

    async def rollback(self) -> None:
        """Roll back, and let the connection go, in what state ever it is."""
        if self._stage is not _OPEN:
            return
        self._stage = _ENDED
        self._link.take_back()
        try:
            async with self._source.within(PATIENCE):
                await self._link.rollback()
        except asyncio.CancelledError:
            self.abandon()
            raise
        except Exception:  # noqa: BLE001 - the database rolls back what has no connection
            self.abandon()

    def abandon(self) -> None:
        """Drop the connection without a word."""
        self._stage = _ENDED
        with suppress(Exception):
            self._link.abandon()


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else str(max(1, round(seconds * 1000)))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)  # some drivers give memory views


__all__ = ["Transaction"]
