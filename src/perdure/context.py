"""What running code sees: the contexts of steps and runs, and how a call finds the run it is made in.

Which run a call belongs to is decided by the running event loop (a run has one of its own) or, in a sync
workflow, by the thread; never by a context variable, which tasks, threads and callbacks copy at will.
"""

from __future__ import annotations

import asyncio
import logging
import random as _random
import sys
import threading
import uuid
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from perdure.clock import SystemClock
from perdure.errors import ColourError, DefinitionError, NotInRun, StepAborted
from perdure.model.durations import to_datetime

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, MutableMapping
    from contextvars import Token
    from datetime import datetime

    from perdure.protocols import AbortFlag, CurrentRun, Fiber, Generators, StepSink, StreamLike

DEFAULT_STREAM: Final = "default"
"""The stream of values that are emitted without naming one."""

ToolsT = TypeVar("ToolsT")
T = TypeVar("T")


class _Injected:
    """The type of ``INJECTED``; using the marker itself as a context explains what went wrong."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "INJECTED"

    def __copy__(self) -> _Injected:
        return self

    def __deepcopy__(self, memo: object) -> _Injected:
        return self

    def __reduce__(self) -> str:
        return "INJECTED"

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotInRun(
            f"no context was given, so there is no {name!r}: the function was called as a plain function",
            advice="outside a run, and for a step called inside another step, pass the context yourself: "
            "ctx=perdure.step_context(), or an object of yours in a test",
        )


INJECTED: Final[Any] = _Injected()
"""Default of the keyword that takes the context: ``*, ctx: StepContext[Tools] = INJECTED``."""


class ContextLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose records carry the run (and step, attempt) as extra fields; silent while ``muted()``."""

    def __init__(
        self, logger: logging.Logger, fields: Mapping[str, object], muted: Callable[[], bool] | None = None
    ) -> None:
        super().__init__(logger, fields)
        self._fields = fields
        self._muted = muted

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name is the standard library's
        """Return whether a record of this level would be emitted now."""
        return not (self._muted is not None and self._muted()) and super().isEnabledFor(level)

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Add the fields to the record's extra; those given in the call win."""
        kwargs["extra"] = {**self._fields, **(kwargs.get("extra") or {})}
        return msg, kwargs


# -- what a step sees -----------------------------------------------------------------------------


class _Missing:
    """The type of ``MISSING``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final[Any] = _Missing()
"""No default was given."""


class Attempt(Protocol):
    """One attempt at a step. It makes its context when somebody asks, as few bodies do."""

    def step_context(self) -> StepContext[Any]:
        """Return the attempt's context, the same each time."""
        ...


class StepContext(Generic[ToolsT]):
    """What a step's body knows about itself; ask for it with ``*, ctx: StepContext[Tools] = INJECTED``.

    Attributes:
        run_id: id of the run the step belongs to.
        workflow: name of the run's workflow.
        step: name of the step.
        key: the step's key in the run's log, different for every call.
        attempt: number of this attempt, from 1.
        tools: the engine's tools.
    """

    __slots__ = (
        "_abort", "_deadline_at", "_given", "_logger", "_make_key", "_sink",
        "attempt", "key", "run_id", "step", "tools", "workflow",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913, PLR0917 - everything that the runtime knows of an attempt
        self,
        run_id: str,
        workflow: str,
        step: str,
        key: str,
        attempt: int,
        idempotency_key: Callable[[], str],
        tools: ToolsT,
        deadline_at: int | None,
        abort: AbortFlag,
        sink: StepSink,
    ) -> None:
        self.run_id = run_id
        self.workflow = workflow
        self.step = step
        self.key = key
        self.attempt = attempt
        self.tools = tools
        self._make_key = idempotency_key
        self._deadline_at = deadline_at
        self._abort = abort
        self._sink = sink
        self._given = 0
        self._logger: ContextLogger | None = None

    def __repr__(self) -> str:
        return f"<StepContext {self.key!r} of run {self.run_id!r}, attempt {self.attempt}>"

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this step, different for every other step, run and store."""
        return self._make_key()

    def next_key(self) -> str:
        """Return a key for the next thing that the attempt starts: the same for the same thing in every attempt."""
        self._given += 1
        return f"{self.idempotency_key}-{self._given}"

    @property
    def deadline(self) -> datetime | None:
        """When the attempt times out (aware, UTC), or None if it has no timeout."""
        if self._deadline_at is None:
            return None
        return to_datetime(self._deadline_at)

    @property
    def cancelled(self) -> bool:
        """Whether the attempt was cancelled, timed out or is being stopped; a sync body polls it and returns."""
        return self._abort.is_set()

    def raise_if_cancelled(self) -> None:
        """Return if the attempt may go on.

        Raises:
            StepAborted: it was cancelled, timed out or is being stopped.
        """
        if self._abort.is_set():
            raise StepAborted(f"step {self.key!r} was asked to stop", step=self.step, run_id=self.run_id)

    def progress(self, value: object) -> None:
        """Record how far the attempt is; any value a step could return, up to 64 KiB. Shown by views and followers.

        Call it as often as you like, from any thread: of what comes within 0.1 s the last is kept, and when the attempt
        ends, that is in the log before its outcome.

        Raises:
            NotSerializable: the value cannot be stored exactly.
            DefinitionError: it is too large.
        """
        self._sink.progress(value)

    @property
    def last_progress(self) -> Any:
        """What the attempt before this one recorded last, in this process or one that died; None if there is nothing.

        Where this attempt may go on from; what it records itself does not change it. None also if today's code can no
        longer read the value (a warning says so).
        """
        return self._sink.last_progress()

    def emit(self, value: object, stream: str | StreamLike = DEFAULT_STREAM) -> None:
        """Add a value to a stream of the run, for ``handle.stream`` to give to whoever reads, in any process.

        It never waits for the disk: what attempts emit within 20 ms shares a commit. On a thread it waits while too
        much of this attempt's is unwritten. An attempt that is tried again, or repeated after a crash, emits again;
        readers see by ``attempt`` which one a value is of.

        Args:
            value: any value a step could return.
            stream: the name of the stream, or the ``Stream`` itself.

        Raises:
            NotSerializable: the value cannot be stored exactly.
            DefinitionError: the name is empty, too long or has characters that keys reserve.
            NotInRun: the attempt has ended.
        """
        self._sink.emit(value, stream)

    def artifact(self, name: str, data: bytes) -> None:
        """Keep ``data`` under ``name`` with the step's outcome, content-addressed."""
        self._sink.artifact(name, data)

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger (``perdure.step``) whose records carry run_id, workflow, namespace, queue, worker, step, attempt."""
        if self._logger is None:
            self._logger = ContextLogger(logging.getLogger("perdure.step"), self._sink.about())
        return self._logger


# -- what a workflow sees -------------------------------------------------------------------------


class RunContext:
    """What a workflow knows about its run; ask for it with ``*, ctx: RunContext = INJECTED``.

    Attributes:
        run_id: id of the run.
        workflow: name of the workflow.
        version: the version the run is pinned to.
        scheduled_at: the occurrence (aware) that started the run, or None if no schedule did.
        logger: a logger (``perdure.workflow``) whose records carry run_id, workflow, version, namespace, queue and
            worker; silent while replaying.
    """

    __slots__ = ("logger", "run_id", "scheduled_at", "version", "workflow")

    def __init__(self, run: CurrentRun, logger: logging.Logger | None = None) -> None:
        self.run_id = run.run_id
        self.workflow = run.workflow
        self.version = run.version
        self.scheduled_at = run.scheduled_at
        self.logger: logging.LoggerAdapter[logging.Logger] = ContextLogger(
            logger or logging.getLogger("perdure.workflow"),
            {**run.about, "version": run.version},
            lambda: run.replaying,
        )

    def __repr__(self) -> str:
        return f"<RunContext {self.run_id!r} of {self.workflow!r}>"


# -- where am I -----------------------------------------------------------------------------------


class RunLoopBase(asyncio.AbstractEventLoop):
    """The event loop of one run; being the running loop is what makes code belong to the run."""

    run: CurrentRun  # pyright: ignore[reportUninitializedInstanceVariable] - the runtime sets it
    asyncgens: Generators  # pyright: ignore[reportUninitializedInstanceVariable] - the runtime sets it


class _Here(threading.local):
    fiber: Fiber | None = None


here: Final = _Here()
"""Per thread: the fiber it is, if any."""

_get_running_loop = asyncio._get_running_loop
current_task: Final[Callable[[asyncio.AbstractEventLoop], asyncio.Task[Any] | None]] = (
    asyncio.current_task
    if sys.version_info >= (3, 12)
    else asyncio.tasks.__dict__["_current_tasks"].get  # what current_task, written in Python there, looks in
)
"""The task that a loop is executing."""
_attempt: ContextVar[Attempt | None] = ContextVar("perdure_attempt", default=None)
_system_random: Final = _random.SystemRandom()
_clock: Final = SystemClock()


def current_fiber() -> Fiber | None:
    """Return the sync workflow's fiber this thread is, if it is one and no event loop runs in it."""
    return here.fiber if _get_running_loop() is None else None


def current_run() -> CurrentRun | None:
    """Return the run whose workflow code is calling; None in step bodies and everywhere else."""
    loop = _get_running_loop()
    if loop is None:
        fiber = here.fiber
        return None if fiber is None else fiber.run
    return loop.run if isinstance(loop, RunLoopBase) else None


def check_outside() -> None:
    """Refuse a transaction of the user's where a workflow's own code is calling.

    Raises:
        DefinitionError: it is.
    """
    if current_run() is not None:
        raise DefinitionError(
            "within= is not for a workflow's own code, which has no connection that it keeps",
            advice="do it in a step; what a workflow enqueues and sends itself is part of its next commit",
        )


@contextmanager
def entered(fiber: Fiber | None) -> Generator[None]:
    """Make this thread the fiber's (None: nobody's) for the block; for the runtime."""
    before, here.fiber = here.fiber, fiber
    try:
        yield
    finally:
        here.fiber = before


enter_step: Callable[[Attempt], Token[Attempt | None]] = _attempt.set
"""Say which attempt's body runs in this contextvars context; for the runtime."""

leave_step: Callable[[Token[Attempt | None]], None] = _attempt.reset
"""Undo ``enter_step``; not needed where the whole contextvars context is dropped."""


def current_attempt() -> Attempt | None:
    """Return the attempt whose body is calling, or is about to begin; for the test kit."""
    return _attempt.get()


def in_step() -> bool:
    """Return whether a step's body is calling."""
    return current_run() is None and _attempt.get() is not None


def refuse_on_loop(message: str, *, advice: str) -> None:
    """Refuse a call that blocks, where that would block an event loop.

    Raises:
        ColourError: one runs on this thread.
    """
    if asyncio._get_running_loop() is not None:
        raise ColourError(message, advice=advice)


def step_context() -> StepContext[Any]:
    """Return the context of the step whose body is calling, however deep down.

    Raises:
        NotInRun: no step's body is calling.
    """
    attempt = _attempt.get()
    if attempt is None or current_run() is not None:
        raise NotInRun(
            "no step is running here",
            advice="a workflow body has perdure.run_context(); tools belong to steps"
            if current_run() is not None
            else "call it in a function decorated with @step, while a run executes it",
        )
    return attempt.step_context()


def run_context() -> RunContext:
    """Return the context of the run whose workflow code is calling, however deep down.

    Raises:
        NotInRun: no workflow code of a run is calling.
    """
    run = current_run()
    if run is None:
        raise NotInRun(
            "no workflow is running here",
            advice="a step body has perdure.step_context()"
            if in_step()
            else "call it in a function decorated with @workflow, while a run executes it",
        )
    context: RunContext = run.context()
    return context


def on_run(do: Callable[[CurrentRun], T]) -> T:
    """Call ``do`` with the current run, on its loop, from async or sync workflow code.

    Raises:
        NotInRun: no workflow is executing here.
    """
    run, fiber = current_run(), current_fiber()
    if run is None:
        raise NotInRun(
            "no workflow is running here",
            advice="call it in a function decorated with @workflow, while a run executes it",
        )
    if fiber is None:
        return do(run)

    async def there() -> T:
        return do(run)

    return fiber.wait(there)


# -- what would differ on a replay ----------------------------------------------------------------


def now() -> datetime:
    """Return the time (aware, UTC): in a workflow the run's, the same on every replay; elsewhere the clock's."""
    run = current_run()
    return to_datetime(_clock.now()) if run is None else run.now()


def uuid4() -> uuid.UUID:
    """Return a random UUID: in a workflow the same on every replay; elsewhere a fresh one."""
    run = current_run()
    return uuid.uuid4() if run is None else run.uuid4()


def random() -> _random.Random:
    """Return a source of random numbers: in a workflow the same on every replay; elsewhere the system's."""
    run = current_run()
    return _system_random if run is None else run.random()


def is_replaying() -> bool:
    """Return whether workflow code is going again over what is recorded; False outside workflows."""
    run = current_run()
    return run is not None and run.replaying
