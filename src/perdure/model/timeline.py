"""When what happened: the attempts, waits and holds of a run as spans of time, worked out from its log.

A pure fold, like ``perdure.model.history``. Instants are µs UTC. Of long logs only the latest lanes are kept.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perdure.model import payloads
from perdure.model.records import Event, Kind, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LANES: Final = 1000
"""Steps, timers, waits and children that are kept, the latest."""
SEGMENTS: Final = 1000
"""Spans of the run itself that are kept, the latest."""


@dataclass(slots=True)
class Span:
    """Something that went on for a while.

    Attributes:
        kind: "attempt", "backoff" (until the next attempt), "timer", "signal", "child"; of the run itself the status
            it was in.
        start: when it began; of timers and signals: since when nothing else had happened.
        end: when it ended, None if it has not; of a backoff, when the next attempt is due.
        outcome: how: "completed", "failed", "cancelled", "interrupted" (its process died); "" if it has not ended or
            that goes without saying.
        attempt: which one.
        seq: of the event that said last of it.
        pid: of the process that executed the run.
    """

    kind: str
    start: int
    end: int | None
    seq: int
    outcome: str = ""
    attempt: int | None = None
    pid: int | None = None


@dataclass(slots=True)
class Lane:
    """All that went on under one key."""

    key: str
    kind: str
    spans: list[Span] = field(default_factory=list)


@dataclass(slots=True)
class Timeline:
    """Everything by key, in the order in which it began, and what became of the run meanwhile.

    Attributes:
        run: the run's own spans, each from one change of its status to the next.
        lanes: by key.
        marks: single moments: what happened, and when.
        omitted: lanes that were let go of.
    """

    run: deque[Span] = field(default_factory=lambda: deque(maxlen=SEGMENTS))
    lanes: OrderedDict[str, Lane] = field(default_factory=OrderedDict)
    marks: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=SEGMENTS))
    omitted: int = 0
    _idle_since: int = 0
    _open: dict[str, Span] = field(default_factory=dict)

    def feed(self, events: Iterable[Event]) -> None:
        """Add events that follow those before."""
        for event in events:
            kind = Kind(event.kind)
            tell = _TELL.get(kind)
            if tell is not None:
                tell(self, event)
            if kind in _MARKS:
                self.marks.append((event.at, kind.word))
            if kind in _OUTCOMES:
                self._idle_since = event.at

    def _lane(self, key: str, kind: str) -> Lane:
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = Lane(key, kind)
            if len(self.lanes) > LANES:
                self.lanes.popitem(last=False)
                self.omitted += 1
        return lane

    def _turn(self, event: Event, status: str, outcome: str = "", pid: int | None = None) -> None:
        """Let the run be in another status from now on; in an ended one, nothing more begins."""
        if self.run and self.run[-1].end is None:
            self.run[-1].end, self.run[-1].outcome = event.at, outcome
        if status:
            self.run.append(Span(status, event.at, None, event.seq, pid=pid))
        if status != Status.RUNNING.word:
            self._settle(event, outcome)

    def _settle(self, event: Event, outcome: str) -> None:
        """End what was under way while the run was executed: nothing is executed any more."""
        for span in self._open.values():
            span.end, span.outcome = event.at, outcome or "interrupted"
        self._open.clear()

    def _attempt(self, event: Event, outcome: str) -> None:
        key = event.key or ""
        lane = self._lane(key, "step")
        span = self._open.pop(key, None)
        if span is None:
            span = Span("attempt", event.at, None, event.seq)
            lane.spans.append(span)
        if not outcome:
            self._open[key] = span
        span.attempt, span.seq = event.attempt or 1, event.seq
        if outcome:
            span.end, span.outcome = event.at, outcome
            span.start = event.at - event.took if event.took is not None else span.start
        next_at = payloads.fields(event.payload).get("next_at") if outcome == "failed" else None
        if next_at is not None:
            lane.spans.append(Span("backoff", event.at, next_at, event.seq, attempt=span.attempt))

    def _waited(self, event: Event, kind: str) -> None:
        self._lane(event.key or "", kind).spans.append(
            Span(kind, min(self._idle_since or event.at, event.at), event.at, event.seq, "completed")
        )

    def _child_started(self, event: Event) -> None:
        self._lane(event.key or "", "child").spans.append(Span("child", event.at, None, event.seq))

    def _child_ended(self, event: Event) -> None:
        lane = self._lane(event.key or "", "child")
        if not lane.spans:
            lane.spans.append(Span("child", event.at, None, event.seq))
        status = payloads.fields(event.args).get("status", "completed")
        lane.spans[-1].end, lane.spans[-1].outcome, lane.spans[-1].seq = event.at, str(status), event.seq


def _suspended(line: Timeline, event: Event) -> None:
    line._turn(event, str(payloads.fields(event.payload).get("status", "sleeping")))  # noqa: SLF001


def _claimed(line: Timeline, event: Event) -> None:
    line._turn(event, Status.RUNNING.word, pid=payloads.fields(event.payload).get("pid"))  # noqa: SLF001


def _turns(status: str, outcome: str = "") -> Callable[[Timeline, Event], None]:
    return lambda line, event: line._turn(event, status, outcome)  # noqa: SLF001


def _attempts(outcome: str) -> Callable[[Timeline, Event], None]:
    return lambda line, event: line._attempt(event, outcome)  # noqa: SLF001


def _waits(kind: str) -> Callable[[Timeline, Event], None]:
    return lambda line, event: line._waited(event, kind)  # noqa: SLF001


_TELL: dict[Kind, Callable[[Timeline, Event], None]] = {
    Kind.RUN_CREATED: _turns("pending"),
    Kind.RUN_FORKED: _turns("pending"),
    Kind.RUN_RESUMED: _turns("pending"),
    Kind.RUN_CLAIMED: _claimed,
    Kind.RUN_SUSPENDED: _suspended,
    Kind.RUN_RELEASED: _turns("pending", "released"),
    Kind.RUN_RECLAIMED: _turns("pending", "interrupted"),
    Kind.RUN_PAUSED: _turns("paused"),
    Kind.RUN_BLOCKED: _turns("blocked"),
    Kind.RUN_COMPLETED: _turns("", "completed"),
    Kind.RUN_CONTINUED: _turns("", "completed"),
    Kind.RUN_FAILED: _turns("", "failed"),
    Kind.RUN_CANCELLED: _turns("", "cancelled"),
    Kind.STEP_STARTED: _attempts(""),
    Kind.STEP_COMPLETED: _attempts("completed"),
    Kind.STEP_FAILED: _attempts("failed"),
    Kind.STEP_CANCELLED: _attempts("cancelled"),
    Kind.TIMER_FIRED: _waits("timer"),
    Kind.SIGNAL_RECEIVED: _waits("signal"),
    Kind.CHILD_STARTED: Timeline._child_started,  # noqa: SLF001 - the fold's own parts
    Kind.CHILD_ENDED: Timeline._child_ended,  # noqa: SLF001
}
_OUTCOMES = frozenset(
    {
        Kind.RUN_CREATED, Kind.STEP_COMPLETED, Kind.STEP_FAILED, Kind.TIMER_FIRED, Kind.SIGNAL_RECEIVED,
        Kind.CHILD_ENDED, Kind.RUN_RESUMED, Kind.RUN_FORKED,
    }
)  # fmt: skip
"""Before these nothing could happen that they have led to."""
_MARKS = frozenset({Kind.CANCEL_DELIVERED, Kind.UNDO_BEGUN, Kind.DRIFT_FOUND, Kind.RUN_FORKED, Kind.RUN_RECLAIMED})

__all__ = ["LANES", "SEGMENTS", "Lane", "Span", "Timeline"]
