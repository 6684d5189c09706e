"""Perdure for code without ``async``: ``run``, a blocking ``Engine``, and what a sync workflow writes instead of ``await``.

Nothing is written twice: the engine's methods are the async ones called through a thread with an event loop, and in a sync
workflow the async functions are awaited on the run's loop while the thread waits.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from perdure import combine
from perdure import engine as _engine
from perdure.context import current_fiber, current_run
from perdure.errors import ColourError, EngineNotOpen, NotInRun
from perdure.model.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import Self

    from perdure.context import Fiber
    from perdure.handle import Handle as AsyncHandle
    from perdure.model.clock import Clock
    from perdure.model.durations import Duration
    from perdure.model.history import RunView
    from perdure.model.records import Event, RunRow
    from perdure.store.open import Durability
    from perdure.workflow import Workflow

T = TypeVar("T")
R = TypeVar("R")
InputT = TypeVar("InputT")


def run(  # noqa: PLR0913 - the options of a run
    workflow: Workflow[InputT, R], value: InputT = None, /, *, run_id: str | None = None,  # type: ignore[assignment]
    store: str | Path | None = None, tools: Any = None, retry_failed: bool = True, lease: Duration = "30s",
    heartbeat: Duration = "10s", durability: Durability = "disk", clock: Clock | None = None,
    reached: Callable[[str], None] | None = None,
) -> R:
    """Run a workflow here and now and return its result; the same call resumes it after a crash.

    Arguments and errors are those of ``perdure.arun``.

    Raises:
        ColourError: called where an event loop runs; write ``await perdure.arun(…)``.
    """
    if asyncio._get_running_loop() is not None:
        raise ColourError("perdure.run would block the event loop it is called in", advice="write await perdure.arun(…)")
    return asyncio.run(_engine.arun(
        workflow, value, run_id=run_id, store=store, tools=tools, retry_failed=retry_failed, lease=lease,
        heartbeat=heartbeat, durability=durability, clock=clock, reached=reached,
    ))


# -- in a sync workflow ---------------------------------------------------------------------------


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


class Branch(Generic[T]):
    """A function that ``submit`` set going beside a sync workflow."""

    __slots__ = ("_fiber", "_task")

    def __init__(self, fiber: Fiber, task: asyncio.Task[T]) -> None:
        self._fiber = fiber
        self._task = task

    def done(self) -> bool:
        """Whether it has ended."""
        return self._task.done()

    def cancel(self) -> None:
        """Ask it to stop."""
        self._fiber.wait(lambda: _cancel(self._task))

    def result(self) -> T:
        """Wait for it and return its result, or raise what it raised."""
        return _here("Branch.result").wait(lambda: _join(self._task))


def submit(thunk: Callable[[], T]) -> Branch[T]:
    """Set a function going beside a sync workflow, as a branch of its own.

    Raises:
        NotInRun: called outside a sync workflow.
    """
    fiber = _here("submit")
    return Branch(fiber, fiber.wait(lambda: _start(fiber.branch(thunk))))


def wait(
    branches: Iterable[Branch[T]], *, timeout: Duration | None = None,
    return_when: Literal["FIRST_COMPLETED", "FIRST_EXCEPTION", "ALL_COMPLETED"] = "ALL_COMPLETED",
) -> tuple[list[Branch[T]], list[Branch[T]]]:
    """Wait for branches like ``asyncio.wait``; returns those that have ended and those that have not, in order.

    Raises:
        NotInRun: called outside a sync workflow.
    """
    several = list(branches)
    limit = None if timeout is None else seconds(timeout)
    fiber = _here("wait")
    fiber.wait(lambda: _wait([branch._task for branch in several], limit, return_when))
    return [b for b in several if b.done()], [b for b in several if not b.done()]


async def _start(coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    return asyncio.create_task(coro)


async def _join(task: asyncio.Task[T]) -> T:
    return await task


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


async def _wait(tasks: list[asyncio.Task[Any]], timeout: float | None, return_when: str) -> None:  # noqa: ASYNC109
    if tasks:
        await asyncio.wait(tasks, timeout=timeout, return_when=return_when)


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


# -- the blocking engine --------------------------------------------------------------------------


class Handle(Generic[R]):
    """A handle on a run whose methods block; see ``perdure.Handle``."""

    __slots__ = ("_call", "_handle")

    def __init__(self, handle: AsyncHandle[R], call: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._handle = handle
        self._call = call

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._handle.run_id

    def view(self) -> RunView:
        """Return the run as its log tells it."""
        view: RunView = self._call(self._handle.view())
        return view

    def result(self, timeout: float | None = None) -> R:
        """Wait until the run has ended and return its result, or raise what it ended with."""
        result: R = self._call(self._handle.result(timeout))
        return result

    def cancel(self, reason: str = "") -> None:
        """Ask the run to end."""
        self._call(self._handle.cancel(reason))

    def resume(self, *, accept_drift: bool = False) -> None:
        """Let a failed, cancelled or blocked run go on."""
        self._call(self._handle.resume(accept_drift=accept_drift))

    def events(self) -> list[Event]:
        """Return the run's event log so far."""
        async def read() -> list[Event]:
            return [event async for event in self._handle.events()]
        events: list[Event] = self._call(read())
        return events


class Engine:
    """``perdure.Engine`` for code without ``async``: the same options; its loop runs on a thread of its own.

    ``with Engine(…) as engine:`` starts it and stops it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._engine = _engine.Engine(*args, **options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Open the store and execute what can be claimed, until ``stop``."""
        self._open_loop()
        try:
            self._call(self._engine.start())
        except BaseException:
            self._close_loop()
            raise

    def stop(self, drain: Duration = "30s", grace: Duration = "5s") -> list[str]:
        """Stop; see ``perdure.Engine.stop``."""
        if self._loop is None:
            return []
        try:
            left: list[str] = self._call(self._engine.stop(drain, grace))
        finally:
            self._close_loop()
        return left

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def enqueue(self, workflow: Workflow[InputT, R], value: InputT = None, /, **options: Any) -> Handle[R]:  # type: ignore[assignment]
        """Create a run, or find the one that is there; options as for ``perdure.Engine.enqueue``."""
        return Handle(self._call(self._engine.enqueue(workflow, value, **options)), self._call)

    def enqueue_many(self, workflow: Workflow[InputT, R], values: Iterable[InputT], /, *,
                     run_ids: Sequence[str] | None = None) -> list[Handle[R]]:
        """Create many runs."""
        handles: list[AsyncHandle[R]] = self._call(self._engine.enqueue_many(workflow, values, run_ids=run_ids))
        return [Handle(handle, self._call) for handle in handles]

    def run(self, workflow: Workflow[InputT, R], value: InputT = None, /, **options: Any) -> R:  # type: ignore[assignment]
        """Run a workflow, or attach to the run that is there, and wait for its result."""
        result: R = self._call(self._engine.run(workflow, value, **options))
        return result

    def get(self, run_id: str, workflow: Workflow[Any, R] | None = None) -> Handle[R]:
        """Return a handle on a run."""
        return Handle(self._engine.get(run_id, workflow), self._call)

    def runs(self, **where: Any) -> Iterator[RunRow]:
        """Iterate over runs, newest first; options as for ``perdure.Engine.runs``."""
        async def read() -> list[RunRow]:
            return [row async for row in self._engine.runs(**where)]
        yield from self._call(read())

    def _open_loop(self) -> None:
        if self._loop is not None:
            return
        ready = threading.Event()

        def serve() -> None:
            async def main() -> None:
                self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
                ready.set()
                await self._done.wait()
            asyncio.run(main())

        self._thread = threading.Thread(target=serve, name="perdure-engine", daemon=True)
        self._thread.start()
        ready.wait()

    def _close_loop(self) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._done.set)
            self._thread.join()
        self._loop = self._thread = None

    def _call(self, coro: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            coro.close()
            raise EngineNotOpen("the engine is not started", advice="use `with Engine(…) as engine:`")
        future = asyncio.run_coroutine_threadsafe(coro, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
