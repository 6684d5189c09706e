"""The options of enqueue and enqueue_many, and what is refused."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import ClassVar

import pytest
from pydantic import BaseModel, field_serializer

from perdure import workflow
from perdure.client import FIRST, TURN
from perdure.errors import DefinitionError, EngineNotOpen, InvalidValue, RunConflict, UnknownWorkflow
from perdure.model import payloads
from perdure.model.records import Status
from tests.engine.desk import ORDER, RECEIPT, Order, chore, engine_at, errand, in_loop, job


@pytest.mark.parametrize("delay", ["1h", 3600, timedelta(hours=1)])
@in_loop
async def test_a_delayed_run_does_not_begin_before_its_time(path, desk, clock, delay):
    async with engine_at(path, chore, desk=desk, clock=clock) as engine:
        due = clock.now() + 3_600_000_000
        handle = await engine.enqueue(chore, delay=delay)
        await engine.idle()
        assert ((await handle.row()).wake_at, (await handle.view()).wake_at) == (due, due)
        clock.advance("59m")
        await engine.idle()
        assert (await handle.row()).status is Status.PENDING
        assert not desk.begun
        clock.advance("1m")
        assert await handle.result() == "chore"


@in_loop
async def test_a_run_that_is_delayed_for_ever_is_taken(path, clock):
    async with engine_at(path, chore, clock=clock) as engine:
        handle = await engine.enqueue(chore, delay="99999999w")
        assert (await handle.row()).status is Status.PENDING


@in_loop
async def test_higher_priority_goes_first_and_equals_in_order(path, desk):
    async with engine_at(path).client() as client:
        for n, priority in enumerate((0, -5, 7, 0, 7)):
            await client.enqueue(job, n, priority=priority)
    async with engine_at(path, job, desk=desk, concurrency=1) as engine:
        for row in [row async for row in engine.runs()]:
            await engine.get(row.run_id).result()
    order = sorted(range(5), key=lambda n: ((0, 5, -7, 0, -7)[n], n))
    async with engine_at(path).client() as client:
        rows = [row async for row in client.runs()]
        ended = sorted(rows, key=lambda row: row.ended_at)
        assert [row.run_key - 1 for row in ended] == order


@in_loop
async def test_tags_are_kept_and_shown(path):
    async with engine_at(path).client() as client:
        handle = await client.enqueue(chore, tags={"customer": "42", "ünïcode": "✓"})
        assert payloads.fields((await handle.row()).meta) == {"tags": {"customer": "42", "ünïcode": "✓"}}


@in_loop
async def test_an_idempotency_key_finds_the_run_it_was_given_with(path, desk):
    async with engine_at(path, errand, desk=desk) as engine:
        first = await engine.enqueue(errand, ORDER, idempotency_key="k")
        again = await engine.enqueue(errand, ORDER, idempotency_key="k")
        assert first.run_id == again.run_id
        await first.result()
        third = await engine.enqueue(errand, ORDER, idempotency_key="k", run_id="another")
        assert third.run_id == first.run_id
        with pytest.raises(RunConflict) as raised:
            await engine.enqueue(errand, Order("43"), idempotency_key="k")
        assert ('"42"' in raised.value.recorded, '"43"' in raised.value.found) == (True, True)
        with pytest.raises(RunConflict):
            await engine.enqueue(chore, idempotency_key="k")


@pytest.mark.parametrize(
    "options",
    [
        {"run_id": ""},
        {"run_id": 5},
        {"run_id": "a\nb"},
        {"run_id": "x" * 501},
        {"idempotency_key": ""},
        {"idempotency_key": 5},
        {"delay": "soon"},
        {"delay": -1},
        {"delay": [1]},
        {"priority": 1.5},
        {"priority": True},
        {"priority": 1001},
        {"tags": "x"},
        {"tags": ["x"]},
        {"tags": {"x": 1}},
        {"tags": {1: "x"}},
    ],
    ids=str,
)
@in_loop
async def test_a_wrong_option_is_refused_by_name_and_nothing_is_created(path, options):
    async with engine_at(path).client() as client:
        with pytest.raises(DefinitionError) as raised:
            await client.enqueue(chore, **options)
        (name,) = options
        assert name.replace("_", " ") in str(raised.value)
        assert raised.value.advice or name == "priority"
        assert [row async for row in client.runs()] == []


@in_loop
async def test_what_is_no_workflow_or_no_input_is_refused(path):
    async with engine_at(path, errand) as engine:
        for act in (engine.enqueue, engine.run):
            with pytest.raises(DefinitionError, match="is not a workflow"):
                await act(lambda: 1)
            with pytest.raises(DefinitionError, match="takes no input"):
                await act(chore, 1)
            with pytest.raises(InvalidValue):
                await act(errand, {"id": object()})
        with pytest.raises(InvalidValue):
            await engine.enqueue_many(errand, [ORDER, object()])
        with pytest.raises(UnknownWorkflow):
            await engine.run(chore)
        assert [row async for row in engine.runs()] == []


@in_loop
async def test_many_are_enqueued_with_ids_of_their_own(path, desk):
    async with engine_at(path, job, desk=desk) as engine:
        handles = await engine.enqueue_many(job, range(30), run_ids=[f"r{n}" for n in range(30)])
        assert [handle.run_id for handle in handles] == [f"r{n}" for n in range(30)]
        assert [await handle.result() for handle in handles] == [n + len(str(n)) for n in range(30)]
        again = await engine.enqueue_many(job, range(30), run_ids=[f"r{n}" for n in range(30)])
        assert [await handle.result() for handle in again] == [n + len(str(n)) for n in range(30)]
        assert len(desk.begun) == 30
        assert len({handle.run_id for handle in await engine.enqueue_many(job, [1, 1, 1])}) == 3


@in_loop
async def test_many_may_be_none_and_may_be_found_twice(path):
    async with engine_at(path).client() as client:
        assert await client.enqueue_many(job, []) == []
        first, second, third = await client.enqueue_many(job, [1, 1, 2], run_ids=["a", "a", "b"])
        assert (first.run_key, third.run_id) == (second.run_key, "b")
        assert len([row async for row in client.runs()]) == 2


@in_loop
async def test_many_that_contradict_themselves_or_the_store_are_refused(path, clock):
    async with engine_at(path, clock=clock).client() as client:
        with pytest.raises(DefinitionError, match="twice"):
            await client.enqueue_many(job, [1, 2], run_ids=["a", "a"])
        with pytest.raises(DefinitionError, match="2 inputs, but 1 run ids"):
            await client.enqueue_many(job, [1, 2], run_ids=["a"])
        assert [row async for row in client.runs()] == []
        await client.enqueue_many(job, [1], run_ids=["a"], delay="1h", priority=3)
        with pytest.raises(RunConflict):
            await client.enqueue_many(job, [2, 3], run_ids=["a", "b"])
        rows = {row.run_id: row async for row in client.runs()}
        assert (rows["a"].priority, rows["a"].wake_at) == (3, clock.now() + 3_600_000_000)
        assert "b" in rows
    with pytest.raises(EngineNotOpen):
        await client.enqueue_many(job, [])


@in_loop
async def test_of_very_many_those_that_are_not_refused_are_created(path):
    async with engine_at(path).client() as client:
        await client.enqueue(job, -1, run_id="run-0")
        count = 3 * FIRST + 1
        with pytest.raises(RunConflict, match="run-0"):
            await client.enqueue_many(job, range(count), run_ids=[f"run-{n}" for n in range(count)])
        assert (await client.counts()).total == count


class Noted(BaseModel):
    """Notes how many turns others have had when it is encoded."""

    n: int
    turns: ClassVar[int] = 0
    seen: ClassVar[set[int]] = set()

    @field_serializer("n")
    def written(self, n: int) -> int:
        Noted.seen.add(Noted.turns)
        return n


@workflow
async def notes(noted: Noted) -> None:
    pass


@in_loop
async def test_while_very_many_are_enqueued_others_have_their_turn(path):
    async def others():
        while True:
            Noted.turns += 1
            await asyncio.sleep(0)

    Noted.seen.clear()
    turning = asyncio.create_task(others())
    async with engine_at(path).client() as client:
        await client.enqueue_many(notes, [Noted(n=n) for n in range(3 * TURN)])
    turning.cancel()
    assert len(Noted.seen) == 3


@in_loop
async def test_an_input_is_validated_and_what_that_makes_of_it_is_stored(path, desk):
    async with engine_at(path, errand, job, desk=desk) as engine:
        assert await engine.run(errand, {"id": "42"}, run_id="r") == RECEIPT
        assert await engine.run(errand, ORDER, run_id="r") == RECEIPT  # the very same input
        with pytest.raises(InvalidValue, match="naps"):
            await engine.run(errand, {"id": "42", "naps": "perhaps"})
        with pytest.raises(InvalidValue, match="input is not of type int"):
            await engine.enqueue(job, "many")
