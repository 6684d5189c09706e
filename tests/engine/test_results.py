"""What a run gives: the same value or error live, attached, and in another process; and how it is waited for."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from decimal import Decimal

import pytest

from perdure import workflow
from perdure.errors import RunFailed
from perdure.model.records import Status
from tests.crash.procs import SERVER
from tests.engine.desk import (
    ORDER,
    PATIENCE,
    RECEIPT,
    Order,
    Refused,
    engine_at,
    errand,
    in_loop,
    work,
)


@dataclass
class Sum:
    total: Decimal
    tags: set[str] = field(default_factory=set)


class Detailed(Exception):
    def __init__(self, order: str, *, code: int) -> None:
        super().__init__(order)
        self.code = code


@workflow
async def adds() -> Sum:
    return Sum(Decimal("1.10"), {"a", "b"})


@workflow
async def refuses() -> None:
    await work("bad")


@workflow
async def details() -> None:
    error = Detailed("42", code=7)
    error.add_note("what the workflow noted")
    raise error


@workflow
async def raises_local() -> None:
    class Local(Exception):
        pass

    raise Local("cannot be rebuilt") from ValueError("why")


def execute_all(path):
    """Be another process that executes what there is."""

    async def main():
        async with engine_at(path, adds, details, raises_local) as engine:
            handles = [engine.get(name) for name in ("adds", "details", "raises_local")]
            await asyncio.gather(*(handle.result() for handle in handles), return_exceptions=True)

    asyncio.run(main())


async def ends(handle):
    try:
        return await handle.result()
    except Exception as error:
        return error


async def all_ways(path, definition, name):
    """How a run ends: live, attached on the same engine, on a client of its own, and by engine.run again."""
    async with engine_at(path, definition) as engine:
        handle = await engine.enqueue(definition, run_id=f"{name} here")
        yield await ends(handle)
        yield await ends(engine.get(handle.run_id, definition))
        yield await ends(engine.get(handle.run_id))
        try:
            yield await engine.run(definition, run_id=handle.run_id)
        except Exception as error:
            yield error
    async with engine_at(path, definition).client() as client:
        yield await ends(client.get(name, definition))


@pytest.fixture
def elsewhere(path):
    """A store in which another process has executed everything."""

    async def main():
        async with engine_at(path).client() as client:
            for definition in (adds, details, raises_local):
                await client.enqueue(definition, run_id=definition.name)

    asyncio.run(main())
    process = SERVER.Process(target=execute_all, args=(path,))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0
    return path


def test_results_and_errors_are_the_same_in_every_way_and_process(elsewhere):
    @in_loop
    async def main():
        found = [one async for one in all_ways(elsewhere, adds, "adds")]
        assert found == [Sum(Decimal("1.10"), {"a", "b"})] * 5
        found = [one async for one in all_ways(elsewhere, details, "details")]
        for error in found:
            assert (type(error), error.args, error.code) == (Detailed, ("42",), 7)
            assert error.__notes__[0] == "what the workflow noted"
            assert "of details failed" in error.__notes__[-1]
        assert len({id(error) for error in found}) == len(found)
        for error in [one async for one in all_ways(elsewhere, raises_local, "raises_local")]:
            assert type(error) is RunFailed
            assert error.type.endswith("raises_local.<locals>.Local")
            assert (error.text, error.run_id.split()[0]) == ("cannot be rebuilt", "raises_local")
            assert "raise Local" in error.traceback
            assert isinstance(error.__cause__, ValueError)
            assert any("cannot be rebuilt" in note for note in error.__notes__)

    main()


@in_loop
async def test_a_step_failure_is_raised_as_itself_with_run_step_and_attempt_in_a_note(path, desk):
    desk.fails["bad"] = Refused("no")
    async with engine_at(path, refuses, desk=desk) as engine:
        with pytest.raises(Refused, match="no") as raised:
            await engine.run(refuses, run_id="r")
        (note,) = raised.value.__notes__
        assert re.fullmatch(
            r"run 'r' of refuses failed in work#1 \(attempt 1\), at .*/engine/desk\.py:\d+ in _work", note
        )


@in_loop
async def test_without_the_workflow_a_result_has_the_type_of_the_registered_one(path, desk):
    async with engine_at(path, errand, desk=desk) as engine:
        await engine.run(errand, ORDER, run_id="r")
        assert await engine.get("r").result() == RECEIPT
    async with engine_at(path, errand).client() as client:
        assert await client.get("r").result() == RECEIPT
    async with engine_at(path).client() as client:
        assert await client.get("r").result() == {"order": "42", "parts": ["first", "second"]}


@in_loop
async def test_an_input_that_has_grown_an_optional_field_is_no_conflict(path, desk):
    @dataclass
    class OrderToday:
        id: str
        naps: bool = False
        gift: bool = False

    async def errand_today(order: OrderToday) -> str:
        return order.id

    errand_today.__annotations__ = {"order": OrderToday, "return": str}
    today = workflow(name="errand")(errand_today)
    async with engine_at(path, errand, desk=desk) as engine:
        await engine.run(errand, ORDER, run_id="r")
    async with engine_at(path).client() as client:
        handle = await client.enqueue(today, OrderToday("42"), run_id="r")
        assert (await handle.row()).status is Status.COMPLETED


@in_loop
async def test_orders_differ_by_value_not_by_spelling(path, desk):
    async with engine_at(path, errand, desk=desk).client() as client:
        first = await client.enqueue(errand, Order("42", naps=False), run_id="r")
        again = await client.enqueue(errand, Order(id="42"), run_id="r")
        assert first.run_key == (await again.row()).run_key
