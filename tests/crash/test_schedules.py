"""G12, O15: workers are killed around firing, two at once, and runs are purged; no occurrence is lost, none doubled."""

from __future__ import annotations

import asyncio
import os
import random
from collections import defaultdict
from datetime import UTC, datetime

import pytest

from perdure import Engine, Retention
from perdure.model.cadence import decode
from perdure.model.firing import run_id
from perdure.model.schedules import numbers
from perdure.store.open import open_store
from perdure.store.protocol import Filter
from tests.crash import apps
from tests.crash.procs import Bomb, Crew, ended

pytestmark = pytest.mark.crash

STORM = bool(os.environ.get("PERDURE_STORM"))
KEY = "tick"
AT_ONCE = Retention(completed=0, every="30ms")


def schedule(crew: Crew, *keys: str, every: str = "40ms", start: datetime | None = None) -> None:
    """Define schedules."""

    async def define() -> None:
        async with Engine(crew.store, workflows=apps.WORKFLOWS).client() as client:
            for key in keys:
                await client.schedule(apps.told, every=every, start=start, key=key, overlap="allow")

    asyncio.run(define())


def begun(crew: Crew) -> dict[str, set[str]]:
    """By run id: the idempotency keys with which its step began; each belongs to one run that was created."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for entry in crew.ledger.entries("begin"):
        found[entry.run].add(entry.idem)
    return dict(found)


def check(crew: Crew, key: str = KEY) -> int:
    """Every occurrence up to the watermark was one run; how many they were. To be called when all have ended."""
    with open_store(crew.store) as store:
        row = store.get_schedule(key)
        assert row is not None
        assert (numbers(row.waiting), row.fault) == ([], None)
        when, due = decode(row.cadence), []
        at = when.next(row.created_at)
        while at is not None and at <= row.watermark:
            due.append(at)
            at = when.next(at)
        history = store.list_occurrences(row.schedule_key)
    assert all(record.run_id == run_id(key, record.first) for record in history)
    runs = {one: keys for one, keys in begun(crew).items() if one.rpartition("@")[0] == key}
    assert sorted(runs) == sorted(run_id(key, at) for at in due)
    assert {one: keys for one, keys in runs.items() if len(keys) > 1} == {}
    return len(due)


def purge(crew: Crew) -> int:
    """Purge what has ended; how many runs."""

    async def prune() -> int:
        async with Engine(crew.store).client() as client:
            return (await client.prune(older_than=0)).runs

    return asyncio.run(prune())


def stop_firing(crew: Crew) -> None:
    """Pause all schedules, and wait until what was started has ended."""

    async def pause() -> None:
        async with Engine(crew.store).client() as client:
            async for view in client.schedules():
                await client.get_schedule(view.key).pause()
            while [row async for row in client.runs(status=("pending", "running", "sleeping"))]:
                await asyncio.sleep(0.01)

    asyncio.run(pause())


@pytest.mark.parametrize("point", ["fire", "fired"])
@pytest.mark.parametrize("n", [1, 3])
def test_who_dies_around_firing_loses_and_doubles_nothing(crew: Crew, point: str, n: int) -> None:
    schedule(crew, KEY)
    assert ended(crew.worker(reached=Bomb(point, n), durability="process", up=False)) == -9
    seen = len(begun(crew))
    crew.worker(durability="process")
    crew.ledger.until(lambda _: len(begun(crew)) >= seen + 5)
    stop_firing(crew)
    assert check(crew) >= seen + 5


@pytest.mark.timeout(300)
def test_through_kills_at_any_moment_and_purges_each_occurrence_is_one_run(crew: Crew) -> None:
    chance = random.Random(12)  # noqa: S311 - repeatable on purpose
    schedule(crew, KEY)
    workers = [crew.worker(durability="process", retention=AT_ONCE) for _ in range(2)]
    for _ in range(60 if STORM else 8):
        seen = len(begun(crew))
        crew.ledger.until(lambda _, seen=seen: len(begun(crew)) >= seen + chance.randrange(1, 4))
        at = chance.randrange(2)
        workers[at].kill()
        assert ended(workers[at]) == -9
        purge(crew)
        workers[at] = crew.worker(durability="process", retention=AT_ONCE)
    stop_firing(crew)
    while purge(crew):
        pass
    assert check(crew) >= 16
    with open_store(crew.store) as store:
        assert store.list_runs(Filter()) == []
        assert all(store.get_tombstone(one) for one in begun(crew))


@pytest.mark.timeout(120)
def test_of_150_that_are_due_at_the_same_instants_all_fire(crew: Crew) -> None:
    keys = [f"s{number:03}" for number in range(150)]
    schedule(crew, *keys, every="5s", start=datetime(2026, 1, 1, tzinfo=UTC))
    for _ in range(2):
        crew.worker(durability="process", up=False)
    crew.ledger.until(lambda _: {one.partition("@")[0] for one in begun(crew)} == set(keys))
    stop_firing(crew)
    for key in keys:
        assert check(crew, key) >= 1
