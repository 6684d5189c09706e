"""Claiming: whenever a slot is free and there may be something to claim, take it.

Something was enqueued here, another process committed, a timer is due, a run was released. No batch is waited for: a
slot is refilled the moment it is free.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from perdure.errors import StoreError
from perdure.model.records import Status
from perdure.runtime import points
from perdure.runtime.alarm import Alarm
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from perdure.model.records import Claim
    from perdure.runtime.host import Host
    from perdure.runtime.journal import Journal
    from perdure.store.protocol import Route, Store
    from perdure.store.talk import Talk

BATCH = 200
"""Runs claimed in one transaction at most."""
PAUSE = 1.0
"""Seconds before what a fault has stopped is tried again."""


class Claimant(Protocol):
    """The worker that claims."""

    key: int

    @property
    def running(self) -> Collection[int]:
        """Keys of what it executes."""
        ...

    @property
    def free(self) -> int:
        """Slots that are free."""
        ...

    @property
    def facts(self) -> bytes:
        """What ``run_claimed`` says of it."""
        ...

    def execute(self, claim: Claim, /, *, at_once: bool = False) -> None:
        """Begin, or go on with, a claimed run; ``at_once``: although no slot is free."""
        ...


class Claiming:
    """Claims for one worker; lives on its loop.

    Args:
        worker: who claims.
        host: the process.
        store: where the runs are.
        journal: what writes.
        routes: what the worker can execute.
        only: claim nothing but what is wanted by key.

    Attributes:
        wanted: keys of runs to claim before any other, as soon as they can be.
        due: wakes the claiming when the earliest waiting run is due.
    """

    def __init__(
        self, worker: Claimant, host: Host, store: Store, journal: Journal, routes: Sequence[Route], *, only: bool
    ) -> None:
        self._worker, self._host, self._store, self._journal = worker, host, store, journal
        self._routes = routes
        self._only = only
        self.wanted: set[int] = set()
        self.due = Alarm(host, self.poke)
        self._wake = asyncio.Event()
        self._ending = asyncio.Event()
        self._busy = False
        self._serving: asyncio.Task[None] | None = None
        self._hungry = True
        """Whether there may be more to claim than there were slots for, here or of a queue; else it is announced."""
        self._missed = False
        """Whether a slot has become free since what is to be claimed was last looked for."""
        self._poked = False
        """Whether anything may have changed since what is urgent was last looked for."""
        self._urgent: list[int] = []
        """Keys of runs that are to be cancelled, for which no slot has to be free."""
        self._looking = False
        """Whether those are being looked for."""

    def serve(self) -> None:
        """Claim from now on."""
        self._serving = self._host.loop.create_task(self._serve(), name="perdure worker")

    def poke(self) -> None:
        """There may be something to claim."""
        self._poked = True
        self._wake.set()

    def want(self, run_key: int) -> None:
        """Claim this run as soon as it can be, before any other."""
        self.wanted.add(run_key)
        self._wake.set()

    def freed(self) -> None:
        """A slot has become free."""
        self._missed = True
        # A claiming that is under way looks for itself, at its end, whether there are slots for more.
        if (self._hungry and not self._busy) or self.wanted:
            self._wake.set()

    def end(self) -> None:
        """Claim nothing more."""
        self._ending.set()
        self._wake.set()

    async def ended(self) -> None:
        """Wait until nothing is claimed any more."""
        if self._serving is not None:
            await asyncio.wait([self._serving])  # which whoever cancels the stopping does not cancel
            self._serving = None

    def at_rest(self, now: int) -> bool:
        """Whether nothing is being claimed, nor will be before time passes ``now`` (µs)."""
        if self._busy or self._looking or self._urgent:
            return False
        return self._serving is None or not (self._wake.is_set() or (self.due.due is not None and self.due.due <= now))

    async def tick(self) -> int:
        """Claim once, up to all free slots; returns how many runs that were."""
        count = 0
        # Not as often as slots are refilled: what is enqueued meanwhile is the next pass's.
        for left in range(self._worker.free, 0, -BATCH):
            claims = await self._claim_up_to(min(left, BATCH))
            count += len(claims)
            if len(claims) < BATCH:
                break
        return count

    async def _serve(self) -> None:
        while not self._ending.is_set():
            self._wake.clear()
            self._busy = True
            try:
                await self._claim()
            except StoreError as error:
                say(lines.NOT_CLAIMED, error=error, pause=PAUSE, worker=self._host.worker)
                await self._pause()
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end the claiming for good
                say(lines.CLAIM_FAULT, error=error, fault=True, pause=PAUSE, worker=self._host.worker)
                await self._pause()
            else:
                self._busy = False
                if not (self._missed and self._hungry):
                    await self._wake.wait()

    async def _pause(self) -> None:
        # Not woken by news: what fails at each try would otherwise fail as often as anyone writes.
        await asyncio.wait([self._host.loop.create_task(self._ending.wait())], timeout=PAUSE)

    async def _claim(self) -> None:
        if self.wanted:
            await self._claim_wanted()
        while self._urgent and not self._ending.is_set():
            await self._claim_up_to(1, self._urgent.pop(), at_once=True)
        self._hungry, self._missed = True, False
        while self._worker.free > 0 and not self._ending.is_set() and not self._only:
            limit = min(self._worker.free, BATCH)
            self._missed = False
            claims = await self._claim_up_to(limit)
            if len(claims) < limit:
                await self._look_ahead()
                return
        if self._worker.free <= 0 and not self._ending.is_set() and not self._only:
            self._missed = False
            if self._poked and not self._looking:
                self._look_for_urgent()

    def _look_for_urgent(self) -> None:
        """Look for what is to be cancelled, to take it although no slot is free: it has little left to do."""
        self._poked, self._looking = False, True
        store, routes = self._store, self._routes
        found = self._journal.looks.call(
            lambda: store.urgent(routes, BATCH), start=lambda: store.start_urgent(routes, BATCH)
        )
        found.add_done_callback(self._looked_for_urgent)

    def _looked_for_urgent(self, done: asyncio.Future[list[int]]) -> None:
        self._looking = False
        if self._ending.is_set() or done.cancelled():
            return
        if (error := done.exception()) is not None:
            say(lines.NOT_CLAIMED, error=error, pause=PAUSE, worker=self._host.worker)
            self._host.loop.call_later(PAUSE, self.poke)
        elif done.result() or self._poked:
            self._urgent = done.result()
            self._wake.set()

    async def _claim_up_to(self, limit: int, only: int | None = None, *, at_once: bool = False) -> list[Claim]:
        key, facts = self._worker.key, self._worker.facts
        given_time, monotonic = self._host.given_time, self._host.clock.monotonic
        self._host.reach(points.CLAIM)
        began = 0.0

        def claim() -> list[Claim]:
            nonlocal began
            began = monotonic()
            return self._store.claim_runs(key, self._routes, limit, facts=facts, only=only, now=given_time())

        def start() -> Talk[list[Claim]] | None:
            nonlocal began
            began = monotonic()
            return self._store.start_claims(key, self._routes, limit, facts=facts, now=given_time())

        def claimed(claims: list[Claim]) -> None:
            if self._host.measuring is not None:
                self._host.measuring.claim_took(monotonic() - began)
            self._host.reach(points.CLAIMED)
            for claim in claims:
                self._worker.execute(claim, at_once=at_once)

        return await self._journal.aside.call(claim, start=start if only is None else None, then=claimed)

    async def _claim_wanted(self) -> None:
        for row in await self._journal.aside.call(lambda: self._store.get_runs(list(self.wanted))):
            if row.status.terminal or row.status is Status.BLOCKED:
                self.wanted.discard(row.run_key)
            elif row.run_key not in self._worker.running and self._worker.free > 0:
                claims = await self._claim_up_to(1, row.run_key)
                if not claims and row.wake_at is not None:
                    self.due.set(row.wake_at)
                elif not claims:
                    await self._look_ahead()

    async def _look_ahead(self) -> None:
        key, given_time = self._worker.key, self._host.given_time
        outlook = await self._journal.aside.call(
            lambda: self._store.next_due(self._routes, worker_key=key, now=given_time())
        )
        self._hungry = outlook.is_limited
        if outlook.due is not None:
            self.due.set(outlook.due)
