"""Statuses in words and colours; the other words are those of ``perdure.words``."""

from __future__ import annotations

from perdure.cli.render import Part
from perdure.model.records import Status
from perdure.words import ago, clock, compact, count, day_and_time, span, state_of

STATUS_STYLES = {
    Status.PENDING: "",
    Status.RUNNING: "busy",
    Status.SLEEPING: "warn",
    Status.WAITING: "warn",
    Status.RETRYING: "warn",
    Status.PAUSED: "warn",
    Status.BLOCKED: "bad",
    Status.COMPLETED: "good",
    Status.FAILED: "bad",
    Status.CANCELLED: "dim",
}

STEP_MARKS = {
    "completed": Part("✓", "good"),
    "failed": Part("✗", "bad"),
    "cancelled": Part("–", "dim"),
    "running": Part("…", "busy"),
    "retrying": Part("↻", "warn"),
    "superseded": Part("↻", "dim"),
    "interrupted": Part("!", "warn"),
}

STEP_STYLES = {
    "completed": "good",
    "failed": "bad",
    "cancelled": "dim",
    "running": "busy",
    "retrying": "warn",
    "superseded": "dim",
    "interrupted": "warn",
}


def status_part(status: Status) -> Part:
    """Return a run's status in its colour."""
    return Part(status.word, STATUS_STYLES[status])


__all__ = [
    "STATUS_STYLES",
    "STEP_MARKS",
    "STEP_STYLES",
    "ago",
    "clock",
    "compact",
    "count",
    "day_and_time",
    "span",
    "state_of",
    "status_part",
]
