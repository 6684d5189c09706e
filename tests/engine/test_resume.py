"""Resume: exactly the failures that came out are tried anew; everything else stays as it is recorded."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure import INJECTED, RunContext, parallel, sleep, workflow
from perdure.errors import DriftError, RunCancelled, WrongState
from perdure.model.records import Kind, Status
from tests.engine.desk import Refused, engine_at, in_loop, log_of, work, work_twice


@workflow
async def two_branches() -> list[str]:
    return await asyncio.gather(work("bad"), work("good"))


@workflow
async def siblings() -> list[str]:
    return list(await parallel(work("bad"), work("slow"), work("good")))


@workflow
async def catches() -> tuple[str, str]:
    try:
        first = await work("caught")
    except Refused:
        first = "instead"
    return first, await work("bad")


@workflow
async def wraps_from() -> str:
    try:
        return await work("bad")
    except Refused as error:
        raise RuntimeError("wrapped") from error


@workflow
async def wraps_bare() -> str:
    try:
        return await work("bad")
    except Refused:
        raise RuntimeError("wrapped")  # noqa: B904 - what people write


@workflow
async def groups() -> str:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_bad())
        other = group.create_task(_bad("good"))
    return task.result() + other.result()


async def _bad(tag: str = "bad") -> str:
    return await work(tag)


@workflow
async def handler_fails() -> str:
    try:
        return await work("caught")
    except Refused:
        await work("release")
        return await work("bad")


@workflow
async def timed() -> str:
    await work("first")
    async with asyncio.timeout(60):
        return await work("bad")


@workflow
async def retries() -> str:
    return await work_twice("bad")


@workflow
async def waits(*, ctx: RunContext = INJECTED) -> str:
    await work("first")
    await sleep("1h")
    return await work("last")


async def failed(engine, definition, error=Refused):
    with pytest.raises(error):
        await engine.run(definition, run_id="r")


async def resumed(engine, definition):
    handle = engine.get("r", definition)
    await handle.resume()
    return await handle.result()


@in_loop
async def test_of_two_branches_only_the_failed_one_runs_again(path, desk):
    desk.fails["bad"] = [Refused()]
    gate = desk.hold("bad")
    async with engine_at(path, two_branches, desk=desk) as engine:
        handle = await engine.enqueue(two_branches, run_id="r")
        async for event in handle.events(follow=True):
            if event.kind == Kind.STEP_COMPLETED:
                gate.open()
        await failed(engine, two_branches)
        assert await resumed(engine, two_branches) == ["bad", "good"]
        assert sorted(desk.keys()) == ["work#1", "work#1", "work#2"]


@in_loop
async def test_siblings_cancelled_in_the_wake_run_again_and_finished_ones_do_not(path, desk):
    slow = desk.hold("slow")
    bad = desk.hold("bad")
    desk.fails["bad"] = [Refused()]
    async with engine_at(path, siblings, desk=desk) as engine:
        handle = await engine.enqueue(siblings, run_id="r")
        await slow.arrival()
        bad.open()
        with pytest.raises(Refused):
            await handle.result()
        assert (await handle.view()).steps["work#2"].status == "cancelled"
        slow.open()
        assert await resumed(engine, siblings) == ["bad", "slow", "good"]
        assert sorted(desk.keys()) == ["work#1", "work#1", "work#2", "work#2", "work#3"]
        idems = {begun.key: begun.idem for begun in desk.begun}
        assert all(begun.idem == idems[begun.key] for begun in desk.begun)


@in_loop
async def test_a_failure_that_the_code_caught_stays_an_outcome(path, desk):
    desk.fails = {"caught": [Refused()], "bad": [Refused()]}
    async with engine_at(path, catches, desk=desk) as engine:
        await failed(engine, catches)
        assert await resumed(engine, catches) == ("instead", "bad")
        assert desk.keys() == ["work#1", "work#2", "work#2"]


@in_loop
async def test_a_failure_stays_caught_when_its_handler_fails(path, desk):
    desk.fails = {"caught": [Refused("first")], "bad": [Refused("second")]}
    async with engine_at(path, handler_fails, desk=desk) as engine:
        await failed(engine, handler_fails)
        assert (await engine.get("r").view()).failed_steps == ["work#3"]
        assert await resumed(engine, handler_fails) == "bad"
        assert desk.keys() == ["work#1", "work#2", "work#3", "work#3"]


@pytest.mark.parametrize("definition", [wraps_from, wraps_bare, groups])
@in_loop
async def test_a_failure_that_comes_out_wrapped_is_tried_anew(path, desk, definition):
    desk.fails["bad"] = [Refused()]
    async with engine_at(path, definition, desk=desk) as engine:
        await failed(engine, definition, ExceptionGroup if definition is groups else RuntimeError)
        assert "bad" in await resumed(engine, definition)


@in_loop
async def test_attempts_go_on_counting_with_a_new_budget_and_the_same_idempotency_key(path, desk, clock):
    desk.fails["bad"] = [Refused(str(n)) for n in range(5)]
    async with engine_at(path, retries, desk=desk, clock=clock) as engine:
        for until in (2, 4):
            handle = await engine.enqueue(retries, run_id="r")
            if until > 2:
                await handle.resume()
            await engine.idle()
            assert (await handle.row()).status is Status.RETRYING
            clock.advance("1h")
            with pytest.raises(Refused, match=str(until - 1)) as raised:
                await handle.result()
            assert f"work_twice#1 (attempt {until})" in raised.value.__notes__[-1]
        await handle.resume()
        await engine.idle()
        clock.advance("1h")
        assert await handle.result() == "bad"
        assert [begun.attempt for begun in desk.begun] == [1, 2, 3, 4, 5, 6]
        assert len({begun.idem for begun in desk.begun}) == 1
        assert [n for n, _ in (await handle.view()).steps["work_twice#1"].failures] == [1, 2, 3, 4, 5]


@in_loop
async def test_the_log_keeps_what_came_before_the_resume(path, desk):
    desk.fails["bad"] = [Refused()]
    async with engine_at(path, catches, desk=desk) as engine:
        await failed(engine, catches)
        before = await log_of(engine, "r")
        assert before[-1].kind == Kind.RUN_FAILED
        await resumed(engine, catches)
        after = await log_of(engine, "r")
        assert after[: len(before)] == before
        assert after[len(before)].kind == Kind.RUN_RESUMED


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
    async with engine_at(path, catches, desk=desk) as engine, engine_at(path, catches, desk=desk) as second:
        await failed(engine, catches)
        both = [one.run(catches, run_id="r", retry_failed=True) for one in (engine, second, engine)]
        assert await asyncio.gather(*both) == [("caught", "bad")] * 3
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
