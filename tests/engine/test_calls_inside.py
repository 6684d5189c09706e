"""Engines and handles in the hands of running code: what a workflow does goes out with its commit, and once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure import Signal, StepContext, step, workflow
from perdure.context import INJECTED
from perdure.errors import DefinitionError, RunCancelled
from perdure.model.payloads import fields
from perdure.model.records import Kind, Status
from tests.engine.desk import PATIENCE, engine_at, in_loop, in_status, log_of, work

word = Signal[str]("word")
ENGINES = []


@workflow
async def listens() -> str:
    return await word.wait()


@workflow
async def works(tag: str) -> str:
    return await work(tag)


@workflow
async def speaks_to(run_id: str) -> bool:
    return await ENGINES[-1].get(run_id).signal(word, "hello")


@workflow
async def ends(run_id: str) -> None:
    await ENGINES[-1].get(run_id).cancel("by another run")


@workflow
async def enqueues() -> list[str]:
    first = await ENGINES[-1].enqueue(works, "x", run_id="chosen", tags={"a": "b"}, deadline="1h")
    second = await ENGINES[-1].enqueue(works, "y")
    return [first.run_id, second.run_id]


@workflow
async def enqueues_wrongly() -> None:
    await ENGINES[-1].enqueue(works, "x", idempotency_key="k")


@step
async def enqueue_two(*, ctx: StepContext[object] = INJECTED) -> list[str]:
    started = [(await ENGINES[-1].enqueue(works, tag)).run_id for tag in ("x", "y")]
    await work.fn("body", ctx=ctx)
    return started


@workflow
async def enqueues_in_a_step() -> list[str]:
    return await enqueue_two()


ALL = (listens, works, speaks_to, ends, enqueues, enqueues_wrongly, enqueues_in_a_step)


@pytest.fixture(autouse=True)
def no_engine_is_left():
    yield
    ENGINES.clear()


@in_loop
async def test_a_workflow_signals_and_cancels_other_runs(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        ENGINES.append(engine)
        heard = await engine.enqueue(listens, run_id="a")
        ended = await engine.enqueue(listens, run_id="b")
        await in_status(engine, "b", Status.WAITING)
        assert await engine.run(speaks_to, "a", run_id="s") is True
        await engine.run(ends, "b")
        assert await heard.result(timeout=PATIENCE) == "hello"
        with pytest.raises(RunCancelled, match="by another run"):
            await ended.result(timeout=PATIENCE)
        sent = [fields(event.payload) for event in await log_of(engine, "s") if event.kind == Kind.MESSAGE_SENT]
        assert sent == [{"kind": "signal", "to": "a", "name": "word"}]


@in_loop
async def test_a_workflow_enqueues_runs_that_outlive_it(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        ENGINES.append(engine)
        first, second = await engine.run(enqueues, run_id="p")
        assert first == "chosen"
        assert await engine.get(first, works).result(timeout=PATIENCE) == "x"
        assert await engine.get(second, works).result(timeout=PATIENCE) == "y"
        row = await engine.get(first).row()
        assert row.deadline_at - row.created_at == timedelta(hours=1) // timedelta(microseconds=1)
        assert [one.run_id async for one in engine.runs(tags={"a": "b"})] == ["chosen"]
        with pytest.raises(DefinitionError, match="without idempotency_key"):
            await engine.run(enqueues_wrongly)


@in_loop
async def test_what_a_step_enqueues_is_found_again_by_its_next_attempt(path, desk):
    desk.fails["body"] = [RuntimeError("once"), None]
    async with engine_at(path, *ALL, desk=desk) as engine:
        ENGINES.append(engine)
        with pytest.raises(RuntimeError):
            await engine.run(enqueues_in_a_step, run_id="p")
        before = [row.run_id async for row in engine.runs(workflow=works)]
        await engine.get("p").resume()
        started = await engine.get("p", enqueues_in_a_step).result(timeout=PATIENCE)
        assert sorted(started) == sorted(before)
        assert len([row async for row in engine.runs(workflow=works)]) == 2
