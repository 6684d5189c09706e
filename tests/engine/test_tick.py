"""tick(): one pass at a time, in the hands of whoever calls it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from perdure import INJECTED, StepContext, step, workflow
from perdure.errors import EngineNotOpen, WrongState
from perdure.model.records import Status
from perdure.store.open import is_postgres
from tests.crash.procs import SERVER
from tests.engine.desk import (
    PATIENCE,
    RECEIPT,
    Order,
    Refused,
    chore,
    die_in_the_second_step,
    engine_at,
    errand,
    in_loop,
    job,
    until,
)


@step
async def tick_inside(*, ctx: StepContext[list] = INJECTED) -> str:
    with pytest.raises(WrongState, match="under way"):
        await ctx.tools[0].tick()
    return "refused"


@workflow
async def reenters() -> str:
    return await tick_inside()


@in_loop
async def test_a_pass_executes_what_there_is_and_says_how_many(path, desk):
    engine = engine_at(path, job, desk=desk)
    async with engine.client():
        handles = await engine.enqueue_many(job, range(7))
        assert not desk.begun
        assert await engine.tick() == 7
        assert len(desk.begun) == 7
        assert [await handle.result() for handle in handles] == [n + 1 for n in range(7)]
        assert await engine.tick() == 0
        await engine.stop()


@in_loop
async def test_the_first_pass_opens_the_store_and_stop_closes_it(path, desk):
    engine = engine_at(path, chore, desk=desk)
    assert await engine.tick() == 0
    handle = await engine.enqueue(chore)
    await engine.idle()
    assert not desk.begun
    assert await engine.tick() == 1
    assert await handle.result() == "chore"
    assert await engine.stop() == []
    with pytest.raises(EngineNotOpen):
        await engine.enqueue(chore)


@pytest.mark.parametrize(("concurrency", "passes"), [(2, [2, 2, 1, 0]), (450, [5, 0])])
@in_loop
async def test_a_pass_takes_up_to_its_concurrency(path, desk, concurrency, passes):
    engine = engine_at(path, job, desk=desk, concurrency=concurrency)
    async with engine.client():
        await engine.enqueue_many(job, range(5))
        assert [await engine.tick() for _ in passes] == passes
        await engine.stop()


@in_loop
async def test_a_pass_takes_more_than_one_transaction_of_claims(path, desk):
    engine = engine_at(path, job, desk=desk, concurrency=450)
    async with engine.client():
        await engine.enqueue_many(job, range(500))
        assert [await engine.tick(), await engine.tick(), await engine.tick()] == [450, 50, 0]
        await engine.stop()


@in_loop
async def test_sleeps_and_retries_park_and_a_later_pass_goes_on(path, desk, clock):
    desk.fails["second"] = [Refused()]
    engine = engine_at(path, errand, desk=desk, clock=clock)
    async with engine.client():
        sleeper = await engine.enqueue(errand, Order("42", naps=True))
        assert await engine.tick() == 1
        assert (await sleeper.row()).status is Status.SLEEPING
        assert await engine.tick() == 0
        clock.advance("1h")
        assert await engine.tick() == 1
        assert (await sleeper.row()).status is Status.RETRYING
        await engine.stop()
    # The count of attempts outlives the engine.
    second = engine_at(path, errand, desk=desk, clock=clock)
    assert await second.tick() == 0
    clock.advance("1h")
    assert await second.tick() == 1
    assert await second.get(sleeper.run_id, errand).result() == RECEIPT
    assert [begun.attempt for begun in desk.begun] == [1, 1, 2]
    await second.stop()


@in_loop
async def test_a_pass_takes_back_what_a_dead_process_left(path, desk, clock):
    process = SERVER.Process(target=die_in_the_second_step, args=(path,))
    process.start()
    await asyncio.to_thread(process.join, PATIENCE)
    engine = engine_at(path, errand, desk=desk, clock=clock)
    taken = await engine.tick()
    while is_postgres(path) and not taken:  # sessions may end whose workers live: it looks on for a moment
        taken = await engine.tick()
    assert taken == 1
    assert await engine.get("r", errand).result() == RECEIPT
    assert desk.keys() == ["work_twice#1"]
    await engine.stop()


@in_loop
async def test_passes_do_not_overlap(path, desk):
    gate = desk.hold("42")
    engine = engine_at(path, job, desk=desk)
    async with engine.client():
        await engine.enqueue(job, 42)
        first = asyncio.create_task(engine.tick())
        await gate.arrival()
        with pytest.raises(WrongState, match="under way"):
            await engine.tick()
        gate.open()
        assert await first == 1
        assert await engine.tick() == 0
        await engine.stop()


@in_loop
async def test_a_step_cannot_tick_the_engine_that_executes_it(path):
    tools = []
    engine = engine_at(path, reenters, desk=tools)
    tools.append(engine)
    async with engine.client():
        handle = await engine.enqueue(reenters)
        assert await engine.tick() == 1
        assert await handle.result() == "refused"
        await engine.stop()


@in_loop
async def test_a_started_engine_is_not_ticked_and_a_ticked_one_not_started(path):
    async with engine_at(path, chore) as engine:
        with pytest.raises(WrongState, match="claims by itself"):
            await engine.tick()
    await engine.tick()
    with pytest.raises(WrongState, match="started"):
        await engine.start()
    await engine.stop()


@in_loop
async def test_a_pass_that_is_cancelled_loses_no_run(path, desk):
    engine = engine_at(path, job, desk=desk)
    async with engine.client():
        await engine.enqueue(job, 1, run_id="r")
        busy = threading.Event()
        for turns in range(8):
            passing = asyncio.create_task(engine.tick())
            for _ in range(turns):
                await asyncio.sleep(0)
            passing.cancel()
            await asyncio.wait([passing])
        await engine.enqueue(job, 2, run_id="busy")
        engine._journal.call(lambda: busy.wait(PATIENCE), background=True)
        passing = asyncio.create_task(engine.tick())
        await until(lambda: engine._journal._verbs)
        passing.cancel()
        await asyncio.wait([passing])
        busy.set()
        await engine.tick()
        assert await engine.get("r", job).result(timeout=5) == 2
        assert await engine.get("busy", job).result(timeout=5) == 3
        assert desk.keys() == ["work#1"] * 2
        await engine.stop()
