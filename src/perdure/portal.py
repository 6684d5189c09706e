"""A portal: an event loop on a thread of its own, and calls into it that block."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.errors import ColourError, EngineNotOpen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

T = TypeVar("T")


class Portal:
    """Open while somebody has entered it; may be used from any thread but its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._ended = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether there is a loop to call into. There is none in a process that was forked since it was opened."""
        return self._loop is not None and self._pid == os.getpid()

    def enter(self) -> None:
        """Open it, unless it is open."""
        with self._lock:
            if self._entered == 0:
                self._start()
            self._entered += 1

    def leave(self) -> None:
        """Undo one ``enter``; the last one ends the loop."""
        with self._lock:
            self._entered -= 1
            if self._entered > 0:
                return
            loop, thread, self._loop = self._loop if self.is_open else None, self._thread, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(self._ended.set)
            thread.join()

    def call(self, coro: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine on the loop, block until it has ended, and return or raise as it does.

        Raises:
            EngineNotOpen: there is no loop, or it ended meanwhile, or it is another process's.
            ColourError: called on the loop's own thread.
        """
        loop = self._loop
        if loop is None:
            coro.close()
            raise EngineNotOpen(
                "the engine is not open", advice="use `with engine:` to execute, or `with engine.client():`"
            )
        if self._pid != os.getpid():
            coro.close()
            raise EngineNotOpen(
                "the engine was opened before this process was forked, and its thread is not here",
                advice="make and open an engine in each process, after the fork",
            )
        if asyncio._get_running_loop() is loop:
            coro.close()
            raise ColourError(
                "a blocking call on the engine's own loop would block it for ever",
                advice="make the step a plain def, so that it runs on a thread",
            )
        future = asyncio.run_coroutine_threadsafe(coro, loop)
        try:
            return future.result()
        except CancelledError:
            raise EngineNotOpen("the engine was stopped meanwhile", advice="call again once it is open") from None
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Iterate over an async iterator, one blocking call an item; closed early, it closes it too."""
        try:
            while True:
                try:
                    item = self.call(_next(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            close = getattr(items, "aclose", None)
            if close is not None and self.is_open:
                self.call(close())

    def _start(self) -> None:
        ready = threading.Event()
        self._pid = os.getpid()

        async def live() -> None:
            self._ended = asyncio.Event()
            self._loop = asyncio.get_running_loop()
            ready.set()
            await self._ended.wait()

        self._thread = threading.Thread(target=lambda: asyncio.run(live()), name="perdure-engine", daemon=True)
        self._thread.start()
        ready.wait()


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


__all__ = ["Portal"]
