"""Fork: another run that has recorded what its origin had when it came to a step, and does the rest anew."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import perdure
from perdure import parallel, patched, sleep, step, sync, workflow
from perdure.errors import DefinitionError, RunConflict, RunNotFound, StepNotFound
from perdure.model.records import Kind, Status
from perdure.steps import Step
from tests.engine.desk import (
    ORDER,
    Begun,
    Desk,
    Refused,
    engine_at,
    errand,
    in_loop,
    log_of,
    work,
    work_twice,
)
from tests.engine.resuming import failed


@workflow
async def three() -> list[str]:
    return [await work("first"), await work("second"), await work("third")]


@workflow
async def branches() -> list[str]:
    async def branch(tag: str) -> str:
        return await work(tag) + await work(f"{tag}-more")

    return list(await parallel(branch("left"), branch("right")))


@workflow
async def draws() -> tuple[str, str, str]:
    first = await work(str(perdure.uuid4()))
    number = await work(str(perdure.random().random()))
    at = await work(perdure.now().isoformat())
    await work("last")
    return first, number, at


@workflow
async def gathers_a_set() -> str:
    tasks = {asyncio.ensure_future(work(str(number))) for number in range(18)}
    done, _ = await asyncio.wait(tasks)
    order = await work(" ".join([task.result() for task in done]))
    return order + await work("last")


@workflow
async def within_a_minute() -> str:
    async with asyncio.timeout(60):
        await work("first")
        return await work("second")


@workflow
async def sleeps_first() -> str:
    await sleep("1h")
    return await work("first") + await work("second")


@workflow
async def retries_beside() -> list[str]:
    async def beside() -> str:
        await work("first")
        return await work("second")

    return list(await parallel(work_twice("bad"), beside()))


@step(at_most_once=True)
async def once(tag: str) -> str:
    return await work.fn(tag, ctx=perdure.step_context())


@workflow
async def once_beside() -> list[str]:
    async def beside() -> str:
        await work("first")
        return await work("second")

    return list(await parallel(once("once"), beside()))


@workflow
async def undoes() -> str:
    try:
        return await work("held")
    finally:
        await work("undone")


def idems(begun: list[Begun]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in begun:
        found.setdefault(one.key, set()).add(one.idem)
    return found


@pytest.mark.parametrize("by", ["work#2", "third"])
@in_loop
async def test_what_comes_before_the_step_is_kept_and_the_rest_is_done_anew(path, desk, by):
    del by
    async with engine_at(path, three, desk=desk) as engine:
        await engine.run(three, run_id="r")
        before = await log_of(engine, "r")
        fork = await engine.get("r", three).fork("work#2", run_id="fork")
        assert await fork.result() == ["first", "second", "third"]
        assert desk.keys() == ["work#1", "work#2", "work#3", "work#2", "work#3"]
        assert {key: len(keys) for key, keys in idems(desk.begun).items()} == {"work#1": 1, "work#2": 2, "work#3": 2}
        assert await log_of(engine, "r") == before
        view = await fork.view()
        assert view.forked_from is not None
        assert (view.forked_from.run_id, view.forked_from.step, view.forked_from.seq) == ("r", "work#2", 3)
        log = await log_of(engine, "fork")
        assert [event.kind for event in log[:5]] == [
            Kind.RUN_CREATED, Kind.RUN_CLAIMED, Kind.STEP_COMPLETED, Kind.RUN_FORKED, Kind.RUN_CLAIMED,
        ]  # fmt: skip
        assert view.created_at == log[3].at == (await fork.row()).created_at


@in_loop
async def test_a_name_is_its_first_call(path, desk):
    async with engine_at(path, errand, three, desk=desk) as engine:
        await engine.run(three, run_id="r")
        await (await engine.get("r").fork("work")).result()
        assert desk.keys() == ["work#1", "work#2", "work#3"] * 2
        await engine.run(errand, ORDER, run_id="e")
        await (await engine.get("e").fork("work_twice")).result()
        assert desk.keys()[6:] == ["work#1", "work_twice#1", "work_twice#1"]


@in_loop
async def test_with_the_keys_of_its_origin_nothing_is_done_twice_outside(path, desk):
    async with engine_at(path, three, desk=desk) as engine:
        await engine.run(three, run_id="r")
        first = await engine.get("r").fork("work#2", keep_keys=True)
        await first.result()
        second = await first.fork("work#3", keep_keys=True)
        await second.result()
        assert all(len(keys) == 1 for keys in idems(desk.begun).values())
        own = await second.fork("work#3")
        await own.result()
        assert len(idems(desk.begun)["work#3"]) == 2
        assert len({(await handle.row()).uid for handle in (engine.get("r"), first, second, own)}) == 4


@pytest.mark.parametrize("last", ["left", "right"])
@in_loop
async def test_of_branches_what_had_ended_by_then_is_kept(path, desk, last):
    gate, again = desk.hold(last), Desk()
    async with engine_at(path, branches, desk=desk) as engine:
        handle = await engine.enqueue(branches, run_id="r")
        completed = 0
        async for event in handle.events(follow=True):
            completed += event.kind == Kind.STEP_COMPLETED
            if completed == 2:
                gate.open()
    async with engine_at(path, branches, desk=again) as engine:
        log = [event for event in await log_of(engine, "r") if event.kind == Kind.STEP_COMPLETED]
        for number, event in enumerate(log):
            again.begun.clear()
            fork = await engine.get("r", branches).fork(event.key)
            assert await fork.result() == ["leftleft-more", "rightright-more"]
            assert Counter(again.keys()) == Counter(one.key for one in log[number:])


@in_loop
async def test_what_is_drawn_by_chance_is_as_in_the_origin(path, desk):
    async with engine_at(path, draws, desk=desk) as engine:
        result = await engine.run(draws, run_id="r")
        fork = await engine.get("r", draws).fork("work#4")
        assert await fork.result() == result
        again = await fork.fork("work#4")
        assert await again.result() == result
        assert desk.keys() == ["work#1", "work#2", "work#3", "work#4", "work#4", "work#4"]


@in_loop
async def test_sets_are_gone_through_as_in_the_origin(path, desk):
    """Where a set begins hangs on the run's numbering; of so many forks some would differ."""
    async with engine_at(path, gathers_a_set, desk=desk) as engine:
        result = await engine.run(gathers_a_set, run_id="r")
        last = list((await engine.get("r").view()).steps)[-1]
        for _ in range(8):
            fork = await engine.get("r", gathers_a_set).fork(last)
            assert await fork.result() == result
        assert desk.keys()[20:] == [last] * 8


@in_loop
async def test_the_time_since_the_copy_does_not_count(path, desk, clock):
    async with engine_at(path, within_a_minute, desk=desk, clock=clock) as engine:
        await engine.run(within_a_minute, run_id="r")
        clock.advance("30d")
        gate = desk.hold("second")
        fork = await engine.get("r", within_a_minute).fork("work#2")
        await gate.arrival()
        await clock.armed()
        clock.advance("59s")
        assert (await fork.row()).status is Status.RUNNING
        clock.advance("1s")
        with pytest.raises(TimeoutError):
            await fork.result()


@in_loop
async def test_a_sleep_that_is_over_is_not_slept_again(path, desk, clock):
    async with engine_at(path, sleeps_first, desk=desk, clock=clock) as engine:
        await engine.enqueue(sleeps_first, run_id="r")
        await engine.idle()
        clock.advance("1h")
        await engine.get("r").result()
        assert await (await engine.get("r").fork("work#2")).result() == "firstsecond"
        assert desk.keys() == ["work#1", "work#2", "work#2"]


@in_loop
async def test_a_step_that_was_being_retried_begins_anew_with_its_whole_budget(path, desk, clock):
    desk.fails["bad"] = Refused("bad")
    gate = desk.hold("first")
    async with engine_at(path, retries_beside, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(retries_beside, run_id="r")
        async for event in handle.events(follow=True):
            if event.kind == Kind.STEP_FAILED:
                gate.open()
            if event.key == "beside#1/work#2":
                break
        fork = await handle.fork("beside#1/work#2", run_id="f")
        await engine.idle()
        view = await fork.view()
        assert (view.steps["work_twice#1"].attempt, view.steps["work_twice#1"].status) == (2, "retrying")
        clock.advance("1h")
        for one in (handle, fork):
            with pytest.raises(Refused):
                await one.result()
        assert sorted(begun.attempt for begun in desk.begun if begun.key == "work_twice#1") == [1, 2, 2, 3]


@in_loop
async def test_what_must_begin_once_only_has_not_begun_in_the_fork(path, desk):
    gates = {tag: desk.hold(tag) for tag in ("first", "once")}
    async with engine_at(path, once_beside, desk=desk) as engine:
        handle = await engine.enqueue(once_beside, run_id="r")
        await gates["once"].arrival()
        gates["first"].open()
        async for event in handle.events(follow=True):
            if event.key == "beside#1/work#2":
                gates["once"].open()
        fork = await handle.fork("beside#1/work#2")
        assert await fork.result() == ["once", "second"]
        assert Counter(desk.keys())["once#1"] == 2


@in_loop
async def test_a_run_in_execution_is_forked_and_goes_on(path, desk):
    gate = desk.hold("second")
    async with engine_at(path, three, desk=desk) as engine:
        handle = await engine.enqueue(three, run_id="r")
        await gate.arrival()
        with pytest.raises(StepNotFound):
            await handle.fork("work#2")  # nothing of it is recorded yet
        fork = await handle.fork("work#1")
        gate.open()
        assert await handle.result() == await fork.result() == ["first", "second", "third"]
        assert Counter(desk.keys()) == {"work#1": 2, "work#2": 2, "work#3": 2}


@in_loop
async def test_a_failed_run_is_forked_from_what_failed_or_from_before(path, desk):
    desk.fails["second"] = [Refused()]
    async with engine_at(path, three, desk=desk) as engine:
        await failed(engine, three)
        for step_key in ("work#2", "work#1"):
            assert await (await engine.get("r").fork(step_key)).result() == ["first", "second", "third"]
        assert (await engine.get("r").row()).status is Status.FAILED


@in_loop
async def test_a_cancelled_run_is_forked_from_before_the_cancel(path, desk):
    gate = desk.hold("held")
    async with engine_at(path, undoes, desk=desk) as engine:
        handle = await engine.enqueue(undoes, run_id="r")
        await gate.arrival()
        await handle.cancel("no")
        with pytest.raises(perdure.errors.RunCancelled):
            await handle.result()
        gate.open()
        assert await (await handle.fork("work#1")).result() == "held"


@in_loop
async def test_after_a_resume_the_first_call_is_still_where_it_was(path, desk):
    desk.fails["second"] = [Refused()]
    async with engine_at(path, three, desk=desk) as engine:
        await failed(engine, three)
        handle = engine.get("r", three)
        await handle.resume()
        await handle.result()
        third = await handle.fork("work#3")
        assert await third.result() == ["first", "second", "third"]
        assert desk.keys() == ["work#1", "work#2", "work#2", "work#3", "work#3"]
        second = await handle.fork("work#2")
        await second.result()
        assert desk.keys()[5:] == ["work#2", "work#3"]


@pytest.mark.parametrize("step_key", ["work#4", "wrok", "", "@timer#1", "work#"])
@in_loop
async def test_a_step_that_the_run_has_not_come_to_is_refused_before_anything_is_written(path, desk, step_key):
    async with engine_at(path, three, desk=desk) as engine:
        await engine.run(three, run_id="r")
        with pytest.raises(StepNotFound, match="has not come to") as refused:
            await engine.get("r").fork(step_key)
        assert refused.value.fields["steps"] == ["work#1", "work#2", "work#3"]
        assert "work#1, work#2, work#3" in refused.value.advice
        assert [row.run_id async for row in engine.runs()] == ["r"]
        with pytest.raises(RunNotFound):
            await engine.get("nobody").fork("work#1")
        with pytest.raises(DefinitionError):
            await engine.get("r").fork(3)
        with pytest.raises(DefinitionError):
            await engine.get("r").fork("work#1", run_id="")


@in_loop
async def test_a_run_that_has_not_begun_has_nothing_to_fork_from(path):
    async with engine_at(path).client() as client:
        handle = await client.enqueue(three, run_id="r")
        with pytest.raises(StepNotFound) as refused:
            await handle.fork("work")
        assert "any step" in refused.value.advice


@in_loop
async def test_the_same_fork_is_made_once_and_another_is_refused(path, desk):
    async with engine_at(path, three, desk=desk) as engine:
        await engine.run(three, run_id="r")
        await engine.run(three, run_id="other")
        handle = engine.get("r", three)
        made = [await handle.fork("work#2", run_id="f") for _ in range(2)]
        assert len({one.run_key for one in made}) == 1
        await made[0].result()
        assert desk.keys()[6:] == ["work#2", "work#3"]
        for attempt in (
            handle.fork("work#3", run_id="f"),
            handle.fork("work#2", run_id="f", keep_keys=True),
            engine.get("other").fork("work#2", run_id="f"),
            handle.fork("work#2", run_id="other"),
            handle.fork("work#2", run_id="r"),
        ):
            with pytest.raises(RunConflict, match="is taken"):
                await attempt


@in_loop
async def test_a_patch_applies_from_where_the_copy_ends_on(path, desk):
    def version(body) -> Step:
        body.__qualname__ = "patched_late"
        return workflow(body)

    async def old() -> str:
        await work("first")
        return await work("second")

    async def new() -> str:
        early = patched("early")
        await work("first")
        return await work("new" if patched("late") else "second") + str(early)

    old, new = version(old), version(new)
    async with engine_at(path, old, desk=desk) as engine:
        await engine.run(old, run_id="r")
    async with engine_at(path, new, desk=desk) as engine:
        fork = await engine.get("r", new).fork("work#2")
        assert await fork.result() == "newFalse"
        from_the_start = await engine.get("r", new).fork("work#1")
        assert await from_the_start.result() == "newTrue"


@in_loop
async def test_a_fork_that_fails_is_resumed_like_any_run(path, desk):
    async with engine_at(path, three, desk=desk) as engine:
        await engine.run(three, run_id="r")
        desk.fails["third"] = [Refused()]
        fork = await engine.get("r", three).fork("work#2", run_id="f")
        with pytest.raises(Refused):
            await fork.result()
        await fork.resume()
        assert await fork.result() == ["first", "second", "third"]
        assert desk.keys()[3:] == ["work#2", "work#3", "work#3"]


@in_loop
async def test_tags_and_priority_go_along(path):
    async with engine_at(path, three, desk=Desk()) as engine:
        handle = await engine.enqueue(three, run_id="r", tags={"customer": "42"}, priority=5)
        await handle.result()
        fork = await handle.fork("work#2", run_id="f")
        assert (await fork.row()).priority == 5
        assert [row.run_id async for row in engine.runs(tags={"customer": "42"})] == ["f", "r"]


def test_the_blocking_engine_forks(path, desk):
    with sync.Engine(path, workflows=[three], tools=desk, durability="process") as engine:
        engine.run(three, run_id="r")
        fork = engine.get("r", three).fork("work#3", run_id="f", keep_keys=True)
        assert (fork.run_id, fork.result()) == ("f", ["first", "second", "third"])
        assert engine.runs().fork("work#3").done == 2


@in_loop
async def test_a_run_knows_its_forks(path, desk):
    async with engine_at(path, three, desk=desk) as engine:
        handle = await engine.enqueue(three, run_id="r", tags={"kind": "three"})
        await handle.result()
        assert await handle.forks() == []
        forks = [await handle.fork("work#2", run_id=f"f{number}") for number in (1, 2)]
        assert sorted(fork.run_id for fork in await handle.forks()) == ["f1", "f2"]
        (of_f1,) = [fork for fork in await handle.forks() if fork.run_id == "f1"]
        assert await of_f1.result() == await forks[0].result()
        assert await forks[0].forks() == []
        with pytest.raises(DefinitionError, match="has no = in it"):
            await engine.enqueue(three, tags={"=origin": "1"})
