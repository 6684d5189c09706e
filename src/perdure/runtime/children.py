"""Child runs: how a run starts others, waits for their end, and takes them along when it is cancelled.

A child is created in the commit of the event that says so, so there is none without its parent knowing, and none twice.
Its end is posted to the parent's inbox in the commit of its last event.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from perdure.errors import DriftError, RunCancelled, RunConflict, RunGone, StepFailed, TooDeep, Undecodable
from perdure.model import ids, payloads
from perdure.model.arguments import condense, is_condensed
from perdure.model.durations import later
from perdure.model.failures import as_run_failed, decode_failure
from perdure.model.keys import step_name
from perdure.model.purging import purged
from perdure.model.records import InboxKind, Kind, Message, NewRun, Status
from perdure.model.starting import deadline_at
from perdure.runtime import drift
from perdure.runtime.calls import Call, CallFuture, users_frame
from perdure.signals import cancellation

if TYPE_CHECKING:
    from perdure.model.records import Event
    from perdure.runtime.calls import Outcome
    from perdure.runtime.run import Run
    from perdure.workflow import Workflow

DEEPEST = 100
"""How many runs may be above a child. Who needs more has a workflow that starts itself without end."""

_READABLE = 300
"""Characters of a child's run id that say whose it is; the rest makes it unique."""
_TOLD = {
    Status.COMPLETED: InboxKind.CHILD_COMPLETED,
    Status.FAILED: InboxKind.CHILD_FAILED,
    Status.CANCELLED: InboxKind.CHILD_CANCELLED,
}


class ChildCall(Call):
    """A child run as its parent's code sees it: created when everything recorded has been delivered, then waited for.

    Attributes:
        workflow: what it runs.
        run_id: its id, the same on every replay.
        data: its encoded input.
    """

    __slots__ = ("data", "is_born", "is_started", "revives", "run_id", "workflow")

    def __init__(self, run: Run, workflow: Workflow[Any, Any], key: str, data: bytes) -> None:
        super().__init__(run, key)
        frame = users_frame()
        self.code, self.lasti = frame.f_code, frame.f_lasti
        self.workflow = workflow
        self.data = data
        self.is_started = False
        recorded = run.replay.children.pop(key, None)
        self.is_born = recorded is not None
        self.revives = key in run.replay.superseded
        if recorded is None:
            self.run_id = workflow.options.run_id or child_id(run, key)
        else:
            self.run_id = str(payloads.fields(recorded.payload)["run_id"])
            self._known()

    @property
    def what(self) -> str:
        """What it is, in a sentence."""
        return f"child {self.key}"

    @property
    def outlives(self) -> bool:
        """Whether it was started to go on whatever becomes of its call."""
        return self.is_started

    def launch(self) -> None:
        """The child is wanted, whether or not anybody awaits it."""
        self.run.untaken.pop(self.n, None)
        if not self.is_born and self not in self.run.waiting().unborn:
            self.run.waiting().unborn.append(self)

    def ask(self) -> None:
        """Somebody awaits the child's end."""
        run = self.run
        if run.gone or run.loop.gone:
            raise RunGone
        self.launch()
        run.calls[self.key] = self
        if self.key in run.replay.by_key:
            return
        run.waiting().children[self.run_id] = self
        run.listening = True
        if self.revives:
            self.revives = False
            run.host.owner.run_revives(run, self.run_id)

    def forget(self) -> None:
        """The call was cancelled in the activation that made it, before anything of it was seen."""
        run = self.run
        run.calls.pop(self.key, None)
        waits = run.waiting()
        waits.children.pop(self.run_id, None)
        if not self.is_born and self in waits.unborn:
            waits.unborn.remove(self)
        self.cancelled = True

    def abort(self) -> None:
        """The call's cancellation was asked for: the child is asked to end, and has ended when that is in the log."""
        run = self.run
        if self.key in run.replay.by_key:
            return
        waits = run.waiting()
        if not self.is_born and self in waits.unborn:
            waits.unborn.remove(self)
            run.live.append(self)
            return
        request_cancel(run, self.run_id, "its parent waits for it no longer")

    def let_go(self) -> CallFuture:
        """End the call and return its future, to be settled."""
        future = super().let_go()
        if self.run.waits is not None:
            self.run.waits.children.pop(self.run_id, None)
        return future

    def recorded(self, event: Event) -> Outcome:
        """What the child's end, as recorded, makes of the call."""
        return ended_outcome(self.run, self, event)

    def _known(self) -> None:
        if not self.workflow.options.abandon and self.key not in self.run.replay.by_key:
            self.run.waiting().started[self.run_id] = None

    def never_began(self) -> Outcome:
        """Record that the call was cancelled before there was a child."""
        args = payloads.note(status="cancelled", run_id=self.run_id)
        self.run.record(Kind.CHILD_ENDED, self.key, attempt=1, payload=b"{}", args=args)
        return (self.let_go().settle_cancelled,)

    def bear(self) -> None:
        """Write the child into the store, in the run's own commit."""
        run, workflow = self.run, self.workflow
        run.record(
            Kind.CHILD_STARTED,
            self.key,
            payload=payloads.note(
                run_id=self.run_id,
                workflow=workflow.name,
                version=workflow.version,
                abandon=workflow.options.abandon,
            ),
            args=condense(self.data),
        )
        assert run.item is not None
        run.item.children = [*run.item.children, self._new_run()]
        self.is_born = True
        self._known()

    def _new_run(self) -> NewRun:
        run, workflow, options = self.run, self.workflow, self.workflow.options
        now = run.host.clock.now()
        codec, stored, artifact = payloads.pack(self.data)
        delay_until = None if options.delay is None else later(now, options.delay)
        deadline = deadline_at(options.deadline, workflow.deadline, delay_until or now)
        if run.row.deadline_at is not None and not options.abandon:
            deadline = run.row.deadline_at if deadline is None else min(deadline, run.row.deadline_at)
        return NewRun(
            run_id=self.run_id,
            uid=ids.new_uid(os.urandom),
            workflow=workflow.name,
            version=workflow.version,
            queue=workflow.queue if options.queue is None else options.queue,
            namespace=run.row.namespace,
            created_at=now,
            codec=codec,
            payload=stored,
            origin=payloads.origin(self.run_id, workflow.origin, delay_until, depth=run.code.depth + 1),
            delay_until=delay_until,
            deadline_at=deadline,
            priority=run.row.priority if options.priority is None else options.priority,
            partition=options.partition,
            parent_key=run.run_key,
            meta=payloads.meta(options.tags, run.host.carrier(run)),
            artifacts=() if artifact is None else (artifact,),
        )


def child_id(run: Run, key: str) -> str:
    """Return the id of the child that a call with this key starts: readable, and no other run's."""
    mark = sha256(run.uid + key.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{run.run_id[:_READABLE]}/{key.rpartition('/')[2][:100]}-{mark}"


def call_child(run: Run, workflow: Workflow[Any, Any], key: str, data: bytes) -> ChildCall:
    """Make a call of a child run, after comparing it with what is recorded of it.

    Raises:
        TooDeep: too many runs are above it, and it has not been started yet.
    """
    started = run.replay.children.get(key)
    if started is None and run.code.depth >= DEEPEST:
        raise TooDeep(
            f"run {run.run_id} has {DEEPEST} runs above it, so its child {key} is not started",
            run_id=run.run_id,
            key=key,
            advice="a workflow that starts itself needs an input that tells it when to stop; to go on for ever, "
            "continue_as_new() begins anew without nesting",
        )
    if started is not None and not run.accept_drift and not _same(workflow, started, data):
        _departs(run, key, started, data)
    return ChildCall(run, workflow, key, data)


def _same(workflow: Workflow[Any, Any], started: Event, data: bytes) -> bool:
    """Whether a child was started with this input, as seen by today's types."""
    recorded = started.args or b""
    if payloads.fields(started.payload).get("workflow") != workflow.name:
        return False
    if is_condensed(recorded) or recorded == condense(data):
        return recorded == condense(data)
    try:
        return workflow.input.encode(workflow.input.decode(recorded)) == data
    except Undecodable:
        return False


def _departs(run: Run, key: str, recorded: Event, found: bytes) -> None:
    """A child was started with another input, or another workflow was, than the code now asks for."""
    said = payloads.fields(recorded.payload)
    drift.depart(
        run,
        DriftError(
            f"run {run.run_id}: the child {key} ({said.get('workflow')}, run {said.get('run_id')!r}) was started with "
            f"another input\n  recorded: {drift.shown(recorded.args or b'')}\n  found:    {drift.shown(found)}",
            run_id=run.run_id,
            key=key,
            recorded=drift.shown(recorded.args or b""),
            found=drift.shown(found),
            advice="nothing was run. Undo the change, keep the old code for old runs with patched() or version=, give "
            "the new call its own key, or resume with accept_drift" + drift.unstable(run),
        ),
    )


def guard_moved(run: Run, call: ChildCall) -> bool:
    """Before a child is created: whether it does not look like a recorded one that nobody has asked for."""
    if run.accept_drift:
        return True
    name, args = step_name(call.key), condense(call.data)
    for key, event in run.replay.children.items():
        if step_name(key) == name and event.args == args:
            return drift.depart(
                run,
                DriftError(
                    f"run {run.run_id}: the child {call.key} ({call.where}) looks like the recorded {key}, "
                    "which nobody asks for",
                    run_id=run.run_id,
                    key=call.key,
                    recorded=key,
                    found=call.key,
                    advice="nothing was run. A call of this workflow was added, removed or moved: give repeated calls "
                    "explicit keys (workflow.with_options(key=…)), keep the old code for old runs with patched() or "
                    "version=, or resume with accept_drift" + drift.unstable(run),
                ),
            )
    return True


def ended_outcome(run: Run, call: ChildCall, event: Event) -> Outcome:
    """Return what a child's end makes of the call that waits for it."""
    status = payloads.fields(event.args).get("status")
    event = run.host.codecs.open(event)
    future = call.let_go()
    if call.cancelled:
        return (future.settle_cancelled,)
    if status == "completed":
        try:
            value = call.workflow.output.decode(run.host.unpack(event))
        except Undecodable as error:
            run.verdict = DriftError(
                f"run {run.run_id}: the result of its child {call.run_id!r} does not decode as "
                f"{call.workflow.name}'s type today: {error}",
                run_id=run.run_id,
                key=call.key,
                advice="nothing was run; make the type accept what is recorded",
            )
            return (_nothing,)
        return future.set_result, value
    failure = _failure(call, status, event)
    run.failures[id(failure)] = (failure, call.key, event.attempt or 1, b"")
    return future.set_exception, failure


def _failure(call: ChildCall, status: object, event: Event) -> BaseException:
    said = payloads.fields(event.payload)
    run_id = call.run_id
    if status == "failed":
        failure = decode_failure(payloads.failure_of(event.payload) or b"{}")
        if isinstance(failure, StepFailed):
            failure = as_run_failed(failure, run_id)
        failure.add_note(f"child run {run_id!r} of {call.workflow.name} failed")
        return failure
    if status == "taken" and "purged_at" in said:
        return purged(run_id, said["status"], said["ended_at"], said["purged_at"])
    if status == "taken":
        return RunConflict(
            f"run id {run_id!r} is taken, so no child run was started under it",
            run_id=run_id,
            advice="give the child another run_id, or none",
        )
    reason = said.get("reason") or "no reason given"
    return RunCancelled(f"child run {run_id!r} was cancelled: {reason}", run_id=run_id, reason=reason)


def request_cancel(run: Run, run_id: str, reason: str) -> None:
    """Ask another run to end, in this run's own commit."""
    send(run, cancellation(reason)._replace(run_id=run_id))


def send(run: Run, message: Message, key: str | None = None) -> None:
    """Send a message to another run, in this run's own commit."""
    message = message._replace(namespace=run.row.namespace)
    run.record(
        Kind.MESSAGE_SENT,
        key,
        payload=payloads.note(kind=message.kind.name.lower(), to=message.run_id, name=message.name),
    )
    assert run.item is not None
    run.item.sends = [*run.item.sends, message]


def tell_parent(run: Run, status: Status, end: Event) -> Message | None:
    """Return what a run that ends with an event posts to its parent; None if it has none or has not ended."""
    parent, kind = run.row.parent_key, _TOLD.get(status)
    if parent is None or kind is None:
        return None
    assert run.item is not None
    large = run.item.artifacts[-1:] if end.codec & payloads.REFERENCE else ()
    return Message(
        kind, run_key=parent, name=run.run_id, codec=end.codec, payload=end.payload, artifacts=tuple(large)
    )  # fmt: skip


def _nothing() -> None:
    pass


__all__ = ["DEEPEST", "ChildCall", "call_child", "child_id", "ended_outcome", "request_cancel", "send", "tell_parent"]
