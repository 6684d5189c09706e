"""O11: a lost hint costs a moment and nothing more, whatever is waited for. Polling is the floor."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

import pytest

from perdure import Engine
from perdure.clock import SystemClock
from tests.crash import apps
from tests.crash.chaos import insist
from tests.crash.procs import Crew
from tests.servers.ground import Own

pytestmark = pytest.mark.crash

STORM = bool(os.environ.get("PERDURE_STORM"))
CLOCK = SystemClock()
SOON = 4.0
"""Seconds in which everything is noticed on a busy machine; what waits for its own timeout waits ten times as long."""
TIMEOUT = 10 * SOON


def waits(crew: Crew, rounds: int, round_: Callable[[Engine, int], Awaitable[float]]) -> list[float]:
    """Do something again and again as one client; what each time took."""

    async def main() -> list[float]:
        async with Engine(crew.store, workflows=apps.WORKFLOWS).client() as client:
            return [await round_(client, n) for n in range(rounds)]

    took = asyncio.run(main())
    print(f"median {1000 * median(took):.0f} ms, most {1000 * max(took):.0f} ms of {len(took)}")
    return took


@pytest.mark.timeout(120)
def test_a_result_is_noticed_whenever_the_wait_for_it_begins(crew: Crew) -> None:
    chance = random.Random(3)  # noqa: S311 - repeatable on purpose
    crew.worker(durability="process")

    async def round_(client: Engine, n: int) -> float:
        handle = await client.enqueue(apps.short, n)
        await asyncio.sleep(chance.random() * 0.02)
        began = CLOCK.monotonic()
        assert await handle.result(TIMEOUT) == n + 1
        return CLOCK.monotonic() - began

    assert max(waits(crew, 500 if STORM else 60, round_)) < SOON


@pytest.mark.timeout(120)
def test_a_run_is_found_whenever_it_comes_while_others_go_to_rest(crew: Crew) -> None:
    """Several workers run out of work at about the time at which there is more."""
    chance = random.Random(4)  # noqa: S311 - repeatable on purpose
    for _ in range(2):
        crew.worker(durability="process", concurrency=2)

    async def round_(client: Engine, n: int) -> float:
        began = CLOCK.monotonic()
        first = await client.enqueue(apps.short, n)
        await asyncio.sleep(chance.random() * 0.02)
        second = await client.enqueue(apps.short, n)
        assert await second.result(TIMEOUT) == n + 1
        took = CLOCK.monotonic() - began
        assert await first.result(TIMEOUT) == n + 1
        return took

    assert max(waits(crew, 500 if STORM else 60, round_)) < SOON


@pytest.mark.postgres
@pytest.mark.timeout(120)
def test_no_run_and_no_result_is_overlooked_when_all_sessions_end(tmp_path, servers: Own) -> None:
    server = servers.server()
    crew = Crew(tmp_path, server.url("hints"))
    chance = random.Random(9)  # noqa: S311 - repeatable on purpose
    try:
        workers = [crew.worker(lease=30.0, heartbeat=5.0) for _ in range(2)]

        async def cut(after: float) -> None:
            await asyncio.sleep(after)
            await asyncio.to_thread(server.terminate_backends)

        async def round_(client: Any, n: int) -> float:
            run_id = f"r{n}"
            began = CLOCK.monotonic()
            cutting = asyncio.create_task(cut(chance.random() * 0.05))
            delay = chance.random() * 0.1
            handle = await insist(lambda: client.enqueue(apps.short, n, run_id=run_id, delay=delay))
            assert await insist(lambda: handle.result(TIMEOUT)) == n + 1
            await cutting
            return CLOCK.monotonic() - began

        assert max(waits(crew, 100 if STORM else 20, round_)) < SOON
        for process in workers:
            assert process.is_alive()
            assert "ERROR" not in crew.log(process), crew.log(process)
    finally:
        crew.close()
