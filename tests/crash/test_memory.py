"""Thousands of short runs leave nothing behind in the worker that executed them."""

from __future__ import annotations

import asyncio
import gc
import os
from typing import Any

import pytest

from tests.crash import apps
from tests.crash.procs import Crew, ended, make_engine

pytestmark = pytest.mark.crash

STORM = bool(os.environ.get("PERDURE_STORM"))
WARM, MORE, MOST = (5000, 20_000, 10) if STORM else (1000, 2000, 10)
"""Short runs before memory is looked at and after, and the most MiB by which it may have grown then."""


def resident() -> float:
    """The process's resident memory in MiB."""
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_thousands_of_runs_leave_no_memory_behind(crew: Crew) -> None:
    process = crew.start(_many, crew)
    crew.ledger.until_said("memory", timeout=250)
    assert ended(process) == 0
    warm, after = (float(part) for part in crew.ledger.entries("memory")[0].key.split())
    print(f"{warm:.1f} MiB after {WARM} runs, {after:.1f} MiB after {MORE} more")
    assert after - warm < MOST


def _many(crew: Any) -> None:
    async def main() -> None:
        # Enqueued by one engine and executed by another, whose memory is looked at: nobody waits for results there.
        async with make_engine(crew.store, crew.ledger, durability="process") as engine:

            async def execute(count: int) -> float:
                for _ in range(0, count, 500):
                    handles = await engine.enqueue_many(apps.short, range(500))
                    await asyncio.gather(*(handle.result() for handle in handles))
                gc.collect()
                return resident()

            warm = await execute(WARM)
            crew.ledger.write("memory", key=f"{warm} {await execute(MORE)}")

    asyncio.run(main())
