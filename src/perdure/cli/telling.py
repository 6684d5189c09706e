"""Events in words: one line each, with what was kept from before at every claim."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from perdure import describe
from perdure.cli.render import Column, Part
from perdure.cli.words import clock, count
from perdure.model import payloads
from perdure.model.durations import instant as micros_of
from perdure.model.forking import lineage
from perdure.model.records import Kind
from perdure.telling import event_line

if TYPE_CHECKING:
    from perdure.cli.render import Cell
    from perdure.model.forking import Lineage
    from perdure.model.records import Event

COLUMNS = (
    Column("SEQ", right=True),
    Column("TIME"),
    Column("EVENT"),
    Column("STEP", flexible=True),
    Column("", flexible=True),
)

_STYLES = {
    Kind.STEP_COMPLETED: "good",
    Kind.RUN_COMPLETED: "good",
    Kind.RUN_CONTINUED: "good",
    Kind.CHILD_ENDED: "good",
    Kind.STEP_FAILED: "bad",
    Kind.RUN_FAILED: "bad",
    Kind.RUN_BLOCKED: "bad",
    Kind.DRIFT_FOUND: "bad",
    Kind.RUN_CLAIMED: "busy",
    Kind.RUN_RESUMED: "busy",
    Kind.RUN_FORKED: "busy",
    Kind.STEP_STARTED: "busy",
    Kind.RUN_SUSPENDED: "warn",
    Kind.UNDO_BEGUN: "warn",
    Kind.TIMER_FIRED: "warn",
    Kind.SIGNAL_RECEIVED: "warn",
    Kind.RUN_RECLAIMED: "warn",
    Kind.PATCH_MARKED: "dim",
    Kind.STEP_CANCELLED: "dim",
    Kind.RUN_CANCELLED: "dim",
    Kind.RUN_RELEASED: "dim",
}


class Teller:
    """Tells a log event by event; what an event means may hang on those before it.

    Args:
        now: today, for times without a date.
    """

    def __init__(self, now: int) -> None:
        self._now = now
        self._kept: set[str] = set()
        self._claims = 0
        self._forked: Lineage | None = None
        self._last = 0

    def row(self, event: Event) -> tuple[Cell, ...]:
        """Return one event as a row of ``COLUMNS``."""
        kind = Kind(event.kind)
        detail = self._detail(kind, event)
        if kind == Kind.RUN_CREATED:
            self._forked = lineage(event)
        if kind == Kind.STEP_COMPLETED and event.key is not None:
            self._kept.add(event.key)
        shown = clock(event.at, self._now)
        return (
            Part(str(event.seq), "dim"),
            Part(shown, "dim"),
            Part(kind.word, _STYLES.get(kind, "")),
            event.key or "",
            Part(detail, "dim" if kind in {Kind.RUN_CREATED, Kind.STEP_STARTED} else ""),
        )

    def _detail(self, kind: Kind, event: Event) -> str:
        if kind == Kind.RUN_CLAIMED:
            return self._claimed(event)
        if kind == Kind.RUN_FORKED and self._forked is not None:
            return f"from {self._forked.run_id}, before {self._forked.step}"
        return event_line(describe.event(event), self._when)

    def _when(self, instant: str) -> str:
        return clock(micros_of(datetime.fromisoformat(instant)), self._now)

    def _claimed(self, event: Event) -> str:
        said = payloads.fields(event.payload)
        self._claims += 1
        who = f"pid {said.get('pid')}"
        if self._claims > 1 and self._kept:
            who += f": {count(len(self._kept), 'step')} kept, not run again"
        return who
