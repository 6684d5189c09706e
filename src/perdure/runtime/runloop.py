"""The little event loop a workflow runs on: a ready queue and timers, nothing else.

It never blocks, reads no clock and opens no socket. The engine *activates* it from a plain callback of the host's loop;
it then runs until it is idle. What asyncio builds on futures, tasks and timers therefore decides the same on every
replay: tasks, futures and calls hash to numbers that follow their creation (so that sets of them iterate alike), an
activation is bounded in passes, and time is the instant of the last outcome delivered. Everything else that an event
loop offers cannot be recorded and raises ``NotDurable``.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections import deque
from contextvars import copy_context
from threading import Thread, get_ident
from typing import TYPE_CHECKING, Any

from perdure.context import RunLoopBase, current_task
from perdure.errors import NotDurable, RunGone
from perdure.model.keys import TIMER, Scope, task_name
from perdure.runtime import asyncgens
from perdure.runtime.running import give_back, take_over
from perdure.telemetry import lines
from perdure.telemetry.logs import described, say

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from contextvars import Context

    from perdure.protocols import CurrentRun
    from perdure.runtime.calls import CallFuture

PASSES = 256
"""Passes over the ready queue in one activation; part of the format, since polling code counts them."""

CLOSE_TRIES = 50

_TASKS_FILE = asyncio.tasks.__file__


class Ready(list[Any]):
    """A scheduled callback: ``[callback, args, context]``; cancelling clears it.

    A list with methods: it is made several times per step, and this is the cheapest object that can be cancelled.
    """

    __slots__ = ()

    def cancel(self) -> None:
        """Take the callback back."""
        self[0] = None

    def cancelled(self) -> bool:
        """Whether it was taken back."""
        return self[0] is None


class Timer:
    """A pending timer: its key in the log, and when it is due on the loop's clock (seconds)."""

    __slots__ = ("_when", "args", "callback", "context", "key", "loop")

    def __init__(
        self,
        loop: RunLoop,
        key: str,
        when: float,
        callback: Callable[..., object],
        args: tuple[object, ...],
        context: Context,
    ) -> None:
        self.loop, self.key, self._when = loop, key, when
        self.callback: Callable[..., object] | None = callback
        self.args, self.context = args, context

    def when(self) -> float:
        """Due time on the loop's clock, in seconds."""
        return self._when

    def cancel(self) -> None:
        """Take the timer back; costs nothing in the log."""
        if self.callback is not None:
            self.callback = None
            self.args = ()
            self.loop.timers.pop(self.key, None)

    def cancelled(self) -> bool:
        """Whether it was taken back (or has fired)."""
        return self.callback is None


class RunFuture(asyncio.Future[Any]):
    """A future whose hash is its creation number."""

    __slots__ = ("n",)
    n: int

    def __hash__(self) -> int:
        return self.n


class RunTask(asyncio.Task[Any]):
    """A task whose hash is its creation number, and that knows its place."""

    __slots__ = ("n", "scope")
    n: int
    scope: Scope

    def __hash__(self) -> int:
        return self.n

    def add_done_callback(self, callback: Any, /, *, context: Context | None = None) -> None:
        """Have ``callback`` called when the task is done.

        Raises:
            NotDurable: a thread asks for it. So do anyio's, which go round the loop; left alone, they would
                not end when the run leaves memory, and as they are no daemons, neither would the process.
        """
        thread = getattr(callback, "__self__", None)
        if isinstance(thread, Thread):
            callback(self)
            loop: Any = self.get_loop()
            raise loop.poisoned(
                NotDurable(
                    f"run {loop.run.run_id}: a workflow cannot use a thread: its outcome could not be recorded",
                    advice="do this in a step, whose result is recorded; a plain def has a thread to itself",
                )
            )
        super().add_done_callback(callback, context=context)


class RunLoop(RunLoopBase):
    """The loop of one run; see the module's text.

    ``salt`` starts the numbering: equal hashes in all runs would make asyncio's process-wide set of tasks quadratic.
    """

    def __init__(self, run: CurrentRun, salt: int) -> None:
        self.run = run
        self.ready: deque[Ready] = deque()
        self.timers: dict[str, Timer] = {}
        self.tasks: list[RunTask] = []
        self.asyncgens = asyncgens.Opened()
        self.active = False
        self.gone = False
        self.poison: BaseException | None = None
        self.root_scope = Scope()
        self.clock = 0.0
        self._number = salt
        self._prune_at = 64
        self._thread = get_ident()
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None

    # -- what asyncio asks of a loop

    def time(self) -> float:
        """Seconds from the run's first claim to the last outcome delivered."""
        return self.clock

    def get_debug(self) -> bool:
        """Never: asyncio's debug mode looks at wall clocks."""
        return False

    def set_debug(self, enabled: bool) -> None:  # noqa: FBT001 - asyncio's signature
        """Ignored."""

    def is_running(self) -> bool:
        """True while the run executes."""
        return not self.gone

    def is_closed(self) -> bool:
        """True once the run's execution in memory has ended."""
        return self.gone

    def call_soon(self, callback: Callable[..., object], *args: object, context: Context | None = None) -> Any:
        """Schedule a callback in this activation."""
        if not self.active or get_ident() != self._thread:
            return self._outside(callback)
        handle = Ready((callback, args, copy_context() if context is None else context))
        self.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> Any:
        """Set a durable timer, ``delay`` seconds from the last outcome delivered."""
        return self.call_at(self.clock + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> Any:
        """Set a durable timer."""
        if not self.active or get_ident() != self._thread:
            return self._outside(callback)
        if math.isnan(when):
            msg = "a timer cannot be due at NaN"
            raise ValueError(msg)
        timer = Timer(
            self, self.scope().key(TIMER), when, callback, args, copy_context() if context is None else context
        )
        self.timers[timer.key] = timer
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future of this loop."""
        future = RunFuture(loop=self)
        future.n = self.number()
        return future

    def create_task(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[Any] | CallFuture:
        """Start a task; a step call makes none and gives its future."""
        take = getattr(coro, "take_future", None)
        if take is not None:
            future: CallFuture = take()
            return future
        if self.gone:
            coro.close()
            raise RunGone
        scope = self._scope_for(coro)
        task = RunTask.__new__(RunTask)
        task.n = self.number()
        task.scope = scope
        if name is not None:
            options["name"] = name
        if context is not None:
            options["context"] = context
        self.tasks.append(task)
        task.__init__(coro, loop=self, **options)  # type: ignore[misc]
        if len(self.tasks) > self._prune_at:
            self.tasks = [t for t in self.tasks if not t.done() or t._log_traceback]
            self._prune_at = 64 + 2 * len(self.tasks)
        return task

    def get_task_factory(self) -> None:
        """None: the loop makes its own tasks."""

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        """Hear of errors in callbacks."""
        self._handler = handler

    def get_exception_handler(self) -> Any:
        """The handler set."""
        return self._handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an error that nobody can be told of."""
        if self.gone:
            return
        if self._handler is not None:
            self._handler(self, context)
        else:
            self.default_exception_handler(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Log it."""
        # Not what asyncio says of it: that shows the arguments of callbacks.
        error = context.get("exception")
        what = context.get("message") if error is None else described(error)
        say(lines.LOOP_ERROR, error=error, what=what, **self.run.about)

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do: the run closes them when it returns."""

    # -- what the run asks of it

    def number(self) -> int:
        """Return the next creation number."""
        self._number += 1
        return self._number

    def scope(self) -> Scope:
        """Return the place of what runs now."""
        task = current_task(self)
        return task.scope if isinstance(task, RunTask) else self.root_scope

    def root(self, coro: Coroutine[Any, Any, Any], context: Context) -> RunTask:
        """Make the run's first task; its place is the root itself."""
        task = RunTask.__new__(RunTask)
        task.n = self.number()
        task.scope = self.root_scope
        self.tasks.append(task)
        task.__init__(coro, loop=self, name=f"perdure {self.run.run_id}", context=context)  # type: ignore[misc]
        return task

    def activate(self, first: Callable[..., object] | None = None, *arguments: object) -> None:
        """Call ``first``, then run what is ready until idle, at most ``PASSES`` passes.

        Never nested.

        Raises:
            KeyboardInterrupt: as it came out of the workflow; the loop is then torn.
        """
        ready = self.ready
        self.active = True
        self._thread = get_ident()
        before = take_over(self)
        try:
            if first is not None:
                first(*arguments)
            for _ in range(PASSES):
                if not ready:
                    break
                for _ in range(len(ready)):
                    callback, args, context = ready.popleft()
                    if callback is None:
                        continue
                    try:
                        context.run(callback, *args)
                    except KeyboardInterrupt:
                        raise
                    except SystemExit:
                        pass  # asyncio re-raises it after giving it to the task, where it is the workflow's failure
                    except BaseException as error:  # noqa: BLE001 - a callback's error concerns this run only
                        self.call_exception_handler({"message": f"error in callback {callback!r}", "exception": error})
        finally:
            give_back(before)
            self.active = False

    def fire(self, timer: Timer) -> None:
        """Make a timer's callback ready; the next activation runs it."""
        del self.timers[timer.key]
        self.ready.append(Ready((timer.callback, timer.args, timer.context)))
        timer.callback = None

    def earliest(self) -> Timer | None:
        """The timer due first, ties by creation; None if none can ever be due."""
        best: Timer | None = None
        for timer in self.timers.values():
            if (best is None or timer._when < best._when) and timer._when != math.inf:
                best = timer
        return best

    def unheard(self) -> list[RunTask]:
        """Tasks, but for the root, that ended in a failure which nobody has asked them for."""
        return [task for task in self.tasks[1:] if task.done() and task._log_traceback]

    def poisoned(self, error: BaseException) -> BaseException:
        """Remember that the run must fail with ``error`` whatever its code does with it; returns it."""
        if self.poison is None:
            self.poison = error
        return error

    def tear(self) -> None:
        """End the execution in memory: close every coroutine, newest first, and leave nothing that could make noise.

        The workflow's ``finally`` blocks run; every Perdure call in them raises ``RunGone``, and whatever comes out is
        dropped.
        """
        self.gone = True
        self.ready.clear()
        self.active = True
        before = take_over(self)
        try:
            for task in reversed(self.tasks):
                if not task.done():
                    _close(task)
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
                task._log_traceback = False
            self.asyncgens.close()
        finally:
            give_back(before)
            self.active = False
        self.ready.clear()
        self.timers.clear()
        self.tasks.clear()

    # -- details

    def _scope_for(self, coro: Any) -> Scope:
        frame = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename == _TASKS_FILE:
            where = frame.f_code.co_qualname
            if where.startswith(("as_completed", "_AsCompletedIterator")):
                coro.close()
                raise self.poisoned(
                    NotDurable(
                        "as_completed over bare coroutines has no order that could be repeated",
                        advice="wrap each in asyncio.create_task(…), or pass the step calls themselves",
                    )
                )
            if where == "wait_for":  # its extra task on Python 3.11 has no place of its own
                return self.scope()
            frame = frame.f_back  # type: ignore[assignment]
        return self.scope().child(task_name(_qualname(coro)))

    def _outside(self, callback: object) -> Ready:
        if self.gone:
            return Ready((None, (), None))
        raise self.poisoned(
            NotDurable(
                f"run {self.run.run_id}: something outside the workflow tried to wake it ({callback!r})",
                advice="a step's body or another thread cannot set a workflow's future or event; return the value",
            )
        )


def _qualname(coro: Any) -> str:
    """The qualified name of a coroutine, or of the one that anyio's task groups have wrapped in it.

    (The task's name would not do: anyio puts the module into it, which may move.)
    """
    qualname: str = getattr(coro, "__qualname__", None) or type(coro).__qualname__
    if qualname.endswith("._run_coro"):
        frame = getattr(coro, "cr_frame", None)
        if frame is not None:
            inner = frame.f_locals.get("coro") or getattr(frame.f_locals.get("self"), "_coro", None)
            return getattr(inner, "__qualname__", None) or qualname
    return qualname


def _close(task: RunTask) -> None:
    coro = task.get_coro()
    waiter = task._fut_waiter  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    for _ in range(CLOSE_TRIES):
        try:
            coro.close()
        except BaseException:  # noqa: BLE001, S112 - dropped on purpose, it awaits in a finally: again
            continue
        break
    if waiter is not None:
        asyncio.Future.cancel(waiter)


def _not_durable(name: str) -> Callable[..., Any]:
    def refuse(self: RunLoop, *_args: object, **_kwargs: object) -> Any:
        if self.gone:
            raise RunGone
        raise self.poisoned(
            NotDurable(
                f"run {self.run.run_id}: a workflow cannot use the event loop's {name}: "
                "its outcome could not be recorded",
                advice="do this in a step, whose result is recorded",
            )
        )

    refuse.__name__ = name
    refuse.__qualname__ = f"RunLoop.{name}"
    return refuse


for _name in dir(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and getattr(RunLoop, _name) is getattr(asyncio.AbstractEventLoop, _name):
        setattr(RunLoop, _name, _not_durable(_name))

TORN = RunLoop.__new__(RunLoop)  # type: ignore[type-abstract]
"""The loop of runs that have ended."""
TORN.gone = True
