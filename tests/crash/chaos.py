"""A fleet of workers on a PostgreSQL server, and all that a conductor does to both: from a seed, to be done again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from perdure import Engine
from perdure.clock import SystemClock
from perdure.errors import StoreError
from perdure.model.records import Event, RunRow
from perdure.store.open import open_store
from perdure.verifying import verify_run
from tests.crash import apps
from tests.crash.ledger import PATIENCE, Entry, Ledger
from tests.crash.procs import FAST, SLACK, Crew, audit_log, work
from tests.servers.server import Server

T = TypeVar("T")

HOUR = 3_600_000_000
STOPPED = 1.5 * (FAST["lease"] + FAST["heartbeat"])
"""Seconds for which a worker is stopped: its lease ends, and then the patience of whoever watches it."""
THAWING = 1_000_000
"""µs after a stop in which a body may still begin that was about to when its process was stopped."""


@dataclass
class Place:
    """One worker at a time, whose wall clock is wrong by so many hours."""

    hours: int
    process: BaseProcess
    frozen: threading.Timer | None = None


@dataclass
class Conductor:
    """Does to a fleet what happens to fleets."""

    crew: Crew
    server: Server
    seed: int
    options: dict[str, Any] = field(default_factory=dict)
    killed: list[BaseProcess] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 - repeatable on purpose
        self.timers: list[threading.Timer] = []

    def man(self, *hours: int) -> None:
        """Start a worker for each of these errors of its clock."""
        self.places = [Place(one, self._worker(one)) for one in hours]

    def _worker(self, hours: int) -> BaseProcess:
        return self.crew.start(work_at_a_wrong_time, self.crew.store, self.crew.ledger, self.options, hours)

    def perform(self, acts: list[str], entries: int) -> None:
        """Do these things in some order, spread over the time in which the ledger gets so many entries."""
        ledger = self.crew.ledger
        self.chance.shuffle(acts)
        for n, act in enumerate(acts, 1):
            ledger.until(lambda said, n=n: len(said) >= entries * n / (len(acts) + 1))
            time.sleep(self.chance.random() / 20)
            getattr(self, act)()
            ledger.write(act)
        for timer in self.timers:
            timer.join()

    def kill(self) -> None:
        """Kill a worker, and start another in its place."""
        place = self.chance.choice(self.places)
        self.killed.append(place.process)
        place.process.kill()
        place.process, place.frozen = self._worker(place.hours), None

    def stop(self) -> None:
        """Stop a worker until it has lost its lease."""
        self._until_up()
        place = self.chance.choice([one for one in self.places if one.frozen is None or not one.frozen.is_alive()])
        pid = place.process.pid
        assert pid is not None
        self.crew.ledger.write("stopped", key=str(pid))
        os.kill(pid, signal.SIGSTOP)
        place.frozen = threading.Timer(STOPPED, self._go_on, [pid])
        place.frozen.start()
        self.timers.append(place.frozen)

    def _go_on(self, pid: int) -> None:
        self.crew.ledger.write("continued", key=str(pid))
        with suppress(ProcessLookupError):  # killed while it was stopped
            os.kill(pid, signal.SIGCONT)

    def end_sessions(self) -> None:
        """Have the server end all its clients' sessions."""
        self._until_up()
        self.server.terminate_backends()

    def crash(self) -> None:
        """Kill the server with all its processes, and start it again."""
        self._until_up()
        self.server.kill_hard()
        self.server.start()

    def _until_up(self) -> None:
        """Wait for workers that are starting: they may give up if there is no server to be found."""
        pids = {place.process.pid for place in self.places}
        self.crew.ledger.until(lambda said: pids <= {entry.pid for entry in said if entry.what == "up"})


def work_at_a_wrong_time(store: str, ledger: Ledger, options: dict[str, Any], hours: int) -> None:
    """Be a worker on a machine whose wall clock is wrong by so many hours."""
    right = SystemClock.now
    SystemClock.now = lambda clock: right(clock) + hours * HOUR  # the one place where the time is read
    work(store, ledger, options, 30.0, 5.0)


def enqueue_each(crew: Crew, name: str, run_ids: list[str]) -> None:
    """Enqueue runs, the n-th with n as its input."""

    async def enqueue() -> None:
        async with Engine(crew.store).client() as client:
            await client.enqueue_many(apps.BY_NAME[name], range(len(run_ids)), run_ids=run_ids)

    asyncio.run(enqueue())


async def insist(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask again until the database answers, as users do."""
    while True:
        try:
            return await ask()
        except StoreError:
            await asyncio.sleep(0.05)


def results(crew: Crew, run_ids: list[str], timeout: float = PATIENCE) -> list[Any]:
    """Wait for runs; their results, or what they ended with."""

    async def wait() -> list[Any]:
        async with Engine(crew.store, workflows=apps.WORKFLOWS).client() as client, asyncio.timeout(timeout):
            handles = [client.get(run_id) for run_id in run_ids]
            return await asyncio.gather(*(handle.result() for handle in handles), return_exceptions=True)

    return asyncio.run(wait())


def logs(crew: Crew, run_ids: list[str]) -> dict[str, tuple[RunRow, list[Event]]]:
    """Each run's row and log, verified."""
    found = {}
    with open_store(crew.store) as store:
        for run_id in run_ids:
            row = store.get_run(run_id)
            assert row is not None, f"{run_id} is lost"
            assert verify_run(store, row).damage == []
            found[run_id] = row, store.read_events(row.run_key, 0, 100_000)
    return found


def audit_all(crew: Crew, run_ids: list[str]) -> dict[str, list[Event]]:
    """Hold the logs of runs against what their bodies said; returns the logs."""
    begins: defaultdict[str, list[Entry]] = defaultdict(list)
    entries = crew.ledger.entries()
    excused = overlapping(entries)
    for entry in entries:
        if entry.what == "begin":
            begins[entry.run].append(entry)
    found = {run_id: events for run_id, (_, events) in logs(crew, run_ids).items()}
    for run_id, events in found.items():
        audit_log(events, begins[run_id], SLACK, excused)
    return found


def overlapping(entries: list[Entry]) -> set[Entry]:
    """What bodies said that may have been about to begin when their processes were stopped."""
    found: set[Entry] = set()
    since: dict[int, int] = {}
    for entry in entries:
        if entry.what == "continued":
            since[int(entry.key)] = entry.at
        elif entry.what == "begin" and entry.at - since.get(entry.pid, -THAWING) < THAWING:
            found.add(entry)
    return found
