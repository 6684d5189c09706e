"""What can be done with schedules without firing them: define, look, pause, resume, trigger, remove.

Each reads the schedule, decides what it is to be, and writes that on condition that it is still what was read.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, get_args

from perdure.errors import DefinitionError, IntegrityError, ScheduleNotFound, StoreError
from perdure.model import cadence, defining, firing, ids
from perdure.model.cadence import Cron, Interval
from perdure.model.deeds import SCHEDULE, Deed
from perdure.model.defining import Defined
from perdure.model.durations import micros
from perdure.model.payloads import REFERENCE
from perdure.model.records import Artifact, Verdict
from perdure.model.schedules import Overlap, Policy, ScheduleRow, ScheduleState, listed
from perdure.model.starting import valid_tags
from perdure.operations.starting import Start
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from perdure.model.cadence import Cadence
    from perdure.model.durations import Duration
    from perdure.model.records import NewRun
    from perdure.model.schedules import Occurrence, ScheduleChange
    from perdure.operations.verbs import Operations
    from perdure.queues import Queue
    from perdure.workflow import Workflow

KEY_LIMIT: Final = 400
"""Bytes (UTF-8) in a schedule's key: with an occurrence it makes the id of a run."""
LEAST_CATCH_UP: Final = 1_000_000
"""µs that an occurrence may be late at least: nothing is ever started at once."""
MOST_REVISION: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Plan:
    """Options of a schedule."""

    every: Duration | None = None
    cron: str | None = None
    tz: str | ZoneInfo = "UTC"
    key: str | None = None
    overlap: Overlap = "skip"
    catch_up: Duration = "1h"
    jitter: Duration | None = None
    start: datetime | None = None
    end: datetime | None = None
    queue: Queue | str | None = None
    priority: int = 0
    tags: Mapping[str, str] | None = None
    revision: int = 0


class Scheduling:
    """The schedules of an open store. Every method may raise ``StoreError``."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def define(self, workflow: Workflow[Any, Any], value: Any, plan: Plan, since: int) -> ScheduleRow:
        """Define a schedule, or find the one there is; returns what holds.

        Args:
            workflow: what it runs.
            value: the input of its runs.
            plan: its options.
            since: when whoever defines it was opened, µs.

        Raises:
            DefinitionError: an option is wrong; nothing was written.
            NotSerializable: the input cannot be stored exactly; nothing was written.
        """
        operations = self._operations
        now = operations.store.now()
        run = operations.new_run(workflow, value, Start(priority=plan.priority, tags=plan.tags, queue=plan.queue))
        new = _row(workflow, run, plan, now, since)
        while True:
            old = await self._find(new.key)
            came_to, change = defining.define(old, new, now, os.urandom)
            if came_to is Defined.OLDER:
                assert old is not None
                say(lines.SCHEDULE_OLDER, schedule=new.key, revision=old.revision, namespace=new.namespace)
                return old
            if change is None:
                assert old is not None
                return old
            if await self._write(change._replace(artifacts=run.artifacts)):
                return await self.row(new.key)

    async def row(self, key: str) -> ScheduleRow:
        """Read a schedule.

        Raises:
            ScheduleNotFound: there is none of this key.
        """
        row = await self._find(key)
        if row is None or row.state == ScheduleState.REMOVED:
            raise ScheduleNotFound(
                f"no schedule {key!r} in {self._operations.store.url}",
                key=key,
                advice="list what is there with `perdure schedules`",
            )
        return row

    async def page(self, after: str, limit: int) -> list[ScheduleRow]:
        """Read up to ``limit`` schedules that come after a key."""
        operations = self._operations
        return await operations.call(lambda: operations.store.list_schedules(operations.namespace, after, limit))

    async def occurrences(self, key: str, limit: int) -> list[Occurrence]:
        """Read what became of a schedule's latest occurrences, latest first.

        Raises:
            ScheduleNotFound: there is none of this key.
        """
        row = await self.row(key)
        return await self._operations.call(lambda: self._operations.store.list_occurrences(row.schedule_key, limit))

    async def pause(self, key: str) -> None:
        """Let a schedule fire no more until it is resumed.

        Raises:
            ScheduleNotFound: there is none of this key.
        """
        await self._change(key, lambda row: defining.pause(row, os.urandom), "paused")

    async def resume(self, key: str) -> None:
        """Let a paused schedule go on with what comes next; what was due meanwhile is skipped.

        Raises:
            ScheduleNotFound: there is none of this key.
        """
        await self._change(key, lambda row: defining.resume(row, self._operations.store.now(), os.urandom), "resumed")

    async def remove(self, key: str) -> bool:
        """Remove a schedule for everybody; its runs stay. Returns whether it was there."""
        try:
            await self._change(
                key, lambda row: defining.remove(row, self._operations.store.now(), os.urandom), "removed"
            )
        except ScheduleNotFound:
            return False
        return True

    async def trigger(self, key: str) -> tuple[ScheduleRow, str]:
        """Create a run of a schedule now, whatever its cadence and its overlap say; returns the run's id.

        Raises:
            ScheduleNotFound: there is none of this key.
            IntegrityError: its input is gone.
        """
        row = await self.row(key)
        inputs = await self._inputs(row)
        now = self._operations.store.now()
        run_id = f"{key}@trigger-{ids.run_id(now, os.urandom)}"
        tracing = self._operations.tracing

        def change(row: ScheduleRow) -> ScheduleChange:
            made = firing.trigger(row, run_id, now, os.urandom, inputs)
            return made if tracing is None else tracing.scheduled(row, made)

        await self._change(key, change, "triggered", run_id)
        return row, run_id

    async def deeds(self, key: str, limit: int) -> list[Deed]:
        """Read what was done to a schedule by hand, the latest first."""
        operations = self._operations
        return await operations.call(lambda: operations.store.list_deeds(SCHEDULE, key, operations.namespace, limit))

    async def _change(
        self, key: str, decide: Callable[[ScheduleRow], ScheduleChange | None], what: str, detail: str = ""
    ) -> None:
        by = self._operations.by
        deed = None if by is None else Deed(0, what, by, detail)
        while True:
            change = decide(await self.row(key))
            if change is None or await self._write(change._replace(deed=deed)):
                return

    async def _write(self, change: ScheduleChange) -> bool:
        """Write a change; returns whether it held, rather than that somebody was quicker.

        Raises:
            StoreError: the store refuses it.
        """
        store = self._operations.store
        verdict = (await self._operations.call(lambda: store.change_schedules([change])))[0]
        if verdict == Verdict.BAD:
            raise StoreError(f"the store refuses what schedule {change.row.key!r} is to be", key=change.row.key)
        return verdict != Verdict.STALE

    async def _find(self, key: str) -> ScheduleRow | None:
        operations = self._operations
        return await operations.call(lambda: operations.store.get_schedule(key, operations.namespace))

    async def _inputs(self, row: ScheduleRow) -> list[Artifact]:
        if row.codec != REFERENCE:
            return []
        data = await self._operations.call(lambda: self._operations.store.get_artifact(row.payload))
        if data is None:
            raise IntegrityError(
                f"the input of schedule {row.key!r} is gone", key=row.key, advice="restore the database from a backup"
            )
        return [Artifact(row.payload, len(data), data)]


def _row(workflow: Workflow[Any, Any], run: NewRun, plan: Plan, now: int, since: int) -> ScheduleRow:
    """The schedule as it is if there is none yet.

    Raises:
        DefinitionError: an option is wrong.
    """
    when = _cadence(plan, now)
    policy = replace(_policy(plan, when), deadline=workflow.deadline)
    revision = plan.revision
    if isinstance(revision, bool) or not isinstance(revision, int) or not 0 <= revision <= MOST_REVISION:
        raise DefinitionError(f"a revision is a whole number from 0, not {revision!r:.80}")
    return ScheduleRow(
        schedule_key=0,
        namespace=run.namespace,
        key=_default_key(run, when) if plan.key is None else valid_key(plan.key),
        workflow=run.workflow,
        version=run.version,
        queue=run.queue,
        state=ScheduleState.ACTIVE,
        change=1,
        token=b"",
        revision=revision,
        build=workflow.build,
        since=since,
        created_at=now,
        watermark=now,
        next_at=None,
        cadence=when.encode(),
        policy=policy.encode(),
        origin=workflow.origin,
        codec=run.codec,
        payload=run.payload,
        waiting=listed([]),
        active=listed([]),
        recorded=0,
        fault=None,
    )


def _cadence(plan: Plan, now: int) -> Cadence:
    if (plan.every is None) is (plan.cron is None):
        raise DefinitionError(
            "a schedule has either every= or cron=", advice='such as every="15m", or cron="0 9 * * MON-FRI"'
        )
    if plan.cron is not None:
        return cadence.cron(plan.cron, plan.tz, start=plan.start, end=plan.end)
    if getattr(plan.tz, "key", plan.tz) != "UTC":
        raise DefinitionError("a zone means nothing to every=", advice="give cron= for times of day in a zone")
    assert plan.every is not None
    return cadence.interval(plan.every, now, start=plan.start, end=plan.end)


def _policy(plan: Plan, when: Cadence) -> Policy:
    if plan.overlap not in get_args(Overlap):
        raise DefinitionError(f"overlap is one of {', '.join(get_args(Overlap))}, not {plan.overlap!r:.80}")
    catch_up = micros(plan.catch_up, what="catch_up")
    if catch_up < LEAST_CATCH_UP:
        raise DefinitionError(
            f"catch_up={plan.catch_up!r} leaves no time to start anything", advice="a second is the least"
        )
    jitter = 0 if plan.jitter is None else micros(plan.jitter, what="jitter")
    if isinstance(when, Interval) and jitter > when.every:
        raise DefinitionError("jitter is longer than the interval", advice="let it be at most every=")
    return Policy(plan.overlap, catch_up, jitter, plan.priority, None if plan.tags is None else valid_tags(plan.tags))


def _default_key(run: NewRun, when: Cadence) -> str:
    """A key that is the same for the same workflow, cadence and input, in whatever order its fields come."""
    if isinstance(when, Cron):
        what: object = [when.expression, when.tz, when.start, when.end]
    else:
        assert isinstance(when, Interval)
        what = [when.every, when.first if when.is_pinned else None, when.end]
    value: object = run.payload.hex() if run.codec == REFERENCE else json.loads(run.payload)
    said = json.dumps([what, value], sort_keys=True, separators=(",", ":"))
    return f"{run.workflow}-{sha256(said.encode()).hexdigest()[:12]}"


def valid_key(key: object) -> str:
    """Return a schedule's key if it can be one.

    Raises:
        DefinitionError: not text, empty, too long, or with characters that no store and no terminal bears.
    """
    text = ids.valid_run_id(key, "schedule key")
    if len(text.encode()) > KEY_LIMIT:
        raise DefinitionError(
            f"a schedule key of {len(text.encode())} bytes is too long", advice=f"{KEY_LIMIT} is most"
        )
    return text


__all__ = ["Plan", "Scheduling", "valid_key"]
