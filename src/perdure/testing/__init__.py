"""What users and third parties test with: a clock moved by hand, effects counted outside the engine, and crashes."""

from __future__ import annotations

from perdure.testing.blocking import SyncEnv
from perdure.testing.checks import UnsafeCode, check
from perdure.testing.clock import ManualClock
from perdure.testing.completion import RunNotFinished, run_to_completion
from perdure.testing.environment import Env, EnvHandle, EnvOptions
from perdure.testing.explore import explore_crashes
from perdure.testing.fakes import Override
from perdure.testing.histories import HistoryDeparts, replay_history
from perdure.testing.ledger import Entry, Ledger
from perdure.testing.opening import EnvFactory, Opening, env
from perdure.testing.points import CommitPoints
from perdure.testing.ran import BodyRan, Ran
from perdure.testing.report import Report, Row, UnsafeWorkflow

__all__ = [
    "BodyRan",
    "CommitPoints",
    "Entry",
    "Env",
    "EnvFactory",
    "EnvHandle",
    "EnvOptions",
    "HistoryDeparts",
    "Ledger",
    "ManualClock",
    "Opening",
    "Override",
    "Ran",
    "Report",
    "Row",
    "RunNotFinished",
    "SyncEnv",
    "UnsafeCode",
    "UnsafeWorkflow",
    "check",
    "env",
    "explore_crashes",
    "replay_history",
    "run_to_completion",
]
