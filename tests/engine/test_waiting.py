"""Waiting for runs: from several places, giving up, and what happens meanwhile."""

from __future__ import annotations

import asyncio
import threading

import pytest

from perdure import workflow
from perdure.errors import DefinitionError, EngineNotOpen, RunCancelled, RunNotFound
from perdure.model.records import Kind, Status, Verdict
from perdure.store.open import open_store
from perdure.testing.store_suite import Bench, Holder
from tests.engine.desk import (
    ORDER,
    PATIENCE,
    RECEIPT,
    Refused,
    asked,
    chore,
    engine_at,
    errand,
    in_loop,
    job,
    until,
    work,
)


@workflow
async def refuses() -> None:
    await work("bad")


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
        await engine.idle()
        begun, busy = threading.Event(), threading.Event()
        engine._journal.outside.call(lambda: begun.set() or busy.wait(PATIENCE), background=True)
        await until(begun.is_set)
        caller = asyncio.create_task(engine.run(job, 9, run_id="busy"))
        for _ in range(20):  # by then it has asked; what else may be asked meanwhile is no sign of that
            await asyncio.sleep(0)
        assert asked(engine)
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

    outdated = []
    store = open_store(path)
    over = store.over
    store.over = lambda run_keys, limit: outdated.pop() if outdated else over(run_keys, limit)
    store.start_over = lambda *_: None
    desk.fails["bad"] = [Refused()]
    async with engine_at(store, refuses, desk=desk) as engine:
        with pytest.raises(Refused):
            await engine.run(refuses, run_id="r")
        handle = engine.get("r", refuses)
        row = await handle.row()
        await handle.resume()
        await handle.result()
    async with engine_at(store, refuses).client() as client:
        outdated.append([(row.run_key, row)])
        assert await client.get("r", refuses).result(timeout=5) is None
        assert outdated == []
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
async def test_while_nothing_changes_no_run_is_looked_up_that_is_waited_for(path, desk):
    gate = desk.hold("first")
    async with engine_at(path, errand, desk=desk, concurrency=1) as engine:
        store, looked_up, quiet = engine._store, [], []
        over = store.over
        store.over = lambda keys, limit: looked_up.append(keys) or over(keys, limit)
        store.start_over = lambda *_: None
        handles = [await engine.enqueue(errand, ORDER) for _ in range(2)]
        await gate.arrival()
        results = [asyncio.create_task(handle.result()) for handle in handles]  # one is executed here, one is not

        def looked(changed):
            quiet.append(len(looked_up)) if not changed else quiet.clear()

        forget = engine._watch.listen(looked)
        await until(lambda: len(quiet) > 4)
        forget()
        assert quiet[1] == quiet[4]
        gate.open()
        assert await asyncio.gather(*results) == [RECEIPT] * 2


@in_loop
async def test_whoever_waits_for_a_run_that_ends_elsewhere_while_it_is_executed_here_is_told(path, desk):
    """What others have committed is seen while the run is still executed here, and nobody commits anything more."""
    gate = desk.hold("chore")
    async with engine_at(path, chore, desk=desk, lease=600, heartbeat=200) as engine:
        handle = await engine.enqueue(chore, run_id="r")
        await gate.arrival()
        waiting = asyncio.create_task(handle.result())
        seen = engine._home.waiting.changes
        worker = engine._worker
        with Bench(lambda: open_store(path)) as bench:
            bench.store.release(worker.key, [handle.run_key])
            other = bench.worker(routes=worker._routes)
            (claim,) = bench.store.claim_runs(other, worker._routes, 1, only=handle.run_key)
            holder = Holder(bench.store, other, claim)
            assert holder.commit(holder.end(Status.CANCELLED)) == [Verdict.APPLIED]
            bench.store.retire_worker(other)
        await until(lambda: engine._home.waiting.changes > seen)
        gate.open()
        with pytest.raises(RunCancelled):
            await waiting
