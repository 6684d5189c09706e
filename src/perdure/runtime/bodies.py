"""One attempt at a step: its body, its timeout, and how it is aborted."""

from __future__ import annotations

import asyncio
import sys
from contextvars import Context
from enum import Enum
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from perdure.context import StepContext, enter_step
from perdure.errors import StepAborted, StepTimeout
from perdure.model.ids import idempotency_key
from perdure.runtime import points
from perdure.runtime.about import about
from perdure.runtime.reports import Report, last_progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import Artifact
    from perdure.protocols import StreamLike
    from perdure.runtime.calls import StepCall
    from perdure.runtime.run import Run

_MAKING = Lock()
_NO_CONTEXT = Context()
_EAGER = sys.version_info >= (3, 12)
_WAITING, _RUNNING, _OVER = range(3)
"""Where a body is: its task has not begun it, it is under way, it has returned."""


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

    sealed: tuple[bytes, Any] | None = None
    """The result, encoded and as that decodes, if it is committed elsewhere already."""
    unsettled = False
    """Whether it is not known whether it is committed elsewhere, so that a cancelled call has to begin all the same."""

    __slots__ = (
        "_ctx",
        "abort",
        "artifacts",
        "attempt",
        "began",
        "call",
        "context",
        "error",
        "named",
        "report",
        "run",
        "settled",
        "span",
        "stage",
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
        self.stage = _WAITING
        self.settled = False
        self.began = run.host.clock.now()
        # An attempt must not see what an earlier one set.
        self.context = call.context.copy() if call.step.retry.max_attempts > 1 else call.context
        self.artifacts: Sequence[Artifact] = ()
        self.named: Sequence[bytes] = ()
        """Notes of the artifacts that are kept by name."""
        self.report: Report | None = None
        self._ctx: StepContext[Any] | None = None
        self.span: Any = None

    def start(self) -> None:
        """Begin the body; it may have settled on return."""
        run, call = self.run, self.call
        host = run.host
        context = self.context
        context.run(enter_step, self)
        if host.spans is not None:
            self.span = host.spans.begin(self)
        if host.reached is not None:  # told in the body's context, so that it can ask for step_context()
            context.run(host.reached, points.BODY)
        step = call.step  # read now: who was told may have put another in its place, of the same definition
        if not step.is_async:
            self.stage = _RUNNING
            host.threads.submit(self, context, None)
        elif _EAGER:
            self.task = asyncio.Task(self._contain(), loop=host.loop, context=context, eager_start=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # since Python 3.12
            if self.stage is _OVER:
                self.finished()
                return
            self.stage = _RUNNING
        else:
            self.task = asyncio.Task(self._contain(), loop=host.loop, context=context)
        if step.timeout is not None:
            self.timer = host.call_later(step.timeout, partial(self.request_abort, Abort.TIMEOUT))

    def run_here(self, _argument: object) -> None:
        """Execute a sync body on the calling thread; ``finished`` is called on the host's loop afterwards."""
        try:
            call = self.call
            step = call.step
            context = None if step.takes_ctx is None else self.step_context()
            self.value = step.invoke(call.prepared.args, call.prepared.kwargs, context)
        except BaseException as error:  # noqa: BLE001 - whatever a body raises is its outcome
            self.error = error
        self.stage = _OVER

    async def _contain(self) -> None:
        """Execute an async body; keep from the host's loop what a task would pass on to it.

        The body's own coroutine is made here, so that a task cancelled before it began leaves none behind.
        """
        if not _EAGER:
            self.stage = _RUNNING
        try:
            call = self.call
            step = call.step
            context = None if step.takes_ctx is None else self.step_context()
            self.value = await step.invoke(call.prepared.args, call.prepared.kwargs, context)
        except KeyboardInterrupt as error:
            self.error = error
            if self.run.stopping:  # a person who is tired of waiting, not the body
                self.abort = Abort.STOP
                self._over()
                raise
        except BaseException as error:
            if self.run.host.loop.is_closed():
                raise  # nobody is left to tell
            self.error = error
        self._over()

    def _over(self) -> None:
        """The body has returned; it settles when its task has ended too."""
        begun, self.stage = self.stage, _OVER
        if begun is _RUNNING:
            self.run.host.settle_soon(self)

    def finished(self) -> None:
        """Settle: hand the outcome to the run."""
        if self.settled:
            return
        self.settled = True
        if self.run.host.reached is not None:
            self.context.run(self.run.host.reached, points.BODY_ENDED)
        self.task = None
        self.context = _NO_CONTEXT  # it holds this
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.report is not None:
            self.report.close()
        error = self.error
        if error is not None:
            self.value = None
            if self.abort is Abort.TIMEOUT and isinstance(error, (asyncio.CancelledError, StepAborted)):
                self.error = self._timeout()
                self.error.__cause__ = error
        elif self.abort is Abort.TIMEOUT:
            self.value, self.error = None, self._timeout()
        if self.span is not None and self.run.host.spans is not None:
            self.run.host.spans.end(self, self.span)
        self.run.body_ended(self)

    def _timeout(self) -> BaseException:
        step = self.call.step
        return StepTimeout(
            f"step {self.call.key} took longer than its timeout of {step.timeout} s (attempt {self.attempt})",
            step=step.name,
            timeout=step.timeout,
        )

    def cancel(self) -> None:
        """Ask the body to stop because its call was cancelled."""
        self.request_abort(Abort.CANCEL)

    def request_abort(self, why: Abort) -> None:
        """Ask the body to stop: an async one is cancelled, a sync one finds ``ctx.cancelled`` set."""
        if self.stage is _OVER:
            return
        if self.abort is None or why is Abort.LOST:
            self.abort = why
        if self.task is not None:
            self.task.cancel()
            if self.stage is _WAITING:  # and now it never begins
                self.error = asyncio.CancelledError()
                self.stage = _OVER
                self.run.host.settle_soon(self)

    @property
    def is_running(self) -> bool:
        """Whether the body has begun and not returned."""
        return self.stage is _RUNNING

    @property
    def aborted(self) -> bool:
        """Whether the body ended because it was asked to, not of itself."""
        ends = (asyncio.CancelledError, StepAborted, KeyboardInterrupt)
        return self.abort is not None and isinstance(self.error, ends)

    def perish(self) -> None:
        """Leave nothing open: the process dies."""

    # -- what the step context asks of it

    def step_context(self) -> StepContext[Any]:
        """Return what the body may know about itself."""
        if self._ctx is None:
            run, call = self.run, self.call
            timeout = call.step.timeout
            self._ctx = StepContext(
                run.run_id,
                run.workflow,
                call.step.name,
                call.key,
                self.attempt,
                self._idempotency_key,
                run.host.tools,
                None if timeout is None else self.began + round(timeout * 1e6),
                self,
                self,
            )
        return self._ctx

    def _idempotency_key(self) -> str:
        return idempotency_key(self.run.key_uid, self.call.key)

    def is_set(self) -> bool:
        """Whether the attempt is to stop."""
        return self.abort is not None

    def progress(self, value: object) -> None:
        """Record how far the attempt is."""
        self._reporting().progress(value)

    def last_progress(self) -> Any:
        """Return what the attempt before recorded last."""
        return last_progress(self.run, self.call)

    def emit(self, value: object, stream: str | StreamLike) -> None:
        """Add a value to a stream of the run."""
        self._reporting().emit(value, stream)

    def _reporting(self) -> Report:
        if self.report is None:
            with _MAKING:  # several threads of one body may be the first
                if self.report is None:
                    report = Report(self.run.host.reports, self.run, self.call, self.attempt)
                    if self.settled:
                        report.close()
                    self.report = report
        return self.report

    def about(self) -> dict[str, Any]:
        """Return what log lines of the attempt carry."""
        return {**about(self.run), "step": self.call.step.name, "attempt": self.attempt}

    def artifact(self, name: str, data: bytes) -> None:
        """Keep bytes with the step's outcome."""
        self.run.code.artifact(self, name, data)
