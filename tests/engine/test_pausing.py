"""Pause: a run rests until it is resumed, whatever comes or becomes due meanwhile."""

from __future__ import annotations

import pytest

from perdure import Engine, Signal, sleep, workflow
from perdure.errors import RunCancelled, RunNotFound, WrongState
from perdure.model.records import Status
from tests.engine.desk import PATIENCE, engine_at, in_loop, in_status, until, work

word = Signal[str]("word")


@workflow
async def two_steps() -> str:
    return await work("first") + await work("second")


@workflow
async def naps() -> str:
    await sleep("1h")
    return await work("after")


@workflow
async def listens() -> str:
    return await word.wait()


ALL = (two_steps, naps, listens)


@in_loop
async def test_a_run_in_execution_rests_when_its_steps_have_ended_and_goes_on_where_it_was(path, desk):
    gate = desk.hold("first")
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(two_steps, run_id="r")
        await gate.arrival()
        await handle.pause("maintenance")
        await until(lambda: engine._worker.running[handle.run_key].pausing)
        gate.open()
        await in_status(engine, "r", Status.PAUSED)
        view = await handle.view()
        assert (view.status, view.reason) == (Status.PAUSED, "maintenance")
        assert [one.status for one in view.steps.values()] == ["completed"]
        await engine.idle()
        assert len(desk.begun) == 1
        await handle.resume()
        assert await handle.result(timeout=PATIENCE) == "firstsecond"
        assert len(desk.begun) == 2


@in_loop
async def test_runs_that_nobody_executes_rest_at_once(path, desk, clock):
    async with engine_at(path, *ALL, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(naps, run_id="r")
        await in_status(engine, "r", Status.SLEEPING)
        await handle.pause()
        assert (await handle.row()).status is Status.PAUSED
        clock.advance("2h")
        await engine.idle()
        assert desk.begun == []
        await handle.resume()
        assert await handle.result(timeout=PATIENCE) == "after"
    async with Engine(path).client() as client:
        pending = await client.enqueue(two_steps, run_id="p")
        await pending.pause()
    async with engine_at(path, *ALL, desk=desk) as engine:
        await engine.idle()
        assert (await engine.get("p").row()).status is Status.PAUSED


@in_loop
async def test_what_is_sent_to_a_paused_run_is_kept_and_does_not_wake_it(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(listens, run_id="r")
        await in_status(engine, "r", Status.WAITING)
        await handle.pause()
        await handle.signal(word, "kept")
        await engine.idle()
        assert (await handle.row()).status is Status.PAUSED
        await handle.resume()
        assert await handle.result(timeout=PATIENCE) == "kept"


@in_loop
async def test_a_paused_run_can_be_cancelled(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(listens, run_id="r")
        await in_status(engine, "r", Status.WAITING)
        await handle.pause()
        await handle.cancel("no more")
        with pytest.raises(RunCancelled, match="no more"):
            await handle.result(timeout=PATIENCE)


@in_loop
async def test_a_cancel_that_comes_before_the_run_rests_wins(path, desk):
    gate = desk.hold("first")
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(two_steps, run_id="r")
        await gate.arrival()
        await handle.pause()
        await handle.cancel("rather not")
        with pytest.raises(RunCancelled, match="rather not"):
            await handle.result(timeout=PATIENCE)


@in_loop
async def test_a_pause_survives_the_engine_that_was_asked(path, desk):
    gate = desk.hold("first")
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(two_steps, run_id="r")
        await gate.arrival()
        await handle.pause("later")
        await engine.stop(drain=0)
    async with engine_at(path, *ALL, desk=desk) as engine:
        await in_status(engine, "r", Status.PAUSED)


@in_loop
async def test_ended_and_unknown_runs_are_not_paused(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        await engine.run(two_steps, run_id="r")
        with pytest.raises(WrongState, match="is completed"):
            await engine.get("r").pause()
        with pytest.raises(RunNotFound):
            await engine.get("nobody").pause()
