"""A run has gone wrong in production: do it again from a step on, as another run, with the code mended.

$ python examples/06_fork_to_debug.py            (the run goes wrong: it took a whole day's work to get there)
$ MENDED=1 python examples/06_fork_to_debug.py   (a fork, which begins where the origin went wrong)
"""

from __future__ import annotations

import asyncio
import os

from perdure import Engine, step, workflow

MENDED = "MENDED" in os.environ


@step
async def collect() -> list[int]:
    print("collecting, which takes a day")
    return [3, 1, 2]


@step
async def sort(numbers: list[int]) -> list[int]:
    print("sorting")
    return sorted(numbers, reverse=not MENDED)


@step
async def publish(numbers: list[int]) -> str:
    print(f"publishing {numbers}")
    return f"published {numbers}"


@workflow
async def report() -> str:
    return await publish(await sort(await collect()))


async def main() -> None:
    async with Engine("report.db", workflows=[report]) as engine:
        handle = await engine.enqueue(report, run_id="monday")
        if MENDED:
            handle = await handle.fork("sort", run_id="monday-again")
        print(await handle.result(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
