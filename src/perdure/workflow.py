"""Workflows: what ``@workflow`` makes of a function; a call of one inside a run is a child run."""

from __future__ import annotations

import functools
import inspect
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, cast, overload

from perdure.children import Child, ChildOptions
from perdure.context import INJECTED, current_run, in_step, on_run
from perdure.errors import DefinitionError, DuplicateName, NotInRun
from perdure.model.builds import build_of, build_of_all, codes_of
from perdure.model.codec import ValueCodec
from perdure.model.durations import micros
from perdure.model.functions import Decorated, Function, examine, loaded_twice
from perdure.model.hints import Hints
from perdure.model.ids import valid_name
from perdure.model.payloads import note
from perdure.model.upcasting import check_upcast, value_codec
from perdure.queues import Queue, queue_name
from perdure.steps import AsyncStep, Step, SyncStep, chosen_name, fiber_for_blocking, run_for_coroutine, step

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from types import CodeType, FrameType
    from typing import Self, Unpack

    from perdure.children import ChildOptionsGiven
    from perdure.context import RunContext
    from perdure.model.durations import Duration
    from perdure.model.failures import Failure
    from perdure.model.upcasting import Upcast

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
InputT = TypeVar("InputT")
InputT_contra = TypeVar("InputT_contra", contravariant=True)

__all__ = [
    "AsyncStep",
    "AsyncWorkflow",
    "Step",
    "SyncStep",
    "SyncWorkflow",
    "Workflow",
    "collect",
    "step",
    "workflow",
]


class Workflow(Decorated, Generic[InputT, R_co]):
    """A function whose execution goes on where it was, whatever happens to the process; made by ``@workflow``.

    Attributes:
        fn: the function itself, for unit tests of plain logic.
        name: what the workflow is called; runs find it by name and version.
        version: the version that runs started now are pinned to.
        queue: the queue its runs go to unless told otherwise.
        is_async: whether the function is a coroutine function.
        takes_input: whether the function takes an input.
        takes_ctx: the keyword that takes the ``RunContext``, or None.
        module: the module it is written in.
        qualname: its qualified name there.
        source_file: the file it is written in.
        options: those of a child run, given by ``with_options``.
        on_failure: the step that is told when a run has failed, or None.
        tells_input: whether it is also told the input.
        deadline: how long a run may take, unless it is started with another deadline (µs); None: for ever.
    """

    fn: Callable[..., Any]

    def __init__(
        self,
        function: Function,
        name: str,
        version: str,
        queue: str,
        upcast: Upcast | None = None,
        *,
        on_failure: Step[..., Any] | None = None,
        tells_input: bool = False,
        deadline: int | None = None,
    ) -> None:
        functools.update_wrapper(cast("Callable[..., Any]", self), function.fn, updated=())
        self.fn = function.fn
        self.name = name
        self.version = version
        self.queue = queue
        self.limits: Queue | None = None
        """Its queue, if that was given with limits."""
        self._upcast = upcast
        self.is_async = function.is_async
        self.takes_input = bool(function.parameters)
        self.takes_ctx = function.takes_ctx
        self.module: str = function.fn.__module__
        self.qualname: str = function.fn.__qualname__
        self.source_file: str = inspect.unwrap(function.fn).__code__.co_filename
        self.options = ChildOptions()
        self.on_failure = on_failure
        self.tells_input = tells_input
        self.deadline = deadline
        self._hints = Hints(function.fn, injected=INJECTED, namespace=function.namespace)

    def __repr__(self) -> str:
        return f"<workflow {self.name!r} version {self.version!r}>"

    @cached_property
    def input(self) -> ValueCodec:
        """Encoding of the input, by its annotation; of None if the workflow takes none."""
        return value_codec(self._hints.parameters[0].hint if self.takes_input else type(None), self._upcast)

    def encode_input(self, value: object) -> bytes:
        """Return an input that somebody gives, checked against its annotation, as it is stored.

        Raises:
            InvalidValue: it is not of that type.
            NotSerializable: it cannot be stored exactly.
        """
        return self.input.encode(self.input.admit(value, "input"), "input")

    @cached_property
    def output(self) -> ValueCodec:
        """Encoding of the result, by the function's return annotation."""
        return ValueCodec(self._hints.returns)

    @cached_property
    def origin(self) -> bytes:
        """What every run keeps of where its code was, as JSON."""
        return note(
            workflow=self.name, version=self.version, module=self.module, qualname=self.qualname, file=self.source_file
        )

    @cached_property
    def build(self) -> str:
        """A hash of its code and of what that reaches; comments, line numbers and docstrings do not change it."""
        own = build_of(self.fn, self._upcast)
        if self.on_failure is None:
            return own
        return build_of_all([("", "", own), ("on_failure", "", build_of(self.on_failure.fn))])

    @cached_property
    def codes(self) -> frozenset[CodeType]:
        """The code that ``build`` is a hash of."""
        own = codes_of(self.fn, self._upcast)
        return own if self.on_failure is None else own | codes_of(self.on_failure.fn)

    def invoke(self, value: object, ctx: RunContext | None) -> Any:
        """Call the function itself with the input (ignored if it takes none) and the context."""
        kwargs = {} if self.takes_ctx is None or ctx is None else {self.takes_ctx: ctx}
        return self.fn(value, **kwargs) if self.takes_input else self.fn(**kwargs)

    @overload
    def aio(self: Workflow[None, R], /) -> Coroutine[object, None, R]: ...
    @overload
    def aio(self: Workflow[InputT, R], value: InputT, /) -> Coroutine[object, None, R]: ...
    def aio(self, *args: Any) -> Coroutine[object, None, Any]:
        """Start a child run and return a coroutine that waits for it; for async workflows.

        Raises:
            ColourError: called in a sync workflow.
            NotInRun: called outside a workflow's code.
        """
        run = run_for_coroutine(repr(self), f"{self.name}{'.sync' if self.is_async else ''}(…)")
        if run is None:
            raise self._outside()
        return run.call_workflow(self, args)

    @overload
    def sync(self: Workflow[None, R], /) -> R: ...
    @overload
    def sync(self: Workflow[InputT, R], value: InputT, /) -> R: ...
    def sync(self, *args: Any) -> Any:
        """Start a child run, block until it has ended and return its result; for sync workflows.

        Raises:
            ColourError: called in an async workflow.
            NotInRun: called outside a workflow's code.
        """
        fiber = fiber_for_blocking(repr(self), f"await {self.name}{'' if self.is_async else '.aio'}(…)")
        if fiber is None:
            raise self._outside()
        return fiber.wait(lambda: fiber.run.call_workflow(self, args))

    def _outside(self) -> NotInRun:
        if in_step():
            return NotInRun(
                f"{self!r} was called in a step, and a step cannot have child runs",
                advice="call it in the workflow, or start a run of its own with engine.enqueue(…)",
            )
        return NotInRun(
            f"{self!r} was called outside a run",
            advice=f"use perdure.run({self.name}, …); {self.name}.fn is the plain function",
        )

    @overload
    def start(self: Workflow[None, R], /) -> Child[R]: ...
    @overload
    def start(self: Workflow[InputT, R], value: InputT, /) -> Child[R]: ...
    def start(self, *args: Any) -> Child[Any]:
        """Start a child run without waiting for it; a plain call, in async and in sync workflows.

        It goes on when its parent has ended, unless that was cancelled: then it is too (but see ``abandon``).

        Raises:
            NotInRun: called outside a workflow's code.
        """
        if current_run() is None:
            raise self._outside()
        return Child(on_run(lambda run: run.start_workflow(self, args)))

    def with_options(self, **options: Unpack[ChildOptionsGiven]) -> Self:
        """Return the same workflow with options for one child run.

        Args:
            options: ``key`` (which child this is, instead of a number), ``run_id`` (instead of one made of its
                parent's), ``abandon=True`` (it goes on when its parent is cancelled), ``delay`` (do not begin before
                this has passed), ``deadline`` (it is cancelled when this has passed), ``tags``, ``queue``, ``priority``
                (instead of its parent's), ``partition``.

        Raises:
            DefinitionError: an option is wrong.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.options = self.options.changed(options)
        return other


class AsyncWorkflow(Workflow[InputT, R_co]):
    """A workflow made of an ``async def``; calling it in a run returns a coroutine."""

    @overload
    def __call__(self: AsyncWorkflow[None, R], /) -> Coroutine[object, None, R]: ...
    @overload
    def __call__(self: AsyncWorkflow[InputT, R], value: InputT, /) -> Coroutine[object, None, R]: ...
    def __call__(self, *args: Any) -> Coroutine[object, None, Any]:
        """Start a child run and return a coroutine that waits for it; see ``aio``."""
        return self.aio(*args)


class SyncWorkflow(Workflow[InputT, R_co]):
    """A workflow made of a plain ``def``; it runs on a thread."""

    @overload
    def __call__(self: SyncWorkflow[None, R], /) -> R: ...
    @overload
    def __call__(self: SyncWorkflow[InputT, R], value: InputT, /) -> R: ...
    def __call__(self, *args: Any) -> Any:
        """Start a child run and wait for it; see ``sync``."""
        return self.sync(*args)


class OnFailure(Protocol):
    """A step that is told of a failure."""

    def aio(self, failure: Failure, /) -> Coroutine[object, None, object]:
        """Call it."""
        ...


class OnFailureOf(Protocol[InputT_contra]):
    """A step that is told of a failure, and of the input of the run that has failed."""

    def aio(self, failure: Failure, value: InputT_contra, /) -> Coroutine[object, None, object]:
        """Call it."""
        ...


class WorkflowDecoratorOf(Protocol[InputT]):
    """What ``@workflow(…)`` returns if its options are for workflows of one input."""

    @overload
    def __call__(self, fn: Callable[[InputT], Coroutine[Any, Any, R]], /) -> AsyncWorkflow[InputT, R]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
    @overload
    def __call__(self, fn: Callable[[InputT], R], /) -> SyncWorkflow[InputT, R]: ...


class WorkflowDecorator(Protocol):
    """What ``@workflow(…)`` with options returns."""

    @overload
    def __call__(self, fn: Callable[[InputT], Coroutine[Any, Any, R]], /) -> AsyncWorkflow[InputT, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[[], Coroutine[Any, Any, R]], /) -> AsyncWorkflow[None, R]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
    @overload
    def __call__(self, fn: Callable[[InputT], R], /) -> SyncWorkflow[InputT, R]: ...
    @overload
    def __call__(self, fn: Callable[[], R], /) -> SyncWorkflow[None, R]: ...


@overload
def workflow(fn: Callable[[InputT], Coroutine[Any, Any, R]], /) -> AsyncWorkflow[InputT, R]: ...  # type: ignore[overload-overlap]
@overload
def workflow(fn: Callable[[], Coroutine[Any, Any, R]], /) -> AsyncWorkflow[None, R]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
@overload
def workflow(fn: Callable[[InputT], R], /) -> SyncWorkflow[InputT, R]: ...
@overload
def workflow(fn: Callable[[], R], /) -> SyncWorkflow[None, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    version: str = "1",
    queue: Queue | str = "",
    upcast: Upcast | None = None,
    on_failure: OnFailure | None = None,
    deadline: Duration | None = None,
) -> WorkflowDecorator: ...
@overload
def workflow(
    *,
    name: str | None = None,
    version: str = "1",
    queue: Queue | str = "",
    upcast: Upcast | None = None,
    on_failure: OnFailureOf[InputT],
    deadline: Duration | None = None,
) -> WorkflowDecoratorOf[InputT]: ...
def workflow(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    version: str = "1",
    queue: Queue | str = "",
    upcast: Upcast | None = None,
    on_failure: object = None,
    deadline: Duration | None = None,
) -> Any:
    """Make a function a workflow: it can be run, and goes on after a crash where it was.

    Args:
        fn: the function, when the decorator is used bare. It takes one input or none.
        name: what the workflow is called; by default the function's own name.
        version: the version that runs started now are pinned to.
        queue: the queue its runs go to unless told otherwise, or its name; empty is the default queue's.
        upcast: makes of a recorded input that does not fit the function's parameter any more one that does. It gets the
            recorded JSON as plain data, and what it returns is validated.
        on_failure: a step that is executed when the function has failed (not when the run is cancelled or blocked),
            once what was to be undone is undone. It takes a ``Failure``, and the run's input if it takes two arguments.
            A failure of its own is noted on the run's. If the run is resumed and fails again, it is executed again.
        deadline: how long a run may take from when it may begin; then it is cancelled. By default for ever.

    Raises:
        DefinitionError: the function or an option cannot be used.
    """
    given = _Given(name, version, queue, upcast, on_failure, deadline)

    def decorate(fn: object, /) -> Workflow[Any, Any]:
        return _make_workflow(fn, given, sys._getframe(1))

    if fn is None:
        return decorate
    return _make_workflow(fn, given, sys._getframe(1))


class _Given(NamedTuple):
    """The options of a workflow, as they were written."""

    name: str | None
    version: str
    queue: Queue | str
    upcast: Upcast | None
    on_failure: object
    deadline: Duration | None


def _make_workflow(fn: object, given: _Given, frame: FrameType) -> Workflow[Any, Any]:
    name, version, queue = given.name, given.version, queue_name(given.queue)
    function = examine(fn, what="workflow", injected=INJECTED, context="RunContext", frame=frame)
    name = chosen_name(name, function, "workflow")
    if function.in_class or not inspect.isfunction(fn):
        raise DefinitionError(
            f"{name} is not a plain function, and a workflow is found again by its module and name",
            advice="write a function at module level; methods can be steps",
        )
    _check_input(name, function)
    valid_name(version, "version")
    cls = AsyncWorkflow if function.is_async else SyncWorkflow
    limits = given.queue if isinstance(given.queue, Queue) and given.queue != Queue(queue) else None
    handler, tells_input = _check_handler(name, function, given.on_failure)
    deadline = None if given.deadline is None else micros(given.deadline, what="deadline", allow_zero=False)
    made: Workflow[Any, Any] = cls(
        function,
        name,
        version,
        queue,
        check_upcast(given.upcast),
        on_failure=handler,
        tells_input=tells_input,
        deadline=deadline,
    )
    made.limits = limits
    return made


def _check_handler(name: str, function: Function, handler: object) -> tuple[Step[..., Any] | None, bool]:
    """Return a workflow's ``on_failure`` step, and whether it takes the input too."""
    if handler is None:
        return None, False
    if not isinstance(handler, Step):
        raise DefinitionError(
            f"workflow {name}: on_failure= takes a step, not {handler!r}", advice="decorate it with @step"
        )
    parameters = handler.definition.function.parameters[handler.owner is not None :]
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}]
    most = 2 if function.parameters else 1
    if not positional or len(needed) > most or any(p not in positional for p in needed):
        what = "a Failure" if most == 1 else "a Failure, or a Failure and the workflow's input"
        raise DefinitionError(
            f"workflow {name}: on_failure={handler.name} is called with {what}, which it does not take",
            advice=f"write async def {handler.name}(failure: perdure.Failure{', value: …' if most > 1 else ''})",
        )
    return handler, most > 1 and len(positional) > 1


def _check_input(name: str, function: Function) -> None:
    """Refuse what is not one input or none."""
    parameters = function.parameters
    for parameter in parameters:
        if parameter.kind not in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}:
            raise DefinitionError(
                f"workflow {name} takes {parameter}, but a workflow takes one input or none",
                advice="gather what it needs in one model (pydantic or dataclass), and take that",
            )
    if len(parameters) > 1:
        raise DefinitionError(
            f"workflow {name} takes {len(parameters)} inputs ({', '.join(p.name for p in parameters)})",
            advice="gather them in one model (pydantic or dataclass), which is stored, checked and shown as a whole",
        )
    if parameters and parameters[0].default is not inspect.Parameter.empty:
        raise DefinitionError(
            f"workflow {name} has a default for its input, but the input is always stored with the run",
            advice="leave the default out, or give defaults to the fields of a model",
        )


def collect(workflows: Iterable[Workflow[Any, Any]]) -> dict[tuple[str, str], Workflow[Any, Any]]:
    """Return the workflows by name and version.

    Raises:
        DefinitionError: something else than a workflow is among them.
        DuplicateName: two different workflows have the same name and version.
    """
    found: dict[tuple[str, str], Workflow[Any, Any]] = {}
    if isinstance(workflows, Workflow):
        raise DefinitionError(f"workflows= takes a list, not {workflows!r}", advice=f"workflows=[{workflows.qualname}]")
    for item in workflows:
        if not isinstance(item, Workflow):
            raise DefinitionError(f"{item!r} is not a workflow", advice="decorate it with @workflow")
        other = found.setdefault((item.name, item.version), item)
        if other.fn is not item.fn:
            raise DuplicateName(
                f"two workflows are called {item.name!r} in version {item.version!r}: "
                f"{other.module}.{other.qualname} and {item.module}.{item.qualname}",
                advice=loaded_twice(other.fn, item.fn)
                or "give one of them another name=, or another version= if it is the new code of the other",
                workflow=item.name,
            )
    return found
