"""Five reports a second. The schedule is kept in the store: processes come and go, and none comes twice.

$ python examples/07_schedules.py     (three reports; call it again: it goes on, and skips what is long past)
$ perdure schedules show report --store reports.db
"""

from __future__ import annotations

import asyncio

from perdure import INJECTED, Engine, RunContext, StepContext, step, workflow


@step
async def write(title: str, *, ctx: StepContext[asyncio.Queue[str]] = INJECTED) -> str:
    ctx.tools.put_nowait(title)  # tools are what the engine was given; so this process hears of it
    return title


@workflow
async def report(*, ctx: RunContext = INJECTED) -> str:
    return await write(f"report of {ctx.scheduled_at:%H:%M:%S.%f}")  # when it was due, not when it began


async def main() -> None:
    written: asyncio.Queue[str] = asyncio.Queue()
    async with Engine("reports.db", workflows=[report], tools=written) as engine:
        # Said whenever the program starts; one that is there already goes on as it was.
        schedule = await engine.schedule(report, every="200ms", key="report", overlap="skip", catch_up="1s")
        for _ in range(3):
            print(await written.get())
        skipped = sum(one.times for one in await schedule.history() if one.outcome == "skipped")
        print(f"skipped, since nobody was there: {skipped}")


if __name__ == "__main__":
    asyncio.run(main())
