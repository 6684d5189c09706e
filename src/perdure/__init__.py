"""Durable workflows for Python: plain functions whose finished steps are never run again, whatever dies."""

from __future__ import annotations

from perdure import errors, sync
from perdure.combine import map as map
from perdure.combine import parallel, sleep, sleep_until
from perdure.context import (
    INJECTED,
    RunContext,
    StepContext,
    is_replaying,
    now,
    random,
    run_context,
    step_context,
    uuid4,
)
from perdure.engine import Engine
from perdure.errors import PerdureError, RetryAfter
from perdure.handle import Handle
from perdure.here import arun, run
from perdure.model.hints import volatile
from perdure.model.records import Status
from perdure.model.retry import Retry
from perdure.patches import patched
from perdure.workflow import step, workflow

__all__ = [
    "INJECTED",
    "Engine",
    "Handle",
    "PerdureError",
    "Retry",
    "RetryAfter",
    "RunContext",
    "Status",
    "StepContext",
    "arun",
    "errors",
    "is_replaying",
    "map",
    "now",
    "parallel",
    "patched",
    "random",
    "run",
    "run_context",
    "sleep",
    "sleep_until",
    "step",
    "step_context",
    "sync",
    "uuid4",
    "volatile",
    "workflow",
]
