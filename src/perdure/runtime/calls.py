"""Calls: what a workflow gets when it calls a step, or a workflow as a child, and the future inside."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context, copy_context
from pathlib import Path
from sys import _getframe
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure.errors import NotAwaited, RunGone

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Generator
    from types import CodeType, FrameType

    from perdure.model.arguments import Prepared
    from perdure.protocols import StepLike
    from perdure.runtime.bodies import Body
    from perdure.runtime.run import Run

AWAIT = "write `await` before the call, or give it to gather, create_task or parallel"
_NO_CONTEXT = Context()
_HERE = str(Path(__file__).parent.parent)

Outcome: TypeAlias = "tuple[Callable[..., object], *tuple[Any, ...]]"
"""Something to deliver: a function and its arguments, called in the activation that follows."""


class CallFuture(asyncio.Future[Any]):
    """The outcome of a call.

    Cancelling it asks for the body's abort; it ends when the body has settled and that is in the log, and then always
    as cancelled.
    """

    __slots__ = ("call", "n")
    n: int
    call: Call

    def __hash__(self) -> int:
        return self.n

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask for the call's cancellation; True unless it has an outcome already."""
        if self.done():
            return False
        call = self.call
        if call.born == call.run.activation:
            # Made and cancelled within one activation: nothing of it was ever seen outside.
            call.forget()
            return super().cancel(msg)
        if not call.cancelled:
            call.cancelled = True
            call.message = msg
            call.abort()
        return True

    def settle_cancelled(self) -> None:
        """End as cancelled, now that the outcome is in the log."""
        super().cancel(self.call.message)


class Awaited(Coroutine[object, None, Any]):
    """What workflow code awaits of its run: a coroutine by registration only.

    The run loop makes no task of it, so fan-out over calls costs none.
    """

    __slots__ = ("__weakref__", "code", "key", "lasti", "run")
    run: Run
    key: str
    code: CodeType
    lasti: int

    @property
    def outlives(self) -> bool:
        """Whether it is no concern of its workflow's end."""
        return False

    @property
    def what(self) -> str:
        """What it is, in a sentence."""
        return f"step {self.key}"

    @property
    def line(self) -> int:
        """The line the call was made on; 0 if it is not known."""
        return next((line or 0 for begin, end, line in self.code.co_lines() if begin <= self.lasti < end), 0)

    @property
    def where(self) -> str:
        """``file.py:12 in fulfil``: where the call was made."""
        return f"{self.code.co_filename}:{self.line} in {self.code.co_qualname}"

    def not_awaited(self) -> NotAwaited:
        """What is wrong if nobody awaits it."""
        return NotAwaited(
            f"{self.what} was called but never awaited ({self.where})", step=self.key, line=self.line, advice=AWAIT
        )

    def __bool__(self) -> bool:
        # `if approved.wait():` would be true whatever comes.
        raise self.not_awaited()

    def __await__(self) -> Generator[Any, None, Any]:
        return self.take_future().__await__()

    def take_future(self) -> asyncio.Future[Any]:
        """Ask for the outcome: from here on it counts."""
        raise NotImplementedError

    def close(self) -> None:
        """Give it up without having awaited it."""

    def send(self, _value: object) -> Any:
        """Not driven by hand: await it."""
        msg = f"{self!r} is awaited, not sent into"
        raise RuntimeError(msg)

    def throw(self, *_exc: Any) -> Any:
        """Not driven by hand: await it."""
        msg = f"{self!r} is awaited, not thrown into"
        raise RuntimeError(msg)


class Call(Awaited):
    """One call of a step or a child in a run.

    Its key is taken when it is made; it counts from when it is awaited (or given to a task, ``gather``, …).
    """

    __slots__ = ("born", "cancelled", "future", "message", "n", "taken")

    def __init__(self, run: Run, key: str) -> None:
        self.run = run
        self.key = key
        self.n = run.loop.number()
        self.future: CallFuture | None = None
        self.cancelled = False
        self.taken = False
        self.message: object = None
        self.born = run.activation
        run.untaken[self.n] = self

    def __hash__(self) -> int:
        return self.n

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
        self.ask()
        return future

    def ask(self) -> None:
        """Somebody awaits the call's outcome."""
        raise NotImplementedError

    def forget(self) -> None:
        """The call was cancelled in the activation that made it."""
        raise NotImplementedError

    def abort(self) -> None:
        """The call's cancellation was asked for."""
        raise NotImplementedError

    def let_go(self) -> CallFuture:
        """End the call and return its future, to be settled; cuts every cycle: nothing waits for the collector."""
        future = self.future
        assert future is not None
        self.future = None
        self.run.calls.pop(self.key, None)
        return future

    def close(self) -> None:
        """Give the call up without awaiting it."""
        self.run.untaken.pop(self.n, None)

    def __repr__(self) -> str:
        return f"<call {self.key} of run {self.run.run_id}>"


class StepCall(Call):
    """One call of a step. Its arguments are taken when it is made; its body starts when the run's loop is idle."""

    __slots__ = (
        "attempt", "barrier", "base", "body", "context", "failed", "interrupted", "marked", "next_at", "prepared",
        "step",
    )  # fmt: skip

    def __init__(self, run: Run, step: StepLike, key: str, prepared: Prepared) -> None:
        super().__init__(run, key)
        self.step = step
        self.prepared = prepared
        self.context: Context = copy_context()
        self.attempt = 1
        self.base = 0
        self.interrupted = False
        self.marked = False
        self.next_at = 0
        self.failed = b""
        self.barrier = 0
        self.body: Body | None = None
        frame = _getframe(3)
        self.code = frame.f_code
        self.lasti = frame.f_lasti

    def ask(self) -> None:
        """Somebody awaits the call: its recorded outcome will come, or its body is to be started."""
        run, key = self.run, self.key
        if run.gone or run.loop.gone:
            raise RunGone
        run.untaken.pop(self.n, None)
        run.calls[key] = self
        replay = run.replay
        if key in replay.by_key:
            return
        self.barrier = run.seq
        state = replay.attempts.pop(key, None) if replay.attempts else None
        if state is not None:
            self.attempt, self.base, self.next_at = state.last + 1, state.base, state.next_at
            self.failed, self.interrupted = state.failed, state.started > state.last
            if self.next_at > run.host.clock.now():
                run.retrying[key] = self
                return
        run.startable.append(self)

    def forget(self) -> None:
        """The call was cancelled in the activation that made it."""
        run = self.run
        run.calls.pop(self.key, None)
        run.retrying.pop(self.key, None)
        self.cancelled = True

    def abort(self) -> None:
        """Cancellation was asked for: a recorded outcome says how that ended, else the body is aborted."""
        run, key = self.run, self.key
        if key in run.replay.by_key:
            return
        if self.body is not None:
            self.body.cancel()
        elif key not in run.in_flight and self not in run.live:
            run.retrying.pop(key, None)
            if self.step.transactional is None:
                run.live.append(self)
            elif self not in run.startable:
                run.startable.append(self)  # to see to it that no frozen holder of the run does it either

    def let_go(self) -> CallFuture:
        """End the call and return its future, to be settled; cuts every cycle: nothing waits for the collector."""
        future = self.future
        assert future is not None
        self.future = self.body = None
        self.context = _NO_CONTEXT
        self.run.calls.pop(self.key, None)
        return future


def marked_first(calls: deque[StepCall]) -> bool:
    """Whether a call is on disk as begun, once and for all, so that it must begin here; it is put first."""
    for call in calls:
        if call.marked and call.step.at_most_once and not call.cancelled:
            calls.remove(call)
            calls.appendleft(call)
            return True
    return False


def users_frame() -> FrameType:
    """The innermost frame of the caller's callers that is not Perdure's own."""
    frame = _getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame
