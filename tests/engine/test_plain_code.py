"""What a builder has verbs for is plain code in a workflow, and as durable: conditions, early returns, names."""

from __future__ import annotations

import pytest

from perdure import parallel, sleep, step, workflow
from perdure.errors import DuplicateName
from tests.engine.desk import engine_at, in_loop, work


@workflow
async def decides(extra: bool) -> str:
    first = await work("first")
    if extra:
        await work("extra")
    await sleep("1h")
    if first == "first":
        return await work("last")
    raise AssertionError(first)


@workflow
async def returns_early(early: bool) -> str:
    first = await work("first")
    await sleep("1h")
    if early:
        return first
    return await work("last")


@workflow
async def branches() -> list[str]:
    async def only_if(is_wanted: bool) -> str:
        if not is_wanted:
            return "nothing"
        return await work("wanted")

    return list(await parallel(only_if(True), only_if(False)))


@step(name="work")
async def namesake() -> str:
    raise AssertionError("never begun")


@workflow
async def calls_a_namesake() -> str:
    return await work("first") + await namesake()


async def over_a_restart(path, desk, clock, definition, value):
    """Run a workflow that sleeps for an hour in two engines; its result and the steps its log knows."""
    async with engine_at(path, definition, desk=desk, clock=clock) as engine:
        await engine.enqueue(definition, value, run_id="r")
        await engine.idle()
    clock.advance("1h")
    async with engine_at(path, definition, desk=desk, clock=clock) as engine:
        handle = engine.get("r", definition)
        return await handle.result(), {key: one.status for key, one in (await handle.view()).steps.items()}


@pytest.mark.parametrize("extra", [True, False])
@in_loop
async def test_what_an_if_decides_is_decided_alike_after_a_restart(path, desk, clock, extra):
    result, steps = await over_a_restart(path, desk, clock, decides, extra)
    keys = ["work#1", "work#2", "work#3"] if extra else ["work#1", "work#2"]
    assert result == "last"
    assert steps == dict.fromkeys(keys, "completed")
    assert desk.keys() == keys


@pytest.mark.parametrize("early", [True, False])
@in_loop
async def test_a_return_ends_the_run_wherever_it_stands(path, desk, clock, early):
    result, steps = await over_a_restart(path, desk, clock, returns_early, early)
    assert (result, list(steps)) == (("first", ["work#1"]) if early else ("last", ["work#1", "work#2"]))
    async with engine_at(path, returns_early, desk=desk, clock=clock) as engine:
        assert await engine.run(returns_early, early, run_id="r") == result
    assert desk.keys() == list(steps)


@in_loop
async def test_a_branch_may_decide_for_itself(path, desk):
    async with engine_at(path, branches, desk=desk) as engine:
        assert await engine.run(branches) == ["wanted", "nothing"]
    assert len(desk.begun) == 1


@in_loop
async def test_two_different_steps_of_one_name_are_refused(path, desk):
    async with engine_at(path, calls_a_namesake, desk=desk) as engine:
        with pytest.raises(DuplicateName, match="two different steps"):
            await engine.run(calls_a_namesake)
    assert desk.keys() == ["work#1"]
