"""G16: what does not fit one build is left to the others, and blocked when none is left; code may be nowhere."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from pydantic import BaseModel

import perdure
from perdure import INJECTED, StepContext, sleep, step, workflow
from perdure.errors import DriftError, RunBlocked, RunCancelled, Undecodable
from perdure.model.records import Kind, Status
from tests.engine.desk import Desk, engine_at, in_loop, job, log_of, until, work

HEARTBEAT = 10.0
"""Seconds between two looks for runs that nobody is left for: an engine's default."""


def version(tag):
    """The code as of one build: builds of other tags cannot go on with its runs."""

    async def changing() -> str:
        first = await work(tag)
        await sleep("1h")
        return first + await work("last")

    changing.__qualname__ = "changing"
    return workflow(changing)


class Old(BaseModel):
    size: int


class New(BaseModel):
    size: int
    colour: str


def taking(model):
    """The code as of one build: the run's input is of this type."""

    async def typed(given: model) -> int:
        await sleep("1h")
        return given.size

    typed.__qualname__ = "typed"
    typed.__annotations__["given"] = model
    return workflow(typed)


async def parked(path, definition, clock, *given):
    """A run that sleeps for an hour; nobody executes anything."""
    async with engine_at(path, definition, desk=Desk(), clock=clock) as engine:
        await engine.enqueue(definition, *given, run_id="r")
        await engine.idle()


@asynccontextmanager
async def busy(path, definition, clock, **options):
    """An engine of a build whose only slot is taken; gives it, and what frees the slot. The sleeping run is due."""
    desk = Desk()
    gate = desk.hold("1")
    async with engine_at(path, definition, job, desk=desk, concurrency=1, clock=clock, **options) as engine:
        await engine.enqueue(job, 1)
        await gate.arrival()
        clock.advance("1h")
        try:
            yield engine, gate
        finally:
            gate.open()


async def refused(engine, times=1):
    """Wait until the run was refused so often; the last event of its log."""
    async for event in engine.get("r").events(follow=True):
        times -= event.kind == Kind.DRIFT_FOUND
        if times == 0:
            break
    return (await log_of(engine, "r"))[-1]


async def blocked(engine):
    with pytest.raises((DriftError, RunBlocked)) as raised:
        await engine.get("r").result()
    return raised.value


def build(engine):
    return engine._worker.host.build


@in_loop
async def test_what_drifts_under_one_build_is_completed_by_another(path, clock):
    old, new = version("old"), version("new")
    await parked(path, old, clock)
    async with busy(path, old, clock) as (good, gate), engine_at(path, new, desk=Desk(), clock=clock) as bad:
        attached = asyncio.ensure_future(bad.run(new, run_id="r"))
        assert (await refused(bad)).kind == Kind.RUN_RELEASED
        assert (await bad.get("r").row()).status is Status.RUNNING
        await bad.idle()
        gate.open()
        assert await attached == "oldlast", "who waits in the engine that refused it waits for the other"
        found = [event for event in await log_of(bad, "r") if event.kind == Kind.DRIFT_FOUND]
        assert [json.loads(event.payload)["build"] for event in found] == [build(bad)]
        assert build(bad) != build(good)


@in_loop
async def test_what_no_longer_decodes_under_one_build_is_completed_by_another(path, clock):
    old, new = taking(Old), taking(New)
    await parked(path, old, clock, Old(size=3))
    async with busy(path, old, clock) as (_, gate), engine_at(path, new, desk=Desk(), clock=clock) as bad:
        await refused(bad)
        gate.open()
        assert await bad.get("r", old).result() == 3
        said = json.loads(next(e for e in await log_of(bad, "r") if e.kind == Kind.DRIFT_FOUND).payload)
        assert (said["code"], said["build"]) == ("undecodable", build(bad))


@in_loop
async def test_a_run_that_no_build_fits_is_blocked_with_the_names_of_all(path, clock):
    await parked(path, version("old"), clock)
    new, newer = version("new"), version("newer")
    async with busy(path, new, clock) as (one, gate), engine_at(path, newer, desk=Desk(), clock=clock) as other:
        await refused(other)
        gate.open()
        error = await blocked(other)
        assert isinstance(error, DriftError)
        assert build(one) in str(error)
        assert build(other) in str(error)
        assert (await other.get("r").row()).status is Status.BLOCKED


@in_loop
async def test_what_a_single_build_refuses_is_blocked_at_once(path, clock):
    await parked(path, taking(Old), clock, Old(size=3))
    new = taking(New)
    clock.advance("1h")
    async with engine_at(path, new, job, desk=Desk(), clock=clock) as engine:
        assert "undecodable" in str(await blocked(engine))
        kinds = [event.kind for event in await log_of(engine, "r")]
        assert kinds[-2:] == [Kind.DRIFT_FOUND, Kind.RUN_BLOCKED]


@pytest.mark.parametrize("returns", [True, False])
@in_loop
async def test_a_refused_run_is_blocked_when_the_build_it_was_left_to_stays_away(path, clock, returns):
    old, new = version("old"), version("new")
    await parked(path, old, clock)
    async with engine_at(path, new, desk=Desk(), clock=clock) as bad:
        looks = bad._worker._refusing

        async def another_look():
            before = looks._next
            clock.lapse(HEARTBEAT)
            await until(lambda: looks._next > before and not looks._looking)

        async with busy(path, old, clock) as (good, _):
            await refused(bad)
            await another_look()
            await another_look()
            assert (await bad.get("r").row()).status is Status.RUNNING
            await good.stop(0)
        await another_look()
        assert (await bad.get("r").row()).status is Status.RUNNING
        if returns:
            async with engine_at(path, old, desk=Desk(), clock=clock) as good:
                assert await good.get("r", old).result() == "oldlast"
        else:
            await another_look()
            assert "drift" in str(await blocked(bad))


@in_loop
async def test_a_build_that_comes_later_takes_what_those_before_it_refused(path, clock):
    old, new, newer = version("old"), version("new"), version("newer")
    await parked(path, old, clock)
    async with busy(path, newer, clock), engine_at(path, new, desk=Desk(), clock=clock) as bad:
        await refused(bad)
        async with engine_at(path, old, desk=Desk(), clock=clock) as good:
            assert await good.get("r", old).result() == "oldlast"


@in_loop
async def test_after_a_resume_every_build_may_try_again(path, clock):
    old, new = version("old"), version("new")
    await parked(path, old, clock)
    clock.advance("1h")
    async with engine_at(path, new, desk=Desk(), clock=clock) as bad:
        await blocked(bad)
        async with busy(path, old, clock):
            await bad.get("r").resume()
            assert (await refused(bad, times=2)).kind == Kind.RUN_RELEASED
            await bad.get("r").cancel("enough")
            with pytest.raises(RunCancelled):
                await bad.get("r").result()


def together(key, *extra):
    """A build that finds its drift, if it finds any, while the body of another step is in flight."""

    async def both() -> list[str]:
        async with asyncio.TaskGroup() as group:
            slow = group.create_task(named("slow"))
            for tag in extra:
                await work.with_options(key=tag)(tag)
            first = await work.with_options(key=key)("tag")
            await sleep("1h")
        return [await slow, first]

    both.__qualname__ = "both"
    return workflow(both)


@step
async def named(tag: str, *, ctx: StepContext[Desk] = INJECTED) -> str:
    ctx.tools.began(ctx)
    if tag in ctx.tools.gates:
        await ctx.tools.gates[tag].passed()
    return tag


@in_loop
async def test_what_a_refusing_build_interrupts_is_done_anew_by_the_next(path, clock):
    """Else the good build would find its step cancelled, by someone whose code had no business to."""
    right, wrong = together("here"), together("there", "extra")
    first, second, third = Desk(), Desk(), Desk()
    first.hold("slow"), second.hold("slow")
    async with busy(path, right, clock) as (good, gate):
        good._worker.host.tools = third
        async with engine_at(path, right, desk=first, clock=clock) as engine:
            await engine.enqueue(right, run_id="r")
            await clock.armed()
            await engine.stop(0)
        async with engine_at(path, wrong, desk=second, clock=clock) as bad:
            await refused(bad)
            assert second.keys() == ["named#1", "work[extra]"], "the drift was to be found with a body in flight"
            gate.open()
            await clock.armed()
            clock.advance("1h")
            assert await good.get("r", right).result() == ["slow", "tag"]
            assert third.keys() == ["named#1"]


@in_loop
async def test_perdure_run_raises_what_it_found_and_leaves_the_run_to_others(path, clock):
    old, new = version("old"), version("new")
    await parked(path, old, clock)
    here = {"run_id": "r", "store": path, "tools": Desk(), "durability": "process", "clock": clock}
    async with busy(path, old, clock) as (good, gate):
        with pytest.raises(DriftError, match="left to"):
            await perdure.arun(new, **here)
        assert (await good.get("r").row()).status is Status.RUNNING
        gate.open()
        assert await good.get("r", old).result() == "oldlast"
        assert await perdure.arun(old, **here) == "oldlast"


@in_loop
async def test_perdure_run_raises_what_does_not_decode(path, clock):
    old, new = taking(Old), taking(New)
    await parked(path, old, clock, Old(size=3))
    async with busy(path, old, clock) as (good, gate):
        with pytest.raises((Undecodable, perdure.errors.RunConflict)):
            await perdure.arun(
                new, New(size=3, colour="red"), run_id="r", store=path, durability="process", clock=clock
            )
        gate.open()
        assert await good.get("r", old).result() == 3


@in_loop
async def test_perdure_run_blocks_what_nobody_else_serves(path, clock):
    await parked(path, version("old"), clock)
    clock.advance("1h")
    with pytest.raises(DriftError, match="is blocked"):
        await perdure.arun(version("new"), run_id="r", store=path, tools=Desk(), durability="process", clock=clock)


@in_loop
async def test_one_who_runs_a_single_run_is_nobody_to_leave_others_to(path, clock):
    old, new = version("old"), version("new")
    await parked(path, old, clock)
    desk = Desk()
    gate = desk.hold("old")
    single = asyncio.ensure_future(
        perdure.arun(old, run_id="single", store=path, tools=desk, durability="process", clock=clock)
    )
    await gate.arrival()
    clock.advance("1h")
    async with engine_at(path, new, desk=Desk(), clock=clock) as engine:
        await blocked(engine)
    single.cancel()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await single


@in_loop
async def test_what_nobody_has_the_code_for_is_left_alone_told_and_cancelled_at_once(path, clock):
    gone = version("gone")
    await parked(path, gone, clock)
    clock.advance("1h")
    async with engine_at(path, job, desk=Desk(), clock=clock) as engine:
        handle = await engine.enqueue(job, 1, run_id="served")
        await handle.result()
        await engine.enqueue(job, 2, run_id="waits", delay="1d")
        await engine.idle()
        assert [row.run_id async for row in engine.runs(codeless=True)] == ["r"]
        assert [row.run_id async for row in engine.runs(codeless=False)] == ["waits", "served"]
        assert [row.run_id async for row in engine.runs()] == ["waits", "served", "r"]
        await engine.enqueue(gone, run_id="later", delay="1d")
        assert [row.run_id async for row in engine.runs(codeless=True)] == ["r"], "the other is not due"
        assert (await engine.get("r").row()).status is Status.SLEEPING
        await engine.get("later").cancel("obsolete")
        assert (await engine.get("later").row()).status is Status.CANCELLED
        await engine.get("r").cancel("obsolete")
        assert (await engine.get("r").row()).status is Status.CANCELLED
        assert [row.run_id async for row in engine.runs(codeless=True)] == []


@in_loop
async def test_a_run_whose_executor_died_with_its_code_is_cancelled_at_once(path):
    desk = Desk()
    gate = desk.hold("gone")
    dying = engine_at(path, version("gone"), desk=desk)
    await dying.start()
    await dying.enqueue(version("gone"), run_id="r")
    await gate.arrival()
    key = dying._worker.key
    left = dying._store
    for run in dying._abandon():
        run.drop(None)
    async with engine_at(path).client() as client:
        assert [row.run_id async for row in client.runs(codeless=True)] == [], "its process is there"
        client._store.retire_worker(key)
        assert [row.run_id async for row in client.runs(codeless=True)] == ["r"]
        await client.get("r").cancel("obsolete")
        assert (await client.get("r").row()).status is Status.CANCELLED
    left.close()
