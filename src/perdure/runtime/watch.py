"""Looking for what other processes did: one look every few milliseconds, shared by all in the process who care."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import StoreError, StoreGone
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from perdure.store.protocol import Store

TICK = 0.025
"""Seconds between looks."""


class Watch:
    """Calls its listeners on the loop, every ``TICK``, with whether the store has changed since the last time.

    If the store is not there any more, ``gone`` is told, once, and nothing is looked for again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, store: Store, gone: Callable[[StoreGone], None]) -> None:
        self._loop = loop
        self._gone = gone
        self._store = store
        self._listeners: list[Callable[[bool], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._failing = False

    def start(self) -> None:
        """Begin to look."""
        self._timer = self._loop.call_later(TICK, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def listen(self, listener: Callable[[bool], None]) -> Callable[[], None]:
        """Add a listener; returns what removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _look(self) -> None:
        self._timer = self._loop.call_later(TICK, self._look)
        try:
            changed = self._store.changed()
            self._failing = False
        except StoreGone as error:
            self.stop()
            self._gone(error)
            return
        except StoreError as error:
            if not self._failing:
                say(lines.STORE_UNREADABLE, error=error, pause=TICK)
            self._failing = True
            return
        for listener in list(self._listeners):
            try:
                listener(changed)
            except StoreError as error:
                say(lines.STORE_UNREADABLE, error=error, pause=TICK)
