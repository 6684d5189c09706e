"""What a log means: the one fold from events to a view of the run. Engine, command line and web all read this."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perdure.model import payloads
from perdure.model.failures import failure_text
from perdure.model.forking import Lineage, lineage
from perdure.model.keys import patch_name, step_name
from perdure.model.records import Event, Kind, Status
from perdure.model.replay import retry_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_STEP_STATUS = {
    Kind.STEP_COMPLETED: "completed",
    Kind.STEP_CANCELLED: "cancelled",
    Kind.STEP_STARTED: "running",
}
_OPEN = frozenset({"running", "retrying"})
"""Statuses of steps that have no outcome yet."""


@dataclass(slots=True)
class StepView:
    """A step of a run. Instants and durations in µs; ``failure`` and ``result`` as stored."""

    key: str
    name: str
    status: str
    attempt: int
    seq: int
    at: int
    took: int | None = None
    next_at: int | None = None
    result: Event | None = None
    failure: bytes | None = None
    failures: list[tuple[int, bytes]] = field(default_factory=list)
    """Every failed attempt: its number and failure."""
    progress: bytes | None = None
    artifacts: dict[str, bytes] = field(default_factory=dict)
    coded: frozenset[str] = frozenset()
    """Names of those artifacts that went through codecs."""
    args: bytes | None = None
    """What it was called with; None while that is not recorded."""


@dataclass(slots=True)
class ChildView:
    """A child of a run: its id, its workflow, and how it ended ("running" until then)."""

    key: str
    run_id: str
    workflow: str
    status: str
    seq: int


@dataclass(slots=True)
class RunView:
    """A run as its log tells it."""

    status: Status = Status.PENDING
    epoch: int = 0
    seq: int = 0
    hash: bytes = b""
    created_at: int = 0
    updated_at: int = 0
    ended_at: int | None = None
    wake_at: int | None = None
    reason: str | None = None
    cancel_reason: str | None = None
    input: Event | None = None
    result: Event | None = None
    failure: bytes | None = None
    failed_steps: list[str] = field(default_factory=list)
    steps: dict[str, StepView] = field(default_factory=dict)
    claims: int = 0
    crashes: int = 0
    timers: int = 0
    streams: dict[str, int] = field(default_factory=dict)
    """How many values were emitted to each stream."""
    forked_from: Lineage | None = None
    """Where it was forked from, if it was."""
    awaits: list[str] = field(default_factory=list)
    """Names of the signals that it waits for."""
    signals: dict[str, int] = field(default_factory=dict)
    """How many messages of each signal it has consumed."""
    children: dict[str, ChildView] = field(default_factory=dict)
    patches: list[str] = field(default_factory=list)
    """Names of the patches that the run has taken, in their order."""
    undone: list[str] = field(default_factory=list)
    """Keys of the compensations whose turn has come, in that order; empty if the run has undone nothing."""
    undone_from: str | None = None
    """Key of the first step that was called after something was registered which has been undone since."""
    not_undone: list[str] = field(default_factory=list)
    """Keys of the compensations that the run has ended, or was blocked, without."""


_KEYED = frozenset(
    {
        Kind.TIMER_FIRED,
        Kind.PATCH_MARKED,
        Kind.EMITTED,
        Kind.SIGNAL_RECEIVED,
        Kind.CHILD_STARTED,
        Kind.CHILD_ENDED,
        Kind.MESSAGE_SENT,
        Kind.UNDO_BEGUN,
    }
)
"""Kinds with a key that is not a step's."""


def fold(events: Iterable[Event], view: RunView | None = None) -> RunView:
    """Fold a log, or the part of it that follows what ``view`` has seen."""
    view = RunView() if view is None else view
    for event in events:
        apply(view, event)
    return view


def apply(view: RunView, event: Event) -> None:
    """Add one event to a view."""
    kind = Kind(event.kind)
    view.seq, view.hash, view.epoch, view.updated_at = event.seq, event.hash, event.epoch, event.at
    if event.key is not None and kind not in _KEYED:
        _apply_step(view, kind, event, event.key)
        return
    if kind in _MOVES:
        view.status = _MOVES[kind]
        view.wake_at, view.awaits = None, []
        view.ended_at = event.at if view.status.terminal else None
    effect = _EFFECTS.get(kind)
    if effect is not None:
        effect(view, event)


def _created(view: RunView, event: Event) -> None:
    view.created_at, view.input, view.forked_from = event.at, event, lineage(event)
    view.wake_at = payloads.fields(event.args).get("delay_until")


def _claimed(view: RunView, _event: Event) -> None:
    view.claims += 1
    view.reason = None


def _reclaimed(view: RunView, _event: Event) -> None:
    view.crashes += 1


def _timer_fired(view: RunView, _event: Event) -> None:
    view.timers += 1


def _emitted(view: RunView, event: Event) -> None:
    stream = payloads.stream_of(event)
    view.streams[stream] = view.streams.get(stream, 0) + 1
    if event.attempt is not None and event.key is not None:
        _step_of(view, event, event.key)


def _forked(view: RunView, event: Event) -> None:
    view.created_at = event.at
    # What was under way in the origin is done anew here, and so is what its cancel met.
    anew = _OPEN if view.cancel_reason is None else {*_OPEN, "cancelled"}
    view.steps = {key: step for key, step in view.steps.items() if step.status not in anew}
    view.cancel_reason = None


def _patch_marked(view: RunView, event: Event) -> None:
    view.patches.append(patch_name(event.key or ""))


def _suspended(view: RunView, event: Event) -> None:
    said = payloads.fields(event.payload)
    view.status, view.wake_at = Status[said["status"].upper()], said.get("wake_at")
    view.awaits, view.reason = said.get("awaits", []), said.get("reason")


def _signal_received(view: RunView, event: Event) -> None:
    name = payloads.fields(event.args).get("name", "")
    view.signals[name] = view.signals.get(name, 0) + 1


def _child_started(view: RunView, event: Event) -> None:
    said = payloads.fields(event.payload)
    key = event.key or ""
    view.children[key] = ChildView(key, said.get("run_id", ""), said.get("workflow", ""), "running", event.seq)


def _child_ended(view: RunView, event: Event) -> None:
    child = view.children.get(event.key or "")
    if child is not None:
        child.status, child.seq = str(payloads.fields(event.args).get("status", "")), event.seq


def _paused(view: RunView, event: Event) -> None:
    view.reason = payloads.fields(event.payload).get("reason") or None


def _cancel_delivered(view: RunView, event: Event) -> None:
    view.cancel_reason = payloads.fields(event.payload).get("reason", "")


def _completed(view: RunView, event: Event) -> None:
    view.result = event


def _undo_begun(view: RunView, event: Event) -> None:
    said = payloads.fields(event.payload)
    view.undone += said.get("undo", ())
    view.undone_from = view.undone_from or said.get("from")


def _ended(view: RunView, event: Event) -> None:
    said = payloads.fields(event.payload)
    view.not_undone = said.get("not_undone", [])
    view.failure = payloads.failure_of(event.payload)
    view.reason = said.get("reason") or (failure_text(view.failure) if view.failure else None)
    view.failed_steps = said.get("steps", [])


def _resumed(view: RunView, event: Event) -> None:
    said = payloads.fields(event.payload)
    view.failure, view.reason, view.failed_steps, view.not_undone = None, None, [], []
    if not said.get("keep"):
        view.cancel_reason = None
    for key in said.get("supersede", ()):
        if key in view.steps:
            view.steps[key].status = "superseded"
        elif key in view.children:
            view.children[key].status = "running"


_EFFECTS: dict[Kind, Callable[[RunView, Event], None]] = {
    Kind.RUN_CREATED: _created,
    Kind.RUN_FORKED: _forked,
    Kind.RUN_CLAIMED: _claimed,
    Kind.RUN_RECLAIMED: _reclaimed,
    Kind.TIMER_FIRED: _timer_fired,
    Kind.PATCH_MARKED: _patch_marked,
    Kind.EMITTED: _emitted,
    Kind.RUN_SUSPENDED: _suspended,
    Kind.RUN_PAUSED: _paused,
    Kind.SIGNAL_RECEIVED: _signal_received,
    Kind.UNDO_BEGUN: _undo_begun,
    Kind.CHILD_STARTED: _child_started,
    Kind.CHILD_ENDED: _child_ended,
    Kind.CANCEL_DELIVERED: _cancel_delivered,
    Kind.RUN_COMPLETED: _completed,
    Kind.RUN_FAILED: _ended,
    Kind.RUN_CANCELLED: _ended,
    Kind.RUN_BLOCKED: _ended,
    Kind.RUN_RESUMED: _resumed,
}
"""What an event changes besides the status."""

_MOVES = {
    Kind.RUN_CREATED: Status.PENDING,
    Kind.RUN_CLAIMED: Status.RUNNING,
    Kind.RUN_RECLAIMED: Status.RUNNING,
    Kind.RUN_RELEASED: Status.RUNNING,
    Kind.RUN_RESUMED: Status.PENDING,
    Kind.RUN_FORKED: Status.PENDING,
    Kind.RUN_PAUSED: Status.PAUSED,
    Kind.RUN_COMPLETED: Status.COMPLETED,
    Kind.RUN_FAILED: Status.FAILED,
    Kind.RUN_CANCELLED: Status.CANCELLED,
    Kind.RUN_BLOCKED: Status.BLOCKED,
    Kind.RUN_CONTINUED: Status.COMPLETED,
}


def _step_of(view: RunView, event: Event, key: str) -> StepView:
    step = view.steps.get(key)
    if step is None:
        step = view.steps[key] = StepView(key, step_name(key), "running", event.attempt or 1, event.seq, event.at)
    return step


def _apply_step(view: RunView, kind: Kind, event: Event, key: str) -> None:
    step = _step_of(view, event, key)
    if kind == Kind.PROGRESS:
        step.progress = event.payload
        return
    if kind == Kind.ARTIFACT_KEPT:
        said = payloads.fields(event.payload)
        step.artifacts[said["name"]] = bytes.fromhex(said["hash"])
        step.coded = step.coded | {said["name"]} if said.get("coded") else step.coded - {said["name"]}
        return
    step.seq, step.at, step.took, step.next_at = event.seq, event.at, event.took, None
    step.attempt = event.attempt or step.attempt
    step.args = event.args or step.args
    step.status = _STEP_STATUS.get(kind, step.status)
    if kind == Kind.STEP_COMPLETED:
        step.result, step.failure = event, None
    elif kind == Kind.STEP_FAILED:
        step.failure = payloads.failure_of(event.payload)
        step.failures.append((step.attempt, step.failure or b"{}"))
        step.next_at = retry_at(event)
        step.status = "failed" if step.next_at is None else "retrying"
