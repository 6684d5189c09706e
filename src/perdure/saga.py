"""Sagas: what a workflow has done is undone, step by step, if it fails or is cancelled half-way."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from perdure.context import in_step, on_run
from perdure.errors import DefinitionError, NotInRun, RunGone
from perdure.steps import Step, fiber_for_blocking, run_for_coroutine
from perdure.workflow import Workflow

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from perdure.protocols import Fiber, SagaLike

P = ParamSpec("P")
InputT = TypeVar("InputT")


class Undo:
    """What is to be undone if its ``saga()`` block is left by an exception or a cancellation: a stack of calls."""

    __slots__ = ("_saga",)

    def __init__(self, saga: SagaLike) -> None:
        self._saga = saga

    @overload
    def push(self, what: Step[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None: ...
    @overload
    def push(self, what: Workflow[None, Any], /) -> None: ...
    @overload
    def push(self, what: Workflow[InputT, Any], value: InputT, /) -> None: ...
    def push(self, what: Any, /, *args: Any, **kwargs: Any) -> None:
        """Register a step, or a workflow as a child, with its arguments; nothing runs now, and nothing is recorded.

        Push before the step whose effect it undoes: a step that is killed half-way may have had its effect. So the
        compensation must bear that there is nothing to undo. Arguments are taken as they are now.

        Args:
            what: the step (``refund``, ``refund.with_options(…)``, a method) or the workflow.
            args: its arguments.
            kwargs: likewise.

        Raises:
            DefinitionError: that is no step and no workflow.
            TypeError: it cannot be called with these arguments.
            NotSerializable: an argument cannot be stored exactly.
            DuplicateName: another step of this name, or the same explicit key, was used in this run.
            WrongState: the block has been left.
        """
        if isinstance(what, Step):
            what, args = what.bound(args)
        elif not isinstance(what, Workflow):
            if isinstance(what, Coroutine):
                what.close()
            raise DefinitionError(
                f"undo.push() takes a step or a workflow, and its arguments after it, not {what!r}",
                advice="write undo.push(refund, order), not undo.push(refund(order))",
            )
        elif kwargs:
            raise DefinitionError(f"workflow {what.name} takes no keywords", advice="give its one input")
        on_run(lambda _: self._saga.push(what, args, kwargs))

    def pop(self) -> None:
        """Take back what was pushed last.

        Raises:
            IndexError: nothing is left that was pushed.
        """
        on_run(lambda _: self._saga.pop())

    def clear(self) -> None:
        """Take back all that was pushed."""
        on_run(lambda _: self._saga.clear())


class _AsyncSaga:
    """The block of an async workflow."""

    __slots__ = ("_saga",)

    def __init__(self) -> None:
        self._saga: SagaLike | None = None

    async def __aenter__(self) -> Undo:
        run = run_for_coroutine("saga()", "with perdure.sync.saga() as undo")
        if run is None:
            raise _outside("saga()")
        self._saga = run.saga()
        return Undo(self._saga)

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        assert self._saga is not None
        await self._saga.leave(error)


class SyncSaga:
    """The block of a sync workflow."""

    __slots__ = ("_fiber", "_saga")

    def __init__(self) -> None:
        self._fiber: Fiber | None = None
        self._saga: SagaLike | None = None

    def __enter__(self) -> Undo:
        fiber = fiber_for_blocking("perdure.sync.saga()", "async with perdure.saga() as undo")
        if fiber is None:
            raise _outside("perdure.sync.saga()")
        self._fiber = fiber
        self._saga = fiber.run.saga()
        return Undo(self._saga)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        fiber, block = self._fiber, self._saga
        assert fiber is not None
        assert block is not None
        if not isinstance(error, RunGone):
            fiber.wait(lambda: block.leave(error))


def saga() -> AbstractAsyncContextManager[Undo, None]:
    """Undo what a workflow has done if it fails or is cancelled half-way.

    ``async with saga() as undo:`` is a block; in it ``undo.push(refund, order)`` registers a compensation: a step with
    its arguments. If an exception or a cancellation leaves the block, those pushed are executed, the last one first,
    each as a durable step with its own retries; then the exception goes on. If the block ends well, nothing is
    executed. No cancellation interrupts the undoing, and a crash does not either: whoever goes on with the run goes on
    with it. A compensation that fails for good blocks the run; ``resume`` tries it again and goes on undoing.
    """
    return _AsyncSaga()


def _outside(what: str) -> NotInRun:
    where = "a step, whose effects the workflow undoes" if in_step() else "no workflow"
    return NotInRun(f"{what} was entered in {where}", advice="enter it in a function decorated with @workflow")


__all__ = ["SyncSaga", "Undo", "saga"]
