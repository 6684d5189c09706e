"""Progress: what an attempt says of how far it is, kept for whoever looks and for the attempt after it."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from perdure import INJECTED, Retry, StepContext, step, workflow
from perdure.errors import DefinitionError, NotSerializable
from perdure.model.records import Kind
from perdure.runtime.reports import REST
from tests.crash.procs import SERVER
from tests.engine.desk import Desk, Refused, engine_at, in_loop, log_of
from tests.engine.saying import cut_short

MANY = 1000


@dataclass(frozen=True)
class Mark:
    """How far somebody is."""

    row: int
    at: datetime


MARK = Mark(7, datetime(2030, 1, 1, tzinfo=UTC))


@step
async def counts(n: int, *, ctx: StepContext[Desk] = INJECTED) -> int:
    for i in range(n):
        ctx.progress(i)
    return n


@step
def counts_on_a_thread(n: int, *, ctx: StepContext[Desk] = INJECTED) -> int:
    for i in range(n):
        ctx.progress(i)
    return n


@step
async def counts_slowly(n: int, *, ctx: StepContext[Desk] = INJECTED) -> int:
    for i in range(n):
        ctx.progress(i)
        await asyncio.sleep(REST / 5)
    return n


@workflow
async def counting_slowly(n: int) -> int:
    return await counts_slowly(n)


@workflow
async def counting(n: int) -> int:
    return await counts(n)


@workflow
async def counting_on_a_thread(n: int) -> int:
    return await counts_on_a_thread.aio(n)


@step(retry=Retry(max_attempts=3, initial_delay="1ms", jitter=False))
async def goes_on(*, ctx: StepContext[Desk] = INJECTED) -> list[object]:
    seen = ctx.last_progress
    ctx.tools.begun.append(seen)
    ctx.progress(MARK if ctx.attempt == 1 else "nearly")
    assert ctx.last_progress == seen
    if ctx.attempt < 3:
        raise Refused
    return ctx.tools.begun


@workflow
async def three_attempts() -> list[object]:
    return await goes_on()


@step
async def held(*, ctx: StepContext[Desk] = INJECTED) -> object:
    seen = ctx.last_progress
    if seen is None:
        ctx.progress(MARK)
        await ctx.tools.gates["held"].passed()
    return seen


@workflow
async def holding() -> object:
    return await held()


@step(retry=Retry(max_attempts=2, initial_delay="1ms"))
async def forgets(*, ctx: StepContext[Desk] = INJECTED) -> str:
    if ctx.attempt == 1:
        ctx.progress(MARK)
        raise Refused
    del sys.modules[__name__].Mark  # as a deploy would that has renamed the class
    return repr(ctx.last_progress)


@workflow
async def forgetting() -> str:
    return await forgets()


@step
async def says_what_cannot_be_kept(*, ctx: StepContext[Desk] = INJECTED) -> list[str]:
    said: list[str] = []
    for value in (object(), "x" * 100_000):
        try:
            ctx.progress(value)
        except (NotSerializable, DefinitionError) as error:
            said.append(error.code)
    ctx.progress("fine")
    return said


@workflow
async def unsayable() -> list[str]:
    return await says_what_cannot_be_kept()


@step
async def leaves_a_task_behind(*, ctx: StepContext[Desk] = INJECTED) -> None:
    async def late() -> None:
        await ctx.tools.gates["late"].passed()
        ctx.progress("too late")
        ctx.tools.begun.append("said")

    ctx.tools.begun.append(asyncio.ensure_future(late()))


@workflow
async def leaving() -> None:
    await leaves_a_task_behind()


def reports(log):
    return [event for event in log if event.kind == Kind.PROGRESS]


@pytest.mark.parametrize(("flow", "n"), [(counting, MANY), (counting_on_a_thread, MANY), (counting_slowly, 30)])
@in_loop
async def test_of_many_calls_a_second_few_are_kept_and_the_last_is_there_before_the_outcome(path, flow, n):
    async with engine_at(path, flow) as engine:
        await engine.run(flow, n, run_id="r")
        log = await log_of(engine, "r")
    said, done = reports(log), next(event for event in log if event.kind == Kind.STEP_COMPLETED)
    assert said[-1].payload == b"%d" % (n - 1)
    assert said[-1].seq < done.seq
    assert [event.payload for event in said] == sorted((event.payload for event in said), key=int)
    assert len(said) <= 2 + done.took / 1e6 / REST
    assert {(event.key, event.attempt) for event in said} == {(done.key, 1)}


@in_loop
async def test_one_loop_without_a_pause_leaves_its_first_and_its_last_call(path):
    async with engine_at(path, counting) as engine:
        await engine.run(counting, MANY, run_id="r")
        assert [event.payload for event in reports(await log_of(engine, "r"))] == [b"0", b"%d" % (MANY - 1)]


@in_loop
async def test_an_attempt_sees_what_the_one_before_said_last_whatever_it_says_itself(path, desk):
    async with engine_at(path, three_attempts, desk=desk) as engine:
        assert await engine.run(three_attempts) == [None, MARK, "nearly"]


@in_loop
async def test_others_see_it_while_the_step_runs(path, desk):
    gate = desk.hold("held")
    async with engine_at(path, holding, desk=desk) as engine, engine_at(path).client() as client:
        await engine.enqueue(holding, run_id="r")
        async for event in client.get("r").events(follow=True):
            if event.kind == Kind.PROGRESS:
                break
        view = await client.get("r").view()
        assert view.steps["held#1"].progress == event.payload
        assert view.steps["held#1"].status == "running"
        gate.open()


@in_loop
async def test_it_is_there_for_the_next_engine_when_this_one_stops(path, desk):
    desk.hold("held")
    engine = engine_at(path, holding, desk=desk)
    async with engine:
        await engine.enqueue(holding, run_id="r")
        async with asyncio.timeout(20):
            await desk.gates["held"].arrival()
        await engine.stop(drain=0)
    async with engine_at(path, holding, desk=desk) as other:
        assert await other.get("r", holding).result() == MARK


@in_loop
async def test_it_is_there_for_the_next_process_when_this_one_is_killed(path, desk):
    process = SERVER.Process(target=cut_short, args=(path,))
    process.start()
    await asyncio.to_thread(process.join)
    assert process.exitcode < 0
    from tests.engine.saying import report

    async with engine_at(path, report, desk=desk) as engine:
        assert await engine.get("r", report).result() == {"row": 41}


@in_loop
async def test_what_code_of_today_cannot_read_counts_as_nothing_and_is_warned_of(path, desk, caplog, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "Mark", Mark)  # and so it comes back afterwards
    with caplog.at_level(logging.WARNING, "perdure.step"):
        async with engine_at(path, forgetting, desk=desk) as engine:
            assert await engine.run(forgetting) == "None"
    assert "what forgets#1 recorded last of its progress cannot be read" in caplog.text


@in_loop
async def test_what_cannot_be_kept_is_refused_where_it_is_said_and_the_step_goes_on(path):
    async with engine_at(path, unsayable) as engine:
        assert await engine.run(unsayable, run_id="r") == ["not_serializable", "definition"]
        assert [event.payload for event in reports(await log_of(engine, "r"))] == [b'"fine"']


@in_loop
async def test_what_is_said_once_the_attempt_has_ended_is_not_heard(path, desk):
    gate = desk.hold("late")
    async with engine_at(path, leaving, desk=desk) as engine:
        await engine.run(leaving, run_id="r")
        gate.open()
        with suppress(IndexError):
            await desk.begun[0]
        assert desk.begun[1] == "said"
        assert reports(await log_of(engine, "r")) == []
