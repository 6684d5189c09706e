"""What each driver does its own way: one connection, from its transaction's beginning to its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

ConnectionT = TypeVar("ConnectionT")
ConnectionT_co = TypeVar("ConnectionT_co", covariant=True)

Rows: TypeAlias = "list[tuple[Any, ...]]"


class Link(Protocol[ConnectionT_co]):
    """A connection and one transaction on it. Of a sync driver, no coroutine here ever suspends."""

    @property
    def connection(self) -> ConnectionT_co:
        """What the user's code works with."""
        ...

    @property
    def dialect(self) -> str:
        """``postgres`` or ``sqlite``."""
        ...

    @property
    def is_async(self) -> bool:
        """Whether its driver works on the event loop."""
        ...

    @property
    def meddled(self) -> bool:
        """Whether the user's code was kept from ending the transaction."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the transaction that was begun is under way."""
        ...

    async def begin(self) -> None:
        """Connect, or take a connection, and begin."""
        ...

    async def execute(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        """Execute one of our statements; its parameters are written ``:name``."""
        ...

    def hand_over(self) -> None:
        """The user's code begins: from here on, nobody but ``commit`` and ``rollback`` may end the transaction."""
        ...

    def take_back(self) -> None:
        """The user's code has ended."""
        ...

    async def commit(self) -> None:
        """Commit, and let the connection go."""
        ...

    async def rollback(self) -> None:
        """Roll back, and let the connection go; what is broken is closed. May raise."""
        ...

    def abandon(self) -> None:
        """Close the connection without a word."""
        ...


class Holder(Generic[ConnectionT]):
    """Where a link keeps its connection.

    Attributes:
        held: the connection, between ``begin`` and the end.
    """

    held: ConnectionT | None = None
    meddled = False
    dialect = "sqlite"
    is_async = False

    @property
    def connection(self) -> ConnectionT:
        """What the user's code works with."""
        assert self.held is not None
        return self.held

    def hand_over(self) -> None:
        """Nothing has to be done."""

    def take_back(self) -> None:
        """Nothing has to be done."""


_returning: set[asyncio.Task[None]] = set()


def let_go_later(closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Let a connection go, on the loop that runs here; where none does, its process is taken for dead."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    task = loop.create_task(closing())
    _returning.add(task)
    task.add_done_callback(_returning.discard)


__all__ = ["ConnectionT", "Holder", "Link", "Rows", "let_go_later"]
