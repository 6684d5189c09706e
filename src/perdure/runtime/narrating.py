"""The log of what becomes of runs and steps. Where nobody listens at INFO, a batch costs a question per run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from perdure.model import payloads
from perdure.model.durations import to_datetime
from perdure.model.keys import step_name
from perdure.model.records import Kind, Status, Verdict
from perdure.model.replay import retry_at
from perdure.runtime.about import about
from perdure.runtime.hearing import Hearer
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perdure.model.records import Claim, CommitItem, Event
    from perdure.runtime.run import Run
    from perdure.telemetry.logs import Line

_RUNS, _STEPS = logging.getLogger(lines.RUN_COMPLETED.logger), logging.getLogger(lines.STEP_FAILED.logger)

_LINES: dict[int, Line] = {
    Kind.STEP_COMPLETED: lines.STEP_COMPLETED,
    Kind.STEP_FAILED: lines.STEP_FAILED,
    Kind.STEP_CANCELLED: lines.STEP_CANCELLED,
    Kind.DRIFT_FOUND: lines.DRIFT_FOUND,
    Kind.RUN_SUSPENDED: lines.RUN_SUSPENDED,
    Kind.RUN_PAUSED: lines.RUN_PAUSED,
    Kind.RUN_COMPLETED: lines.RUN_COMPLETED,
    Kind.RUN_CONTINUED: lines.RUN_CONTINUED,
    Kind.RUN_FAILED: lines.RUN_FAILED,
    Kind.RUN_CANCELLED: lines.RUN_CANCELLED,
    Kind.RUN_BLOCKED: lines.RUN_BLOCKED,
}
_BLOCKED = Status.BLOCKED
_OF_STEPS = frozenset({Kind.STEP_COMPLETED, Kind.STEP_FAILED, Kind.STEP_CANCELLED})
_FAILED = frozenset({Kind.STEP_FAILED, Kind.RUN_FAILED})


class Narrator(Hearer):
    """Says what is committed.

    Args:
        raises: whether what becomes of the run is raised to its caller; then it is said only where INFO is heard.
    """

    def __init__(self, *, raises: bool = False) -> None:
        self._raises = raises

    def committed(self, batch: Mapping[Run, CommitItem], verdicts: Sequence[Verdict], seconds: float) -> None:
        """The journal has written a batch."""
        del seconds
        told: Mapping[Run, CommitItem] = batch
        if not (_RUNS.isEnabledFor(logging.INFO) or _STEPS.isEnabledFor(logging.INFO)):
            if self._raises:
                return
            blocked = [run for run, item in batch.items() if item.state is not None and item.state.status is _BLOCKED]
            if not blocked:
                return
            told = {run: batch[run] for run in blocked}
        for (run, item), verdict in zip(batch.items(), verdicts, strict=True):
            if run in told and verdict <= Verdict.ALREADY:
                self.wrote(run, item.events)

    def wrote(self, run: Run, events: Sequence[Event]) -> None:
        """Something was written for a run."""
        if self._raises and not _RUNS.isEnabledFor(logging.INFO):
            return
        for event in events:
            line = _LINES.get(event.kind)
            if line is None:
                continue
            if event.kind == Kind.STEP_FAILED and retry_at(event) is not None:
                line = lines.STEP_RETRIED
            if line.is_heard:
                say(line, **about(run), **_told(event))

    def claimed(self, run: Run, claim: Claim) -> None:
        """A run was claimed."""
        del claim
        if _RUNS.isEnabledFor(logging.DEBUG):
            say(lines.RUN_CLAIMED, **about(run), epoch=run.row.epoch)

    def blocked(self, run: Run, reason: str) -> None:
        """A run was blocked after its hold had ended."""
        del reason
        if self._raises and not _RUNS.isEnabledFor(logging.INFO):
            return
        say(lines.RUN_BLOCKED, **about(run), code="internal")


def _told(event: Event) -> dict[str, Any]:
    """What a line says of an event: nothing that is a value."""
    told: dict[str, Any] = {"seq": event.seq}
    if event.kind in _OF_STEPS:
        assert event.key is not None
        told |= {
            "key": event.key,
            "step": step_name(event.key),
            "attempt": event.attempt,
            "took": (event.took or 0) / 1e6,
        }
    if event.kind in _FAILED:
        told["error_type"] = failure_type(event)
        if event.kind == Kind.STEP_FAILED and (at := retry_at(event)) is not None:
            told["next_at"] = to_datetime(at)
    elif event.kind == Kind.RUN_SUSPENDED:
        told["status"] = payloads.fields(event.payload).get("status")
    elif event.kind in {Kind.RUN_BLOCKED, Kind.DRIFT_FOUND}:
        said = payloads.fields(event.payload)
        told |= {"code": said.get("code"), "key": said.get("key")}
    return told


def failure_type(event: Event) -> str:
    """Return the type of the exception in a failure: ``ValueError``."""
    failure = payloads.fields(event.payload).get("failure")
    return str(failure.get("type", "")) if isinstance(failure, dict) else ""


__all__ = ["Narrator", "failure_type"]
