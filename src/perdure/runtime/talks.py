"""Verbs of the store that the event loop itself lets go on, so that no thread waits for them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from perdure.store.talk import Talk

T = TypeVar("T")


class Talks:
    """What is under way; lives on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: dict[int, tuple[Talk[Any], Callable[[Any], object]]] = {}
        self._writing: set[int] = set()
        """The sockets that are also watched for when they can be written."""
        self.possible = True
        """Whether the loop can watch sockets. Not every kind can."""

    def follow(self, talk: Talk[T], then: Callable[[Talk[T]], object]) -> bool:
        """Let a talk go on until it is over, and call ``then``; False where that cannot be: it is abandoned."""
        go_on = partial(self._go_on, talk, then)
        try:
            self._loop.add_reader(talk.fileno, go_on)
        except (NotImplementedError, OSError) as error:  # the latter where no more can be watched
            self.possible = isinstance(error, OSError)
            talk.abandon()
            return False
        self._open[talk.fileno] = talk, then
        self._watch_writing(talk, go_on)
        return True

    def close(self) -> None:
        """Abandon what is under way; whoever follows it is told."""
        for fileno, (talk, then) in list(self._open.items()):
            self._forget(fileno)
            talk.abandon()
            then(talk)

    def _go_on(self, talk: Talk[T], then: Callable[[Talk[T]], object]) -> None:
        is_over, fileno = True, talk.fileno
        try:
            is_over = talk.go_on()
            if not is_over:
                self._watch_writing(talk, partial(self._go_on, talk, then))
        finally:
            if is_over and fileno in self._open:
                self._forget(fileno)
                then(talk)

    def _watch_writing(self, talk: Talk[Any], go_on: Callable[[], None]) -> None:
        fileno = talk.fileno
        if talk.unsent and fileno not in self._writing:
            self._writing.add(fileno)
            self._loop.add_writer(fileno, go_on)
        elif not talk.unsent and fileno in self._writing:
            self._writing.discard(fileno)
            self._loop.remove_writer(fileno)

    def _forget(self, fileno: int) -> None:
        del self._open[fileno]
        self._loop.remove_reader(fileno)
        if fileno in self._writing:
            self._writing.discard(fileno)
            self._loop.remove_writer(fileno)


__all__ = ["Talks"]
