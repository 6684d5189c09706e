"""Sync workflows: threads that are let go while nothing can happen, and unwound where the run leaves memory."""

from __future__ import annotations

import asyncio
import threading

import pytest

from perdure import step, workflow
from perdure.errors import RunGone
from perdure.sync import parallel, sleep, submit
from tests.runtime.harness import blocking, lab, work

SEEN = []


@pytest.fixture(autouse=True)
def _fresh():
    SEEN.clear()


@workflow
def sleeps(n: int) -> str:
    def branch(name):
        try:
            sleep("1h")
            return blocking(name)
        finally:
            try:
                blocking("in finally")
            except BaseException as error:
                SEEN.append(type(error))

    return "".join(parallel(lambda: branch("a"), lambda: branch("b")))


def threads_of_runs():
    return [thread for thread in threading.enumerate() if thread.name.startswith("perdure-workflow")]


def test_a_sleeping_run_holds_no_thread_and_its_finally_blocks_cannot_call_steps(tmp_path):
    async def main():
        async with lab(tmp_path, [sleeps]) as here:
            here.clock.idle = lambda: False  # so that nobody wakes
            handles = await here.engine.enqueue_many(sleeps, range(20))
            while len(SEEN) < 40:
                await asyncio.sleep(0)
            assert set(SEEN) == {RunGone}
            assert {(await handle.row()).status.word for handle in handles} == {"sleeping"}
            SEEN.clear()
            here.clock.idle = lambda: True
            assert [await handle.result() for handle in handles] == ["ab"] * 20
            assert SEEN == [], "on the way to the end every finally block can call steps"

    asyncio.run(main())


def test_runs_that_sleep_share_few_threads(tmp_path):
    async def main():
        before = len(threads_of_runs())
        async with lab(tmp_path, [sleeps]) as here:
            here.clock.idle = lambda: False
            for n in range(30):
                await here.engine.enqueue(sleeps, n)
                while len(SEEN) < 2 * n + 2:
                    await asyncio.sleep(0)
            assert len(threads_of_runs()) - before < 30

    asyncio.run(main())


@workflow
def counts() -> int:
    """Branches that add to what they share, without a lock."""
    total = [0]

    def adds():
        for n in range(20):
            before = total[0]
            if n % 7 == 0:
                blocking(str(n))
            total[0] = before + 1 if n % 7 else total[0] + 1

    parallel(*[adds] * 4)
    return total[0]


def test_only_one_branch_moves_at_a_time(tmp_path):
    async def main():
        async with lab(tmp_path, [counts]) as here:
            assert [await here.engine.run(counts) for _ in range(5)] == [80] * 5

    asyncio.run(main())


@workflow
def fails_beside() -> None:
    branch = submit(lambda: blocking("never waited for"))
    work.sync("a")
    raise ValueError(branch.done())


def test_a_failure_waits_for_what_runs_beside(tmp_path):
    async def main():
        async with lab(tmp_path, [fails_beside]) as here:
            seen = await here.live(fails_beside)
            assert seen.outcome[:2] == ("raised", "ValueError")
            assert seen.history.kinds()[-1] == "run_failed"
            assert (await here.replay(fails_beside, seen.history)).outcome == seen.outcome

    asyncio.run(main())


@step
async def asks_for_its_thread() -> str:
    return threading.current_thread().name


@workflow
def calls_an_async_step() -> list[str]:
    return [threading.current_thread().name.rpartition("-")[0], asks_for_its_thread.sync()]


def test_an_async_step_runs_on_the_hosts_loop(tmp_path):
    async def main():
        async with lab(tmp_path, [calls_an_async_step]) as here:
            host = threading.current_thread().name
            assert await here.engine.run(calls_an_async_step) == ["perdure-workflow", host]

    asyncio.run(main())
