"""Cleaning up under a cancellation: it is delivered once, and what comes after it is ordinary work."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure import Signal, parallel, sleep, workflow
from perdure.errors import RunCancelled
from perdure.model.payloads import fields
from perdure.model.records import Kind, Status
from tests.engine.desk import Clock, Refused, engine_at, in_loop, log_of, work, work_twice

go = Signal[str]("go")


@workflow
async def handles() -> None:
    try:
        await work("main")
    except asyncio.CancelledError:
        await work("tidy")
        await parallel(work("one"), work("two"))
        raise


@workflow
async def ends_well() -> str:
    try:
        await work("main")
    finally:
        await work("tidy")
    return "never"


@workflow
def handles_sync() -> None:
    try:
        work.sync("main")
    except asyncio.CancelledError:
        work.sync("tidy")
        perdure.sync.parallel(lambda: work.sync("one"), lambda: work.sync("two"))
        raise


@workflow
async def swallows() -> str:
    try:
        await work("main")
    except asyncio.CancelledError:
        await work("tidy")
    return "done all the same"


@workflow
async def shields() -> None:
    try:
        await asyncio.shield(work("main"))
    finally:
        await work("tidy")


@workflow
async def tidies_for_long() -> None:
    try:
        await work("main")
    finally:
        await sleep("1h")
        await work_twice("tidy")
        await work("last")


@workflow
async def asks_before_it_ends() -> str:
    try:
        await work("main")
    except asyncio.CancelledError:
        await work(await go.wait())
        raise
    return ""


@pytest.mark.parametrize("definition", [handles, handles_sync])
@in_loop
async def test_steps_of_the_clean_up_run_and_the_cancel_goes_on(path, desk, definition):
    gate = desk.hold("main")
    async with engine_at(path, definition, desk=desk) as engine:
        handle = await engine.enqueue(definition, run_id="r")
        await gate.arrival()
        await handle.cancel("enough")
        with pytest.raises(RunCancelled, match="enough"):
            await handle.result()
        view = await handle.view()
        assert [(step.key.rpartition("/")[2], step.status) for step in view.steps.values()] == [
            ("work#1", "cancelled"), ("work#2", "completed"), *[(key, "completed") for key in tails(definition)],
        ]  # fmt: skip
        assert (view.status, view.reason, view.cancel_reason) == (Status.CANCELLED, "enough", "enough")
        assert (await handle.row()).reason == "enough"


def tails(definition):
    return ["work#3", "work#4"] if definition is handles else ["work#1", "work#1"]


@in_loop
async def test_a_run_that_swallows_its_cancel_ends_as_cancelled_all_the_same(path, desk):
    gate = desk.hold("main")
    async with engine_at(path, swallows, desk=desk) as engine:
        handle = await engine.enqueue(swallows, run_id="r")
        await gate.arrival()
        await handle.cancel("enough")
        with pytest.raises(RunCancelled, match="enough"):
            await handle.result()
        assert desk.keys() == ["work#1", "work#2"]


@in_loop
async def test_a_clean_up_that_fails_is_kept_with_the_cancel(path, desk):
    gate = desk.hold("main")
    desk.fails["tidy"] = Refused("no broom")
    async with engine_at(path, ends_well, desk=desk) as engine:
        handle = await engine.enqueue(ends_well, run_id="r")
        await gate.arrival()
        await handle.cancel("enough")
        with pytest.raises(RunCancelled, match="enough"):
            await handle.result()
        last = (await log_of(engine, "r"))[-1]
        assert fields(last.payload)["failure"]["text"] == "no broom"


@in_loop
async def test_a_second_cancel_interrupts_no_clean_up_and_the_first_reason_stands(path, desk):
    main, tidy = desk.hold("main"), desk.hold("tidy")
    async with engine_at(path, ends_well, desk=desk) as engine:
        handle = await engine.enqueue(ends_well, run_id="r")
        await main.arrival()
        await handle.cancel("first")
        await tidy.arrival()
        await handle.cancel("second")
        engine._worker._vigil.read_inbox()
        await engine.runs().page()  # in its turn, after that
        tidy.open()
        with pytest.raises(RunCancelled, match="first"):
            await handle.result()
        assert (await handle.view()).steps["work#2"].status == "completed"
        assert sum(event.kind == Kind.CANCEL_DELIVERED for event in await log_of(engine, "r")) == 1


@in_loop
async def test_a_shielded_step_is_left_alone_while_the_code_cleans_up(path, desk):
    main, tidy = desk.hold("main"), desk.hold("tidy")
    async with engine_at(path, shields, desk=desk) as engine:
        handle = await engine.enqueue(shields, run_id="r")
        await main.arrival()
        await handle.cancel("enough")
        await tidy.arrival()
        main.open()
        async for event in handle.events(follow=True):
            if event.kind == Kind.STEP_COMPLETED:
                tidy.open()
        with pytest.raises(RunCancelled):
            await handle.result()
        assert (await handle.view()).steps["work#1"].status == "completed"


@in_loop
async def test_a_clean_up_may_sleep_retry_and_outlive_its_process(path, desk):
    clock = Clock()
    main = desk.hold("main")
    desk.fails["tidy"] = [Refused()]
    async with engine_at(path, tidies_for_long, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(tidies_for_long, run_id="r")
        await main.arrival()
        await handle.cancel("enough")
        await until_status(handle, Status.SLEEPING)
    for status in (Status.RETRYING, None):
        clock.advance("1h")
        async with engine_at(path, tidies_for_long, desk=desk, clock=clock) as engine:
            handle = engine.get("r")
            if status is not None:
                await until_status(handle, status)
                continue
            with pytest.raises(RunCancelled, match="enough"):
                await handle.result()
    assert desk.keys() == ["work#1", "work_twice#1", "work_twice#1", "work#2"]


@in_loop
async def test_a_clean_up_may_wait_for_a_signal(path, desk):
    main = desk.hold("main")
    async with engine_at(path, asks_before_it_ends, desk=desk) as engine:
        handle = await engine.enqueue(asks_before_it_ends, run_id="r")
        await main.arrival()
        await handle.cancel("enough")
        await until_status(handle, Status.WAITING)
        await handle.cancel("again")
        await handle.signal(go, "said")
        with pytest.raises(RunCancelled, match="enough"):
            await handle.result()
        assert desk.keys() == ["work#1", "work#2"]


@in_loop
async def test_a_run_that_is_paused_while_it_cleans_up_goes_on_cleaning_up(path, desk):
    clock = Clock()
    main = desk.hold("main")
    async with engine_at(path, tidies_for_long, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(tidies_for_long, run_id="r")
        await main.arrival()
        await handle.cancel("enough")
        await until_status(handle, Status.SLEEPING)
        await handle.pause("lunch")
        assert (await handle.row()).status is Status.PAUSED
        clock.advance("2h")
        await handle.resume()
        with pytest.raises(RunCancelled, match="enough"):
            await handle.result()
        assert desk.keys() == ["work#1", "work_twice#1", "work#2"]


async def until_status(handle, status):
    async for _ in handle.events(follow=True):
        if (await handle.row()).status is status:
            return
