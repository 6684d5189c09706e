"""How a run ends: its terminal event from what its code returned, raised or ran into."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.errors import (
    ContinueAsNew,
    DriftError,
    IntegrityError,
    InvalidValue,
    NotDurable,
    NotSerializable,
    PerdureError,
    RunBlocked,
    Undecodable,
)
from perdure.model import payloads
from perdure.model.failures import encode_failure, failure_text
from perdure.model.records import Kind, StateChange, Status
from perdure.runtime import aftermath, drift, undoing
from perdure.runtime.about import about
from perdure.runtime.bodies import Abort
from perdure.runtime.calls import AWAIT, Call
from perdure.runtime.ending import Ending
from perdure.runtime.outcomes import settle_body
from perdure.runtime.succession import continued
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from perdure.runtime.run import Run
    from perdure.runtime.runloop import RunTask


_ASYNCIO = str(Path(asyncio.__file__).parent)
_OTHER_LOOP = ("attached to a different loop", "bound to a different event loop")
"""What asyncio says of futures and locks that are not of the loop that awaits them."""
_MISTAKES = (AttributeError, RuntimeError, TypeError)
"""What comes of taking a call for its result, or of a loop of one's own for it."""


def strays_left(run: Run) -> bool:
    """Whether tasks or calls are left that the workflow did not wait for; each is cancelled once, as they were made."""
    tasks, calls = run.loop.tasks, run.calls
    if len(tasks) == 1 and not calls:  # the root's own, which has ended
        return False
    left: list[asyncio.Future[Any]] = [task for task in tasks if not task.done()]
    is_first = not run.strays
    open_calls = [call.future for call in calls.values() if call.future is not None and not call.outlives]
    fresh = [future for future in left if future not in run.strays]
    if is_first:
        fresh += open_calls  # those that are made later belong to the cleaning up of tasks
    left += open_calls
    if fresh:
        run.strays |= {*fresh}
        run.activation += 1
        run.loop.activate(lambda: [future.cancel() for future in fresh])
        return strays_left(run)
    return bool(left)


def finish(run: Run, root: RunTask) -> None:
    """The workflow's function and all its tasks have ended: write how, unless there is a fault in that."""
    if run.undoing is not None and run.undoing.aftermath is not None:
        done = run.undoing.aftermath
        write(run, done if done.error is None else _failed(run, done.error))
        return
    if run.untaken and not root.cancelled():
        call = next(iter(run.untaken.values()))
        error = root.exception()
        if error is None:
            run.verdict = call.not_awaited()
            return
        if isinstance(error, _MISTAKES):
            error.add_note(f"{call.not_awaited()}: {AWAIT}")
    run.loop.asyncgens.close()
    for task in run.loop.unheard():
        name = task.scope.path or task.get_name()
        say(lines.TASK_UNHEARD, error=task.exception(), task=name, **about(run))
    write(run, for_root(run, root))


def write(run: Run, ending: Ending) -> None:
    """Write an ending, or the cancellation that goes before it."""
    if run.cancel_reason is None and (run.cancel_request is not None or run.replay.cancelled is not None):
        # It came when the code had ended, and nothing is left that it could be delivered to; it wins all the same.
        if run.cancel_request is not None:
            run.deliver_cancel()
        elif run.replay.cancelled is not None:
            run.cancel_reason = payloads.fields(run.replay.cancelled.payload).get("reason", "")
        if run.undoing is not None:
            run.undoing.keep_not()
    otherwise = ending
    if run.cancel_reason is not None and not (ending.status is Status.BLOCKED and undoing.is_pending(run)):
        ending = cancelled(run, ending)
    if ending.status is not Status.COMPLETED:
        failed_in = {} if otherwise.error is None else _propagated(run, otherwise.error)
        if aftermath.begins(run, otherwise, ending, failed_in):
            return
    if run.waits is not None:
        run.waits.last_wishes(ending.status is Status.CANCELLED)
    run.leave(
        ending.kind,
        ending.payload,
        StateChange(ending.status, reason=ending.reason),
        codec=ending.codec,
        artifact=ending.artifact,
        successor=ending.successor,
    )


def for_root(run: Run, root: asyncio.Task[Any]) -> Ending:
    """The ending of a run whose function has returned or raised."""
    if root.cancelled():
        if run.cancel_reason is not None:
            return Ending(Kind.RUN_CANCELLED, Status.CANCELLED, b"{}")
        return _failed(run, asyncio.CancelledError("the workflow cancelled itself"))
    error = root.exception()
    if isinstance(error, ContinueAsNew):
        try:
            return continued(run, error.value)
        except (InvalidValue, NotSerializable) as refused:
            refused.add_note(f"the input that run {run.run_id} would continue with")
            return _failed(run, refused)
    if error is not None:
        return _failed(run, error)
    try:
        payload, value = run.definition.output.roundtrip(root.result())
    except NotSerializable as refused:
        refused.add_note(f"the result of workflow {run.workflow}, run {run.run_id}")
        return _failed(run, refused)
    codec, stored, artifact = payloads.pack(payload)
    return Ending(Kind.RUN_COMPLETED, Status.COMPLETED, stored, codec=codec, artifact=artifact, value=value)


def settled(run: Run) -> bool:
    """The run must end whatever its code does: let bodies settle and keep what they did; True once all have."""
    is_misfit = drift.is_misfit(run.verdict)
    if not run.loop.gone:
        for body in list(run.in_flight.values()):
            if not is_misfit:
                body.request_abort(Abort.CANCEL)
            elif not body.call.step.at_most_once:
                body.request_abort(Abort.STOP)
        run.host.fibers.unwind(run)
        run.loop.tear()
    while run.live:
        ended = run.live.popleft()
        # What was only interrupted is done anew by a build that goes on with the run; a cancelled step would not be.
        if not (is_misfit and (isinstance(ended, Call) or ended.aborted)):
            settle_body(run, ended)
    return not run.in_flight


def refused(run: Run) -> bool:
    """Whether this build gives the run up, because code and log do not fit: another one may do better.

    What its bodies did is kept, so that is written first. A cancel that has come in is delivered instead.
    """
    error = run.verdict
    if not drift.is_misfit(error) or (run.cancel_request is not None and not undoing.is_pending(run)):
        return False
    if run.host.journal.barrier(run):
        run.drop(None)
        run.host.owner.run_refused(run)
    return True


def misfit(run: Run) -> bytes:
    """Payload of ``drift_found``."""
    error = run.verdict
    assert isinstance(error, PerdureError)
    return payloads.note(
        code=error.code,
        key=error.fields.get("key"),
        recorded=run.host.codecs.said(_text(error.fields.get("recorded"))),
        found=run.host.codecs.said(_text(error.fields.get("found"))),
        build=run.host.build,
        reason=_reason(run, error),
    )


def for_verdict(run: Run, error: BaseException) -> Ending:
    """The ending of a run that cannot go on: failed if its code is at fault, blocked if a person has to look."""
    if isinstance(error, (DriftError, IntegrityError, Undecodable)):
        if drift.is_misfit(error):
            run.record(Kind.DRIFT_FOUND, payload=misfit(run))
        reason = _reason(run, error)
        return Ending(
            Kind.RUN_BLOCKED,
            Status.BLOCKED,
            payloads.note(code=error.code, reason=reason),
            reason,
            failure=run.host.codecs.failure(encode_failure(error)),
        )
    if isinstance(error, RunBlocked) and run.undoing is not None and run.undoing.failed:
        return Ending(Kind.RUN_BLOCKED, Status.BLOCKED, run.undoing.note(error.message), error.message)
    return _failed(run, error)


def cancelled(run: Run, otherwise: Ending) -> Ending:
    """The ending of a run to which a cancel was delivered, whatever its code made of it."""
    reason = run.cancel_reason or ""
    if otherwise.failure is None:
        return Ending(Kind.RUN_CANCELLED, Status.CANCELLED, payloads.note(reason=reason), reason)
    payload = b'{"reason":' + payloads.note(r=reason)[5:-1] + b',"failure":' + otherwise.failure + b"}"
    return Ending(Kind.RUN_CANCELLED, Status.CANCELLED, payload, reason, failure=otherwise.failure)


def _failed(run: Run, error: BaseException) -> Ending:
    if type(error) is RuntimeError and any(words in str(error) for words in _OTHER_LOOP):
        foreign = NotDurable(
            f"run {run.run_id}: the workflow awaited something of another event loop: {error}",
            advice="await it in a step; locks and futures are shared neither between runs nor with step bodies",
        )
        foreign.__cause__, error = error, foreign
    came = run.failures.get(id(error))
    failure = run.host.codecs.failure(encode_failure(error, b"" if came is None else came[3]))
    attempts = dict(sorted(_propagated(run, error).items()))
    reason = failure_text(failure)
    payload = payloads.run_failed(failure, attempts)
    return Ending(Kind.RUN_FAILED, Status.FAILED, payload, reason, failure=failure, error=error)


def _propagated(run: Run, error: BaseException) -> dict[str, int]:
    """Failures of steps that came out of the workflow, as themselves, as causes, or in a group: by key the attempt."""
    seen: set[int] = set()
    found: dict[str, int] = {}
    queue: list[BaseException | None] = [error]
    while queue:
        one = queue.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        failure = run.failures.get(id(one))
        if failure is None:
            queue += [one.__cause__, one.__context__]
        else:
            found[failure[1]] = failure[2]
            # Raised while another was handled, it does not carry that one: the handler's own steps are kept, and so is
            # what they were for.
            queue.append(one.__cause__)
        if isinstance(one, BaseExceptionGroup):
            queue += one.exceptions
    return found


def waiting_for(run: Run) -> str:
    """Where each task of a run waits, for people."""
    places = []
    for task in run.loop.tasks:
        if task.done():
            continue
        frame: Any = task.get_coro()
        where, inside = None, ""
        while frame is not None:
            code = getattr(frame, "cr_code", None) or getattr(frame, "gi_code", None)
            inner = getattr(frame, "cr_frame", None) or getattr(frame, "gi_frame", None)
            if code is not None and inner is not None:
                if where is not None and code.co_filename.startswith(_ASYNCIO):
                    inside = f", in {code.co_qualname}"  # the line of ours that asked for it is what people look for
                else:
                    where, inside = f"{code.co_filename}:{inner.f_lineno} in {code.co_qualname}", ""
                if code.co_name == "run_sync_in_worker_thread":
                    where += " (a thread: use a step)"
            frame = getattr(frame, "cr_await", None) or getattr(frame, "gi_yieldfrom", None)
        if where:
            places.append(where + inside)
    return "; ".join(places) or "no task is left"


def _reason(run: Run, error: PerdureError) -> str:
    # Below the headline are values, and what is coded in the log does not stand readable beside it.
    return f"{error.code}: {error.headline if run.host.codecs else error}"


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:1000]
