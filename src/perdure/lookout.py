"""The lookout: which of the runs that are waited for have ended where nobody tells of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure.runtime.watch import TICK

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection

    from perdure.model.records import RunRow
    from perdure.runtime.aside import Aside
    from perdure.store.protocol import Store

    Ends: TypeAlias = asyncio.Future[list[tuple[int, RunRow | None]]]

PART = 1000
"""Runs that are asked for at a time: whoever waits for very many is to slow nobody down."""
MOST = 100
"""Ends that are taken in at a time, likewise."""


class Lookout:
    """Looks at runs that are waited for; lives on the host's loop.

    At each as it comes to be waited for, many at a time; and at all, in parts, whenever anything may have changed.

    Args:
        loop: the host's.
        looks: what asks.
        store: where the runs are.
        waiting: keys of the runs that are waited for, as they are at any moment.
        executing: gives the keys of those that are executed here, whose end will be told.
        over: told of each that has ended, with its row, or without one if it is not there.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        looks: Aside,
        store: Store,
        waiting: Collection[int],
        executing: Callable[[], Collection[int]],
        over: Callable[[int, RunRow | None], object],
    ) -> None:
        self._loop, self._looks, self._store = loop, looks, store
        self._waiting, self._executing = waiting, executing
        self._over = over
        self._new: list[tuple[int, asyncio.Future[Any]]] = []
        """What has come to be waited for and was not asked for yet."""
        self._left: list[int] = []
        """What is yet to be looked at in this round, the first last."""
        self._trusted: set[int] = set()
        """What was left out, as it was executed here."""
        self._is_asking = self._is_busy = self._is_closed = self._again = False

    def add(self, run_key: int, waiting: asyncio.Future[Any]) -> None:
        """A run has come to be waited for, by somebody who is told if it cannot be looked at."""
        if run_key in self._executing():
            self._trusted.add(run_key)
            return
        self._new.append((run_key, waiting))
        if not self._is_asking:
            self._is_asking = True
            self._loop.call_soon(self._ask)  # together with all that come in this turn

    def tick(self, *, changed: bool) -> None:
        """Look at all if anything may have changed, or what was executed here is so no more and nobody told its end."""
        waiting = self._waiting
        if not waiting:
            self._trusted.clear()
            return
        if self._trusted:
            executing = self._executing()
            changed = changed or any(key in waiting and key not in executing for key in self._trusted)
        if changed:
            self._look()

    def close(self) -> None:
        """Look no more."""
        self._is_closed = True

    # -- those that are new

    def _ask(self) -> None:
        new, self._new = self._new[:PART], self._new[PART:]
        self._is_asking = bool(new) and not self._is_closed
        if self._is_asking:
            self._find([key for key, _ in new]).add_done_callback(partial(self._asked, new))

    def _asked(self, new: list[tuple[int, asyncio.Future[Any]]], done: Ends) -> None:
        if self._is_closed or done.cancelled():
            return
        if (error := done.exception()) is not None:
            for _, waiting in new:
                if not waiting.done():
                    waiting.set_exception(error)
        elif rest := self._take_in([key for key, _ in new], done):
            again = set(rest)
            self._new[:0] = [one for one in new if one[0] in again]
        self._ask()

    # -- all

    def _look(self) -> None:
        # Whoever asks during a round is served by another one after it, which sees more.
        if self._is_busy:
            self._again = True
            return
        self._is_busy, self._again = True, False
        waiting = self._waiting
        self._trusted = {key for key in self._executing() if key in waiting}
        self._left = list(waiting)
        self._left.reverse()
        self._go_on()

    def _go_on(self) -> None:
        waiting, executing, left = self._waiting, self._executing(), self._left
        keys: list[int] = []
        while left and len(keys) < PART:
            key = left.pop()
            if key in waiting and key not in executing:
                keys.append(key)
        if keys and not self._is_closed:
            self._find(keys).add_done_callback(partial(self._looked, keys))
            return
        self._is_busy = False
        if self._again and not self._is_closed:
            self._loop.call_soon(self._look)

    def _looked(self, keys: list[int], done: Ends) -> None:
        if self._is_closed or done.cancelled():
            return
        if done.exception() is not None:
            self._left += reversed(keys)
            self._loop.call_later(TICK, self._go_on)
            return
        rest = self._take_in(keys, done)
        self._left += reversed(rest)
        if self._left and not rest:
            self._loop.call_later(TICK, self._go_on)
        else:
            self._go_on()

    # -- both

    def _find(self, keys: list[int]) -> Ends:
        store = self._store
        return self._looks.call(lambda: store.over(keys, MOST), start=lambda: store.start_over(keys, MOST))

    def _take_in(self, keys: list[int], done: Ends) -> list[int]:
        """Tell of what has ended; returns the keys that are to be asked for again, as there may be more."""
        found = done.result()
        for key, row in found:
            self._over(key, row)
        if len(found) < MOST:
            return []
        known = {key for key, _ in found}
        return [key for key in dict.fromkeys(keys) if key not in known and key in self._waiting]


__all__ = ["Lookout"]
