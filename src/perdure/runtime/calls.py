"""A step call: what a workflow gets when it calls a step, and the future inside it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context, copy_context
from sys import _getframe
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Generator
    from types import CodeType

    from perdure.context import StepLike
    from perdure.model.arguments import Prepared
    from perdure.runtime.bodies import Body
    from perdure.runtime.run import Run

_NO_CONTEXT = Context()


class CallFuture(asyncio.Future[Any]):
    """The outcome of a call.

    Cancelling it asks for the body's abort; it ends when the body has settled and that is in the log, and then always
    as cancelled.
    """

    __slots__ = ("call", "n")
    n: int
    call: StepCall

    def __hash__(self) -> int:
        return self.n

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask for the call's cancellation; True unless it has an outcome already."""
        if self.done():
            return False
        call = self.call
        if call.born == call.run.activation:
            # Made and cancelled within one activation: nothing of it was ever seen outside.
            call.run.forget(call)
            return super().cancel(msg)
        if not call.cancelled:
            call.cancelled = True
            call.message = msg
            call.run.abort_call(call)
        return True

    def settle_cancelled(self) -> None:
        """End as cancelled, now that the outcome is in the log."""
        super().cancel(self.call.message)


class StepCall(Coroutine[object, None, Any]):
    """One call of a step in a run.

    Its key and arguments are taken when it is made; its body starts when it is awaited (or given to a task, ``gather``,
    …) and the run's loop is idle. A coroutine by registration only: the run loop makes no task of it, so fan-out over
    steps costs none.
    """

    __slots__ = (
        "__weakref__",
        "attempt",
        "barrier",
        "base",
        "body",
        "born",
        "cancelled",
        "code",
        "context",
        "future",
        "interrupted",
        "key",
        "lasti",
        "marked",
        "message",
        "n",
        "next_at",
        "prepared",
        "run",
        "step",
        "taken",
    )

    def __init__(self, run: Run, step: StepLike, key: str, prepared: Prepared) -> None:
        self.run = run
        self.step = step
        self.key = key
        self.prepared = prepared
        self.n = run.loop.number()
        self.context: Context = copy_context()
        self.future: CallFuture | None = None
        self.attempt = 1
        self.base = 0
        self.cancelled = False
        self.interrupted = False
        self.marked = False
        self.taken = False
        self.message: object = None
        self.next_at = 0
        self.barrier = 0
        self.born = run.activation
        self.body: Body | None = None
        frame = _getframe(3)
        self.code: CodeType = frame.f_code
        self.lasti = frame.f_lasti
        run.untaken[self.n] = self

    def __hash__(self) -> int:
        return self.n

    def __await__(self) -> Generator[Any, None, Any]:
        return self.take_future().__await__()

    def take_future(self) -> CallFuture:
        """Ask for the outcome: from here on the call counts."""
        if self.taken:
            msg = f"the call {self.key} was awaited already"
            raise RuntimeError(msg)
        run = self.run
        self.future = future = CallFuture(loop=run.loop)
        future.n = self.n
        future.call = self
        self.taken = True
        run.ask(self)
        return future

    def let_go(self) -> CallFuture:
        """End the call and return its future, to be settled; cuts every cycle: nothing waits for the collector."""
        future = self.future
        assert future is not None
        self.future = self.body = None
        self.context = _NO_CONTEXT
        self.run.calls.pop(self.key, None)
        return future

    def close(self) -> None:
        """Give the call up without awaiting it."""
        self.run.untaken.pop(self.n, None)

    def send(self, _value: object) -> Any:
        """Not driven by hand: await it."""
        msg = "a step call is awaited, not sent into"
        raise RuntimeError(msg)

    def throw(self, *_exc: Any) -> Any:
        """Not driven by hand: await it."""
        msg = "a step call is awaited, not thrown into"
        raise RuntimeError(msg)

    @property
    def line(self) -> int:
        """The line the call was made on; 0 if it is not known."""
        return next((line or 0 for begin, end, line in self.code.co_lines() if begin <= self.lasti < end), 0)

    @property
    def where(self) -> str:
        """``file.py:12 in fulfil``: where the call was made."""
        return f"{self.code.co_filename}:{self.line} in {self.code.co_qualname}"

    def __repr__(self) -> str:
        return f"<call {self.key} of run {self.run.run_id}>"


def marked_first(calls: deque[StepCall]) -> bool:
    """Whether a call is on disk as begun, once and for all, so that it must begin here; it is put first."""
    for call in calls:
        if call.marked and call.step.at_most_once and not call.cancelled:
            calls.remove(call)
            calls.appendleft(call)
            return True
    return False
