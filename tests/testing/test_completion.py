from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure import Engine, step, workflow
from perdure.errors import ColourError
from perdure.testing import CommitPoints, ManualClock, explore_crashes, run_to_completion
from tests.testing import planted


def test_time_passes_by_itself(tmp_path):
    clock = ManualClock()
    date, *_ = run_to_completion(planted.everything, 3, store=tmp_path, clock=clock)
    assert date.startswith("2030-01-15")
    assert clock.next_due() is None


def test_the_same_call_resumes(tmp_path):
    first = run_to_completion(planted.makes_up, store=tmp_path, run_id="r")
    assert run_to_completion(planted.makes_up, store=tmp_path, run_id="r") == first
    assert run_to_completion(planted.makes_up, store=tmp_path) != first


def test_a_failure_is_raised_as_itself(tmp_path):
    with pytest.raises(ValueError, match="3"):
        run_to_completion(planted.fails, 3, store=tmp_path)


def test_it_is_called_where_no_loop_runs(tmp_path):
    async def inside():
        run_to_completion(planted.fails, 3, store=tmp_path)

    with pytest.raises(ColourError, match="ManualClock"):
        asyncio.run(inside())


@step
async def one() -> int:
    return 1


@workflow
async def ones() -> int:
    return await one() + await one()


def test_points_are_recorded_in_order(tmp_path):
    points, seen = CommitPoints(), []
    points.at("body", 2, lambda: seen.append(perdure.step_context().key))

    async def main():
        async with Engine(tmp_path, workflows=[ones], reached=points, durability="process") as engine:
            return await engine.run(ones)

    assert asyncio.run(main()) == 2
    assert points.count("body") == points.count("body_ended") == 2
    assert points.count("never") == 0
    assert points.names.index("create") < points.names.index("body") < points.names.index("body_ended")
    assert points.names.count("commit") == points.count("committed")
    assert seen == ["one#2"]


def test_an_engine_takes_an_open_store_and_leaves_it_open(tmp_path):
    from perdure.store.open import open_store

    async def main():
        with open_store(tmp_path / "x.db", durability="process") as store:
            for number in (1, 2):
                async with Engine(store, workflows=[ones]) as engine:
                    assert await engine.run(ones, run_id=f"r{number}") == 2
            return store.get_run("r2").status.word

    assert asyncio.run(main()) == "completed"


@step(timeout="50ms")
async def never_ends() -> None:
    await asyncio.get_running_loop().create_future()


@workflow
async def gives_up() -> str:
    await perdure.sleep("1d")
    try:
        await never_ends()
    except TimeoutError as error:
        return type(error).__name__
    return "it ended"


def test_a_step_that_hangs_times_out_since_nobody_moves_the_clock_meanwhile(tmp_path):
    assert run_to_completion(gives_up, store=tmp_path) == "StepTimeout"


def test_a_step_that_hangs_times_out_in_an_exploration_as_well():
    assert explore_crashes(gives_up).safe
