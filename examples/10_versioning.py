"""New code is deployed while runs are in flight: each goes on under the code that it began under, or is patched.

$ python examples/10_versioning.py

This is the old program, and with NEW=1 the new one. Its deployment is played: the new worker comes, the old one goes.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from perdure import Engine, Handle, Signal, patched, step, workflow

NEW = "NEW" in os.environ
fetched = Signal[bool]("fetched")


@step
async def say(what: str) -> None:
    print(f"{'new' if NEW else 'old'} worker: {what}", flush=True)


@workflow  # a small change: one function has both, and each run remembers which it took
async def borrow(book: str) -> None:
    if NEW and patched("check the card"):
        await say(f"check a card for {book}")
    await say(f"lend {book}")
    await fetched.wait()
    if NEW and patched("say thanks"):
        await say(f"thanks for {book}")


@workflow(name="order")  # a large one: the old function stays as it was, for as long as it has runs
async def order_1(book: str) -> None:
    await say(f"order {book} by post")
    await fetched.wait()
    await say(f"pay for {book} in cash")


@workflow(name="order", version="2")
async def order_2(book: str) -> None:
    await say(f"order {book} by wire")
    await fetched.wait()
    await say(f"pay for {book} by card")


def worker(**environ: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "worker"], env={**os.environ, **environ})


async def fetch(run: Handle[None]) -> None:
    await run.signal(fetched, True)
    await run.result(timeout=60)


async def deploy() -> None:
    async with Engine("library.db", workflows=[borrow, order_1, order_2]).client() as engine:
        old = worker()
        lent, ordered = [await engine.enqueue(one, "Emma", run_id=f"{one.name}-Emma") for one in (borrow, order_1)]
        while (await lent.row()).status.word != "waiting":  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.05)
        new = worker(NEW="1")
        await fetch(ordered)
        await fetch(await engine.enqueue(order_2, "Ulysses", run_id="order-Ulysses"))
        old.terminate()  # no run is left that only it can do
        old.wait()
        await fetch(lent)
        await fetch(await engine.enqueue(borrow, "Dracula", run_id="borrow-Dracula"))
        new.terminate()
        new.wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        asyncio.run(Engine("library.db", workflows=[borrow, order_2 if NEW else order_1]).serve())
    else:
        asyncio.run(deploy())
