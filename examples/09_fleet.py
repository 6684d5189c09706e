"""Three workers share the work of one PostgreSQL. One is killed in the middle; the others take over what it was doing.

$ pip install 'perdure[postgres]'
$ python examples/09_fleet.py postgresql://user:password@localhost/fleet     (any database; or fleet.db, for SQLite)

In earnest the workers are processes of `perdure worker`, on as many machines as you like.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from perdure import Engine, step, workflow

WORKERS, PARCELS = 3, 12


@step
async def stamp(parcel: int) -> int:
    print(f"worker {os.getpid()} stamps parcel {parcel}", flush=True)
    await asyncio.sleep(0.1)
    return os.getpid()


def is_first(name: str) -> bool:
    try:
        Path(name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@step
async def send(parcel: int) -> int:
    if parcel == PARCELS // 2 and is_first("killed"):
        print(f"worker {os.getpid()} sends parcel {parcel}, and is killed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    print(f"worker {os.getpid()} sends parcel {parcel}", flush=True)
    await asyncio.sleep(0.1)
    return os.getpid()


@workflow
async def deliver(parcel: int) -> list[int]:
    return [await stamp(parcel), await send(parcel)]


async def work(store: str) -> None:
    await Engine(store, workflows=[deliver], concurrency=2).serve()  # until it is asked to stop


async def hand_in(store: str) -> None:
    async with Engine(store, workflows=[deliver]).client() as engine:
        handles = [await engine.enqueue(deliver, number) for number in range(1, PARCELS + 1)]
        done = Counter([pid for handle in handles for pid in await handle.result(timeout=60)])
    print(f"{done.total()} steps for {PARCELS} parcels, done by {len(done)} workers")


if __name__ == "__main__":
    _, store, *is_worker = sys.argv
    if is_worker:
        asyncio.run(work(store))
    else:
        workers = [subprocess.Popen([sys.executable, __file__, store, "worker"]) for _ in range(WORKERS)]
        try:
            asyncio.run(hand_in(store))
        finally:
            for worker in workers:
                worker.terminate()  # they let go of what they do, and end
            print(f"ends of the workers: {sorted(worker.wait() for worker in workers)}")
