"""Resume of mended, cancelled and blocked runs, and the time that passes meanwhile."""

from __future__ import annotations

import asyncio
import threading

import pytest

import perdure
from perdure import INJECTED, RunContext, sleep, workflow
from perdure.errors import DriftError, RunCancelled, WrongState
from perdure.model.records import Status
from tests.engine.desk import PATIENCE, Refused, asked, engine_at, in_loop, until, work
from tests.engine.resuming import failed, resumed


@workflow
async def catches() -> tuple[str, str]:
    try:
        first = await work("caught")
    except Refused:
        first = "instead"
    return first, await work("bad")


@workflow
async def timed() -> str:
    await work("first")
    async with asyncio.timeout(60):
        return await work("bad")


@workflow
async def waits(*, ctx: RunContext = INJECTED) -> str:
    await work("first")
    await sleep("1h")
    return await work("last")


@in_loop
async def test_a_mended_workflow_replays_what_its_bug_had_cut_short(path, desk):
    def version(body):
        body.__name__ = body.__qualname__ = "mended"
        return workflow(body)

    async def buggy() -> str:
        tag = await work("first")
        return tag + 1

    async def right() -> str:
        return await work("first") + "!"

    buggy, right = version(buggy), version(right)
    async with engine_at(path, buggy, desk=desk) as engine:
        with pytest.raises(TypeError):
            await engine.run(buggy, run_id="r")
        with pytest.raises(TypeError):  # nothing is superseded, so it fails there again
            await resumed(engine, buggy)
    async with engine_at(path, right, desk=desk) as engine:
        assert await resumed(engine, right) == "first!"
    assert desk.keys() == ["work#1"]


@in_loop
async def test_a_cancelled_run_goes_on_where_the_cancel_met_it(path, desk):
    gate = desk.hold("bad")
    async with engine_at(path, catches, desk=desk) as engine:
        handle = await engine.enqueue(catches, run_id="r")
        await gate.arrival()
        await handle.cancel("not today")
        with pytest.raises(RunCancelled, match="not today"):
            await handle.result()
        gate.open()
        await handle.resume()
        assert await handle.result() == ("caught", "bad")
        assert desk.keys() == ["work#1", "work#2", "work#2"]
        assert (await handle.view()).cancel_reason is None


@in_loop
async def test_a_run_blocked_by_drift_goes_on_when_the_drift_is_accepted_or_mended(path, desk, clock):
    def version(tag):
        async def drifts() -> str:
            first = await work(tag)
            await sleep("1h")
            return first + await work("last")

        drifts.__qualname__ = "drifts"
        return workflow(drifts)

    old, new = version("old"), version("new")
    async with engine_at(path, old, desk=desk, clock=clock) as engine:
        await engine.enqueue(old, run_id="r")
        await engine.idle()
    clock.advance("1h")
    async with engine_at(path, new, desk=desk, clock=clock) as engine:
        with pytest.raises(DriftError):
            await engine.run(new, run_id="r")
        assert (await engine.get("r").row()).status is Status.BLOCKED
        with pytest.raises(DriftError):
            await resumed(engine, new)
        handle = engine.get("r", new)
        await handle.resume(accept_drift=True)
        assert await handle.result() == "oldlast"
    assert desk.keys() == ["work#1", "work#2"]


@in_loop
async def test_the_time_between_failure_and_resume_does_not_count(path, desk, clock):
    desk.fails["bad"] = [Refused()]
    async with engine_at(path, timed, desk=desk, clock=clock) as engine:
        await failed(engine, timed)
        clock.advance("30d")
        assert await resumed(engine, timed) == "bad"


@in_loop
async def test_time_that_passes_after_the_resume_counts(path, desk, clock):
    desk.fails["bad"] = [Refused()]
    async with engine_at(path, timed, desk=desk, clock=clock) as engine:
        await failed(engine, timed)
        clock.advance("30d")
        gate = desk.hold("bad")
        handle = engine.get("r", timed)
        await handle.resume()
        await gate.arrival()
        await clock.armed()
        clock.advance("59s")
        assert (await handle.row()).status is Status.RUNNING
        clock.advance("1s")
        with pytest.raises(TimeoutError):
            await handle.result()


@pytest.mark.parametrize("retry_failed", [True, False])
@in_loop
async def test_perdure_run_goes_on_from_what_failed_unless_told_not_to(path, desk, retry_failed):
    desk.fails["bad"] = [Refused("recorded")]
    here = {"run_id": "r", "store": path, "tools": desk, "durability": "process"}
    with pytest.raises(Refused):
        await perdure.arun(catches, **here)
    if retry_failed:
        assert await perdure.arun(catches, **here) == ("caught", "bad")
    else:
        with pytest.raises(Refused, match="recorded"):
            await perdure.arun(catches, retry_failed=False, **here)
        assert desk.keys() == ["work#1", "work#2"]


@in_loop
async def test_of_two_that_go_on_with_a_failed_run_at_once_both_get_its_result(path, desk):
    desk.fails["bad"] = [Refused()]
    async with engine_at(path, catches, desk=desk) as engine:
        await failed(engine, catches)
        busy = threading.Event()
        engine._journal.outside.call(lambda: busy.wait(PATIENCE), background=True)
        both = [asyncio.create_task(engine.run(catches, run_id="r", retry_failed=True)) for _ in range(2)]
        await until(lambda: len(asked(engine)) >= 2)
        busy.set()  # now both read that it has failed, before either resumes it
        assert await asyncio.gather(*both) == [("caught", "bad")] * 2
        assert desk.keys() == ["work#1", "work#2", "work#2"]


@in_loop
async def test_only_what_has_stopped_can_be_resumed(path, desk, clock):
    async with engine_at(path, waits, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(waits, run_id="r")
        await engine.idle()
        with pytest.raises(WrongState, match="sleeping"):
            await handle.resume()
        clock.advance("1h")
        await handle.result()
        with pytest.raises(WrongState, match="completed"):
            await handle.resume()
