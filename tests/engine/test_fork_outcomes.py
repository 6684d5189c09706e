"""Forks of runs that have waited for others: children, signals, and what a cancel had begun to undo."""

from __future__ import annotations

from collections import Counter

import pytest

from perdure import Signal, parallel, saga, workflow
from perdure.errors import RunCancelled, WrongState
from perdure.model.payloads import fields
from perdure.model.records import Kind
from tests.engine.desk import engine_at, in_loop, log_of, work

word = Signal[str]("word")


@workflow
async def child(tag: str) -> str:
    return f"<{await work(tag)}>"


@workflow
async def parent() -> str:
    first = await child("child")
    return first + await work("last")


@workflow
async def beside_a_child() -> list[str]:
    async def beside() -> str:
        return await work("first") + await work("second")

    return list(await parallel(child("child"), beside()))


@workflow
async def hears() -> str:
    heard = await word.wait()
    return heard + await work("first") + await word.wait()


@workflow
async def undoes() -> str:
    async with saga() as undo:
        undo.push(work, "undo-one")
        await work("one")
        undo.push(work, "undo-two")
        await work("two")
        return await work("three")


def started(events):
    return [fields(event.payload)["run_id"] for event in events if event.kind == Kind.CHILD_STARTED]


@in_loop
async def test_a_child_that_has_ended_is_not_run_again(path, desk):
    async with engine_at(path, parent, child, desk=desk) as engine:
        await engine.run(parent, run_id="r")
        fork = await engine.get("r", parent).fork("work", run_id="f")
        assert await fork.result() == "<child>last"
        assert Counter(desk.keys()) == {"work#1": 3}
        assert started(await log_of(engine, "f")) == started(await log_of(engine, "r"))
        again = await engine.get("r", parent).fork("child", run_id="again")
        assert await again.result() == "<child>last"
        assert started(await log_of(engine, "again")) != started(await log_of(engine, "r"))


@in_loop
async def test_a_child_that_was_under_way_is_started_anew(path, desk):
    gate, second = desk.hold("child"), desk.hold("second")
    async with engine_at(path, beside_a_child, child, desk=desk) as engine:
        handle = await engine.enqueue(beside_a_child, run_id="r")
        await gate.arrival()
        second.open()  # whichever of the two was asked for first
        async for event in handle.events(follow=True):
            if event.key == "beside#1/work#2":
                break
        fork = await handle.fork("beside#1/work#2", run_id="f")
        gate.open()
        assert await fork.result() == await handle.result() == ["<child>", "firstsecond"]
        recorded, anew = started(await log_of(engine, "f"))
        assert recorded in started(await log_of(engine, "r"))
        assert anew != recorded


@in_loop
async def test_a_signal_that_was_received_is_kept_and_one_that_was_not_is_waited_for(path, desk):
    async with engine_at(path, hears, desk=desk) as engine:
        handle = await engine.enqueue(hears, run_id="r")
        await handle.signal(word, "a")
        await handle.signal(word, "b")
        assert await handle.result() == "afirstb"
        fork = await handle.fork("work", run_id="f")
        await fork.signal(word, "c")
        assert await fork.result() == "afirstc"


@in_loop
async def test_what_a_cancel_had_begun_to_undo_is_forked_from_before_that_only(path, desk):
    gate = desk.hold("three")
    async with engine_at(path, undoes, desk=desk) as engine:
        handle = await engine.enqueue(undoes, run_id="r")
        await gate.arrival()
        await handle.cancel("no")
        with pytest.raises(RunCancelled):
            await handle.result()
        gate.open()
        log = await log_of(engine, "r")
        begun = next(event.seq for event in log if event.kind == Kind.UNDO_BEGUN)
        undone = [event.key for event in log if event.kind == Kind.STEP_COMPLETED and event.seq > begun]
        assert len(undone) == 2
        for key in undone:
            with pytest.raises(WrongState, match="begun to undo"):
                await handle.fork(key)
        fork = await handle.fork("work#2")
        assert await fork.result() == "three"
        assert Counter(desk.keys())["work#1"] == 1
