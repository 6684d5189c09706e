"""Sync workflows: a function on a thread, in step with its run's loop.

Of all threads of one run only one moves at a time, and the loop stands still meanwhile: a thread runs from one Perdure
call to the next, then the loop goes on. So what threads share is as deterministic as it is between tasks. To be let go,
a thread is unwound: the call it waits in raises ``RunGone``.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from perdure.context import entered
from perdure.errors import RunGone
from perdure.steps import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context

    from perdure.runtime.run import Run
    from perdure.runtime.threads import Threads

T = TypeVar("T")

Request = tuple["Context", "Callable[[], Coroutine[object, None, Any]]"]


class _Thread:
    """One thread of a sync workflow; also the work that the pool executes, and the fiber that code sees."""

    def __init__(self, run: Run, function: Callable[[], Any], threads: Threads) -> None:
        self.run = run.code
        self._run = run
        self.function = function
        # The task's, not that of whoever happens to advance the run: that may be another branch's thread.
        self._context = copy_context()
        self._threads = threads
        self._turn = Lock()
        self._turn.acquire()
        self._reply: tuple[Any, BaseException | None] = (None, None)
        self.segment: asyncio.Future[Request | None] | None = None
        self.begun = False
        self.gone = False
        self.value: Any = None
        self.error: BaseException | None = None

    # -- on the loop

    def go(self, reply: tuple[Any, BaseException | None]) -> None:
        """Give the thread its turn; the loop waits for ``segment``."""
        self._run.busy += 1
        if not self.begun:
            self.begun = True
            self._threads.submit(self, self._context, None)
            return
        self._reply = reply
        self._turn.release()

    def _paused(self, request: Request | None) -> None:
        run = self._run
        if self.gone or run.loop.gone:
            return
        run.busy -= 1
        segment = self.segment
        assert segment is not None
        run.activate(segment.set_result, request)

    def unwind(self) -> None:
        """Let go of the thread: wherever it calls Perdure next, or waits in it now, raises ``RunGone``."""
        if self.gone:
            return
        self.gone = True
        self._reply = (None, RunGone())
        if self._turn.locked():
            self._turn.release()

    # -- on the thread

    def run_here(self, _argument: object) -> None:
        """Execute the function, to its end."""
        try:
            with entered(self):
                self.value = self.function()
        except BaseException as error:  # noqa: BLE001 - the workflow's own, raised again on the loop
            self.error = error

    def finished(self) -> None:
        """The function has ended."""
        self._paused(None)

    def wait(self, make: Callable[[], Coroutine[object, None, T]], /) -> T:
        """Have ``make()`` awaited on the loop and wait for its outcome."""
        if self.gone:
            raise RunGone
        context = copy_context()
        self._threads.call(lambda: self._paused((context, make)))
        self._turn.acquire()
        value, error = self._reply
        self._reply = (None, None)
        if error is not None:
            try:
                raise error
            finally:
                del error
        return cast("T", value)

    def branch(self, thunk: Callable[[], T]) -> Coroutine[Any, Any, T]:
        """Return a coroutine that executes ``thunk`` beside this thread, as a branch of its own."""
        coro = self._run.host.fibers.drive(self._run, thunk)
        coro.__qualname__ = _name(thunk)  # type: ignore[attr-defined]
        return coro


def _name(thunk: Any) -> str:
    """What a branch is called in keys: its function's name; partials and bound steps are looked through."""
    while isinstance(thunk, partial):
        thunk = thunk.func
    owner = getattr(thunk, "__self__", None)
    if isinstance(owner, Step):
        return owner.name
    return getattr(thunk, "__qualname__", None) or type(thunk).__qualname__


class Fibers:
    """The threads of all sync workflows of a host."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._of: dict[Run, list[_Thread]] = {}

    async def drive(self, run: Run, function: Callable[[], T]) -> T:
        """Execute a sync function as part of a run; awaited in a task of the run's loop."""
        thread = _Thread(run, function, self._threads)
        threads = self._of.setdefault(run, [])
        threads.append(thread)
        reply: tuple[Any, BaseException | None] = (None, None)
        try:
            while True:
                thread.segment = run.loop.create_future()
                run.resumes[thread] = reply
                try:
                    request = await thread.segment
                except asyncio.CancelledError as cancel:
                    del run.resumes[thread]
                    if not thread.begun:
                        raise
                    reply = (None, cancel)
                    continue
                if request is None:
                    break
                context, make = request
                try:
                    reply = (await context.run(make), None)
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the thread's to handle
                    reply = (None, error)
            if thread.error is not None:
                raise thread.error
            return cast("T", thread.value)
        finally:
            threads.remove(thread)
            if not threads and self._of.get(run) is threads:
                del self._of[run]
            thread.unwind()

    def unwind(self, run: Run) -> None:
        """Let go of every thread of a run."""
        for thread in self._of.pop(run, []):
            thread.unwind()
