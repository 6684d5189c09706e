"""What is done before a run ends otherwise than well: what is still registered is undone, and its handler is told.

Both are ordinary calls, in a task of their own that no cancellation reaches; on a replay the run comes to the same end
again, and what is recorded of them is not done again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.errors import RunGone, StepFailed
from perdure.model.classes import type_name
from perdure.model.failures import Failure
from perdure.model.keys import failure_scope
from perdure.model.records import Status
from perdure.runtime.calls import StepCall
from perdure.runtime.runloop import RunLoop
from perdure.runtime.undoing import shielded, undoing_of

if TYPE_CHECKING:
    from perdure.runtime.ending import Ending
    from perdure.runtime.run import Run
    from perdure.steps import Step

_ENDED = frozenset({Status.FAILED, Status.CANCELLED})


def begins(run: Run, otherwise: Ending, ending: Ending, failed_in: dict[str, int]) -> bool:
    """Begin what is left to do before a run ends; False if there is nothing, or that has been done.

    Args:
        run: the run.
        otherwise: how it would end if it were not cancelled.
        ending: how it is about to end.
        failed_in: the failures of steps that came out, the nearest first: by key the attempt.
    """
    undoing = run.undoing
    if undoing is not None and undoing.aftermath is not None:
        return False
    handler = run.definition.on_failure if ending.status is Status.FAILED else None
    left = undoing is not None and undoing.registered and ending.status in _ENDED
    if handler is None and not left:
        return False
    undoing_of(run).aftermath = otherwise
    if run.loop.gone:
        _begin_anew(run)
    run.verdict = None
    run.activation += 1
    run.loop.activate(_start, run, handler, otherwise, failed_in)
    return True


def _begin_anew(run: Run) -> None:
    """Give the run another loop: its own was torn, with all that waited in it."""
    old = run.loop
    run.loop = RunLoop(run.code, old.number())  # type: ignore[abstract]
    run.loop.clock = old.clock
    run.calls.clear()
    run.untaken.clear()
    run.startable.clear()
    run.retrying.clear()
    if run.waits is not None:
        run.waits.forget_calls()


def _start(run: Run, handler: Step[..., Any] | None, otherwise: Ending, failed_in: dict[str, int]) -> None:
    run.root = run.loop.root(_clean_up(run, handler, otherwise, failed_in), run.host.root_context(run))
    run.root.scope = failure_scope(run.replay.failures + 1)


async def _clean_up(run: Run, handler: Step[..., Any] | None, otherwise: Ending, failed_in: dict[str, int]) -> None:
    undoing = undoing_of(run)
    await undoing.unwind(list(undoing.registered))
    if handler is None or run.cancel_reason is not None:
        return
    error = otherwise.error
    assert error is not None
    told = _told(error, failed_in)
    arguments = (told, *run.code.inputs()) if run.definition.tells_input else (told,)
    try:
        # Not compared with what is recorded: messages name lines of code and what else may change.
        key, prepared = run.code.register(handler, arguments, {})
        assert not isinstance(prepared, bytes)
        await shielded(StepCall(run, handler, key, prepared))
    except (RunGone, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as also:  # noqa: BLE001 - a body may raise anything
        error.add_note(f"on_failure={handler.name} failed as well: {type(also).__name__}: {also}")


def _told(error: BaseException, failed_in: dict[str, int]) -> Failure:
    """What a handler is told of a failure."""
    step, attempt = next(iter(failed_in.items()), (None, None))
    if isinstance(error, StepFailed):
        return Failure(str(error.fields.get("type")), str(error.fields.get("text")), step, attempt)
    return Failure(type_name(type(error)), str(error), step, attempt)


__all__ = ["begins"]
