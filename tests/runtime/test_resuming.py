"""A failed run goes on from what failed, with the same keys, and its clock has not run meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from perdure import INJECTED, StepContext, parallel, sleep, step, workflow
from perdure.model.records import Kind
from tests.runtime.harness import check_resumed, lab, trace, work

BROKEN = {"is": True, "calls": []}


@pytest.fixture(autouse=True)
def _broken():
    BROKEN.update({"is": True, "calls": []})


@step
async def flaky(tag: str, *, ctx: StepContext = INJECTED) -> str:
    ctx.tools.began()
    await ctx.tools.nap()
    BROKEN["calls"].append((ctx.key, ctx.attempt, ctx.idempotency_key))
    if BROKEN["is"]:
        raise ValueError(tag)
    return tag


@workflow
async def limited() -> str:
    async with asyncio.timeout(60):
        await work("a")
        return await flaky("b")


@workflow
async def forks() -> list[str]:
    """Two branches fail at different times; one was caught; a sibling is cancelled in their wake."""
    noted = trace()
    try:
        await flaky.with_options(key="caught")("caught")
    except ValueError:
        noted.append(await work("handled"))

    async def branch(n):
        noted.append(await work(f"branch {n}"))
        noted.append(await flaky(str(n)))
        return await work(f"then {n}")

    results = await parallel(branch(1), branch(2), slow())
    await sleep("1m")
    return [*results, await work("end")]


async def slow():
    await sleep("1h")
    return await work("slow", 10)


def test_the_clock_stands_still_between_failure_and_resume(tmp_path):
    async def main():
        async with lab(tmp_path, [limited], patient=True) as here:
            with pytest.raises(ValueError, match="b"):
                await here.engine.run(limited, run_id="one")
            here.clock.put_forward(3600)
            BROKEN["is"] = False
            assert await here.engine.run(limited, run_id="one", retry_failed=True) == "b"

    asyncio.run(main())


def test_a_resumed_step_keeps_its_key_and_counts_on(tmp_path):
    async def main():
        async with lab(tmp_path, [limited], patient=True) as here:
            with pytest.raises(ValueError, match="b"):
                await here.engine.run(limited, run_id="one")
            BROKEN["is"] = False
            await here.engine.run(limited, run_id="one", retry_failed=True)
            (first, second) = BROKEN["calls"]
            assert (first[1], second[1]) == (1, 2)
            assert first[2] == second[2]
            assert here.bodies["one"] == {"work#1": 1, "flaky#1": 2}

    asyncio.run(main())


@pytest.mark.parametrize("again", [1, 2])
def test_a_run_resumed_and_cut_anywhere_goes_on_and_replays_alike(again, tmp_path):
    """``again``: how often it fails before it goes through."""

    async def main():
        async with lab(tmp_path, [forks], seed=again) as here:
            failed = await here.live(forks, run_id="one")
            assert failed.outcome[0] == "raised"
            for _ in range(again - 1):
                await here.engine.get("one").resume()
                assert (await here.seen(forks, "one")).outcome[0] == "raised"
            BROKEN["is"] = False
            await here.engine.get("one").resume()
            first = await here.seen(forks, "one")
            assert first.outcome[0] == "returned", first.outcome
            assert first.outcome[1][-1] == "end"
            caught = [e for e in first.history.events if e.key == "flaky[caught]"]
            assert [e.kind for e in caught] == [Kind.STEP_FAILED], "what the code caught stays as it is"
            replayed = await here.replay(forks, first.history)
            assert (replayed.outcome, replayed.trace) == (first.outcome, first.trace)
            resumed_at = max(e.seq for e in first.history.events if e.kind == Kind.RUN_RESUMED)
            for count in range(resumed_at, len(first.history.events)):
                resumed = await here.resume(forks, first.history, count)
                check_resumed(first, count, resumed)
                replayed = await here.replay(forks, resumed.history)
                assert (replayed.outcome, replayed.trace) == (resumed.outcome, resumed.trace), count

    asyncio.run(main())
