"""Metrics of what is executed here, counted where it is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model import payloads
from perdure.model.keys import step_name
from perdure.model.records import Kind, Verdict
from perdure.model.replay import retry_at
from perdure.runtime.hearing import Hearer
from perdure.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perdure.model.records import Claim, CommitItem, Event
    from perdure.runtime.run import Run
    from perdure.store.protocol import Reclaimed
    from perdure.telemetry.metrics import Numbers

_ATTEMPTS = {Kind.STEP_COMPLETED: "completed", Kind.STEP_FAILED: "failed", Kind.STEP_CANCELLED: "cancelled"}
_ENDS = {
    Kind.RUN_COMPLETED: "completed",
    Kind.RUN_FAILED: "failed",
    Kind.RUN_CANCELLED: "cancelled",
    Kind.RUN_CONTINUED: "continued",
}
_RUNS = {
    Kind.RUN_SUSPENDED: metrics.SUSPENDED,
    Kind.RUN_BLOCKED: metrics.BLOCKED,
    Kind.DRIFT_FOUND: metrics.DRIFT,
}


class Counting(Hearer):
    """Counts what is committed."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    def committed(self, batch: Mapping[Run, CommitItem], verdicts: Sequence[Verdict], seconds: float) -> None:
        """The journal has written a batch."""
        events = 0
        for (run, item), verdict in zip(batch.items(), verdicts, strict=True):
            if verdict <= Verdict.ALREADY:
                events += len(item.events)
                self.wrote(run, item.events)
        self._numbers.observe(metrics.COMMIT_TIME, seconds)
        self._numbers.observe(metrics.COMMIT_EVENTS, events)

    def wrote(self, run: Run, events: Sequence[Event]) -> None:
        """Something was written for a run."""
        for event in events:
            kind = event.kind
            if kind in _ATTEMPTS:
                self._attempt(run, event)
            elif kind in _ENDS:
                self._numbers.count(metrics.ENDED, (run.workflow, run.row.queue, _ENDS[Kind(kind)]))
            elif kind in _RUNS:
                self._numbers.count(_RUNS[Kind(kind)], (run.workflow, run.row.queue))

    def _attempt(self, run: Run, event: Event) -> None:
        assert event.key is not None
        step = step_name(event.key)
        outcome = _ATTEMPTS[Kind(event.kind)]
        if event.kind == Kind.STEP_FAILED and retry_at(event) is not None:
            outcome = "retried"
        self._numbers.count(metrics.ATTEMPTS, (run.workflow, step, outcome))
        if event.took is not None:
            self._numbers.observe(metrics.STEP_TIME, event.took / 1e6, (run.workflow, step))

    def claimed(self, run: Run, claim: Claim) -> None:
        """A run was claimed."""
        del run
        row = claim.row
        self._numbers.count(metrics.CLAIMED, (row.workflow, row.queue))
        first = claim.events[0]
        if first.kind == Kind.RUN_CREATED and len(claim.events) == 2:  # noqa: PLR2004 - created, claimed
            self._numbers.count(metrics.STARTED, (row.workflow, row.queue))
            could_begin = max(first.at, payloads.delay_until(first) or 0)
            waited = max(0, claim.events[1].at - could_begin) / 1e6
            self._numbers.observe(metrics.CLAIM_WAIT, waited, (row.queue,))

    def reclaimed(self, runs: Sequence[Reclaimed]) -> None:
        """Runs were taken back from dead workers."""
        blocked = sum(one.blocked for one in runs)
        self._numbers.count(metrics.RECLAIMED, (), len(runs) - blocked)
        self._numbers.count(metrics.RECLAIM_BLOCKED, (), blocked)

    def blocked(self, run: Run, reason: str) -> None:
        """A run was blocked after its hold had ended."""
        del reason
        self._numbers.count(metrics.BLOCKED, (run.workflow, run.row.queue))

    def renewed(self, *, late: bool) -> None:
        """The lease was renewed."""
        self._numbers.count(metrics.HEARTBEATS)
        if late:
            self._numbers.count(metrics.HEARTBEATS_LATE)

    def lease_lost(self) -> None:
        """Others took this worker for dead."""
        self._numbers.count(metrics.LEASES_LOST)

    def claim_took(self, seconds: float) -> None:
        """The store has answered a claim."""
        self._numbers.observe(metrics.CLAIM_TIME, seconds)


__all__ = ["Counting"]
