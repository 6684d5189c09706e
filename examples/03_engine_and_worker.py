"""One process hands work in, others do it.

In two terminals, both in the folder of this file:

$ perdure worker 03_engine_and_worker --store jobs.db
$ python 03_engine_and_worker.py 5

Start as many workers as you like, and kill any of them: the others take over what it was doing within a moment.
"""

from __future__ import annotations

import asyncio
import os
import sys

import perdure
from perdure import Engine, Retry, step, workflow


@step(retry=Retry(max_attempts=3, initial_delay="200ms"), timeout="10s")
async def measure(number: int) -> int:
    print(f"worker {os.getpid()} measures {number}", flush=True)
    await asyncio.sleep(0.2)
    return number * number


@workflow
async def survey(size: int) -> int:
    return sum(await perdure.map(measure, range(1, size + 1), limit=4))


async def hand_in(size: int) -> None:
    # A client opens the store but executes nothing; a web application does the same.
    async with Engine("jobs.db", workflows=[survey]).client() as engine:
        handle = await engine.enqueue(survey, size, tags={"from": "example"})
        print(f"run {handle.run_id} is handed in")
        print(f"the sum is {await handle.result(timeout=60)}")


if __name__ == "__main__":
    asyncio.run(hand_in(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
