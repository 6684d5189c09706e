"""Starting, stopping, clients, loops and threads."""

from __future__ import annotations

import asyncio
import threading

import pytest

from perdure import Engine, step, workflow
from perdure.errors import DefinitionError, EngineNotOpen, StoreGone, StoreUnreachable, WrongState
from perdure.model.records import Status
from perdure.store.open import open_store
from tests.engine.desk import ORDER, PATIENCE, RECEIPT, chore, engine_at, errand, in_loop, job, until

released = threading.Event()


@step
def deaf() -> str:
    assert released.wait(PATIENCE)
    return "heard"


@workflow
async def does_not_listen() -> str:
    return await deaf.aio()


@in_loop
async def test_before_it_is_open_and_after_it_is_closed_everything_says_so(path):
    engine = engine_at(path, chore)
    acts = [
        lambda: engine.enqueue(chore),
        lambda: engine.enqueue_many(chore, []),
        lambda: engine.run(chore),
    ]
    for _ in range(2):
        for act in acts:
            with pytest.raises(EngineNotOpen, match="not open") as raised:
                await act()
            assert "engine.client()" in raised.value.advice
        for act in (lambda: engine.get("r"), engine.runs):
            with pytest.raises(EngineNotOpen):
                act()
        await engine.idle()
        async with engine.client():
            handle = engine.get("r")
        for act in (handle.view, handle.row, handle.result, handle.cancel, handle.resume):
            with pytest.raises(EngineNotOpen):
                await act()
        with pytest.raises(EngineNotOpen):
            await anext(handle.events())


@in_loop
async def test_stop_without_start_does_nothing(path):
    engine = engine_at(path, chore)
    assert await engine.stop() == []
    async with engine.client():
        assert await engine.stop() == []
        await engine.enqueue(chore)


@in_loop
async def test_a_second_start_is_refused_and_the_first_goes_on(path, desk):
    async with engine_at(path, chore, desk=desk) as engine:
        with pytest.raises(WrongState, match="started already"):
            await engine.start()
        assert await engine.run(chore) == "chore"


@in_loop
async def test_of_two_starts_at_once_one_is_refused(path, desk):
    engine = engine_at(path, chore, desk=desk)
    first, second = await asyncio.gather(engine.start(), engine.start(), return_exceptions=True)
    assert (first, type(second)) == (None, WrongState)
    assert len(engine._store.list_workers()) == 1
    await asyncio.gather(engine.stop(), engine.stop())
    assert engine._store is None


@in_loop
async def test_it_starts_again_after_a_stop_and_handles_still_serve(path, desk):
    engine = engine_at(path, errand, desk=desk)
    handles = []
    for n in range(3):
        async with engine:
            handles.append(await engine.enqueue(errand, ORDER, run_id=f"r{n}"))
            assert [await handle.result() for handle in handles] == [RECEIPT] * (n + 1)
            assert (await handles[0].view()).status is Status.COMPLETED


@in_loop
async def test_a_start_that_fails_leaves_it_as_it_was(tmp_path, desk):
    (tmp_path / "file").write_text("no store")
    engine = engine_at(tmp_path / "file" / "x.db", chore, desk=desk)
    with pytest.raises(StoreUnreachable):
        await engine.start()
    (tmp_path / "file").unlink()
    async with engine:
        assert await engine.run(chore) == "chore"


@in_loop
async def test_a_store_that_goes_while_the_engine_starts_is_no_store_to_start_on(tmp_path, desk, caplog):
    path = tmp_path / "runs.db"

    async def tools():
        engine._store.list_workers()  # so that it is open for reading, too
        path.rename(path.with_name("elsewhere"))
        await until(lambda: "removed or replaced" in caplog.text)

    engine = engine_at(path, chore, desk=tools)
    with pytest.raises(StoreGone):
        await engine.start()
    path.with_name("elsewhere").rename(path)
    async with engine_at(path, chore, desk=desk) as engine:
        assert await engine.run(chore) == "chore"


@in_loop
async def test_a_client_executes_nothing(path, desk):
    async with engine_at(path, chore, desk=desk).client() as client:
        handle = await client.enqueue(chore)
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.run(chore, run_id="r"), 0.1)
        assert client._store.list_workers() == []
        assert {row.status async for row in client.runs()} == {Status.PENDING}
    assert not desk.begun


@in_loop
async def test_a_client_inside_a_started_engine_and_in_another_client_closes_nothing(path, desk):
    engine = engine_at(path, chore, desk=desk)
    async with engine, engine.client() as client:
        assert client is engine
        async with engine.client():
            pass
        assert await engine.run(chore) == "chore"
    async with engine.client():
        async with engine:
            pass
        async with engine.client():
            pass
        assert len([row async for row in engine.runs()]) == 1
    assert engine._store is None


@in_loop
async def test_whoever_waits_while_the_engine_stops_is_told_and_the_run_goes_on(path, desk):
    gate = desk.hold("chore")
    engine = engine_at(path, chore, desk=desk)
    await engine.start()
    handle = await engine.enqueue(chore, run_id="r")
    await gate.arrival()
    waiting = [asyncio.create_task(one) for one in (handle.result(), engine.run(chore, run_id="r"))]
    following = asyncio.create_task(_drain(handle.events(follow=True)))
    await asyncio.sleep(0)
    assert await engine.stop(drain=0) == []
    for task in (*waiting, following):
        with pytest.raises(EngineNotOpen):
            await task
    gate.open()
    async with engine_at(path, chore, desk=desk) as second:
        assert await second.get("r", chore).result() == "chore"
    assert [begun.attempt for begun in desk.begun] == [1, 1]


@in_loop
async def test_what_is_asked_of_the_store_while_the_engine_stops_is_told_why_it_fails(path):
    engine = engine_at(path, chore)
    await engine.start()
    operations = engine._ops
    await engine.stop()
    with pytest.raises(EngineNotOpen, match="stopped"):
        await operations.row("r")


async def _drain(events):
    return [event async for event in events]


@in_loop
async def test_a_run_that_does_not_heed_the_stop_is_named_and_given_back_once_it_has_settled(path):
    released.clear()
    engine = engine_at(path, does_not_listen)
    await engine.start()
    handle = await engine.enqueue(does_not_listen, run_id="r")
    worker = engine._worker
    await until(lambda: any(run.in_flight for run in worker.running.values()))
    waiting = asyncio.create_task(handle.result())
    await asyncio.sleep(0)
    assert await engine.stop(drain=0, grace=0) == ["r"]
    with pytest.raises(EngineNotOpen):
        await waiting
    async with engine:  # again, beside what is left of before
        row = await handle.row()
        assert (row.status, row.worker_key) == (Status.RUNNING, worker.key)
        released.set()
        assert await handle.result() == "heard"
        await until(lambda: worker.key not in [one.worker_key for one in engine._store.list_workers()])


@in_loop
async def test_two_engines_of_one_process_share_a_store(path, desk):
    async with engine_at(path, errand, desk=desk) as one, engine_at(path, errand, desk=desk) as two:
        runs = [(one, two)[n % 2].run(errand, ORDER, run_id=f"r{n}") for n in range(20)]
        assert await asyncio.gather(*runs) == [RECEIPT] * 20
        assert len(desk.begun) == 40
        handles = [await one.enqueue(errand, ORDER, run_id=f"r{n}") for n in range(20)]
        assert [await two.get(handle.run_id, errand).result() for handle in handles] == [RECEIPT] * 20


@in_loop
async def test_an_open_store_is_used_and_left_open(path, desk):
    store = open_store(path, durability="process")
    for _ in range(2):
        async with Engine(store, workflows=[chore], tools=desk) as engine:
            assert await engine.run(chore) == "chore"
    assert store.get_run("nobody") is None
    store.close()


@in_loop
async def test_on_another_loop_it_says_so_and_stays_usable_on_its_own(path, desk):
    async with engine_at(path, chore, desk=desk) as engine:
        handle = await engine.enqueue(chore)

        async def elsewhere():
            acts = [engine.start, engine.stop, engine.tick, handle.result, handle.view]
            acts += [lambda: engine.run(chore), lambda: engine.enqueue(chore), lambda: anext(handle.events())]
            for act in acts:
                with pytest.raises(WrongState, match="another event loop") as raised:
                    await act()
                assert "perdure.sync.Engine" in raised.value.advice
            with pytest.raises(WrongState, match="another event loop"):
                async with engine.client():
                    pass

        await asyncio.to_thread(asyncio.run, elsewhere())
        with pytest.raises(WrongState):
            await asyncio.to_thread(engine.runs)
        assert await handle.result() == "chore"


def test_an_engine_whose_loop_is_gone_says_so(path):
    engine = engine_at(path, chore)
    asyncio.run(engine.start())
    with pytest.raises(WrongState, match="closed since"):
        asyncio.run(engine.start())
    engine._abandon()
    engine._close()


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0}, {"concurrency": "many"}, {"concurrency": True}, {"threads": 0}, {"crash_cap": 0},
        {"lease": "soon"}, {"lease": 0}, {"heartbeat": "30s", "lease": "30s"}, {"workflows": [released]},
    ],
)  # fmt: skip
def test_wrong_options_are_refused_where_they_are_written(path, options):
    with pytest.raises(DefinitionError):
        Engine(path, **options)


@in_loop
async def test_a_slot_is_filled_again_while_a_slow_run_goes_on_in_another(path, desk):
    gate = desk.hold("0")
    async with engine_at(path, job, desk=desk, concurrency=2) as engine:
        slow = await engine.enqueue(job, 0)
        await gate.arrival()
        quick = await engine.enqueue_many(job, range(1, 6))
        assert [await handle.result() for handle in quick] == [n + 1 for n in range(1, 6)]
        assert (await slow.row()).status is Status.RUNNING
        gate.open()
        assert await slow.result() == 1


@pytest.mark.parametrize("limits", [{"drain": "soon"}, {"grace": -1}])
@in_loop
async def test_a_stop_with_wrong_limits_is_refused_and_stops_nothing(path, desk, limits):
    async with engine_at(path, chore, desk=desk) as engine:
        with pytest.raises(DefinitionError, match=next(iter(limits))):
            await engine.stop(**limits)
        assert await engine.run(chore) == "chore"


@in_loop
async def test_a_stop_that_is_cancelled_can_be_made_again(path, desk):
    gate = desk.hold("chore")
    engine = engine_at(path, chore, desk=desk)
    await engine.start()
    handle = await engine.enqueue(chore, run_id="r")
    await gate.arrival()
    for turns in range(8):
        stopping = asyncio.create_task(engine.stop())
        for _ in range(turns):
            await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
    gate.open()
    assert await engine.stop() == []
    async with engine:
        assert await handle.result() == "chore"
    assert desk.keys() == ["work#1"]
