from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

import perdure
from perdure import Engine, workflow
from perdure.errors import DefinitionError
from perdure.model.records import Kind
from perdure.testing import ManualClock


def at(clock, after):
    return clock.now() + round(timedelta(seconds=after).total_seconds() * 1e6)


async def turn():
    for _ in range(3):
        await asyncio.sleep(0)


def test_it_shows_what_it_was_set_to_and_moves_only_when_told():
    start = datetime(2031, 2, 3, tzinfo=UTC)
    clock = ManualClock(start)
    assert clock.now() == start.timestamp() * 1e6
    clock.advance("90s")
    assert clock.now() == (start + timedelta(seconds=90)).timestamp() * 1e6
    clock.set(start)
    assert clock.now() == start.timestamp() * 1e6


def test_naive_datetimes_are_refused():
    with pytest.raises(DefinitionError):
        ManualClock(datetime(2031, 2, 3))  # noqa: DTZ001 - that is the point


def test_leases_do_not_age_with_the_time_of_day():
    clock = ManualClock()
    before = clock.monotonic()
    clock.advance("14d")
    assert clock.monotonic() == before
    clock.lapse("30s")
    assert clock.monotonic() == before + 30


async def rings_in_order():
    clock, rung = ManualClock(), []
    loop = asyncio.get_running_loop()
    for after in (3, 1, 2, 20):
        clock.call_at(at(clock, after), loop, lambda after=after: rung.append(after))
    clock.call_at(at(clock, 2), loop, lambda: rung.append("taken back")).cancel()
    await turn()
    assert rung == []
    clock.advance("10s")
    assert rung == []  # callbacks are the loop's to call
    await turn()
    return rung, clock


def test_what_is_due_is_called_in_the_order_of_its_instants():
    rung, clock = asyncio.run(rings_in_order())
    assert rung == [1, 2, 3]
    assert clock.next_due() is None  # its loop is closed: there is nobody to call
    clock.advance("1h")
    assert rung == [1, 2, 3]


def test_what_is_due_already_is_called_at_the_next_turn():
    async def main():
        clock, rung = ManualClock(), []
        clock.call_at(clock.now(), asyncio.get_running_loop(), lambda: rung.append(1))
        await turn()
        return rung

    assert asyncio.run(main()) == [1]


def test_it_can_be_moved_from_another_thread():
    async def main():
        clock, rung = ManualClock(), asyncio.Event()
        clock.call_at(at(clock, 60), asyncio.get_running_loop(), rung.set)
        thread = threading.Thread(target=clock.advance, args=("2m",))
        thread.start()
        await asyncio.wait_for(rung.wait(), 10)
        thread.join()

    asyncio.run(main())


def test_skip_goes_to_the_next_due_instant():
    async def main():
        clock = ManualClock()
        start = clock.now()
        assert not clock.skip()
        clock.call_at(at(clock, 60), asyncio.get_running_loop(), lambda: None)
        assert clock.next_due() == datetime(2030, 1, 1, 12, 1, tzinfo=UTC)
        assert clock.skip()
        return clock.now() - start

    assert asyncio.run(main()) == 60_000_000


@workflow
async def sleeper() -> list[str]:
    seen = []
    for _ in range(3):
        await perdure.sleep("1d")
        seen.append(str(perdure.now().date()))
    return seen


def test_time_passes_from_one_timer_to_the_next(tmp_path):
    async def main():
        clock = ManualClock()
        async with Engine(tmp_path / "x.db", workflows=[sleeper], clock=clock, durability="process") as engine:
            handle = await engine.enqueue(sleeper, None)
            await clock.pass_time("2d", engine)
            assert (await handle.view()).timers == 2
            assert (await handle.row()).status.word == "sleeping"
            await clock.pass_time("2d", engine)
            assert clock.now() == datetime(2030, 1, 5, 12, tzinfo=UTC).timestamp() * 1e6
            return await handle.result()

    assert asyncio.run(main()) == ["2030-01-02", "2030-01-03", "2030-01-04"]


def test_idle_is_when_only_time_could_go_on(tmp_path):
    async def main():
        clock, began, may_end = ManualClock(), asyncio.Event(), asyncio.Event()
        options = {"workflows": [waits], "tools": (began, may_end), "clock": clock, "durability": "process"}
        async with Engine(tmp_path / "x.db", **options) as engine:
            await asyncio.wait_for(engine.idle(), 10)
            handle = await engine.enqueue(waits, None)
            idle = asyncio.ensure_future(engine.idle())
            await began.wait()
            await turn()
            assert not idle.done()  # a body is executing
            may_end.set()
            await asyncio.wait_for(idle, 10)
            assert (await handle.row()).status.word == "sleeping"
            clock.advance("1d")
            await engine.idle()
            assert (await handle.row()).status.word == "completed"

    asyncio.run(main())


@perdure.step
async def wait_for_it(*, ctx: perdure.StepContext = perdure.INJECTED) -> None:
    began, may_end = ctx.tools
    began.set()
    await may_end.wait()


@workflow
async def waits() -> None:
    await wait_for_it()
    await perdure.sleep("1d")


@perdure.step(timeout="30s", retry=perdure.Retry(max_attempts=2, initial_delay=0))
async def stands_still(*, ctx: perdure.StepContext[list] = perdure.INJECTED) -> str:
    began = ctx.tools[ctx.attempt - 1]
    began.set()
    if ctx.attempt == 1:
        await asyncio.get_running_loop().create_future()
    return f"attempt {ctx.attempt}"


@perdure.step(timeout="30s")
def waits_to_be_aborted(*, ctx: perdure.StepContext[threading.Event] = perdure.INJECTED) -> str:
    ctx.tools.set()
    while not ctx.cancelled:
        pass
    return "too late"


@workflow
async def times_out() -> str:
    return await stands_still()


@workflow
async def times_out_on_a_thread() -> str:
    try:
        return await waits_to_be_aborted.aio()
    except TimeoutError as error:
        return type(error).__name__


def test_the_timeout_of_a_body_comes_with_the_clock(tmp_path):
    async def main():
        clock, begins = ManualClock(), [asyncio.Event(), asyncio.Event()]
        options = {"workflows": [times_out], "tools": begins, "clock": clock, "durability": "process"}
        async with Engine(tmp_path / "x.db", **options) as engine:
            handle = await engine.enqueue(times_out)
            await begins[0].wait()
            clock.advance("29s")
            await turn()
            assert clock.next_due() == datetime(2030, 1, 1, 12, 0, 30, tzinfo=UTC)
            assert not begins[1].is_set()
            clock.advance("1s")
            assert await handle.result() == "attempt 2"
            assert clock.next_due() is None  # nothing is left of the timeout of a body that has ended in time
            failed = [event async for event in handle.events() if event.kind == Kind.STEP_FAILED]
            assert [event.took for event in failed] == [30_000_000]

    asyncio.run(main())


def test_the_timeout_of_a_body_on_a_thread_comes_with_the_clock(tmp_path):
    async def main():
        clock, began = ManualClock(), threading.Event()
        options = {"workflows": [times_out_on_a_thread], "tools": began, "clock": clock, "durability": "process"}
        async with Engine(tmp_path / "x.db", **options) as engine:
            handle = await engine.enqueue(times_out_on_a_thread)
            assert await asyncio.to_thread(began.wait, 10)
            clock.advance("30s")
            assert await handle.result() == "StepTimeout"

    asyncio.run(main())
