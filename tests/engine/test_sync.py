"""``perdure.sync.Engine``: the engine for code without ``async``, from any thread."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure import INJECTED, StepContext, step, workflow
from perdure.errors import ColourError, EngineNotOpen, RunCancelled, RunConflict, RunNotFound, WrongState
from perdure.model.records import Kind, Status
from perdure.sync import Engine
from tests.engine.desk import ORDER, PATIENCE, RECEIPT, Order, Refused, chore, errand, job
from tests.house import tree


@step
def call_back(*, ctx: StepContext[list] = INJECTED) -> str:
    return ctx.tools[0].run(looked_at, run_id="inner")


@step
async def call_back_on_the_loop(*, ctx: StepContext[list] = INJECTED) -> str:
    with pytest.raises(ColourError, match="for ever"):
        ctx.tools[0].run(looked_at)
    return "refused"


@workflow
async def looked_at() -> str:
    return "inner"


@workflow
async def calls_back() -> str:
    return await call_back.aio()


@workflow
async def calls_back_on_the_loop() -> str:
    return await call_back_on_the_loop()


def engine_at(path, *workflows, desk=None, **options):
    return Engine(path, workflows=workflows, **{"tools": desk, "durability": "process"} | options)


def arrived(gate):
    gate.reached.result(PATIENCE)


def test_everything_an_engine_does(path, desk, clock):
    with engine_at(path, errand, job, desk=desk, clock=clock) as engine:
        assert engine.run(errand, ORDER, run_id="r") == RECEIPT
        handle = engine.enqueue(errand, ORDER, run_id="r")
        assert (handle.run_id, handle.result(), repr(handle)) == ("r", RECEIPT, "<Handle of run 'r'>")
        assert handle.row().status is handle.view().status is Status.COMPLETED
        assert engine.get("r", errand).result(timeout="5s") == engine.get("r").result(5) == RECEIPT
        many = engine.enqueue_many(job, range(120), run_ids=[f"j{n}" for n in range(120)], priority=1)
        assert [one.result() for one in many] == [n + len(str(n)) for n in range(120)]
        assert [row.run_id for row in engine.runs(workflow=job)] == [f"j{n}" for n in range(119, -1, -1)]
        rows, cursor = engine.runs(status="completed").page(limit=100)
        assert (len(rows), len(engine.runs().page(cursor)[0])) == (100, 21)
        later = engine.enqueue(errand, Order("43", naps=True), tags={"a": "b"}, idempotency_key="k")
        with pytest.raises(TimeoutError, match="has not ended"):
            later.result(timeout=0.05)
        later.cancel("enough")
        with pytest.raises(RunCancelled, match="enough"):
            later.result()
        later.resume()
        clock.advance("1h")
        assert later.result().order == "43"


def test_events_are_followed_until_the_end_and_may_be_left_early(path, desk):
    gate = desk.hold("chore")
    with engine_at(path, chore, desk=desk) as engine:
        handle = engine.enqueue(chore)
        arrived(gate)
        events = handle.events(follow=True)
        assert [next(events).kind, next(events).kind] == [Kind.RUN_CREATED, Kind.RUN_CLAIMED]
        gate.open()
        assert [event.kind for event in events][-2:] == [Kind.STEP_COMPLETED, Kind.RUN_COMPLETED]
        left = handle.events(follow=True)
        next(left)
        left.close()
        assert [event.seq for event in handle.events(after=2)] == [3, 4]


def test_errors_are_raised_on_the_calling_thread(path, desk):
    desk.fails["chore"] = Refused("no")
    with engine_at(path, chore, errand, desk=desk) as engine:
        raised = {}

        def act(name, call):
            try:
                call()
            except Exception as error:
                raised[name] = type(error), threading.current_thread().name

        calls = {
            "own": lambda: engine.run(chore),
            "none": lambda: engine.get("nobody").result(),
            "conflict": lambda: [engine.enqueue(errand, Order(n), run_id="r") for n in "ab"],
        }
        for name, call in calls.items():
            thread = threading.Thread(target=act, args=(name, call), name=name)
            thread.start()
            thread.join(PATIENCE)
        assert raised == {
            "own": (Refused, "own"), "none": (RunNotFound, "none"), "conflict": (RunConflict, "conflict")
        }  # fmt: skip


def test_many_threads_use_one_engine(path, desk):
    with engine_at(path, errand, desk=desk) as engine, ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda n: engine.run(errand, ORDER, run_id=f"r{n % 20}"), range(100)))
        assert results == [RECEIPT] * 100
        assert len(desk.begun) == 40
        assert len(list(engine.runs())) == 20


def test_whoever_waits_in_another_thread_when_it_stops_is_told(path, desk):
    gate = desk.hold("chore")
    engine = engine_at(path, chore, desk=desk)
    engine.start()
    handle = engine.enqueue(chore, run_id="r")
    arrived(gate)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(handle.result)
        while not engine._engine._home.waiting._waiting:
            assert not waiting.done()
        assert engine.stop(drain=0) == []
        with pytest.raises(EngineNotOpen):
            waiting.result(PATIENCE)
    gate.open()
    with engine:
        assert handle.result() == "chore"


def test_it_is_opened_and_closed_as_the_other(path, desk):
    engine = engine_at(path, chore, desk=desk)
    assert engine.stop() == []
    for act in (lambda: engine.run(chore), lambda: engine.enqueue(chore), lambda: engine.get("r"), engine.runs):
        with pytest.raises(EngineNotOpen):
            act()
    with engine:
        with pytest.raises(WrongState):
            engine.start()
        assert engine.run(chore) == "chore"
        with engine.client() as client:
            assert client.run(chore) == "chore"
        assert engine.run(chore) == "chore"
    with engine.client() as client:
        handle = client.enqueue(chore)
        with pytest.raises(TimeoutError):
            handle.result(0.05)
    assert engine.tick() == 1
    assert handle.result() == "chore"
    assert engine.tick() == 0
    assert engine.stop() == []
    with pytest.raises(EngineNotOpen):
        handle.result()
    assert not [thread for thread in threading.enumerate() if thread.name == "perdure-engine"]


def test_a_start_that_fails_leaves_no_thread(tmp_path):
    (tmp_path / "file").write_text("no store")
    with pytest.raises(Exception, match="file"):
        engine_at(tmp_path / "file" / "x.db", chore).start()
    assert not [thread for thread in threading.enumerate() if thread.name == "perdure-engine"]


@pytest.mark.parametrize(("definition", "said"), [(calls_back, "inner"), (calls_back_on_the_loop, "refused")])
def test_steps_may_call_it_from_threads_and_not_on_its_loop(path, definition, said):
    tools = []
    with engine_at(path, definition, looked_at, desk=tools) as engine:
        tools.append(engine)
        assert engine.run(definition) == said


def test_it_serves_inside_a_program_that_has_a_loop_of_its_own(path, desk):
    async def main():
        with engine_at(path, chore, desk=desk) as engine:
            return await asyncio.to_thread(engine.run, chore)

    assert asyncio.run(main()) == "chore"


def test_ctrl_c_ends_the_wait_and_leaves_the_engine_running(path):
    program = f"""
from perdure.sync import Engine
from tests.engine.desk import Desk, chore

desk = Desk()
gate = desk.hold("chore")
with Engine({str(path)!r}, workflows=[chore], tools=desk, durability="process") as engine:
    handle = engine.enqueue(chore)
    gate.reached.result()
    try:
        print("waiting", flush=True)
        handle.result()
    except KeyboardInterrupt:
        gate.open()
        print(handle.result(), flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", program], cwd=tree.ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "waiting\n"
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=PATIENCE)
    assert (child.returncode, out) == (0, "chore\n")
