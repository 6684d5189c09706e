"""What sync workflows write where async ones await: waiting, branches side by side, signals and sagas.

The async functions are awaited on the run's loop while the workflow's thread waits. Public as ``perdure.sync``.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from perdure import combine, signals
from perdure.context import MISSING, current_fiber, current_run
from perdure.errors import ColourError, NotInRun
from perdure.model.durations import seconds
from perdure.saga import SyncSaga, Undo

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from contextlib import AbstractContextManager

    from perdure.model.durations import Duration
    from perdure.protocols import Fiber
    from perdure.signals import Signal

T = TypeVar("T")
D = TypeVar("D")


def sleep(duration: Duration) -> None:
    """Wait; in a sync workflow durably, so that the wait survives the process and no thread is held meanwhile."""
    fiber = _fiber("sleep")
    if fiber is None:
        time.sleep(seconds(duration))
    else:
        fiber.wait(lambda: combine.sleep(duration))


def parallel(*thunks: Callable[[], T]) -> list[T]:
    """Call functions side by side and return their results in order, like ``perdure.parallel``.

    In a sync workflow each is a branch of its own, on a thread of its own; only one moves at a time, between its steps.
    """
    fiber = _fiber("parallel")
    if fiber is None:
        if not thunks:
            return []
        with ThreadPoolExecutor(len(thunks)) as pool:
            return [future.result() for future in [pool.submit(thunk) for thunk in thunks]]
    results: Any = fiber.wait(lambda: combine.parallel(*[fiber.branch(thunk) for thunk in thunks]))
    return list(results)


@overload
def receive(signal: Signal[T], *, timeout: Duration | None = None) -> T: ...
@overload
def receive(signal: Signal[T], *, timeout: Duration, default: D) -> T | D: ...
def receive(signal: Signal[Any], *, timeout: Duration | None = None, default: Any = MISSING) -> Any:
    """Wait for the next message of a signal in a sync workflow, like ``await signal.wait(…)`` in an async one.

    Raises:
        SignalTimeout: no message came in time, and no default is given.
        ColourError: called in an async workflow.
        NotInRun: called outside a workflow's code.
    """
    return signals.receive(signal, None if timeout is None else seconds(timeout, what="timeout"), default)


class Branch(Generic[T]):
    """A function that ``submit`` set going beside a sync workflow."""

    __slots__ = ("_fiber", "task")

    def __init__(self, fiber: Fiber, task: asyncio.Task[T]) -> None:
        self._fiber = fiber
        self.task = task

    def done(self) -> bool:
        """Whether it has ended."""
        return self.task.done()

    def cancel(self) -> None:
        """Ask it to stop."""
        self._fiber.wait(lambda: _cancel(self.task))

    def result(self) -> T:
        """Wait for it and return its result, or raise what it raised."""
        return _here("Branch.result").wait(lambda: _join(self.task))


def submit(thunk: Callable[[], T]) -> Branch[T]:
    """Set a function going beside a sync workflow, as a branch of its own.

    Raises:
        NotInRun: called outside a sync workflow.
    """
    fiber = _here("submit")
    return Branch(fiber, fiber.wait(lambda: _start(fiber.branch(thunk))))


def wait(
    branches: Iterable[Branch[T]],
    *,
    timeout: Duration | None = None,
    return_when: Literal["FIRST_COMPLETED", "FIRST_EXCEPTION", "ALL_COMPLETED"] = "ALL_COMPLETED",
) -> tuple[list[Branch[T]], list[Branch[T]]]:
    """Wait for branches like ``asyncio.wait``; returns those that have ended and those that have not, in order.

    Raises:
        NotInRun: called outside a sync workflow.
    """
    several = list(branches)
    limit = None if timeout is None else seconds(timeout)
    fiber = _here("wait")
    fiber.wait(lambda: _wait([branch.task for branch in several], limit, return_when))
    return [b for b in several if b.done()], [b for b in several if not b.done()]


async def _start(coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    return asyncio.create_task(coro)


async def _join(task: asyncio.Task[T]) -> T:
    return await task


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


async def _wait(tasks: list[asyncio.Task[Any]], timeout: float | None, return_when: str) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=timeout, return_when=return_when)


def saga() -> AbstractContextManager[Undo, None]:
    """Undo what a sync workflow has done if it fails or is cancelled half-way.

    ``with saga() as undo:`` is a block; see ``perdure.saga``.
    """
    return SyncSaga()


def _fiber(what: str) -> Fiber | None:
    fiber = current_fiber()
    if fiber is None and current_run() is not None:
        raise ColourError(f"perdure.sync.{what} would block an async workflow", advice=f"write await perdure.{what}(…)")
    return fiber


def _here(what: str) -> Fiber:
    fiber = _fiber(what)
    if fiber is None:
        raise NotInRun(f"perdure.sync.{what} is for sync workflows", advice="call it in a def function with @workflow")
    return fiber


__all__ = ["Branch", "parallel", "receive", "saga", "sleep", "submit", "wait"]
