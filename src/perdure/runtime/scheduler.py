"""The scheduler: starts what schedules say is due, whether slots are free or not.

Every worker has one, for the schedules of the workflows it serves. It sleeps until the earliest is due, and looks when
somebody has changed the store. Any number of them decide at once about the same occurrences: a change is conditional on
what was seen, so that one of them wins and the others have done nothing.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from perdure.errors import DefinitionError, IntegrityError, StoreError
from perdure.model.firing import fire
from perdure.model.payloads import REFERENCE
from perdure.model.records import Artifact, Verdict
from perdure.runtime import points
from perdure.runtime.alarm import Alarm
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.model.schedules import ScheduleChange, ScheduleRow
    from perdure.runtime.host import Host
    from perdure.runtime.journal import Journal
    from perdure.store.protocol import Route, Store

BATCH: Final = 100
"""Schedules fired in one transaction."""
SELDOM: Final = 0.1
"""Seconds between looks that are due to nothing but a change of the store."""
MEANWHILE: Final = 0.05
"""Seconds before another look where somebody else is firing what is due."""
PAUSE: Final = 1.0
"""Seconds before what a fault of the store has stopped is tried again."""
FAULTY: Final = 30.0
"""Seconds before a schedule is tried again that could not be fired here."""

_BAD: Final = (DefinitionError, IntegrityError, ValueError, LookupError, TypeError)
"""What is raised where a schedule's row cannot be understood here."""


class Scheduler:
    """Fires schedules for one worker; lives on its loop.

    Args:
        host: the process.
        store: where the schedules are.
        journal: what writes.
        routes: what the worker can execute.
        fired: told when runs were created.
    """

    def __init__(
        self, host: Host, store: Store, journal: Journal, routes: Sequence[Route], *, fired: Callable[[], object]
    ) -> None:
        self._host, self._store, self._journal, self._routes = host, store, journal, routes
        self._fired = fired
        self._alarm = Alarm(host, self.look)
        self._serves = self._is_over = False
        self._asked = False
        self._task: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._looked = 0.0
        self._waits = False
        self._ending = asyncio.Event()
        self._faulty: dict[int, float] = {}
        """By schedule key: when to try again what could not be fired here, on the loop's clock."""

    def serve(self) -> None:
        """Fire whatever is due, from now on."""
        self._serves = True
        self.look()

    def look(self) -> None:
        """There may be something to fire, or to wait for."""
        if not self._serves or self._is_over:
            return
        self._asked = True
        if self._task is None:
            self._task = self._host.loop.create_task(self._work(), name="perdure scheduler")

    def heard(self) -> None:
        """Somebody has changed the store: look before long, but not at every change."""
        self._look_in(self._looked + SELDOM - self._host.loop.time())

    def run_ended(self) -> None:
        """A run has ended here, and an occurrence may have waited for that."""
        if self._waits:
            self.look()

    def end(self) -> None:
        """Fire nothing more."""
        self._is_over = True
        self._ending.set()
        self._alarm.cancel()
        if self._later is not None:
            self._later.cancel()
            self._later = None

    async def ended(self) -> None:
        """Wait until nothing is being fired any more."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def at_rest(self, now: int) -> bool:
        """Whether nothing is being fired, nor will be before time passes ``now`` (µs)."""
        return self._task is None and (not self._serves or self._alarm.due is None or self._alarm.due > now)

    async def fire(self) -> None:
        """Fire all that is due, and set the alarm for what comes next.

        Raises:
            StoreError: the store cannot be read or written.
        """
        self._looked = self._host.loop.time()
        while not self._is_over:
            due, self._waits = await self._journal.call(lambda: self._store.next_firing(self._routes))
            if due is None:
                return
            now = self._host.clock.now()
            if due > now:
                self._alarm.set(due)
                return
            if not await self._fire_due(now):
                await self._look_beyond(now)
                return

    async def _look_beyond(self, now: int) -> None:
        """Set the alarm although something is due: what is left cannot be fired now, and nothing waits for that."""
        later = (await self._journal.call(lambda: self._store.next_firing(self._routes, after=now))).due
        if later is not None:
            self._alarm.set(later)

    async def _work(self) -> None:
        while self._asked and not self._is_over:
            self._asked = False
            try:
                await self.fire()
            except StoreError as error:
                say(lines.SCHEDULES_NOT_FIRED, error=error, pause=PAUSE, worker=self._host.worker)
                await self._pause()
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end the firing for good
                say(lines.SCHEDULES_FAULT, error=error, fault=True, pause=PAUSE, worker=self._host.worker)
                await self._pause()
        self._task = None

    async def _pause(self) -> None:
        self._asked = True
        await asyncio.wait([self._host.loop.create_task(self._ending.wait())], timeout=PAUSE)

    def _look_in(self, seconds: float) -> None:
        if not self._serves or self._is_over or self._later is not None or self._task is not None:
            return
        if seconds <= 0:
            self.look()
        else:
            self._later = self._host.loop.call_later(seconds, self._look_now)

    def _look_now(self) -> None:
        self._later = None
        self.look()

    async def _fire_due(self, now: int) -> bool:
        """Fire what is due, page by page; returns whether there may be more that can be fired at once."""
        after: tuple[int, int] | None = None
        went_on = waited = False
        while not self._is_over:
            rows = await self._due(now, after)
            verdicts = await self._fire(rows, now)
            went_on |= Verdict.APPLIED in verdicts or Verdict.ALREADY in verdicts
            waited |= Verdict.STALE in verdicts
            if len(rows) < BATCH:
                break
            last = rows[-1]
            after = (last.next_at or 0, last.schedule_key)
        if not went_on:
            # What is left is in somebody else's hands, or cannot be fired here.
            self._host.loop.call_later(MEANWHILE if waited else FAULTY, self.look)
        return went_on

    async def _due(self, now: int, after: tuple[int, int] | None) -> list[ScheduleRow]:
        return await self._journal.call(
            lambda: self._store.due_schedules(self._routes, after=after, limit=BATCH, now=now)
        )

    async def _fire(self, rows: Sequence[ScheduleRow], now: int) -> list[Verdict]:
        changes: list[ScheduleChange] = []
        for row in rows:
            if self._faulty.get(row.schedule_key, 0.0) > self._host.loop.time():
                continue
            try:
                change = fire(row, now, os.urandom, await self._inputs(row))
                changes.append(change if self._host.spans is None else self._host.spans.fired(row, change))
            except _BAD as error:
                await self._note(row, str(error) or type(error).__name__)
        if not changes:
            return []
        self._host.reach(points.FIRE)
        verdicts = await self._journal.call(lambda: self._store.change_schedules(changes, now=now), then=self._done)
        for change, verdict in zip(changes, verdicts, strict=True):
            if verdict == Verdict.BAD:
                await self._note(change.row, "the store refuses what it would write")
        return verdicts

    def _done(self, _verdicts: object) -> None:
        self._host.reach(points.FIRED)
        self._fired()

    async def _inputs(self, row: ScheduleRow) -> list[Artifact]:
        """The artifact that a schedule's input is kept in, if it is.

        Raises:
            IntegrityError: it is gone.
        """
        if row.codec != REFERENCE:
            return []
        data = await self._journal.call(lambda: self._store.get_artifact(row.payload))
        if data is None:
            raise IntegrityError("its input is gone from the database")
        return [Artifact(row.payload, len(data), data)]

    async def _note(self, row: ScheduleRow, fault: str) -> None:
        """Leave a schedule alone for a while, so that it stops no other, and say so where it is shown."""
        self._faulty[row.schedule_key] = self._host.loop.time() + FAULTY
        say(
            lines.SCHEDULE_FAULTY, schedule=row.key, reason=fault, pause=FAULTY, workflow=row.workflow,
            namespace=row.namespace, queue=row.queue,
        )  # fmt: skip
        await self._journal.call(lambda: self._store.fault_schedule(row.schedule_key, fault))


__all__ = ["Scheduler"]
