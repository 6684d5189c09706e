"""Threads for sync bodies and sync workflows: started on demand, woken by a queue, answering in batches."""

from __future__ import annotations

from collections import deque
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, Any, Protocol

from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from contextvars import Context

IDLE = 10.0
"""Seconds after which a thread without work ends."""


class Work(Protocol):
    """Something to execute on a thread."""

    def run_here(self, context: Any, /) -> None:
        """Do it, on the thread; must not raise."""

    def finished(self) -> None:
        """Hear, on the loop, that it is done."""


class Threads:
    """A pool of daemon threads for one loop.

    The answers of many threads share one wake-up of the loop, since waking it costs more than the answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, name: str = "perdure-step") -> None:
        self._loop = loop
        self._limit = limit
        self._context = copy_context()
        self._name = name
        self._queue: SimpleQueue[tuple[Work, Context, object] | None] = SimpleQueue()
        self._done: deque[Callable[[], object]] = deque()
        self._lock = Lock()
        self._ended = Condition(self._lock)
        self._idle = 0
        self._threads = 0
        self._woken = False
        self.closed = False

    def submit(self, work: Work, context: Context, argument: object) -> None:
        """Execute ``work.run_here(argument)`` in ``context`` on a thread; waits its turn if all are busy."""
        with self._lock:
            start = self._idle <= self._queue.qsize() and self._threads < self._limit
            if start:
                self._threads += 1
            # Under the lock, so that a thread about to end for want of work sees it.
            self._queue.put((work, context, argument))
        if start:
            Thread(target=self._serve, name=f"{self._name}-{self._threads}", daemon=True).start()

    def call(self, callback: Callable[[], object]) -> None:
        """Have ``callback`` called on the loop; from any thread, in order, batched."""
        self._done.append(callback)
        with self._lock:
            if self._woken:
                return
            self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._drain, context=self._context)
        except RuntimeError:  # the loop is closed: there is nobody to tell
            say(lines.ANSWER_TOO_LATE)

    def close(self) -> None:
        """Let idle threads end; busy ones end after their work."""
        self.closed = True
        for _ in range(self._threads):
            self._queue.put(None)

    def wait(self, timeout: float) -> bool:
        """After ``close``: block until every thread has ended, at most ``timeout`` seconds; whether they have."""
        with self._ended:
            return self._ended.wait_for(lambda: self._threads == 0, timeout)

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            try:
                item = self._queue.get(timeout=IDLE)
            except Empty:
                item = None
            with self._lock:
                self._idle -= 1
                if item is None:
                    if not self.closed and not self._queue.empty():
                        continue
                    self._threads -= 1
                    self._ended.notify_all()
                    return
            work, context, argument = item
            context.run(work.run_here, argument)
            self.call(work.finished)
            del item, work, context, argument  # an idle thread keeps nothing alive

    def _drain(self) -> None:
        with self._lock:
            self._woken = False
        done = self._done
        try:
            while done:
                done.popleft()()
        finally:
            if done:  # an interrupt came out of one answer; the others are heard all the same
                self._loop.call_soon(self._drain)
