"""Limits of queues, measured from what bodies said: never passed, whoever dies, and used. O13, O28."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from perdure import Engine, Queue, Rate
from perdure.clock import SystemClock
from perdure.errors import RunCancelled
from perdure.model.records import Kind, Status
from tests.crash import apps
from tests.crash.ledger import Entry
from tests.crash.procs import Crew, ended

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(300)]
CLOCK = SystemClock()
STORM = bool(os.environ.get("PERDURE_STORM"))
NewStore = Callable[[], str]
KEYS = 6
LEASES = {"lease": 2.0, "heartbeat": 0.5}

Span = tuple[float, float, Entry]
"""From when to when a body was under way."""


def enqueue(crew: Crew, count: int, seconds: float, *, keyed: bool = False) -> list[str]:
    async def main() -> list[str]:
        async with Engine(crew.store).client() as client:
            return [
                (
                    await client.enqueue(
                        apps.occupying, seconds, run_id=f"r{n}", partition=f"k{n % KEYS}" if keyed else None
                    )
                ).run_id
                for n in range(count)
            ]

    return asyncio.run(main())


def spans(crew: Crew, dead: dict[int, float]) -> list[Span]:
    """When bodies were under way: to their end, or to the death of their process."""
    entries = crew.ledger.entries()
    ends = {(e.run, e.pid, e.attempt): e.mono for e in entries if e.what == "end"}
    return [
        (e.mono, ends.get((e.run, e.pid, e.attempt), dead.get(e.pid, float("inf"))), e)
        for e in entries
        if e.what == "begin"
    ]


def peak(found: Iterable[Span]) -> int:
    """How many were under way at once, at most."""
    changes = sorted(change for start, end, _ in found for change in ((start, 1), (end, -1)))
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def used(found: list[Span], limit: int) -> float:
    """How much of a limit was used while there was enough to do, on average."""
    starts = sorted(start for start, _, _ in found)
    first, last = starts[limit - 1], starts[-1]
    busy = sum(max(0.0, min(end, last) - max(start, first)) for start, end, _ in found)
    return busy / (last - first) / limit


def test_no_limit_is_passed_by_a_fleet_whose_workers_are_killed(crew: Crew) -> None:
    queue = Queue("desk", concurrency=5, worker_concurrency=2, partition_concurrency=1)
    chance = random.Random(11)  # noqa: S311 - repeatable on purpose
    count, kills = (400, 60) if STORM else (40, 5)

    def worker() -> object:
        return crew.worker(up=False, queues=[queue], crash_cap=100, **LEASES)

    fleet = [worker() for _ in range(3)]
    runs = enqueue(crew, count, 0.1, keyed=True)
    dead: dict[int, float] = {}
    for n in range(kills):
        crew.ledger.until_said("end", count * (n + 1) // (kills + 2))
        victim = fleet.pop(chance.randrange(3))
        victim.kill()
        ended(victim)
        dead[victim.pid] = CLOCK.monotonic()
        fleet.append(worker())
    rows = crew.all_ended(*runs)
    assert {row.status for row in rows.values()} == {Status.COMPLETED}
    found = spans(crew, dead)
    assert peak(found) <= 5
    key_of = {run_id: row.partition for run_id, row in rows.items()}
    for key in {f"k{n}" for n in range(KEYS)}:
        assert peak(one for one in found if key_of[one[2].run] == key) == 1
    for pid in {entry.pid for _, _, entry in found}:
        assert peak(one for one in found if one[2].pid == pid) <= 2
    print(f"{kills} kills, {len(found) - count} bodies ran again")


def test_each_kind_of_limit_is_reached_and_used(tmp_path: Path, made_store: NewStore) -> None:
    shares = {}
    for name, queue, limit in (
        ("each worker's", Queue("desk", worker_concurrency=1), 3),
        ("all workers'", Queue("desk", concurrency=2), 2),
    ):
        crew = Crew(tmp_path / str(limit), made_store())
        for _ in range(3):
            crew.worker(queues=[queue])
        runs = enqueue(crew, 6 * limit, 0.3)
        crew.all_ended(*runs)
        found = spans(crew, {})
        assert peak(found) == limit, name
        if limit == 3:
            assert {peak(one for one in found if one[2].pid == pid) for pid in {e.pid for _, _, e in found}} == {1}
        shares[name] = used(found, limit)
        crew.close()
    print(", ".join(f"{name} limit used to {share:.0%}" for name, share in shares.items()))


def test_no_period_sees_more_begin_than_a_rate_allows_whoever_dies(crew: Crew) -> None:
    runs, per = (4, 0.4) if not STORM else (20, 0.5)
    queue = Queue("desk", rate=Rate(runs, per))
    count = 5 * runs

    def worker() -> object:
        return crew.worker(up=False, queues=[queue], crash_cap=100, **LEASES)

    fleet = [worker() for _ in range(3)]
    ids = enqueue(crew, count, 0.01)
    for n in range(3):
        crew.ledger.until_said("end", runs * (n + 1))
        victim = fleet.pop(0)
        victim.kill()
        ended(victim)
        fleet.append(worker())
    crew.all_ended(*ids)
    begun = sorted(next(e.at for e in crew.events(run_id) if e.kind == Kind.RUN_CLAIMED) for run_id in ids)
    gaps = [later - earlier for earlier, later in zip(begun, begun[runs:], strict=False)]
    assert min(gaps) >= per * 1e6
    print(f"{count} began in {(begun[-1] - begun[0]) / 1e6:.2f} s, {4 * per:.2f} s at least")


def test_a_cancelled_run_gives_its_slot_back_although_its_worker_died(
    tmp_path: Path, database: str, made_store: NewStore
) -> None:
    moments = [n / 100 for n in range(0, 31, 1 if STORM else 15 if database == "postgres" else 10)]
    for moment in moments:
        crew = Crew(tmp_path / f"{moment}", made_store())
        queue = Queue("desk", concurrency=1)
        worker = crew.worker(queues=[queue], **LEASES)
        crew.enqueue("occupying_again_and_again", 0.1, "a")
        crew.enqueue("occupying", 0.01, "b")
        crew.ledger.until_said("begin", 2, run="a")
        crew.cancel("a", "enough")
        asked = CLOCK.monotonic()
        time.sleep(moment)
        worker.kill()
        ended(worker)
        crew.worker(queues=[queue], **LEASES)
        assert crew.outcome("b") == 0.01
        with pytest.raises(RunCancelled, match="enough"):
            crew.outcome("a")
        late = [entry for entry in crew.ledger.entries("begin", run="a") if entry.mono > asked]
        assert len(late) <= 1, f"{moment}: {late}"
        crew.close()
