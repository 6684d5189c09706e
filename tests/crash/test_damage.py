"""G6, G16, O05: a damaged row stops its own run, with the reason, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Engine, workflow
from perdure.model.records import Status
from tests.crash import apps
from tests.crash.procs import Crew, ended

pytestmark = pytest.mark.crash

BAD_EVENTS = {
    "truncated": "UPDATE events SET payload = substr(payload, 2) WHERE seq = 1 AND {run}",
    "no-payload": "UPDATE events SET payload = NULL WHERE seq = 1 AND {run}",
    "unknown-kind": "UPDATE events SET kind = 99 WHERE seq = 1 AND {run}",
    "no-hash": "UPDATE events SET hash = x'' WHERE seq = 1 AND {run}",
    "no-log": "DELETE FROM events WHERE {run}",
    "renumbered": "UPDATE events SET seq = 5 WHERE {run}",
    "unknown-codec": "UPDATE events SET codec = 77 WHERE seq = 1 AND {run}",
    "huge-time": "UPDATE events SET at = 9223372036854775807 WHERE seq = 1 AND {run}",
}
BAD_ROWS = {
    "no-uid": "UPDATE runs SET uid = x'' WHERE {run}",
    "huge-epoch": "UPDATE runs SET epoch = 9223372036854775807 WHERE {run}",
    "no-row-hash": "UPDATE runs SET hash = x'' WHERE {run}",
}


@pytest.mark.parametrize("damage", [*BAD_EVENTS, *BAD_ROWS])
def test_a_damaged_run_is_set_aside_and_twenty_good_ones_complete(crew: Crew, damage: str) -> None:
    good = [f"good{n}" for n in range(20)]
    crew.enqueue("short", 1, *good[:10])
    crew.enqueue("short", 1, "bad")
    crew.enqueue("short", 1, *good[10:])
    run_key = crew.row("bad").run_key
    sql = (BAD_EVENTS | BAD_ROWS)[damage].format(run=f"run_key = {run_key}")
    crew.vandalise(sql)
    worker = crew.worker()
    rows = crew.all_ended(*good)
    assert {row.status for row in rows.values()} == {Status.COMPLETED}
    assert worker.is_alive()
    crew.enqueue("short", 2, "after")
    assert crew.outcome("after") == 3
    row = crew.all_ended("bad")["bad"]
    assert row.status is Status.BLOCKED
    assert row.reason, "no reason is given"
    assert len(asyncio.run(_listed(crew))) == 22
    worker.terminate()
    assert ended(worker) == 0


@workflow(name="short", version="1")
async def short_of_old(order: dict[str, int]) -> int:
    """What the workers' workflow of this name was when its input still was an order."""
    return order["n"]


@workflow
async def elsewhere(n: int) -> int:
    return n


def test_runs_that_no_code_here_can_take_cost_twenty_others_nothing(crew: Crew) -> None:
    async def enqueue() -> None:
        async with Engine(crew.store).client() as client:
            await client.enqueue_many(apps.short, range(10), run_ids=[f"good{n}" for n in range(10)])
            await client.enqueue(short_of_old, {"n": 1}, run_id="old")
            await client.enqueue(elsewhere, 1, run_id="elsewhere")
            await client.enqueue_many(apps.short, range(10, 20), run_ids=[f"good{n}" for n in range(10, 20)])

    asyncio.run(enqueue())
    worker = crew.worker()
    rows = crew.all_ended(*(f"good{n}" for n in range(20)))
    assert {row.status for row in rows.values()} == {Status.COMPLETED}
    old = crew.all_ended("old")["old"]
    assert old.status is Status.BLOCKED
    assert old.reason, "no reason is given"
    assert crew.row("elsewhere").status is Status.PENDING  # others may know it
    assert worker.is_alive()
    worker.terminate()
    assert ended(worker) == 0


async def _listed(crew: Crew) -> list[str]:
    async with Engine(crew.store, workflows=apps.WORKFLOWS).client() as client:
        return [row.run_id async for row in client.runs()]


def test_a_commit_that_was_taken_from_a_waiting_runs_log_is_missed(crew: Crew) -> None:
    worker = crew.worker()
    crew.enqueue("nap", 0.5, "r")
    while crew.row("r").status is not Status.SLEEPING:
        crew.ledger.until_said("begin")
    last = len(crew.kinds("r"))
    crew.vandalise(f"DELETE FROM events WHERE seq = {last}")  # noqa: S608
    worker.kill()
    crew.worker()
    row = crew.all_ended("r")["r"]
    assert row.status is Status.BLOCKED
    assert not crew.ledger.entries("begin", key="arrive#1")


def test_a_damaged_run_of_a_dead_worker_does_not_keep_the_others_from_being_taken_back(crew: Crew) -> None:
    worker = crew.worker()
    crew.enqueue("gated", 1, "bad", "good")
    crew.ledger.until_said("begin", 2, key="wait_at_gate#1")
    crew.vandalise(f"DELETE FROM events WHERE run_key = {crew.row('bad').run_key}")  # noqa: S608
    worker.kill()
    crew.worker()
    crew.ledger.until_said("begin", 2, run="good", key="wait_at_gate#1")
    crew.ledger.open_gate()
    assert crew.outcome("good") == 2
    assert crew.row("bad").status is Status.BLOCKED
