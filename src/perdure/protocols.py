"""What definitions, running code and the runtime promise each other: shapes of runs, steps, workflows and fibers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import random as _random
    import uuid
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from contextvars import Token
    from datetime import datetime
    from types import CodeType

    from perdure.model.arguments import Arguments
    from perdure.model.codec import ValueCodec
    from perdure.model.records import Message
    from perdure.model.retry import Retry
    from perdure.model.transactions import Mark, Row

T = TypeVar("T")


class AbortFlag(Protocol):
    """Anything like ``threading.Event``: set when the attempt is to stop."""

    def is_set(self) -> bool:
        """Return whether the attempt is to stop."""
        ...


class StreamLike(Protocol):
    """What values are emitted to; ``perdure.Stream`` is one."""

    @property
    def name(self) -> str:
        """What the stream is called in the log."""
        ...

    @property
    def codec(self) -> ValueCodec:
        """How its values are written."""
        ...


class SignalLike(StreamLike, Protocol):
    """What runs wait for; ``perdure.Signal`` is one."""


class StepSink(Protocol):
    """Where an attempt's progress, values and artifacts go."""

    def progress(self, value: object, /) -> None:
        """Record the latest progress of the attempt."""
        ...

    def last_progress(self) -> Any:
        """Return what the attempt before recorded last."""
        ...

    def emit(self, value: object, stream: str | StreamLike, /) -> None:
        """Add a value to a stream of the run."""
        ...

    def artifact(self, name: str, data: bytes, /) -> None:
        """Keep bytes under a name with the attempt's outcome."""
        ...

    def about(self) -> Mapping[str, Any]:
        """Return what log lines of the attempt carry: run_id, workflow, namespace, queue, worker, step, attempt."""
        ...


class TransactionLike(Protocol):
    """One transaction of a source, not yet begun. Of a sync source, no coroutine here ever suspends."""

    @property
    def meddled(self) -> bool:
        """Whether the body was kept from ending it."""
        ...

    async def claim(self, marks: Sequence[Mark], *, idle: float | None = None, wait: float | None = None) -> list[Row]:
        """Begin, and claim the rows of these marks, in this order.

        Args:
            marks: what to claim.
            idle: seconds without a statement after which the database may end the transaction, if it can.
            wait: seconds to wait for a lock, if the database can be told; None: as it is set up.
        """
        ...

    async def keep(self, mark: Mark, outcome: bytes, args: bytes, codec: int, seal: bytes) -> bool:
        """Write an outcome into a claimed row; False if this is no longer the transaction that has claimed it."""
        ...

    async def commit(self) -> None:
        """Commit, and let the connection go. If it raises, nobody knows whether it is committed."""
        ...

    async def rollback(self) -> None:
        """Roll back, and let the connection go; never raises. Does nothing if that has been done, or a commit."""
        ...

    def abandon(self) -> None:
        """Drop the connection without a word, as a process does that dies."""
        ...


class SourceLike(Protocol):
    """A database of the user's; those of ``perdure.transactional`` are."""

    @property
    def is_async(self) -> bool:
        """Whether it serves async steps; else sync ones."""
        ...

    @property
    def settle(self) -> float:
        """Seconds in which a failed attempt must be able to find out whether it is committed."""
        ...

    def check_colour(self, step: str, *, is_async: bool) -> None:
        """Refuse a step of the wrong colour.

        Raises:
            ColourError: it is of the other one.
        """
        ...

    def transaction(self) -> TransactionLike:
        """Return a new transaction."""
        ...

    def enter(self, transaction: Any, /) -> Token[Any]:
        """Make it what ``connection()`` is of, in this context."""
        ...

    def leave(self, token: Token[Any], /) -> None:
        """Undo ``enter``."""
        ...

    def may_pass(self, error: BaseException, /) -> bool:
        """Whether a claim that failed so would succeed once others have ended their transactions."""
        ...

    async def pause(self, seconds: float, /) -> None:
        """Let time pass."""
        ...

    def within(self, seconds: float, /) -> AbstractAsyncContextManager[object]:
        """Raise ``TimeoutError`` out of a block that takes longer, as far as the colour allows."""
        ...

    async def tidy(self, now: int, /) -> None:
        """Delete some of what is too old to be of use (µs), now and then; never raises an ``Exception``."""
        ...


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
    def transactional(self) -> SourceLike | None:
        """The database in whose transaction the body works, or None."""
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

    def invoke(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], ctx: Any) -> Any:
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

    @property
    def takes_input(self) -> bool:
        """Whether it takes an input."""
        ...

    @property
    def fn(self) -> object:
        """The function itself, the same for all variants of one workflow."""
        ...


class ChildLike(Protocol):
    """A call of a child run, to be awaited."""

    @property
    def run_id(self) -> str:
        """The child's id."""
        ...

    def __await__(self) -> Generator[Any, None, Any]: ...


class SagaLike(Protocol):
    """What one ``saga()`` block has registered."""

    def push(self, what: StepLike | WorkflowLike, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> None:
        """Register a call; its key and its arguments are taken now."""
        ...

    def pop(self) -> None:
        """Take back what was registered last."""
        ...

    def clear(self) -> None:
        """Take everything back."""
        ...

    def leave(self, error: BaseException | None, /) -> Coroutine[object, None, None]:
        """Undo everything, if the block is left by a failure or a cancellation."""
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

    @property
    def about(self) -> Mapping[str, Any]:
        """What log lines about the run carry: run_id, workflow, namespace, queue, worker."""
        ...

    def call_step(
        self, step: StepLike, args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Coroutine[object, None, Any]:
        """Call a step: the recorded outcome, or its body's. The key is taken now, not when it is awaited."""
        ...

    def call_workflow(self, workflow: WorkflowLike, args: tuple[Any, ...], /) -> Coroutine[object, None, Any]:
        """Start a child run and wait for it."""
        ...

    def start_workflow(self, workflow: WorkflowLike, args: tuple[Any, ...], /) -> ChildLike:
        """Start a child run; nobody has to await it."""
        ...

    def saga(self) -> SagaLike:
        """Begin a block whose effects can be undone."""
        ...

    def wait_signal(
        self, signal: SignalLike, timeout: float | None, default: object, /
    ) -> Coroutine[object, None, Any]:
        """Wait for a signal, at most so many seconds; ``MISSING`` is no default."""
        ...

    def send(self, message: Message, /) -> None:
        """Send a message to another run, with this one's next commit, once."""
        ...

    def emit(self, value: object, stream: str | StreamLike, /) -> None:
        """Add a value to a stream of the run, once: a replay passes by."""
        ...

    def patched(self, name: str, code: CodeType, /) -> bool:
        """Return whether the code after a change is to be taken, the same on every replay; ``code`` asks."""
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

    def context(self) -> Any:
        """Return what the workflow may know about its run."""
        ...


class Generators(Protocol):
    """The async generators that a run has open."""

    def add(self, generator: AsyncGenerator[Any, Any], /) -> None:
        """Note one on its first iteration."""
        ...

    def close(self) -> None:
        """Close what is open, in order."""
        ...


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
