"""Durable workflows for Python: plain functions whose finished steps are never run again, whatever dies."""

from __future__ import annotations

from perdure import errors, sync
from perdure.children import Child
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
from perdure.continuing import continue_as_new
from perdure.diagnosis import Cause, Explanation, Finding
from perdure.engine import Engine
from perdure.errors import PerdureError, RetryAfter
from perdure.handle import Handle
from perdure.here import arun, run
from perdure.hooks import Hooks, Notice, WorkerNotice
from perdure.model.counting import Bucket, Counts, Latency, Traffic
from perdure.model.failures import Failure
from perdure.model.hints import volatile
from perdure.model.records import Event, Kind, Status
from perdure.model.retention import Retention
from perdure.model.retry import Retry
from perdure.model.secrecy import secret
from perdure.operations import Pruned, Runs, Tally
from perdure.patches import patched
from perdure.queueing import QueueView
from perdure.queues import Queue, Rate
from perdure.saga import Undo, saga
from perdure.schedules import OccurrenceView, ScheduleHandle, ScheduleView
from perdure.signals import Signal
from perdure.streams import Emitted, Stream, emit
from perdure.workflow import step, workflow

__all__ = [
    "INJECTED",
    "Bucket",
    "Cause",
    "Child",
    "Counts",
    "Emitted",
    "Engine",
    "Event",
    "Explanation",
    "Failure",
    "Finding",
    "Handle",
    "Hooks",
    "Kind",
    "Latency",
    "Notice",
    "OccurrenceView",
    "PerdureError",
    "Pruned",
    "Queue",
    "QueueView",
    "Rate",
    "Retention",
    "Retry",
    "RetryAfter",
    "RunContext",
    "Runs",
    "ScheduleHandle",
    "ScheduleView",
    "Signal",
    "Status",
    "StepContext",
    "Stream",
    "Tally",
    "Traffic",
    "Undo",
    "WorkerNotice",
    "arun",
    "continue_as_new",
    "emit",
    "errors",
    "is_replaying",
    "map",
    "now",
    "parallel",
    "patched",
    "random",
    "run",
    "run_context",
    "saga",
    "secret",
    "sleep",
    "sleep_until",
    "step",
    "step_context",
    "sync",
    "uuid4",
    "volatile",
    "workflow",
]
