"""What users and third parties test with: a clock moved by hand, effects counted outside the engine, and crashes."""

from __future__ import annotations

from perdure.testing.checks import UnsafeCode, check
from perdure.testing.clock import ManualClock
from perdure.testing.completion import RunNotFinished, run_to_completion
from perdure.testing.explore import explore_crashes
from perdure.testing.ledger import Entry, Ledger
from perdure.testing.points import CommitPoints
from perdure.testing.report import Report, Row, UnsafeWorkflow

__all__ = [
    "CommitPoints",
    "Entry",
    "Ledger",
    "ManualClock",
    "Report",
    "Row",
    "RunNotFinished",
    "UnsafeCode",
    "UnsafeWorkflow",
    "check",
    "explore_crashes",
    "run_to_completion",
]
