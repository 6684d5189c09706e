"""What a builder has verbs for is plain code in a workflow, and as durable: conditions, early returns, names."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from perdure import Engine, parallel, sleep, step, workflow
from perdure.errors import ColourError, DefinitionError, DuplicateName, InvalidValue
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


SCRIPT = """
from perdure import step, workflow
@step
async def pay() -> None: ...
@workflow
async def order() -> None: await pay()
"""


@in_loop
async def test_a_file_that_is_loaded_under_two_names_is_named(path, tmp_path, desk):
    file = tmp_path / "shop.py"
    file.write_text(SCRIPT, encoding="utf-8")
    run, imported = (loaded(file, name) for name in ("__main__", "shop"))
    twice = r"shop\.py is loaded twice, as __main__ and as shop: "
    with pytest.raises(DuplicateName) as caught:
        Engine(path, workflows=[run.order, imported.order])
    caught.match(twice)

    @workflow
    async def both() -> None:
        await run.pay()
        await imported.pay()

    async with engine_at(path, both, desk=desk) as engine:
        with pytest.raises(DuplicateName) as caught:
            await engine.run(both)
        caught.match(twice)


def loaded(file: Path, name: str):
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@in_loop
async def test_an_engine_that_is_written_wrongly_says_how_it_is_written(path, desk):
    with pytest.raises(DefinitionError, match=r"(?s)takes a list.*workflows=\[branches\]"):
        Engine(path, workflows=branches)
    with pytest.raises(ColourError, match=r"(?s)`async with`.*perdure\.sync\.Engine"), Engine(path):
        pass
    async with engine_at(path, decides, desk=desk) as engine:
        with pytest.raises(InvalidValue, match="input is None, which is not of type bool"):
            await engine.run(decides)
