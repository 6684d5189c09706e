"""O20, O21, O23: whatever a step ends with, its run ends, its worker lives and stays idle, and contexts stay apart."""

from __future__ import annotations

import asyncio
import os

import pytest

from perdure import Engine
from perdure.clock import SystemClock
from perdure.model.records import Status
from tests.crash import apps, outcomes
from tests.crash.procs import Crew

pytestmark = pytest.mark.crash
CLOCK = SystemClock()


def cpu(pid: int | None) -> float:
    """CPU seconds a process has used."""
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("name", ["raises_async", "raises_sync", "gives", "raises_itself"])
def test_whatever_a_step_ends_with_the_run_fails_and_the_worker_goes_on(crew: Crew, name: str) -> None:
    worker = crew.worker()
    table = dict(outcomes.RETURNED if name == "gives" else outcomes.RAISED)
    if name == "raises_itself":
        del table["keyboard"]  # that one is the person at the keyboard, and never recorded
    for what in table:
        crew.enqueue(name, what, f"{name}-{what}")
    rows = crew.all_ended(*(f"{name}-{what}" for what in table))
    wrong = {run_id: row.status for run_id, row in rows.items() if row.status is not Status.FAILED}
    assert not wrong
    for row in rows.values():
        assert row.ended_at is not None
        assert row.reason
    crew.enqueue("short", 1, "next")
    assert crew.outcome("next") == 2
    assert worker.is_alive()
    used, began = cpu(worker.pid), CLOCK.monotonic()
    worker.join(0.5)
    assert cpu(worker.pid) - used < 0.5 * (CLOCK.monotonic() - began), "the idle worker is busy"
    assert "CRITICAL" not in crew.log(worker), crew.log(worker)


def test_every_step_sees_its_runs_context_and_no_other(crew: Crew) -> None:
    crew.worker(threads=4)

    async def main() -> list[list[str]]:
        async with Engine(crew.store, workflows=apps.WORKFLOWS).client() as client:
            colours = [f"c{n}" if n % 2 else "" for n in range(100)]
            handles = await client.enqueue_many(outcomes.coloured, colours)
            return await asyncio.gather(*(handle.result() for handle in handles))

    for n, seen in enumerate(asyncio.run(main())):
        own = f"c{n}" if n % 2 else "none"
        mark = f"c{n}" if n % 2 else ""
        assert seen == ["none", "none", own, own, own, *[f"{mark}1-branch"] * 2, *[f"{mark}2-branch"] * 2, own]
