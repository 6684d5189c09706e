"""What a run gives: the same value or error live, attached, and in another process; and how it is waited for."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from decimal import Decimal

import pytest

from perdure import workflow
from perdure.errors import DefinitionError, EngineNotOpen, RunFailed, RunNotFound
from perdure.model.records import Kind, Status
from perdure.store.sqlite.store import SqliteStore
from tests.crash.procs import SERVER
from tests.engine.desk import (
    ORDER,
    PATIENCE,
    RECEIPT,
    Order,
    Refused,
    chore,
    engine_at,
    errand,
    in_loop,
    job,
    until,
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
        assert raised.value.__notes__ == ["run 'r' of refuses failed in work#1 (attempt 1)"]


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


# -- waiting


@in_loop
async def test_many_wait_for_one_run_on_its_engine_and_on_others(path, desk):
    gate = desk.hold("first")
    async with (
        engine_at(path, errand, desk=desk) as engine,
        engine_at(path, errand, desk=desk, concurrency=1) as second,
        engine_at(path, errand).client() as client,
    ):
        await engine.enqueue(errand, ORDER, run_id="r")
        await gate.arrival()
        waiting = [asyncio.create_task(one.get("r", errand).result()) for one in [engine, second, client] * 20]
        waiting += [asyncio.create_task(one.run(errand, ORDER, run_id="r")) for one in (engine, second, client)]
        gate.open()
        assert await asyncio.gather(*waiting) == [RECEIPT] * 63
        assert desk.keys() == ["work#1", "work_twice#1"]


@pytest.mark.parametrize("how", ["timeout", "cancel", "wait_for"])
@in_loop
async def test_giving_up_leaves_the_run_alone(path, desk, how):
    gate = desk.hold("first")
    async with engine_at(path, errand, desk=desk) as engine:
        running = asyncio.create_task(engine.run(errand, ORDER, run_id="r"))
        await gate.arrival()
        handle = engine.get("r", errand)
        if how == "timeout":
            with pytest.raises(TimeoutError, match=r"'r' has not ended within 0\.01 s"):
                await handle.result("10ms")
        elif how == "wait_for":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(handle.result(), 0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        gate.open()
        assert await handle.result(timeout=10) == RECEIPT
        kinds = {event.kind async for event in handle.events()}
        assert Kind.CANCEL_DELIVERED not in kinds
        assert len(desk.begun) == 2


@in_loop
async def test_a_caller_cancelled_at_any_moment_leaves_no_run_behind_that_nobody_executes(path, desk):
    async with engine_at(path, job, desk=desk) as engine:
        for turns in range(6):
            caller = asyncio.create_task(engine.run(job, turns, run_id=f"r{turns}"))
            for _ in range(turns):
                await asyncio.sleep(0)
            caller.cancel()
            await asyncio.wait([caller])
        busy = threading.Event()
        engine._journal.call(lambda: busy.wait(PATIENCE), background=True)
        caller = asyncio.create_task(engine.run(job, 9, run_id="busy"))
        await until(lambda: engine._journal._verbs)
        caller.cancel()
        await asyncio.wait([caller])
        busy.set()
        rows = [row async for row in engine.runs()]
        assert "busy" in {row.run_id for row in rows}
        for row in rows:
            await engine.get(row.run_id).result(timeout=5)


@in_loop
async def test_an_end_that_was_undone_before_it_was_read_is_not_given_out(path, desk):
    """The row says failed, and the log that is read after it goes on: the run has been resumed in between."""

    class Late(SqliteStore):
        seen = None

        def get_runs(self, run_keys):
            rows = super().get_runs(run_keys)
            if self.seen is not None:
                rows, self.seen = self.seen, None
            return rows

    desk.fails["bad"] = [Refused()]
    store = Late(path)
    async with engine_at(store, refuses, desk=desk) as engine:
        with pytest.raises(Refused):
            await engine.run(refuses, run_id="r")
        handle = engine.get("r", refuses)
        seen = [await handle.row()]
        await handle.resume()
        await handle.result()
    async with engine_at(store, refuses).client() as client:
        store.seen = seen
        assert await client.get("r", refuses).result(timeout=5) is None
        assert store.seen is None
    store.close()


@in_loop
async def test_a_runs_own_timeout_is_raised_as_itself(path, desk):
    desk.fails["bad"] = TimeoutError("its own")
    async with engine_at(path, refuses, desk=desk) as engine:
        handle = await engine.enqueue(refuses, run_id="r")
        with pytest.raises(TimeoutError, match="its own"):
            await handle.result(timeout=10)


@in_loop
async def test_waiting_for_nothing_and_for_nonsense_is_refused(path):
    async with engine_at(path, chore).client() as client:
        handle = client.get("nobody")
        for act in (handle.result, handle.view, handle.row, handle.cancel, handle.resume):
            with pytest.raises(RunNotFound, match="nobody"):
                await act()
        with pytest.raises(RunNotFound):
            await anext(handle.events())
        with pytest.raises(DefinitionError, match="timeout"):
            await handle.result(timeout="soon")
    with pytest.raises(EngineNotOpen):
        await handle.result()


@in_loop
async def test_a_result_waited_for_while_the_run_fails_and_is_resumed_is_the_last_one(path, desk):
    desk.fails["bad"] = [Refused()]
    async with engine_at(path, refuses, desk=desk) as engine, engine_at(path).client() as client:
        with pytest.raises(Refused):
            await engine.run(refuses, run_id="r")
        gate = desk.hold("bad")
        await engine.get("r").resume()
        waiting = asyncio.create_task(client.get("r", refuses).result())
        await gate.arrival()
        assert not waiting.done()
        gate.open()
        assert await waiting is None


@in_loop
async def test_orders_differ_by_value_not_by_spelling(path, desk):
    async with engine_at(path, errand, desk=desk).client() as client:
        first = await client.enqueue(errand, Order("42", naps=False), run_id="r")
        again = await client.enqueue(errand, Order(id="42"), run_id="r")
        assert first.run_key == (await again.row()).run_key
