"""Events in words: one line each, with what was kept from before at every claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure import describe
from perdure.cli.render import Column, Part
from perdure.cli.words import ago, clock, compact, count, span
from perdure.model import payloads
from perdure.model.forking import lineage
from perdure.model.records import Kind
from perdure.words import departure, resumption

if TYPE_CHECKING:
    from collections.abc import Callable

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
        if kind in {Kind.STEP_COMPLETED, Kind.RUN_COMPLETED, Kind.RUN_CREATED, Kind.PROGRESS, Kind.SIGNAL_RECEIVED}:
            value = describe.value(event.payload, event.codec)
            shown = "" if value is None else compact(value)
            return "  ".join(part for part in (_attempt(event), _took(event), shown) if part)
        if kind == Kind.EMITTED:
            return f"{payloads.stream_of(event)}: {compact(describe.value(event.payload, event.codec))}"
        tell = _TOLD.get(kind)
        return (
            tell(event, self._now)
            if tell is not None
            else compact(describe.value(event.payload))
            if event.payload
            else ""
        )

    def _claimed(self, event: Event) -> str:
        said = payloads.fields(event.payload)
        self._claims += 1
        who = f"pid {said.get('pid')}"
        if self._claims > 1 and self._kept:
            who += f": {count(len(self._kept), 'step')} kept, not run again"
        return who


def _attempt(event: Event) -> str:
    return f"attempt {event.attempt}" if event.attempt is not None and event.attempt > 1 else ""


def _took(event: Event) -> str:
    return "" if event.took is None else span(event.took)


def _failed(event: Event, now: int) -> str:
    said = payloads.fields(event.payload)
    line = (describe.failure(payloads.failure_of(event.payload)) or {}).get("line", "")
    if event.kind == Kind.RUN_FAILED:
        return str(line)
    again = f", again {ago(said['next_at'], now)}" if said.get("next_at", 0) > now else ""
    return f"attempt {event.attempt}: {line}{again}"


def _suspended(event: Event, now: int) -> str:
    said = payloads.fields(event.payload)
    wake_at = said.get("wake_at")
    return str(said.get("status")) + (f" until {clock(wake_at, now)}" if wake_at is not None else "")


def _reason(event: Event, now: int) -> str:
    del now
    return str(payloads.fields(event.payload).get("reason") or "")


def _resumed(event: Event, now: int) -> str:
    del now
    return resumption(payloads.fields(event.payload))


def _drift(event: Event, now: int) -> str:
    del now
    return departure(payloads.fields(event.payload))


def _kept_artifact(event: Event, now: int) -> str:
    del now
    said = payloads.fields(event.payload)
    return f"{said.get('name')} ({said.get('size')} bytes)"


_TOLD: dict[Kind, Callable[[Event, int], str]] = {
    Kind.STEP_FAILED: _failed,
    Kind.STEP_STARTED: lambda event, _: f"attempt {event.attempt}",
    Kind.RUN_FAILED: _failed,
    Kind.RUN_SUSPENDED: _suspended,
    Kind.CANCEL_DELIVERED: _reason,
    Kind.RUN_CANCELLED: _reason,
    Kind.RUN_BLOCKED: _reason,
    Kind.RUN_RESUMED: _resumed,
    Kind.UNDO_BEGUN: lambda event, _: ", ".join(payloads.fields(event.payload).get("undo", ())),
    Kind.RUN_RECLAIMED: lambda event, _: "its worker died",  # noqa: ARG005
    Kind.DRIFT_FOUND: _drift,
    Kind.ARTIFACT_KEPT: _kept_artifact,
}
