"""Deadlines of runs: when one passes, the run is cancelled, whatever it is doing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import perdure
from perdure import Engine, Signal, saga, workflow
from perdure.errors import DefinitionError, RunCancelled
from perdure.model.durations import FOREVER, to_datetime
from perdure.model.records import Status
from tests.engine.desk import Refused, engine_at, in_loop, job, log_of, work
from tests.engine.trip import Counter, book, unbook

go = Signal[str]("go")
PASSED = "its deadline has passed"


@pytest.fixture
def desk():
    return Counter()


@workflow
async def waits(how: str) -> str:
    async with saga() as undo:
        undo.push(unbook, "a")
        await book("a")
        if how == "sleeping":
            await perdure.sleep("30d")
        if how == "waiting":
            await go.wait()
        if how == "retrying":
            await failing()
        return await work("step")


@workflow(deadline="1h")
async def has_a_default() -> None:
    await perdure.sleep("30d")


@workflow
async def has_children() -> list[str]:
    own = has_a_default.start()
    shorter = has_a_default.with_options(key="shorter", deadline="10m").start()
    results = await asyncio.gather(own.result(), shorter.result(), return_exceptions=True)
    return [str(result) for result in results]


@workflow
async def tidies_up() -> None:
    try:
        await perdure.sleep("30d")
    finally:
        await work("tidy")


@perdure.step(retry=perdure.Retry(max_attempts=9, initial_delay="10d", max_delay="10d"))
async def failing() -> None:
    raise Refused


async def cancelled(handle):
    with pytest.raises(RunCancelled, match=PASSED):
        await handle.result()


@pytest.mark.parametrize("how", ["sleeping", "waiting", "retrying"])
@in_loop
async def test_a_run_that_waits_is_cancelled_at_its_deadline_and_undoes(path, desk, clock, how):
    async with engine_at(path, waits, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(waits, how, run_id="r", deadline="2h")
        await engine.idle()
        row = await handle.row()
        assert row.status is Status[how.upper()]
        assert row.wake_at == row.deadline_at == row.created_at + 2 * 3600 * 1_000_000
        clock.advance(timedelta(hours=1, minutes=59))
        await engine.idle()
        assert (await handle.row()).status is Status[how.upper()]
        clock.advance("61s")
        await cancelled(handle)
        assert desk.did == ["book a", "unbook a"]
        assert (await handle.row()).reason == f"{PASSED}: {to_datetime(row.deadline_at):%Y-%m-%d %H:%M:%S} UTC"


@in_loop
async def test_a_step_in_flight_is_cancelled_at_the_deadline(path, desk, clock):
    gate = desk.hold("step")
    async with engine_at(path, waits, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(waits, "", run_id="r", deadline="2h")
        await gate.arrival()
        await clock.armed()
        clock.advance("2h")
        await cancelled(handle)
        assert (await handle.view()).steps["work#1"].status == "cancelled"


@in_loop
async def test_an_instant_is_a_deadline_too_and_a_run_that_ends_in_time_is_not_touched(path, desk, clock):
    at = to_datetime(clock.now()) + timedelta(days=1)
    async with engine_at(path, job, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(job, 1, run_id="r", deadline=at)
        assert await handle.result() == 2
        assert to_datetime((await handle.row()).deadline_at) == at
        clock.advance("2d")
        await engine._worker._overdue.cancel()
        assert (await handle.row()).status is Status.COMPLETED


@in_loop
async def test_a_pending_run_that_nobody_takes_is_cancelled_when_its_deadline_has_passed(path, desk, clock):
    async with Engine(path, clock=clock, durability="process").client() as client:
        await client.enqueue(waits, "", run_id="r", deadline="2h")
    async with engine_at(path, job, desk=desk, clock=clock) as engine:  # which has not its code
        assert await engine._worker._overdue.cancel() == 0
        clock.advance("2h")
        assert await engine._worker._overdue.cancel() == 1
        await cancelled(engine.get("r"))
        assert [event.word for event in await log_of(engine, "r")] == ["run_created", "run_cancelled"]


@in_loop
async def test_a_pass_of_tick_cancels_what_is_overdue(path, desk, clock):
    async with Engine(path, clock=clock, durability="process").client() as client:
        await client.enqueue(waits, "", run_id="r", deadline="2h")
    engine = engine_at(path, job, desk=desk, clock=clock)
    clock.advance("3h")
    await engine.tick()
    await cancelled(engine.get("r"))
    await engine.stop()


@in_loop
async def test_the_time_of_a_delayed_run_counts_from_when_it_may_begin(path, desk, clock):
    async with engine_at(path, waits, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(waits, "sleeping", run_id="r", delay="1d", deadline="2h")
        row = await handle.row()
        assert row.deadline_at - row.created_at == 26 * 3600 * 1_000_000
        clock.advance("1d")
        await engine.idle()
        assert (await handle.row()).status is Status.SLEEPING
        clock.advance("2h")
        await cancelled(handle)


@in_loop
async def test_a_codeless_run_with_something_to_undo_waits_for_its_code_even_past_its_deadline(path, desk, clock):
    async with engine_at(path, waits, desk=desk, clock=clock) as engine:
        await engine.enqueue(waits, "waiting", run_id="r", deadline="2h")
        await engine.idle()
    clock.advance("3h")
    async with engine_at(path, job, desk=desk, clock=clock) as engine:
        assert await engine._worker._overdue.cancel() == 1
        assert (await engine.get("r").row()).status is Status.WAITING
    async with engine_at(path, waits, desk=desk, clock=clock) as engine:
        await cancelled(engine.get("r"))
        assert desk.did == ["book a", "unbook a"]


@in_loop
async def test_a_workflows_own_deadline_holds_unless_another_is_given(path, desk, clock):
    async with engine_at(path, has_a_default, desk=desk, clock=clock) as engine:
        own = await engine.enqueue(has_a_default, run_id="own")
        other = await engine.enqueue(has_a_default, run_id="other", deadline="3h")
        clock.advance("1h")
        await cancelled(own)
        await engine.idle()
        assert (await other.row()).status is Status.SLEEPING


@in_loop
async def test_children_have_their_workflows_deadline_or_their_own_and_never_a_later_one_than_their_parent(
    path, desk, clock
):
    async with engine_at(path, has_children, has_a_default, desk=desk, clock=clock) as engine:
        for run_id, deadline, after in (("late", None, 3600), ("soon", "30m", 1800)):
            handle = await engine.enqueue(has_children, run_id=run_id, deadline=deadline)
            await engine.idle()
            created = (await handle.row()).created_at
            children = [child.run_id for child in (await handle.view()).children.values()]
            found = sorted([(await engine.get(one).row()).deadline_at - created for one in children])
            assert [round(one / 1e6) for one in found] == [600, after]
        clock.advance("2h")
        results = await engine.get("late", has_children).result()
        assert all(PASSED in result for result in results)
        await cancelled(engine.get("soon"))


@in_loop
async def test_a_schedules_runs_have_their_workflows_deadline(path, desk, clock):
    async with engine_at(path, has_a_default, desk=desk, clock=clock) as engine:
        await engine.schedule(has_a_default, every="1d", key="daily")
        clock.advance("1d")
        await engine.idle()
        rows = [row async for row in engine.runs(workflow=has_a_default)]
        assert [row.deadline_at - row.created_at for row in rows] == [3600 * 1_000_000]


@in_loop
async def test_what_was_cancelled_at_its_deadline_goes_on_without_one_when_it_is_resumed(path, desk, clock):
    async with engine_at(path, tidies_up, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(tidies_up, run_id="r", deadline="2h")
        await engine.idle()
        clock.advance("2h")
        await cancelled(handle)
        await handle.resume()
        await engine.idle()
        row = await handle.row()
        assert (row.status, row.deadline_at) == (Status.SLEEPING, None)
        clock.advance("31d")
        assert await handle.result() is None


@in_loop
async def test_run_and_arun_take_a_deadline(path, desk):
    with pytest.raises(RunCancelled, match=PASSED):
        await perdure.arun(has_a_default, run_id="a", store=path, deadline="50ms", durability="process")
    async with engine_at(path, has_a_default) as engine:
        with pytest.raises(RunCancelled, match=PASSED):
            await engine.run(has_a_default, run_id="b", deadline="50ms")


def test_the_blocking_doors_take_a_deadline(path):
    with pytest.raises(RunCancelled, match=PASSED):
        perdure.run(has_a_default, run_id="a", store=path, deadline="50ms", durability="process")
    with perdure.sync.Engine(path, workflows=[has_a_default], durability="process") as engine:
        with pytest.raises(RunCancelled, match=PASSED):
            engine.enqueue(has_a_default, run_id="b", deadline="50ms").result()
        (handle,) = engine.enqueue_many(job, [1], deadline="9d")
        assert handle.row().deadline_at is not None


WRONG = [0, "0s", -1, timedelta(0), "soon", datetime(2030, 1, 1), True, float("inf"), float("nan")]  # noqa: DTZ001 - naive on purpose


@pytest.mark.parametrize("deadline", WRONG, ids=repr)
@in_loop
async def test_what_is_no_deadline_is_refused_before_anything_is_written(path, deadline):
    async with Engine(path, durability="process").client() as client:
        with pytest.raises(DefinitionError, match="deadline"):
            await client.enqueue(job, 1, run_id="r", deadline=deadline)
        with pytest.raises(DefinitionError, match="deadline"):
            await client.enqueue_many(job, [1], deadline=deadline)
        assert [row async for row in client.runs()] == []


@in_loop
async def test_an_instant_that_leaves_no_time_is_refused(path, clock):
    now = to_datetime(clock.now())
    async with Engine(path, durability="process", clock=clock).client() as client:
        for at, delay in ((now, None), (now - timedelta(days=1), None), (now + timedelta(hours=1), "1h")):
            with pytest.raises(DefinitionError, match="leaves the run no time"):
                await client.enqueue(job, 1, deadline=at, delay=delay)
        handle = await client.enqueue(job, 1, deadline=timedelta.max)
        assert (await handle.row()).deadline_at == FOREVER
        handle = await client.enqueue(job, 1, deadline=datetime.max.replace(tzinfo=UTC))
        assert (await handle.row()).deadline_at == FOREVER


@pytest.mark.parametrize("deadline", [0, -1, "0s", datetime(2030, 1, 1, tzinfo=UTC)], ids=repr)
def test_a_workflows_deadline_is_a_duration_longer_than_nought(deadline):
    with pytest.raises(DefinitionError, match="deadline"):

        @workflow(deadline=deadline)
        async def made() -> None: ...
