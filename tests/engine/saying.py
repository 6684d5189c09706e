"""A process that is killed after a step of it has said something that is on disk."""

from __future__ import annotations

import asyncio
import os
import signal

from perdure import INJECTED, StepContext, emit, step, workflow
from perdure.model.records import Kind
from tests.engine.desk import Desk, engine_at


@step
async def reports_rows(*, ctx: StepContext[Desk] = INJECTED) -> object:
    seen = ctx.last_progress
    for row in range(42):
        ctx.emit(row, "rows")
    if seen is None:
        ctx.progress({"row": 40})
        await asyncio.sleep(0)
        ctx.progress({"row": 41})
        await asyncio.Event().wait()
    return seen


@workflow
async def report() -> object:
    emit("begin", "code")
    seen = await reports_rows()
    emit("end", "code")
    return seen


def cut_short(path: str) -> None:
    """Be killed once all that the step has said is on disk."""

    async def main() -> None:
        engine = engine_at(path, report)
        await engine.start()
        handle = await engine.enqueue(report, run_id="r")
        async for event in handle.events(follow=True):
            if event.kind == Kind.PROGRESS and event.payload == b'{"row":41}':
                os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())
