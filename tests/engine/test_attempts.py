"""Attempts at a step follow one another: however long the one before takes to end, they never overlap."""

from __future__ import annotations

import asyncio

from perdure import INJECTED, Retry, StepContext, step, workflow
from tests.engine.desk import Desk, engine_at, in_loop, until


@step(retry=Retry(max_attempts=2, initial_delay=0), timeout="30s")
async def lingers(*, ctx: StepContext[Desk] = INJECTED) -> int:
    ctx.tools.began(ctx)
    if ctx.attempt == 1:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await ctx.tools.gates["clean-up"].passed()
    return ctx.attempt


@workflow
async def patient() -> int:
    return await lingers()


@in_loop
async def test_an_attempt_begins_when_the_one_that_timed_out_has_ended(path, desk, clock):
    gate = desk.hold("clean-up")
    async with engine_at(path, patient, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(patient)
        await until(lambda: desk.begun)
        clock.advance("30s")
        await gate.arrival()
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(desk.begun) == 1
        gate.open()
        assert await handle.result() == 2
    assert [begun.attempt for begun in desk.begun] == [1, 2]
    assert len({begun.idem for begun in desk.begun}) == 1
