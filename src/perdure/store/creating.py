"""What a new run is before any database has it: its first events, its row, and its place among those to be claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.model.chain import genesis, seal
from perdure.model.records import FORMAT, Event, Kind, RunRow, Status

if TYPE_CHECKING:
    from perdure.model.records import NewRun

PRIORITY_WEIGHT: Final = 3_600_000_000
"""How much waiting, in µs, one level of priority is worth: a run that waits long enough passes every priority."""

URGENT: Final = -(1 << 62)
"""The rank of a run that is to be cancelled by whoever claims it next: before every other."""

_MOST_PRIORITY: Final = 1_000_000


def created(run: NewRun, key: int) -> Event:
    """The event that creates a run."""
    return seal(
        genesis(run.uid), key, 1, run.created_at, 0, Kind.RUN_CREATED,
        codec=run.codec, payload=run.payload, args=run.origin,
    )  # fmt: skip


def claimed(first: Event, facts: bytes, now: int) -> Event:
    """The event after ``first`` of a run that is claimed as it is created."""
    return seal(first.hash, first.run_key, 2, max(now, first.at), 1, Kind.RUN_CLAIMED, payload=facts)


def is_delayed(run: NewRun, now: int) -> bool:
    """Whether a run must not begin yet."""
    return run.delay_until is not None and run.delay_until > now


def priority(run: NewRun) -> int:
    """A run's priority, kept within what a rank can hold."""
    return max(-_MOST_PRIORITY, min(run.priority, _MOST_PRIORITY))


def rank(run: NewRun) -> int:
    """The place of a run that can be claimed at once."""
    return (run.delay_until or run.created_at) - priority(run) * PRIORITY_WEIGHT


def row(run: NewRun, key: int, last: Event, worker: int | None, *, delayed: bool) -> RunRow:
    """A run's row once ``last`` is the last event of its log."""
    return RunRow(
        key, run.namespace, run.run_id, run.uid, run.workflow, run.version, run.queue,
        Status.PENDING if worker is None else Status.RUNNING, last.epoch, worker, last.seq, last.hash, 0, 0,
        run.delay_until if delayed else None, run.deadline_at, priority(run), run.partition, run.parent_key,
        run.idempotency_key, None, run.meta, FORMAT, run.created_at, None,
    )  # fmt: skip


__all__ = ["PRIORITY_WEIGHT", "URGENT", "claimed", "created", "is_delayed", "priority", "rank", "row"]
