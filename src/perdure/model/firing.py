"""What is decided about a schedule's occurrences: pure functions from a row and an instant to a change of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perdure.errors import DefinitionError
from perdure.model import cadence, payloads
from perdure.model.cadence import jittered
from perdure.model.durations import FOREVER, to_datetime
from perdure.model.records import NewRun
from perdure.model.schedules import (
    MANY,
    Occurrence,
    OccurrenceKind,
    ScheduleChange,
    ScheduleState,
    decode_policy,
    listed,
    names,
    numbers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.model.cadence import Cadence
    from perdure.model.records import Artifact
    from perdure.model.schedules import Policy, ScheduleRow

QUEUED: Final = 100
"""Occurrences that may wait for earlier runs to end."""
AT_ONCE: Final = 100
"""Occurrences decided in one transaction."""

MISSED: Final = "missed: nobody was there to start it in time"
OVERLAPPED: Final = "an earlier run had not ended"
FULL: Final = f"{QUEUED} others were waiting already"
SUPERSEDED: Final = "the next one was due before it could start"
PAUSED: Final = "the schedule was paused"
REPLACED: Final = "the schedule was given another cadence before it was started"
REMOVED: Final = "the schedule was removed before it was started"
TAKEN: Final = "a run of its id was there already"


@dataclass(slots=True)
class Decision:
    """What is decided about the occurrences of one schedule up to an instant."""

    watermark: int
    starts: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    skipped: list[tuple[int, int, str]] = field(default_factory=list)
    """First, last, and why."""
    cancels: bool = False
    """Whether the runs that have not ended are to be."""


def run_id(key: str, occurrence: int) -> str:
    """Return the id of an occurrence's run: ``nightly@2026-01-01T00:00:00Z``."""
    return f"{key}@{to_datetime(occurrence).replace(tzinfo=None).isoformat()}Z"


def due(row: ScheduleRow, when: Cadence, policy: Policy) -> int | None:
    """Return when the next occurrence after the watermark is due; None if there is none, or it does not fire."""
    following = when.next(row.watermark) if row.state == ScheduleState.ACTIVE else None
    return None if following is None else jittered(row.key, following, policy.jitter)


def decide(row: ScheduleRow, when: Cadence, policy: Policy, now: int) -> Decision:
    """Decide what becomes of the occurrences that are due, and of those that wait.

    At most ``AT_ONCE`` are decided one by one; what is left is still due. Long rows that meet the same fate are not
    walked through.
    """
    made = Decision(row.watermark, waiting=numbers(row.waiting))
    busy = bool(names(row.active))
    _miss(made, when, policy, now)
    if policy.overlap == "cancel":
        _replace(made, row, when, policy, now, busy=busy)
        return made
    while made.waiting and (not busy or policy.overlap == "allow") and len(made.starts) < AT_ONCE:
        made.starts.append(made.waiting.pop(0))
        busy = True
    for _ in range(AT_ONCE):
        occurrence = when.next(made.watermark)
        if occurrence is None or (at := jittered(row.key, occurrence, policy.jitter)) > now:
            break
        made.watermark = occurrence
        if at < now - policy.catch_up:
            made.skipped.append((occurrence, occurrence, MISSED))
        elif not busy or policy.overlap == "allow":
            made.starts.append(occurrence)
            busy = True
        elif policy.overlap == "queue" and len(made.waiting) < QUEUED:
            made.waiting.append(occurrence)
        else:
            made.watermark = _last_due(when, policy, now, occurrence)
            made.skipped.append((occurrence, made.watermark, FULL if policy.overlap == "queue" else OVERLAPPED))
    return made


def fire(row: ScheduleRow, now: int, random: Callable[[int], bytes], inputs: Sequence[Artifact]) -> ScheduleChange:
    """Return what becomes of a schedule whose occurrences are due.

    Args:
        row: the schedule.
        now: the instant.
        random: source of random bytes.
        inputs: the artifact that its input is kept in, if it is.

    Raises:
        DefinitionError, ValueError, LookupError, TypeError: its cadence cannot be understood here.
    """
    when, policy = cadence.decode(row.cadence), decode_policy(row.policy)
    made = decide(row, when, policy, now)
    runs = tuple(_run(row, policy, one, run_id(row.key, one), now, random, inputs) for one in made.starts)
    records = [*_started(runs, made.starts, now), *_skips(when, made.skipped, now)]
    fired = row._replace(watermark=made.watermark, waiting=listed(made.waiting), fault=None)
    return ScheduleChange(
        stamped(fired._replace(next_at=due(fired, when, policy)), random),
        tuple(sorted(records, key=lambda record: record.first)),
        runs,
        tuple(names(row.active)) if made.cancels else (),
    )


def trigger(
    row: ScheduleRow, name: str, now: int, random: Callable[[int], bytes], inputs: Sequence[Artifact]
) -> ScheduleChange:
    """Return what becomes of a schedule of which somebody wants a run now, under the id ``name``."""
    run = _run(row, decode_policy(row.policy), now, name, now, random, inputs)
    return ScheduleChange(stamped(row, random), (Occurrence(OccurrenceKind.TRIGGERED, now, now, 1, now, name),), (run,))


def leave_out(row: ScheduleRow, now: int, reason: str) -> tuple[ScheduleRow, tuple[Occurrence, ...]]:
    """Skip all that is due and undecided; if the cadence cannot be understood here, nothing is."""
    try:
        when, policy = cadence.decode(row.cadence), decode_policy(row.policy)
        first = when.next(row.watermark)
    except (ValueError, LookupError, TypeError, DefinitionError):
        return row, ()
    if first is None or jittered(row.key, first, policy.jitter) > now:
        return row, ()
    last = _last_due(when, policy, now, first)
    return row._replace(watermark=last), tuple(_skips(when, [(first, last, reason)], now))


def stamped(row: ScheduleRow, random: Callable[[int], bytes]) -> ScheduleRow:
    """Return the row as the next change of itself."""
    return row._replace(change=row.change + 1, token=random(16))


def _miss(made: Decision, when: Cadence, policy: Policy, now: int) -> None:
    """Skip what was due so long ago that it is not caught up with, but for the last stretch, where jitter decides."""
    last = when.latest(now - policy.catch_up - max(policy.jitter, 1))
    if last is not None and last > made.watermark:
        first = when.next(made.watermark)
        assert first is not None
        made.skipped.append((first, last, MISSED))
        made.watermark = last


def _replace(made: Decision, row: ScheduleRow, when: Cadence, policy: Policy, now: int, *, busy: bool) -> None:
    """Of all that is due or waits only the last is to run, and what still runs gives way to it."""
    first = when.next(made.watermark)
    newer = first is not None and jittered(row.key, first, policy.jitter) <= now
    if newer:
        assert first is not None
        made.skipped += [(one, one, SUPERSEDED) for one in made.waiting]
        last = _last_due(when, policy, now, first)
        before = when.latest(last - 1)
        if last > first and before is not None:
            made.skipped.append((first, before, SUPERSEDED))
        made.watermark, made.waiting = last, [last]
    if made.waiting and not busy:
        made.skipped += [(one, one, SUPERSEDED) for one in made.waiting[:-1]]
        made.starts, made.waiting = made.waiting[-1:], []
    made.cancels = busy and newer


def _last_due(when: Cadence, policy: Policy, now: int, first: int) -> int:
    """The last of the occurrences from ``first`` on (which is due) that are due whatever their jitter."""
    last = when.latest(now - max(policy.jitter - 1, 0))
    return first if last is None or last < first else last


def _run(
    row: ScheduleRow,
    policy: Policy,
    occurrence: int,
    name: str,
    now: int,
    random: Callable[[int], bytes],
    inputs: Sequence[Artifact],
) -> NewRun:
    return NewRun(
        run_id=name,
        uid=random(16),
        workflow=row.workflow,
        version=row.version,
        queue=row.queue,
        namespace=row.namespace,
        created_at=now,
        codec=row.codec,
        payload=row.payload,
        origin=payloads.origin(name, row.origin, None, scheduled_at=occurrence),
        priority=policy.priority,
        deadline_at=None if policy.deadline is None else min(now + policy.deadline, FOREVER),
        meta=payloads.note(schedule=row.key, scheduled_at=occurrence, **({"tags": policy.tags} if policy.tags else {})),
        artifacts=tuple(inputs),
    )


def _started(runs: Sequence[NewRun], starts: Sequence[int], now: int) -> list[Occurrence]:
    return [
        Occurrence(OccurrenceKind.STARTED, one, one, 1, now, run.run_id) for run, one in zip(runs, starts, strict=True)
    ]


def _skips(when: Cadence, skipped: Sequence[tuple[int, int, str]], now: int) -> list[Occurrence]:
    return [
        Occurrence(OccurrenceKind.SKIPPED, first, last, when.count(first, last, MANY), now, None, reason)
        for first, last, reason in skipped
    ]


__all__ = [
    "AT_ONCE", "FULL", "MISSED", "OVERLAPPED", "PAUSED", "QUEUED", "REMOVED", "REPLACED", "SUPERSEDED", "TAKEN",
    "Decision", "decide", "due", "fire", "leave_out", "run_id", "stamped", "trigger",
]  # fmt: skip
