"""Resume: exactly the failures that came out are tried anew; everything else stays as it is recorded."""

from __future__ import annotations

import asyncio

import pytest

from perdure import parallel, workflow
from perdure.model.payloads import fields, note
from perdure.model.records import Kind, Status
from tests.engine.desk import Refused, engine_at, in_loop, log_of, work, work_twice
from tests.engine.resuming import failed, resumed
from tests.wrapper import Wrapper


@workflow
async def two_branches() -> list[str]:
    return await asyncio.gather(work("bad"), work("good"))


@workflow
async def siblings() -> list[str]:
    return list(await parallel(work("bad"), work("slow"), work("good")))


@workflow
async def catches() -> tuple[str, str]:
    try:
        first = await work("caught")
    except Refused:
        first = "instead"
    return first, await work("bad")


@workflow
async def wraps_from() -> str:
    try:
        return await work("bad")
    except Refused as error:
        raise RuntimeError("wrapped") from error


@workflow
async def wraps_bare() -> str:
    try:
        return await work("bad")
    except Refused:
        raise RuntimeError("wrapped")


@workflow
async def groups() -> str:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_bad())
        other = group.create_task(_bad("good"))
    return task.result() + other.result()


async def _bad(tag: str = "bad") -> str:
    return await work(tag)


@workflow
async def handler_fails() -> str:
    try:
        return await work("caught")
    except Refused:
        await work("release")
        return await work("bad")


@workflow
async def cleans_up() -> str:
    try:
        return await work("bad")
    finally:
        await work("release")


@workflow
async def retries() -> str:
    return await work_twice("bad")


@in_loop
async def test_of_two_branches_only_the_failed_one_runs_again(path, desk):
    desk.fails["bad"] = [Refused()]
    gate = desk.hold("bad")
    async with engine_at(path, two_branches, desk=desk) as engine:
        handle = await engine.enqueue(two_branches, run_id="r")
        async for event in handle.events(follow=True):
            if event.kind == Kind.STEP_COMPLETED:
                gate.open()
        await failed(engine, two_branches)
        assert await resumed(engine, two_branches) == ["bad", "good"]
        assert sorted(desk.keys()) == ["work#1", "work#1", "work#2"]


@in_loop
async def test_siblings_cancelled_in_the_wake_run_again_and_finished_ones_do_not(path, desk):
    slow = desk.hold("slow")
    bad = desk.hold("bad")
    desk.fails["bad"] = [Refused()]
    async with engine_at(path, siblings, desk=desk) as engine:
        handle = await engine.enqueue(siblings, run_id="r")
        await slow.arrival()
        bad.open()
        with pytest.raises(Refused):
            await handle.result()
        assert (await handle.view()).steps["work#2"].status == "cancelled"
        slow.open()
        assert await resumed(engine, siblings) == ["bad", "slow", "good"]
        assert sorted(desk.keys()) == ["work#1", "work#1", "work#2", "work#2", "work#3"]
        idems = {begun.key: begun.idem for begun in desk.begun}
        assert all(begun.idem == idems[begun.key] for begun in desk.begun)


@in_loop
async def test_a_failure_that_the_code_caught_stays_an_outcome(path, desk):
    desk.fails = {"caught": [Refused()], "bad": [Refused()]}
    async with engine_at(path, catches, desk=desk) as engine:
        await failed(engine, catches)
        assert await resumed(engine, catches) == ("instead", "bad")
        assert desk.keys() == ["work#1", "work#2", "work#2"]


@in_loop
async def test_a_failure_stays_caught_when_its_handler_fails(path, desk):
    desk.fails = {"caught": [Refused("first")], "bad": [Refused("second")]}
    async with engine_at(path, handler_fails, desk=desk) as engine:
        await failed(engine, handler_fails)
        assert (await engine.get("r").view()).failed_steps == ["work#3"]
        assert await resumed(engine, handler_fails) == "bad"
        assert desk.keys() == ["work#1", "work#2", "work#3", "work#3"]


@in_loop
async def test_a_failure_in_a_finally_hides_the_one_behind_it_which_the_next_resume_is_for(path, desk):
    """What did not come out may have been caught by the code, and then it stays: one cannot tell from the failure."""
    desk.fails = {"bad": [Refused("first")], "release": [Refused("second")]}
    async with engine_at(path, cleans_up, desk=desk) as engine:
        handle = engine.get("r", cleans_up)
        for message, key in (("second", "work#2"), ("first", "work#1")):
            with pytest.raises(Refused, match=message):
                await (engine.run(cleans_up, run_id="r") if key == "work#2" else resumed(engine, cleans_up))
            assert (await handle.view()).failed_steps == [key]
        assert await resumed(engine, cleans_up) == "bad"
        assert desk.keys() == ["work#1", "work#2", "work#2", "work#1"]


@pytest.mark.parametrize("definition", [wraps_from, wraps_bare, groups])
@in_loop
async def test_a_failure_that_comes_out_wrapped_is_tried_anew(path, desk, definition):
    desk.fails["bad"] = [Refused()]
    async with engine_at(path, definition, desk=desk) as engine:
        await failed(engine, definition, ExceptionGroup if definition is groups else RuntimeError)
        assert "bad" in await resumed(engine, definition)


@in_loop
async def test_attempts_go_on_counting_with_a_new_budget_and_the_same_idempotency_key(path, desk, clock):
    desk.fails["bad"] = [Refused(str(n)) for n in range(5)]
    async with engine_at(path, retries, desk=desk, clock=clock) as engine:
        for until in (2, 4):
            handle = await engine.enqueue(retries, run_id="r")
            if until > 2:
                await handle.resume()
            await engine.idle()
            assert (await handle.row()).status is Status.RETRYING
            clock.advance("1h")
            with pytest.raises(Refused, match=str(until - 1)) as raised:
                await handle.result()
            assert f"work_twice#1 (attempt {until})" in raised.value.__notes__[-1]
        await handle.resume()
        await engine.idle()
        clock.advance("1h")
        assert await handle.result() == "bad"
        assert [begun.attempt for begun in desk.begun] == [1, 2, 3, 4, 5, 6]
        assert len({begun.idem for begun in desk.begun}) == 1
        assert [n for n, _ in (await handle.view()).steps["work_twice#1"].failures] == [1, 2, 3, 4, 5]


@in_loop
async def test_the_log_keeps_what_came_before_the_resume(path, desk):
    desk.fails["bad"] = [Refused()]
    async with engine_at(path, catches, desk=desk) as engine:
        await failed(engine, catches)
        before = await log_of(engine, "r")
        assert before[-1].kind == Kind.RUN_FAILED
        await resumed(engine, catches)
        after = await log_of(engine, "r")
        assert after[: len(before)] == before
        assert after[len(before)].kind == Kind.RUN_RESUMED


class Meanwhile(Wrapper):
    """A store in which, just before a run is resumed for the first time, something else happens."""

    def __init__(self, inner, what):
        super().__init__(inner)
        self._what = what

    def resume_run(self, *args, **options):
        what, self._what = self._what, None
        if what is not None:
            what()
        return self.inner.resume_run(*args, **options)


@in_loop
async def test_what_is_tried_anew_is_what_has_failed_when_the_run_is_resumed(path, desk):
    """Somebody else resumes and cancels it in the moment between: then nothing has failed any more."""
    desk.fails["bad"] = Refused("bad")
    async with engine_at(path, two_branches, desk=desk) as engine:
        await failed(engine, two_branches)
    async with engine_at(path).client() as client:
        store, row = client._store, await client.get("r").row()

        def meanwhile():
            store.resume_run(row.run_key, row.epoch, note(supersede=["work#1"], accept_drift=False))
            store.request_cancel(row.run_key, "no")

        client._home.operations.store = Meanwhile(store, meanwhile)
        await client.get("r").resume()
        last = (await log_of(client, "r"))[-3:]
        assert [event.kind for event in last] == [Kind.RUN_RESUMED, Kind.RUN_CANCELLED, Kind.RUN_RESUMED]
        assert [fields(event.payload)["supersede"] for event in (last[0], last[2])] == [["work#1"], []]
