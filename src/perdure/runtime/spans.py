"""Spans of executions and attempts. A replay makes none but its execution's own: what is not executed has no span.

What a provider, sampler or processor of the user's raises is said once, and touches no run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.model import payloads
from perdure.model.records import Kind
from perdure.runtime.about import about
from perdure.runtime.bodies import Abort
from perdure.runtime.hearing import Hearer
from perdure.runtime.narrating import failure_type
from perdure.telemetry.logs import type_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextvars import Context

    from perdure.model.records import Claim, Event
    from perdure.model.schedules import ScheduleChange, ScheduleRow
    from perdure.runtime.bodies import Body
    from perdure.runtime.run import Run
    from perdure.telemetry.otel import Span, Tracing

_OUTCOMES = {
    Kind.RUN_COMPLETED: "completed",
    Kind.RUN_FAILED: "failed",
    Kind.RUN_CANCELLED: "cancelled",
    Kind.RUN_BLOCKED: "blocked",
    Kind.RUN_CONTINUED: "continued",
    Kind.RUN_SUSPENDED: "suspended",
    Kind.RUN_PAUSED: "paused",
}
_INTERRUPTED = frozenset({Abort.STOP, Abort.LOST})


class Spans(Hearer):
    """Makes the spans of one worker."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._open: dict[Run, Span] = {}
        self._refused: dict[Run, str] = {}

    # -- executions

    def claimed(self, run: Run, claim: Claim) -> None:
        """A run was claimed: its span is in the trace that was kept with it."""
        try:
            parent = self._tracing.kept(payloads.trace_of(claim.row.meta))
            attributes = {**_attributes(run), "perdure.version": claim.row.version, "perdure.epoch": claim.row.epoch}
            self._open[run] = self._tracing.start(f"run {run.workflow}", "consumer", attributes, parent)
        except Exception as error:  # noqa: BLE001 - the user's provider
            self._tracing.fails(error)

    def wrote(self, run: Run, events: Sequence[Event]) -> None:
        """A run that this build refuses was released or blocked."""
        if events and run in self._open:
            self._refused[run] = _OUTCOMES.get(Kind(events[-1].kind), "released")

    def left(self, run: Run) -> None:
        """A run is not executed here any more."""
        span = self._open.pop(run, None)
        if span is None:
            return
        leaving = run.leaving
        outcome = self._refused.pop(run, None)
        if outcome is None and leaving is not None and leaving.seq <= run.durable and not run.gone:
            outcome = _OUTCOMES.get(Kind(leaving.kind))
        if outcome is None:
            outcome = "released" if run.stopping and run.fault is None else "lost"
        error = ""
        if run.fault is not None:
            error = type_of(run.fault)
        elif outcome == "failed" and leaving is not None:
            error = failure_type(leaving)
        try:
            self._tracing.end(span, error=error, outcome=outcome)
        except Exception as raised:  # noqa: BLE001 - the user's provider
            self._tracing.fails(raised)

    def enter(self, run: Run, context: Context) -> None:
        """Make a context that of a run's code."""
        span = self._open.get(run)
        if span is not None:
            context.run(self._tracing.enter_run, span)

    def carrier(self, run: Run) -> dict[str, str]:
        """Return the context that is kept with what a run starts."""
        span = self._open.get(run)
        return payloads.trace_of(run.row.meta) if span is None else self._tracing.carrier(span)

    # -- attempts

    def begin(self, body: Body) -> Span | None:
        """Begin the span of an attempt, and make it the current one of its body."""
        run, call = body.run, body.call
        execution = self._open.get(run)
        if execution is None:
            return None
        attributes = {
            **_attributes(run),
            "perdure.step": call.step.name,
            "perdure.step_key": call.key,
            "perdure.attempt": body.attempt,
        }
        try:
            parent = body.context.run(self._tracing.within, execution)
            span = self._tracing.start(f"step {call.step.name}", "internal", attributes, parent)
            body.context.run(self._tracing.enter, span, parent)
        except Exception as error:  # noqa: BLE001 - the user's provider
            self._tracing.fails(error)
            return None
        return span

    def end(self, body: Body, span: Span) -> None:
        """End the span of an attempt that has settled."""
        error, outcome = body.error, "completed"
        if error is not None:
            outcome = "failed"
            if body.aborted:
                outcome = "interrupted" if body.abort in _INTERRUPTED else "cancelled"
        try:
            self._tracing.end(
                span, error=type_of(error) if error is not None and outcome == "failed" else "", outcome=outcome
            )
        except Exception as raised:  # noqa: BLE001 - the user's provider
            self._tracing.fails(raised)

    # -- schedules

    def fired(self, row: ScheduleRow, change: ScheduleChange) -> ScheduleChange:
        """Have the runs that a schedule starts begin a trace of their own."""
        return self._tracing.scheduled(row, change)


def _attributes(run: Run) -> dict[str, Any]:
    return {f"perdure.{name}": value for name, value in about(run).items()}


__all__ = ["Spans"]
