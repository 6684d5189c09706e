"""A program that calls ``perdure.run``: ``python -m tests.engine.script STORE WORKFLOW [RUN_ID]``."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

import perdure
from perdure import INJECTED, StepContext, sleep, step, workflow


def say(what: object) -> None:
    print(what, flush=True)


@step
async def wait_for_gate(*, ctx: StepContext[Path] = INJECTED) -> str:
    say(f"begun {ctx.attempt}")
    while not ctx.tools.exists():
        await asyncio.sleep(0.01)
    return "passed"


@step
def hear_nothing(*, ctx: StepContext[Path] = INJECTED) -> str:
    say(f"begun {ctx.attempt}")
    while not ctx.tools.exists():
        threading.Event().wait(0.01)
    return "passed"


@step
async def block_the_loop(*, ctx: StepContext[Path] = INJECTED) -> str:
    say(f"begun {ctx.attempt}")
    while not ctx.tools.exists():
        time.sleep(0.01)
    return "passed"


@step
async def last(said: str) -> str:
    say("last")
    return said


@workflow
async def polite() -> str:
    return await last(await wait_for_gate())


@workflow
async def deaf() -> str:
    return await last(await hear_nothing.aio())


@workflow
async def blocking() -> str:
    return await last(await block_the_loop())


@workflow
async def spinning() -> str:
    gate = os.environ["GATE"]
    if not os.path.exists(gate):  # noqa: PTH110 - what this one is about
        say("begun 1")
    while not os.path.exists(gate):  # noqa: PTH110 - as above
        pass
    return await last("passed")


@workflow
async def sleeping() -> str:
    say("begun 1")
    await sleep("1h")
    return await last("passed")


def main() -> None:
    path, name, *run_id = sys.argv[1:]
    say(
        perdure.run(
            globals()[name],
            run_id=run_id[0] if run_id else None,
            store=path,
            tools=Path(os.environ["GATE"]),
            durability="process",
        )
    )


if __name__ == "__main__":
    main()
