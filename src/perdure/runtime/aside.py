"""What is asked of the store beside what the journal writes, so that neither waits for the other.

A claim, a look at what has come in, or what is asked from outside has to do with nothing that is being written, and
takes as long. Where the store is quick enough for the loop there is nothing to gain: the journal does it in its turn.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from perdure.errors import StoreBusy
from perdure.runtime.asking import Asked, Job
from perdure.runtime.talks import Talks
from perdure.runtime.threads import Threads

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from perdure.store.protocol import Store
    from perdure.store.talk import Talk

T = TypeVar("T")


class InTurn(Protocol):
    """Has a verb executed by the journal, in its turn."""

    def __call__(
        self, verb: Callable[[], T], /, *, background: bool = False, then: Callable[[T], object] | None = None
    ) -> asyncio.Future[T]: ...


class Aside:
    """One thing after the other, in the order asked; lives on the host's loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, store: Store, in_turn: InTurn, name: str) -> None:
        self._loop, self._store, self._in_turn = loop, store, in_turn
        self._asked: deque[tuple[Asked, Callable[[], Talk[Any] | None] | None]] = deque()
        self._busy = self._closed = False
        self._threads = Threads(loop, 1, name)
        self._talks = Talks(loop)

    def call(
        self,
        verb: Callable[[], T],
        *,
        start: Callable[[], Talk[T] | None] | None = None,
        background: bool = False,
        then: Callable[[T], object] | None = None,
    ) -> asyncio.Future[T]:
        """Execute a verb of the store that has to do with nothing that is being written.

        Args:
            verb: the one that waits.
            start: begins the one that does not, if there is one.
            background: as for ``Journal.call``.
            then: likewise.
        """
        if self._store.inline:
            return self._in_turn(verb, background=background, then=then)
        future: asyncio.Future[T] = self._loop.create_future()
        self._asked.append((Asked(verb, future, then=then), start))
        self._next()
        return future

    @property
    def at_rest(self) -> bool:
        """Whether nothing is asked."""
        return not (self._busy or self._asked)

    def close(self) -> None:
        """Let the thread end, and abandon what is under way without one."""
        self._closed = True
        self._talks.close()
        self._threads.close()

    def _next(self) -> None:
        if self._busy or not self._asked:
            return
        self._busy = True
        asked, start = self._asked.popleft()
        talk = None
        if start is not None and self._talks.possible:
            with suppress(Exception):  # the verb meets it again
                talk = start()
        if talk is None or not self._talks.follow(talk, partial(self._told, asked)):
            self._on_thread(asked)

    def _on_thread(self, asked: Asked) -> None:
        self._threads.submit(Job(asked.execute, partial(self._done, asked)), copy_context(), None)

    def _told(self, asked: Asked, talk: Talk[Any]) -> None:
        try:
            asked.result = talk.outcome()
        except StoreBusy as error:
            if not self._closed:
                self._on_thread(asked)
                return
            asked.error = error
        self._done(asked)

    def _done(self, asked: Asked) -> None:
        self._busy = False
        if self._closed:
            asked.came_too_late()
        asked.answer()
        self._next()


__all__ = ["Aside"]
