"""One attempt at a step: its body, its timeout, and how it is aborted."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextvars import Context
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from perdure.context import StepContext, enter_step
from perdure.errors import StepAborted, StepTimeout
from perdure.model.ids import idempotency_key
from perdure.runtime import points

if TYPE_CHECKING:
    from perdure.model.records import Artifact
    from perdure.runtime.calls import StepCall
    from perdure.runtime.run import Run

logger = logging.getLogger("perdure.step")

_NO_CONTEXT = Context()
_EAGER = sys.version_info >= (3, 12)


class Abort(Enum):
    """Why a body was asked to stop; the first reason stands."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    STOP = "stop"
    LOST = "lost"


class Body:
    """A body in flight. It never outlives its settling: no attempt begins before the one before has ended.

    Also the step context's abort flag and sink.
    """

    __slots__ = (
        "abort",
        "artifacts",
        "attempt",
        "began",
        "call",
        "context",
        "error",
        "named",
        "run",
        "settled",
        "task",
        "timer",
        "value",
    )

    def __init__(self, run: Run, call: StepCall) -> None:
        self.run = run
        self.call = call
        self.attempt = call.attempt
        self.abort: Abort | None = None
        self.task: asyncio.Task[Any] | None = None
        self.timer: Any = None
        self.value: Any = None
        self.error: BaseException | None = None
        self.settled = False
        self.began = run.host.clock.now()
        # An attempt must not see what an earlier one set.
        self.context = call.context.copy() if call.step.retry.max_attempts > 1 else call.context
        self.artifacts: list[Artifact] = []
        self.named: list[tuple[str, bytes, int]] = []

    def start(self) -> None:
        """Begin the body; it may have settled on return."""
        run, call = self.run, self.call
        step, host = call.step, run.host
        timeout = step.timeout
        context = StepContext(
            run.run_id,
            run.workflow,
            step.name,
            call.key,
            self.attempt,
            self._idempotency_key,
            host.tools,
            None if timeout is None else self.began + round(timeout * 1e6),
            self,
            self,
        )
        self.context.run(enter_step, context)
        if host.reached is not None:  # told in the body's context, so that it can ask for step_context()
            self.context.run(host.reached, points.BODY)
        if not step.is_async:
            host.threads.submit(self, self.context, context)
        else:
            coro = self._contain(context)
            if _EAGER:
                self.task = task = asyncio.Task(coro, loop=host.loop, context=self.context, eager_start=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # since Python 3.12
                if task.done():
                    self._task_done(task)
                    return
            else:
                self.task = task = host.loop.create_task(coro, context=self.context)
            task.add_done_callback(self._task_done)
        if timeout is not None:
            self.timer = host.call_later(timeout, partial(self.request_abort, Abort.TIMEOUT))

    def run_here(self, context: StepContext[Any]) -> None:
        """Execute a sync body on the calling thread; ``finished`` is called on the host's loop afterwards."""
        try:
            self.value = self.call.step.invoke(self.call.prepared.args, self.call.prepared.kwargs, context)
        except BaseException as error:  # noqa: BLE001 - whatever a body raises is its outcome
            self.error = error

    def finished(self) -> None:
        """A sync body's thread is free again."""
        self.end(self.value, self.error)

    async def _contain(self, context: StepContext[Any]) -> Any:
        """Execute an async body; keep from the host's loop what a task would pass on to it, and end it.

        The body's own coroutine is made here, so that a task cancelled before it began leaves none behind.
        """
        call = self.call
        try:
            return await call.step.invoke(call.prepared.args, call.prepared.kwargs, context)
        except KeyboardInterrupt as error:
            if self.run.stopping:  # a person who is tired of waiting, not the body
                self.abort = Abort.STOP
                raise
            self.error = error
        except SystemExit as error:
            self.error = error

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        if self.error is not None:
            self.end(None, self.error)
        elif task.cancelled():
            self.end(None, asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.end(None, error)
        else:
            self.end(task.result(), None)

    def end(self, value: Any, error: BaseException | None) -> None:
        """Settle: hand the outcome to the run."""
        if self.settled:
            return
        self.settled = True
        if self.run.host.reached is not None:
            self.context.run(self.run.host.reached, points.BODY_ENDED)
        self.task = None
        self.context = _NO_CONTEXT  # it holds the step context, which holds this
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if error is not None:
            value = None
            if self.abort is Abort.TIMEOUT and isinstance(error, (asyncio.CancelledError, StepAborted)):
                cause, error = error, self._timeout()
                error.__cause__ = cause
        elif self.abort is Abort.TIMEOUT:
            error = self._timeout()
        self.value, self.error = value, error
        self.run.body_ended(self)

    def _timeout(self) -> BaseException:
        step = self.call.step
        return StepTimeout(
            f"step {self.call.key} took longer than its timeout of {step.timeout} s (attempt {self.attempt})",
            step=step.name,
            timeout=step.timeout,
        )

    def request_abort(self, why: Abort) -> None:
        """Ask the body to stop: an async one is cancelled, a sync one finds ``ctx.cancelled`` set."""
        if self.settled:
            return
        if self.abort is None or why is Abort.LOST:
            self.abort = why
        if self.task is not None:
            self.task.cancel()

    @property
    def aborted(self) -> bool:
        """Whether the body ended because it was asked to, not of itself."""
        ends = (asyncio.CancelledError, StepAborted, KeyboardInterrupt)
        return self.abort is not None and isinstance(self.error, ends)

    # -- what the step context asks of it

    def _idempotency_key(self) -> str:
        return idempotency_key(self.run.key_uid, self.call.key)

    def is_set(self) -> bool:
        """Whether the attempt is to stop."""
        return self.abort is not None

    def progress(self, value: object) -> None:
        """Record how far the attempt is."""
        self.run.code.progress(self, value)

    def artifact(self, name: str, data: bytes) -> None:
        """Keep bytes with the step's outcome."""
        self.run.code.artifact(self, name, data)
