"""From a body's end, or an event of the log, to what the workflow sees; the same both times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import DriftError, NotSerializable, StepInterrupted, Undecodable
from perdure.model import payloads
from perdure.model.arguments import LIMIT
from perdure.model.failures import decode_failure, encode_failure
from perdure.model.records import Event, Kind
from perdure.model.retry import jitter_unit, next_delay
from perdure.runtime.bodies import Body
from perdure.runtime.calls import StepCall
from perdure.runtime.children import ChildCall
from perdure.runtime.drift import is_misfit

if TYPE_CHECKING:
    from perdure.runtime.calls import CallFuture, Outcome
    from perdure.runtime.run import Run
    from perdure.runtime.waits import SignalWait


WAITED = frozenset({Kind.SIGNAL_RECEIVED, Kind.CHILD_ENDED, Kind.TIMER_FIRED})
"""Kinds of outcomes that no body has brought about."""


def recorded_outcome(run: Run, event: Event) -> Outcome:
    """Turn an outcome of the log into what it was when it was new."""
    kind, key = event.kind, event.key
    if kind == Kind.CANCEL_DELIVERED:
        run.cancel_reason = payloads.fields(event.payload).get("reason", "")
        return (run.cancel_root,)
    assert key is not None
    timer = run.loop.timers.get(key)
    if timer is not None:
        return run.loop.fire, timer
    call = run.calls[key]
    if kind in WAITED or not isinstance(call, StepCall):
        return _waited(run, call, event)
    future = call.let_go()
    if call.cancelled or kind == Kind.STEP_CANCELLED:
        return (future.settle_cancelled,)
    if kind == Kind.STEP_FAILED:
        return _failure(run, call, future, payloads.failure_of(event.payload) or b"{}", event.attempt or 1)
    try:
        value = call.step.result.decode(run.host.unpack(event))
    except Undecodable as error:
        run.verdict = DriftError(
            f"run {run.run_id}: the recorded result of {key} does not decode as the step's type today: {error}",
            run_id=run.run_id,
            key=key,
            advice="nothing was run; give the new field a default, or have upcast= take the old form",
        )
        return (_nothing,)
    return future.set_result, value


def _waited(run: Run, call: StepCall | ChildCall | SignalWait, event: Event) -> Outcome:
    """Turn a message, a child's end or a timeout of the log into what it was when it was new."""
    try:
        if event.kind in WAITED and not isinstance(call, StepCall):
            return call.recorded(event)
    except Undecodable as error:
        misfit = f"does not decode as its type today: {error}"
    else:
        misfit = f"is a {event.word}, and the code asks for something else under this key"
    run.verdict = DriftError(
        f"run {run.run_id}: what is recorded for {event.key} {misfit}",
        run_id=run.run_id,
        key=event.key,
        advice="nothing was run; undo the change, or keep the old code for old runs with patched() or version=",
    )
    return (_nothing,)


def settle_body(run: Run, ended: Body | StepCall | ChildCall) -> Outcome | None:
    """Record how a call ended; None if it did not end but will be tried again."""
    if not isinstance(ended, Body):
        return ended.never_began() if isinstance(ended, ChildCall) else _never_began(run, ended)
    call, error = ended.call, ended.error
    call.body = None  # until here a cancellation finds that the body has settled, and leaves it at that
    key, step, attempt = call.key, call.step, ended.attempt
    now = run.host.clock.now()
    took = max(0, now - ended.began)
    args = call.prepared.data
    if len(args) > LIMIT:
        args = step.arguments.condense(args)
    payload, value = b"", None
    if error is None:
        try:
            # Before anything is recorded: there may be no memory for it.
            payload, value = ended.sealed or step.result.roundtrip(ended.value)
        except NotSerializable as refused:
            refused.add_note(f"result of step {key} of run {run.run_id}; its body has run and is not run again")
            error = refused
    for said in ended.named:
        run.record(Kind.ARTIFACT_KEPT, key, payload=said)
    if ended.artifacts and run.item is not None:
        run.item.artifacts = [*run.item.artifacts, *ended.artifacts]
    if error is None:
        codec, stored, artifact = payloads.pack(payload)
        future = call.let_go()
        run.record(
            Kind.STEP_COMPLETED,
            key,
            attempt=attempt,
            took=took,
            codec=codec,
            payload=stored,
            args=args,
            artifact=artifact,
            now=now,
        )
        return (future.settle_cancelled,) if call.cancelled else (future.set_result, value)
    aborting = call.cancelled or (run.verdict is not None and not is_misfit(run.verdict))
    aborted, ended.error = ended.aborted, None  # whose traceback leads back here
    if aborting and aborted:
        future = call.let_go()
        run.record(Kind.STEP_CANCELLED, key, attempt=attempt, took=took, args=args)
        return (future.settle_cancelled,)
    failure = encode_failure(error)
    delay = None if aborting or isinstance(error, NotSerializable) else _delay(run, call, error)
    if delay is not None:
        failed_at = run.host.clock.now()
        next_at = failed_at + round(delay * 1e6)
        call.failed = payloads.failed(run.host.codecs.failure(failure), next_at=next_at)
        run.record(Kind.STEP_FAILED, key, attempt=attempt, took=took, payload=call.failed, args=args, now=failed_at)
        call.attempt += 1
        call.prepared = step.arguments.anew(call.prepared)
        call.next_at = next_at
        call.barrier = run.seq
        call.marked = False
        run.retrying[key] = call
        return None
    future = call.let_go()
    said = payloads.failed(run.host.codecs.failure(failure))
    run.record(Kind.STEP_FAILED, key, attempt=attempt, took=took, payload=said, args=args)
    return (future.settle_cancelled,) if call.cancelled else _failure(run, call, future, failure, attempt)


def _delay(run: Run, call: StepCall, error: BaseException) -> float | None:
    unit = jitter_unit(run.uid, call.key, call.attempt)
    return next_delay(call.step.retry, call.attempt - call.base, error, unit=unit)


def _never_began(run: Run, call: StepCall) -> Outcome:
    args = call.step.arguments.condense(call.prepared.data)
    future = call.let_go()
    if call.cancelled:
        run.record(Kind.STEP_CANCELLED, call.key, attempt=call.attempt, args=args)
        return (future.settle_cancelled,)
    failure = encode_failure(
        StepInterrupted(
            f"step {call.key} may have run: its process died during attempt {call.attempt}, and it is at_most_once",
            step=call.step.name,
            advice="find out whether its effect happened, then decide in the workflow",
        )
    )
    said = payloads.failed(run.host.codecs.failure(failure))
    run.record(Kind.STEP_FAILED, call.key, attempt=call.attempt, payload=said, args=args)
    return _failure(run, call, future, failure, call.attempt)


def _failure(run: Run, call: StepCall, future: CallFuture, failure: bytes, attempt: int) -> Outcome:
    error = decode_failure(failure)
    run.failures[id(error)] = (error, call.key, attempt, failure)
    return future.set_exception, error


def _nothing() -> None:
    pass
