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
from perdure.errors import NotInRun, StepAborted
from perdure.model.durations import to_datetime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, MutableMapping
    from contextvars import Token
    from datetime import datetime

    from perdure.model.arguments import Arguments
    from perdure.model.codec import ValueCodec
    from perdure.model.retry import Retry

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


class AbortFlag(Protocol):
    """Anything like ``threading.Event``: set when the attempt is to stop."""

    def is_set(self) -> bool:
        """Return whether the attempt is to stop."""
        ...


class Attempt(Protocol):
    """One attempt at a step. It makes its context when somebody asks, as few bodies do."""

    def step_context(self) -> StepContext[Any]:
        """Return the attempt's context, the same each time."""
        ...


class StepSink(Protocol):
    """Where an attempt's progress and artifacts go."""

    def progress(self, value: object, /) -> None:
        """Record the latest progress of the attempt."""
        ...

    def artifact(self, name: str, data: bytes, /) -> None:
        """Keep bytes under a name with the attempt's outcome."""
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
        "_abort", "_deadline_at", "_logger", "_make_key", "_sink",
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
        self._logger: ContextLogger | None = None

    def __repr__(self) -> str:
        return f"<StepContext {self.key!r} of run {self.run_id!r}, attempt {self.attempt}>"

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this step, different for every other step, run and store."""
        return self._make_key()

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
        """Record how far the attempt is; any value a step could return. Shown by views and followers."""
        self._sink.progress(value)

    def artifact(self, name: str, data: bytes) -> None:
        """Keep ``data`` under ``name`` with the step's outcome, content-addressed."""
        self._sink.artifact(name, data)

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger (``perdure.step``) whose records carry run_id, workflow, step and attempt."""
        if self._logger is None:
            self._logger = ContextLogger(
                logging.getLogger("perdure.step"),
                {"run_id": self.run_id, "workflow": self.workflow, "step": self.step, "attempt": self.attempt},
            )
        return self._logger


# -- what a workflow sees -------------------------------------------------------------------------


class RunContext:
    """What a workflow knows about its run; ask for it with ``*, ctx: RunContext = INJECTED``.

    Attributes:
        run_id: id of the run.
        workflow: name of the workflow.
        version: the version the run is pinned to.
        scheduled_at: the occurrence (aware) that started the run, or None if no schedule did.
        logger: a logger (``perdure.workflow``) with run_id, workflow and version, silent while replaying.
    """

    __slots__ = ("logger", "run_id", "scheduled_at", "version", "workflow")

    def __init__(self, run: CurrentRun, logger: logging.Logger | None = None) -> None:
        self.run_id = run.run_id
        self.workflow = run.workflow
        self.version = run.version
        self.scheduled_at = run.scheduled_at
        self.logger: logging.LoggerAdapter[logging.Logger] = ContextLogger(
            logger or logging.getLogger("perdure.workflow"),
            {"run_id": run.run_id, "workflow": run.workflow, "version": run.version},
            lambda: run.replaying,
        )

    def __repr__(self) -> str:
        return f"<RunContext {self.run_id!r} of {self.workflow!r}>"


class StepLike(Protocol):
    """What a run needs of the step it is asked to call; ``perdure.workflow.Step`` is one."""

    @property
    def fn(self) -> Callable[..., Any]:
        """The function as it was decorated."""
        ...

    @property
    def definition(self) -> object:
        """The same object for all variants of one step."""
        ...

    @property
    def name(self) -> str:
        """What the step is called in the log."""
        ...

    @property
    def key(self) -> str | None:
        """The explicit key of this call, if any."""
        ...

    @property
    def retry(self) -> Retry:
        """How often and when to try again."""
        ...

    @property
    def timeout(self) -> float | None:
        """Seconds an attempt may take, or None."""
        ...

    @property
    def at_most_once(self) -> bool:
        """Whether the body may never be begun a second time."""
        ...

    @property
    def is_async(self) -> bool:
        """Whether the body is a coroutine function."""
        ...

    @property
    def takes_ctx(self) -> str | None:
        """Name of the keyword that takes the context, or None."""
        ...

    @property
    def owner(self) -> object | None:
        """The object a method is bound to, neither recorded nor compared; None for functions."""
        ...

    @property
    def arguments(self) -> Arguments:
        """Encoding and comparison of the arguments."""
        ...

    @property
    def result(self) -> ValueCodec:
        """Encoding of the result."""
        ...

    def invoke(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], ctx: StepContext[Any] | None) -> Any:
        """Call the function itself: its result, or a coroutine if ``is_async``."""
        ...


class WorkflowLike(Protocol):
    """What a run needs of the workflow it is asked to start as a child."""

    @property
    def name(self) -> str:
        """What the workflow is called."""
        ...

    @property
    def version(self) -> str:
        """The version runs started now are pinned to."""
        ...


class CurrentRun(Protocol):
    """The run that code is executing in, as the runtime implements it."""

    @property
    def run_id(self) -> str:
        """Id of the run."""
        ...

    @property
    def workflow(self) -> str:
        """Name of the run's workflow."""
        ...

    @property
    def version(self) -> str:
        """The version the run is pinned to."""
        ...

    @property
    def scheduled_at(self) -> datetime | None:
        """The occurrence (aware) that started the run, if a schedule did."""
        ...

    @property
    def replaying(self) -> bool:
        """Whether the code is going again over what is recorded."""
        ...

    def call_step(
        self, step: StepLike, args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Coroutine[object, None, Any]:
        """Call a step: the recorded outcome, or its body's. The key is taken now, not when it is awaited."""
        ...

    def call_workflow(
        self, workflow: WorkflowLike, args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Coroutine[object, None, Any]:
        """Start a child run and wait for it."""
        ...

    def patched(self, name: str, /) -> bool:
        """Return whether the code after a change is to be taken, the same on every replay."""
        ...

    def now(self) -> datetime:
        """Return the run's time (aware, UTC), the same on every replay."""
        ...

    def random(self) -> _random.Random:
        """Return the run's random numbers, the same on every replay."""
        ...

    def uuid4(self) -> uuid.UUID:
        """Return a new random UUID, the same on every replay."""
        ...

    def context(self) -> RunContext:
        """Return what the workflow may know about its run."""
        ...


# -- where am I -----------------------------------------------------------------------------------


class Generators(Protocol):
    """The async generators that a run has open."""

    def add(self, generator: AsyncGenerator[Any, Any], /) -> None:
        """Note one on its first iteration."""
        ...

    def close(self) -> None:
        """Close what is open, in order."""
        ...


class RunLoopBase(asyncio.AbstractEventLoop):
    """The event loop of one run; being the running loop is what makes code belong to the run."""

    run: CurrentRun  # pyright: ignore[reportUninitializedInstanceVariable] - the runtime sets it
    asyncgens: Generators  # pyright: ignore[reportUninitializedInstanceVariable] - the runtime sets it


class Fiber(Protocol):
    """The thread that a sync workflow runs on, in step with its run's loop."""

    @property
    def run(self) -> CurrentRun:
        """The run the workflow belongs to."""
        ...

    def wait(self, make: Callable[[], Coroutine[object, None, T]], /) -> T:
        """Have ``make()`` called and awaited on the run's loop; block this thread until its outcome is there."""
        ...

    def branch(self, thunk: Callable[[], T], /) -> Coroutine[Any, Any, T]:
        """Return a coroutine that executes ``thunk`` on a thread of its own, as a branch of the workflow."""
        ...


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


def in_step() -> bool:
    """Return whether a step's body is calling."""
    return current_run() is None and _attempt.get() is not None


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
    return run.context()


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
