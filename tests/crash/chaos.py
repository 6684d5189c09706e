"""What happens to fleets: runs that are asked for insistently, and what is to be seen of them when all is over."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from perdure import Engine
from perdure.errors import StoreError
from perdure.model.records import Event, RunRow
from perdure.store.open import open_store
from perdure.verifying import verify_run
from tests.crash import apps
from tests.crash.ledger import PATIENCE, Entry
from tests.crash.procs import FAST, SLACK, Crew, audit_log

T = TypeVar("T")

STOPPED = 1.5 * (FAST["lease"] + FAST["heartbeat"])
"""Seconds for which a worker is stopped: its lease ends, and then the patience of whoever watches it."""
THAWING = 1_000_000
"""µs after a stop in which a body may still begin that was about to when its process was stopped."""


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
