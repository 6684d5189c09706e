"""Steps: what ``@step`` makes of a function, and what a call of one does where it is made."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from perdure.context import INJECTED, RunLoopBase, current_task, here
from perdure.errors import ColourError, DefinitionError, NotInRun, RunGone
from perdure.model.arguments import Arguments
from perdure.model.durations import seconds
from perdure.model.functions import Decorated, Function, examine
from perdure.model.ids import valid_name
from perdure.model.keys import check_explicit
from perdure.model.retry import NO_RETRY, Retry
from perdure.model.upcasting import check_upcast, value_codec

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from types import EllipsisType, FrameType
    from typing import Concatenate, Self

    from perdure.context import StepContext
    from perdure.model.codec import ValueCodec
    from perdure.model.durations import Duration
    from perdure.model.upcasting import Upcast
    from perdure.protocols import CurrentRun, Fiber, SourceLike

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
OwnerT = TypeVar("OwnerT")
ClassT = TypeVar("ClassT", bound=type)

_get_running_loop = asyncio._get_running_loop


# -- where a call is made -------------------------------------------------------------------------


def run_for_coroutine(shown: str, blocking: str) -> CurrentRun | None:
    """Return the run in which a coroutine is asked for, or None outside runs.

    Args:
        shown: what is called, for messages.
        blocking: the spelling that is right in a sync workflow.

    Raises:
        ColourError: in a sync workflow.
        NotInRun: in a callback of a run's loop, or in an event loop that a sync workflow started.
        RunGone: in code of a run whose execution in memory is being ended.
    """
    loop = _get_running_loop()
    if isinstance(loop, RunLoopBase):
        if current_task(loop) is None:
            if loop.is_closed():
                raise RunGone
            raise NotInRun(
                f"{shown} was called in a callback of its run, which no task of the workflow waits for",
                advice="call it in the workflow or in a task that the workflow starts",
            )
        return loop.run
    if here.fiber is None:
        return None
    if loop is not None:
        raise _inner_loop(shown)
    raise ColourError(f"{shown} was asked for a coroutine in a sync workflow", advice=f"write {blocking}")


def fiber_for_blocking(shown: str, awaited: str) -> Fiber | None:
    """Return the sync workflow in which a result is asked for, or None outside runs.

    Args:
        shown: what is called, for messages.
        awaited: the spelling that is right in an async workflow.

    Raises:
        ColourError: in an async workflow.
        NotInRun: in an event loop that a sync workflow started.
    """
    loop = _get_running_loop()
    if loop is None:
        return here.fiber
    if isinstance(loop, RunLoopBase):
        raise ColourError(f"{shown} would block the async workflow it is called in", advice=f"write {awaited}")
    if here.fiber is not None:
        raise _inner_loop(shown)
    return None


def _inner_loop(shown: str) -> NotInRun:
    return NotInRun(
        f"{shown} was called in an event loop that a sync workflow started, where nothing can be recorded",
        advice="make the workflow async def, or move the event loop into a step",
    )


# -- steps ----------------------------------------------------------------------------------------


class _Definition:
    """What all variants of one step share. Two steps are the same if this is the same object."""

    def __init__(self, function: Function, upcast: Upcast | None) -> None:
        self.function = function
        self.upcast = upcast

    # Hints are read at the first use, not at definition: they may name classes that are defined later.

    @cached_property
    def arguments(self) -> Arguments:
        return self._arguments(skip_first=False)

    @cached_property
    def bound_arguments(self) -> Arguments:
        return self._arguments(skip_first=True)

    @cached_property
    def result(self) -> ValueCodec:
        return value_codec(self.arguments.hints.returns, self.upcast)

    def _arguments(self, *, skip_first: bool) -> Arguments:
        function = self.function
        return Arguments(function.target, injected=INJECTED, skip_first=skip_first, namespace=function.namespace)


class Step(Decorated, Generic[P, R]):
    """A function whose outcome is recorded when a workflow calls it; made by ``@step``.

    Outside a workflow (in a test, in a script, in another step's body) it is the plain function.

    Attributes:
        fn: the function itself.
        name: what the step is called in the log.
        retry: how often and when to try again; by default one attempt.
        timeout: seconds an attempt may take, or None.
        at_most_once: whether the body may never be begun a second time, not even after a crash.
        transactional: the database of the user's in whose transaction the body works, or None.
        is_async: whether the function is a coroutine function.
        takes_ctx: the keyword that takes the ``StepContext``, or None.
        key: the explicit key given by ``with_options``, or None.
        owner: the object (or class) a method is bound to, or None.
        definition: the same object for all variants of one step, another for every other step.
    """

    fn: Callable[..., Any]

    def __init__(
        self,
        function: Function,
        name: str,
        retry: Retry,
        timeout: float | None,
        upcast: Upcast | None,
        *,
        at_most_once: bool,
        transactional: SourceLike | None = None,
    ) -> None:
        functools.update_wrapper(cast("Callable[..., Any]", self), function.fn, updated=())
        self.fn = function.fn
        self.name = name
        self.retry = retry
        self.timeout = timeout
        self.at_most_once = at_most_once
        self.transactional = transactional
        self.is_async = function.is_async
        self.takes_ctx = function.takes_ctx
        self.key: str | None = None
        self.owner: object | None = None
        self.definition = _Definition(function, upcast)
        # A method reached without an instance takes it as the first argument. So does a function that reads
        # like a class method: from Python 3.13 on, a classmethod object hands the class over that way.
        self._unbound = function.in_class and function.binds == "instance" and _first_is_cls(function)
        if sys.version_info >= (3, 12) and function.is_async:
            inspect.markcoroutinefunction(self)

    def __repr__(self) -> str:
        return f"<step {self.name!r}{'' if self.key is None else f' [{self.key}]'}>"

    @property
    def arguments(self) -> Arguments:
        """Encoding and comparison of the arguments, a method's owner left out."""
        if self.owner is None and not self._unbound:
            return self.definition.arguments
        return self.definition.bound_arguments

    @property
    def result(self) -> ValueCodec:
        """Encoding of the result, by the function's return annotation."""
        return self.definition.result

    def invoke(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], ctx: StepContext[Any] | None) -> Any:
        """Call the function itself, with its owner and the context; a coroutine if ``is_async``."""
        if self.takes_ctx is not None and ctx is not None and self.takes_ctx not in kwargs:
            kwargs = {**kwargs, self.takes_ctx: ctx}
        if self.owner is None:
            return self.fn(*args, **kwargs)
        return self.fn(self.owner, *args, **kwargs)

    def aio(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[object, None, R]:
        """Call the step and return a coroutine, whatever its colour; for async workflows and async code.

        Raises:
            ColourError: called in a sync workflow.
            NotInRun: called where a run started but does not look.
        """
        if self._unbound:
            return self._bind_first(args).aio(*args[1:], **kwargs)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue]
        run = run_for_coroutine(repr(self), self._blocking)
        if run is not None:
            return run.call_step(self, args, kwargs)
        if self.is_async:
            return cast("Coroutine[object, None, R]", self.invoke(args, kwargs, None))
        return self._later(args, kwargs)

    def sync(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the step, block until it has ended and return its result; for sync workflows.

        Outside a run this works for sync steps only.

        Raises:
            ColourError: called in an async workflow, or outside a run on an async step.
            NotInRun: called where a run started but does not look.
        """
        if self._unbound:
            return self._bind_first(args).sync(*args[1:], **kwargs)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue]
        fiber = fiber_for_blocking(repr(self), self._awaited)
        if fiber is not None:
            return cast("R", fiber.wait(lambda: fiber.run.call_step(self, args, kwargs)))
        if self.is_async:
            raise ColourError(
                f"{self!r} is async, and outside a run there is nothing that could block for it",
                advice=f"write {self._awaited}, or asyncio.run({self.name}(…))",
            )
        return cast("R", self.invoke(args, kwargs, None))

    def bound(self, args: tuple[Any, ...]) -> tuple[Self, tuple[Any, ...]]:
        """Return the step and the arguments of a call; a method reached without an instance takes it from them."""
        return (self._bind_first(args), args[1:]) if self._unbound else (self, args)

    async def _later(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> R:
        return cast("R", self.invoke(args, kwargs, None))

    @property
    def _awaited(self) -> str:
        return f"await {self.name}{'' if self.is_async else '.aio'}(…)"

    @property
    def _blocking(self) -> str:
        return f"{self.name}{'.sync' if self.is_async else ''}(…)"

    def with_options(
        self,
        *,
        key: str | None = None,
        retry: Retry | EllipsisType | None = ...,
        timeout: Duration | EllipsisType | None = ...,
        at_most_once: bool | EllipsisType = ...,
    ) -> Self:
        """Return the same step with other options, for one call or many.

        Args:
            key: which call this is, instead of a number; for calls of one name whose order may change.
            retry: another retry policy; None for one attempt.
            timeout: another timeout (timedelta, "30s" or seconds) for each attempt; None for none.
            at_most_once: whether the body may never be begun a second time.

        Raises:
            DefinitionError: an option is wrong.
        """
        changes: dict[str, Any] = {}
        if key is not None:
            changes["key"] = check_explicit(key)
        if retry is not ...:
            changes["retry"] = _retry(retry)
        if timeout is not ...:
            changes["timeout"] = _timeout(timeout)
        if at_most_once is not ...:
            changes["at_most_once"] = at_most_once
        other = self._variant(**changes)
        _check_at_most_once(other.name, other.retry, at_most_once=other.at_most_once)
        _check_transactional(other.name, other.transactional, other)
        return other

    def _variant(self, **changes: object) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **changes)
        return other

    def _bind(self, instance: object | None, owner: type | None) -> Self:
        """Return the step as attribute access finds it: a method bound to its instance or class."""
        function = self.definition.function
        if function.binds == "nothing":
            return self
        if function.binds == "class":
            return self._variant(owner=type(instance) if owner is None else owner)
        if instance is not None:
            return self._variant(owner=instance, _unbound=False)
        return self._variant(_unbound=True) if function.in_class else self

    def _bind_first(self, args: tuple[Any, ...]) -> Self:
        """Return the step bound to the first argument of a call of the unbound method."""
        by_class = _first_is_cls(self.definition.function)
        if not args or (by_class and not isinstance(args[0], type)):
            advice = "put @step above @classmethod" if by_class else "call it on an instance"
            raise DefinitionError(f"{self!r} is a method and was called without its owner", advice=advice)
        return self._variant(owner=args[0], _unbound=False)


class AsyncStep(Step[P, R]):
    """A step made of an ``async def``; calling it returns a coroutine."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[object, None, R]:
        """Call the step: in an async workflow recorded, elsewhere the plain function.

        Raises:
            ColourError: called in a sync workflow; write ``.sync(…)``.
            NotInRun: called where a run started but does not look.
        """
        loop = _get_running_loop()
        if isinstance(loop, RunLoopBase) and not self._unbound and current_task(loop) is not None:
            return loop.run.call_step(self, args, kwargs)
        return self.aio(*args, **kwargs)

    # A class method by its class, any other function by its class, a method by its instance. No type tells a static
    # method from one that takes self, so type checkers understand its calls by the class only (mypy: not at all).
    @overload
    def __get__(self: AsyncStep[Concatenate[ClassT, Q], R], instance: None, owner: type) -> AsyncStep[Q, R]: ...
    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self: AsyncStep[Concatenate[OwnerT, Q], R], instance: object, owner: type | None = None
    ) -> AsyncStep[Q, R]: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        return self._bind(instance, owner)


class SyncStep(Step[P, R]):
    """A step made of a plain ``def``; calling it returns its result."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the step: in a sync workflow recorded, elsewhere the plain function.

        Raises:
            ColourError: called in an async workflow; write ``await ….aio(…)``.
            NotInRun: called where a run started but does not look.
        """
        return self.sync(*args, **kwargs)

    # A class method by its class, any other function by its class, a method by its instance. No type tells a static
    # method from one that takes self, so type checkers understand its calls by the class only (mypy: not at all).
    @overload
    def __get__(self: SyncStep[Concatenate[ClassT, Q], R], instance: None, owner: type) -> SyncStep[Q, R]: ...
    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self: SyncStep[Concatenate[OwnerT, Q], R], instance: object, owner: type | None = None
    ) -> SyncStep[Q, R]: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        return self._bind(instance, owner)


class StepDecorator(Protocol):
    """What ``@step(…)`` with options returns."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncStep[P, R]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
    @overload
    def __call__(self, fn: Callable[P, R], /) -> SyncStep[P, R]: ...


@overload
def step(fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncStep[P, R]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
@overload
def step(fn: Callable[P, R], /) -> SyncStep[P, R]: ...
@overload
def step(
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    at_most_once: bool = False,
    upcast: Upcast | None = None,
    transactional: SourceLike | None = None,
) -> StepDecorator: ...
def step(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    at_most_once: bool = False,
    upcast: Upcast | None = None,
    transactional: SourceLike | None = None,
) -> Any:
    """Make a function a step: inside a workflow its outcome is recorded, and never computed twice.

    Args:
        fn: the function, when the decorator is used bare.
        name: what the step is called in the log; by default the function's own name.
        retry: how often and when to try again after a failure; by default one attempt.
        timeout: how long each attempt may take (timedelta, "30s" or seconds); by default for ever.
        at_most_once: never begin the body again, not even after a crash (then ``StepInterrupted`` is raised).
        upcast: makes of a recorded result that does not fit the function's return type any more one that does. It gets
            the recorded JSON as plain data, and what it returns is validated.
        transactional: a database of yours (``perdure.transactional``). The body works in a transaction of it, and the
            outcome is written there too, in the same transaction: so what the body does to that database happens
            exactly once, whatever dies when.

    Raises:
        DefinitionError: the function or an option cannot be used.
    """

    def decorate(fn: object, /) -> Step[..., Any]:
        return _make_step(fn, name, retry, timeout, upcast, transactional, at_most_once, frame=sys._getframe(1))

    if fn is None:
        return decorate
    return _make_step(fn, name, retry, timeout, upcast, transactional, at_most_once, frame=sys._getframe(1))


def _make_step(
    fn: object,
    name: str | None,
    retry: Retry | None,
    timeout: Duration | None,
    upcast: Upcast | None,
    transactional: SourceLike | None,
    at_most_once: bool,  # noqa: FBT001
    *,
    frame: FrameType,
) -> Step[..., Any]:
    function = examine(fn, what="step", injected=INJECTED, context="StepContext", frame=frame)
    name = chosen_name(name, function, "step")
    policy, limit = _retry(retry), _timeout(timeout)
    _check_at_most_once(name, policy, at_most_once=at_most_once)
    cls = AsyncStep if function.is_async else SyncStep
    made: Step[..., Any] = cls(
        function, name, policy, limit, check_upcast(upcast), at_most_once=at_most_once, transactional=transactional
    )
    _check_transactional(name, transactional, made)
    return made


def chosen_name(name: object, function: Function, what: str) -> str:
    """Return the name that a definition gets: the given one, or else the function's.

    Raises:
        DefinitionError: there is none, or it cannot be a name.
    """
    if name is None:
        if function.name is None:
            raise DefinitionError(f"a lambda has no name to call the {what} by", advice=f'write {what}(name="…")')
        name = function.name
    return valid_name(name, f"{what} name")


def _retry(retry: object) -> Retry:
    if retry is None:
        return NO_RETRY
    if isinstance(retry, Retry):
        return retry
    example = f"retry=Retry(max_attempts={retry})" if isinstance(retry, int) else "retry=Retry(max_attempts=3)"
    raise DefinitionError(f"retry= takes a Retry, not {retry!r}", advice=f"write {example}")


def _timeout(timeout: Duration | None) -> float | None:
    return None if timeout is None else seconds(timeout, what="timeout", allow_zero=False)


def _check_at_most_once(name: str, retry: Retry, *, at_most_once: object) -> None:
    if not isinstance(at_most_once, bool):
        raise DefinitionError(f"at_most_once= takes True or False, not {at_most_once!r}")
    if at_most_once and retry.max_attempts != 1:
        raise DefinitionError(
            f"step {name} is to run at most once and to be retried", advice="leave out retry= or at_most_once="
        )


def _check_transactional(name: str, source: object, made: Step[..., Any]) -> None:
    if source is None:
        return
    if not callable(getattr(source, "transaction", None)) or not hasattr(source, "is_async"):
        raise DefinitionError(
            f"transactional= of step {name} takes a source, not {type(source).__name__}",
            advice="make one of your database: perdure.transactional has AsyncPsycopg, Psycopg, AsyncSQLAlchemy, "
            "SQLAlchemy, SQLite and Apsw",
        )
    cast("SourceLike", source).check_colour(name, is_async=made.is_async)
    if made.at_most_once:
        raise DefinitionError(
            f"step {name} is transactional, so it happens exactly once: it is begun again after a crash",
            advice="leave out at_most_once=",
        )


def _first_is_cls(function: Function) -> bool:
    return bool(function.parameters) and function.parameters[0].name == "cls"
