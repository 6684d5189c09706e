"""A workflow that goes on as a new run: under its id, with what it was sent, and with a log that begins anew."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure import Engine, Signal, continue_as_new, workflow
from perdure.errors import InvalidValue, NotInRun, RunCancelled, RunConflict
from perdure.model.records import Kind, Status
from tests.engine.desk import PATIENCE, engine_at, in_loop, log_of, work

tick = Signal[int]("tick")


@workflow
async def counts(total: int) -> int:
    """Adds up what it is sent, two messages a run, until it is sent 0."""
    for _ in range(2):
        number = await tick.wait()
        if number == 0:
            return total
        total += number
    return continue_as_new(total)


@workflow
def counts_down(n: int) -> str:
    work.sync(str(n))
    if n == 0:
        return perdure.run_context().run_id
    return continue_as_new(n - 1)


@workflow
async def parent() -> int:
    return await counts.with_options(run_id="child")(0)


@workflow
async def never_settles() -> None:
    continue_as_new(object())


@workflow
async def leaves_a_branch(n: int) -> int:
    if n == 0:
        return n
    asyncio.get_running_loop().create_task(work("branch"))
    await work("main")
    return continue_as_new(0)


ALL = (counts, counts_down, parent, never_settles, leaves_a_branch)


@in_loop
async def test_what_was_sent_and_who_waits_go_over_to_the_new_run(path, desk):
    async with Engine(path).client() as client:
        handle = await client.enqueue(counts, 0, run_id="r", idempotency_key="k", tags={"of": "mine"})
        for number in (1, 2, 3, 4, 5, 0):
            await handle.signal(tick, number)
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = engine.get("r", counts)
        assert await handle.result(timeout=PATIENCE) == 15
        rows = [row async for row in engine.runs(tags={"of": "mine"})]
        assert [row.run_id for row in rows] == ["r", "r~2", "r~1"]
        assert {row.status for row in rows} == {Status.COMPLETED}
        assert Kind((await log_of(engine, "r~1"))[-1].kind) is Kind.RUN_CONTINUED
        assert (await engine.enqueue(counts, 6, run_id=None, idempotency_key="k2")).run_id != "r"
        again = await engine.enqueue(counts, 10, idempotency_key="k")
        assert again.run_id == "r"


@in_loop
async def test_one_that_waits_for_it_waits_on_and_so_does_a_parent(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        whole = asyncio.ensure_future(engine.run(parent, run_id="p"))
        while engine._store.get_run("child") is None:
            await asyncio.sleep(0)
        child = engine.get("child", counts)
        waiting = asyncio.ensure_future(child.result())
        for number in (1, 2, 3):
            await child.signal(tick, number)
        while engine._store.get_run("child~1") is None:
            await asyncio.sleep(0)
        await engine.get("child").signal(tick, 0)
        assert await waiting == 6
        assert await whole == 6


@in_loop
async def test_sync_workflows_continue_too_and_keep_their_id(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        assert await engine.run(counts_down, 3, run_id="r") == "r"
        assert len(desk.begun) == 4
        assert len({begun.idem for begun in desk.begun}) == 4


def test_a_run_here_and_now_goes_on_until_the_last_one(new_store, desk):
    assert perdure.run(counts_down, 3, run_id="r", store=new_store(), tools=desk) == "r"


@in_loop
async def test_the_call_that_began_it_finds_it_whichever_life_it_is_in(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(counts, 100, run_id="r")
        await handle.signal(tick, 1)
        await handle.signal(tick, 1)
        while engine._store.get_run("r~1") is None:
            await asyncio.sleep(0)
        assert (await engine.enqueue(counts, 100, run_id="r")).run_id == "r"
        waiting = asyncio.ensure_future(engine.run(counts, 100, run_id="r"))
        with pytest.raises(RunConflict, match="another input"):
            await engine.enqueue(counts, 7, run_id="r")
        await handle.signal(tick, 0)
        assert await waiting == 102


@in_loop
async def test_the_result_of_a_former_life_is_that_of_the_last_one(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        assert await engine.run(counts_down, 2, run_id="r~0") == "r~0"
        results = [await engine.get(life).result(timeout=PATIENCE) for life in ("r~0~1", "r~0~2", "r~0")]
        assert results == ["r~0"] * 3


@in_loop
async def test_a_cancel_reaches_whichever_run_has_the_id(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(counts, 0, run_id="r")
        await handle.signal(tick, 1)
        await handle.signal(tick, 1)
        while engine._store.get_run("r~1") is None:
            await asyncio.sleep(0)
        await engine.get("r").cancel("enough")
        with pytest.raises(RunCancelled, match="enough"):
            await engine.get("r", counts).result(timeout=PATIENCE)


@in_loop
async def test_what_cannot_be_stored_is_refused_and_what_is_left_running_is_cancelled(path, desk):
    desk.hold("branch")
    async with engine_at(path, *ALL, desk=desk) as engine:
        with pytest.raises(InvalidValue):
            await engine.run(never_settles)
        assert await engine.run(leaves_a_branch, 1, run_id="r") == 0
        cancelled = [event.key for event in await log_of(engine, "r~1") if event.kind == Kind.STEP_CANCELLED]
        assert len(cancelled) == 1


def test_it_is_for_workflows_only():
    with pytest.raises(NotInRun, match="outside a run"):
        continue_as_new(1)
