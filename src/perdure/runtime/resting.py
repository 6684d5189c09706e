"""Where a run rests when there is nothing to deliver and nothing to start: here, or in the store until it is woken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perdure.errors import Deadlock
from perdure.model import payloads
from perdure.model.failures import failure_text
from perdure.model.records import Kind, StateChange, Status
from perdure.runtime import endings
from perdure.runtime.calls import marked_first

if TYPE_CHECKING:
    from perdure.runtime.run import Run

PARK = 100_000
"""Waits up to this many µs keep the slot: letting a run go and claiming it again costs two commits."""


def earliest(run: Run) -> int | None:
    """Return when time next brings a run something (µs); None if it never does."""
    timer = run.loop.earliest() if run.loop.timers else None
    due = None if timer is None else run.due_at(timer)
    for call in run.retrying.values():
        if due is None or call.next_at < due:
            due = call.next_at
    if run.waits is not None and (first := run.waits.earliest()) is not None and (due is None or first[0] < due):
        due = first[0]
    return due


def rest(run: Run) -> bool:
    """Nothing to deliver and nothing to start: wait here, or let go; True to go on at once."""
    if run.retrying:
        now = run.host.clock.now()
        due_calls = [call for call in run.retrying.values() if call.next_at <= now]
        if due_calls and not run.stopping:
            for call in due_calls:
                del run.retrying[call.key]
                run.startable.append(call)
            return True
    if run.in_flight or (run.startable and (not run.stopping or marked_first(run.startable))):
        run.arm()
        return False
    if run.undoing is not None and run.undoing.failed:
        run.verdict = run.undoing.verdict()
        return True
    if run.pausing is not None:
        reason, taken = run.pausing
        run.leave(
            Kind.RUN_PAUSED, payloads.note(reason=reason), StateChange(Status.PAUSED, reason=reason or None), take=taken
        )
        return True
    if run.stopping:
        if run.host.journal.barrier(run):
            run.host.owner.run_settled(run)
        return False
    return _suspend(run)


def _suspend(run: Run) -> bool:
    due = earliest(run)
    waits = run.waits or None
    if due is None and waits is None:
        run.verdict = Deadlock(
            f"run {run.run_id} waits for something that can never come: {endings.waiting_for(run)}",
            run_id=run.run_id,
            advice="nothing is running and no timer is set; look at what it awaits",
        )
        return True
    if due is not None and due - run.host.clock.now() <= PARK:
        run.arm()
        return False
    said: dict[str, object] = {"wake_at": due}
    awaits = reason = None
    if waits is not None:
        status = Status.WAITING
        said["awaits"], said["children"] = waits.names, sorted(waits.children)
        awaits = json.dumps(waits.names)
    else:
        status = Status.RETRYING if run.retrying and not run.loop.timers else Status.SLEEPING
        if status is Status.RETRYING:
            said["reason"] = reason = _put_off_by(run)
    run.leave(
        Kind.RUN_SUSPENDED,
        payloads.note(status=status.word, **said),
        StateChange(status, wake_at=due, awaits=awaits, reason=reason),
    )
    return True


def _put_off_by(run: Run) -> str | None:
    """What the attempt failed with that is made again first."""
    failure = payloads.failure_of(min(run.retrying.values(), key=lambda call: call.next_at).failed or None)
    return None if failure is None else failure_text(failure)


__all__ = ["PARK", "earliest", "rest"]
