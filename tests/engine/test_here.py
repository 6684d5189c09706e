"""``perdure.run`` and ``perdure.arun``: where they may be called, and what Ctrl-C and cancelling do."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading

import pytest

import perdure
from perdure.errors import ColourError, RunConflict
from perdure.model.records import Kind, Status
from perdure.store.open import open_store
from tests.engine.desk import ORDER, PATIENCE, RECEIPT, chore, engine_at, errand, in_loop
from tests.house import tree


class Program:
    """A program that calls ``perdure.run``, as often as it is started."""

    def __init__(self, folder, store):
        self.store, self.gate = store, folder / "gate"
        self.processes = []

    def start(self, name, *run_id):
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.script", str(self.store), name, *run_id],
            cwd=tree.ROOT, env=os.environ | {"GATE": str(self.gate), "PYTHONPATH": str(tree.ROOT / "src")}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.processes.append(child)
        return child

    def begun(self, name, *run_id):
        child = self.start(name, *run_id)
        assert child.stdout.readline() == "begun 1\n", child.stderr.read()
        return child

    def log(self, run_id="r"):
        store = open_store(self.store)
        try:
            row = store.get_run(run_id)
            return row, [Kind(event.kind) for event in store.read_events(row.run_key)]
        finally:
            store.close()

    def goes_on(self, name, run_id="r"):
        """What the same call prints, once nothing holds the steps."""
        self.gate.touch()
        out, err = self.start(name, run_id).communicate(timeout=PATIENCE)
        assert "Traceback" not in err
        return out.split("\n")[:-1]


@pytest.fixture
def program(tmp_path, path):
    program = Program(tmp_path, path)
    yield program
    for child in program.processes:
        child.kill()
        child.communicate()


def test_the_first_ctrl_c_lets_the_step_finish_and_says_so(program):
    child = program.begun("polite", "r")
    child.send_signal(signal.SIGINT)
    assert child.stderr.readline() == (
        "perdure: stopping; wait_for_gate#1 may finish for 5 s, Ctrl-C again to stop now; "
        "the run goes on when you run this again\n"
    )
    program.gate.touch()
    out, err = child.communicate(timeout=PATIENCE)
    assert (child.returncode, out, err.splitlines()[-1]) == (-signal.SIGINT, "", "KeyboardInterrupt")
    row, kinds = program.log()
    assert kinds[-2:] == [Kind.STEP_COMPLETED, Kind.RUN_RELEASED]
    assert row.crashes == 0
    assert program.goes_on("polite") == ["last", "passed"]


@pytest.mark.parametrize("name", ["polite", "deaf"])
def test_the_second_ctrl_c_stops_at_once_and_uses_up_no_attempt(program, name):
    child = program.begun(name, "r")
    child.send_signal(signal.SIGINT)
    assert "Ctrl-C again" in child.stderr.readline()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=4)
    assert (child.returncode, err.splitlines()[-1]) == (-signal.SIGINT, "KeyboardInterrupt")
    row, kinds = program.log()
    assert row.status is Status.RUNNING
    assert not {Kind.STEP_FAILED, Kind.RUN_FAILED, Kind.STEP_CANCELLED} & set(kinds)
    assert program.goes_on(name) == ["begun 1", "last", "passed"]
    assert program.log()[0].crashes == 0


@pytest.mark.parametrize("name", ["blocking", "spinning"])
def test_code_that_blocks_the_loop_is_interrupted_by_the_second_ctrl_c(program, name):
    child = program.begun(name, "r")
    while child.poll() is None:  # the second of two that come as one is never seen
        child.send_signal(signal.SIGINT)
        try:
            child.wait(0.3)
        except subprocess.TimeoutExpired:
            continue
    _, err = child.communicate(timeout=PATIENCE)
    assert (child.returncode, err.splitlines()[-1]) == (-signal.SIGINT, "KeyboardInterrupt")
    assert not {Kind.STEP_FAILED, Kind.RUN_FAILED} & set(program.log()[1])
    assert program.goes_on(name)[-2:] == ["last", "passed"]
    assert program.log()[0].crashes == 0


def test_with_no_step_in_progress_ctrl_c_stops_at_once(program):
    child = program.begun("sleeping", "r")
    while program.log()[0].status is not Status.SLEEPING:
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=4)
    assert err.splitlines()[0] == "perdure: stopped; the run goes on when you run this again"
    assert child.returncode == -signal.SIGINT
    assert program.log()[0].status is Status.SLEEPING


def test_a_run_without_a_name_is_told_how_it_goes_on(program):
    child = program.begun("polite")
    child.send_signal(signal.SIGINT)
    said = child.stderr.readline()
    run_id = re.search(r"goes on when you run this again with run_id='([0-9a-f-]{36})'$", said.strip())[1]
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=4)
    assert program.goes_on("polite", run_id)[-1] == "passed"


# -- in this process


@pytest.fixture
def here(path, desk):
    return {"run_id": "r", "store": path, "tools": desk, "durability": "process"}


def test_it_runs_and_gives_the_recorded_result_ever_after(here, desk):
    assert [perdure.run(errand, ORDER, **here) for _ in range(3)] == [RECEIPT] * 3
    assert len(desk.begun) == 2
    del here["run_id"]
    assert perdure.run(errand, ORDER, **here) == RECEIPT
    assert len(desk.begun) == 4


@in_loop
async def test_where_a_loop_runs_it_names_the_other_spelling(here, desk):
    with pytest.raises(ColourError) as raised:
        perdure.run(errand, ORDER, **here)
    assert "await perdure.arun" in raised.value.advice
    assert await asyncio.to_thread(perdure.run, errand, ORDER, **here) == RECEIPT


def test_it_runs_in_threads_side_by_side(here, desk):
    found = []
    calls = [
        threading.Thread(target=lambda n=n: found.append(perdure.run(errand, ORDER, **here | {"run_id": f"r{n % 2}"})))
        for n in range(4)
    ]
    for call in calls:
        call.start()
    for call in calls:
        call.join(PATIENCE)
    assert found == [RECEIPT] * 4
    assert len(desk.begun) == 4


def test_a_programs_own_handling_of_ctrl_c_is_left_alone(here):
    def mine(_number, _frame):
        raise AssertionError

    before = signal.signal(signal.SIGINT, mine)
    try:
        perdure.run(errand, ORDER, **here)
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
    perdure.run(errand, ORDER, **here)
    assert signal.getsignal(signal.SIGINT) is before


@in_loop
async def test_cancelling_lets_the_step_finish_and_says_so(here, desk, capsys):
    gate = desk.hold("first")
    running = asyncio.create_task(perdure.arun(errand, ORDER, **here))
    await gate.arrival()
    running.cancel()
    said = ""
    while not said:
        await asyncio.sleep(0)
        said = capsys.readouterr().err
    assert said == "perdure: stopping; work#1 may finish for 5 s; the run goes on when you run this again\n"
    assert not running.done()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await perdure.arun(errand, ORDER, **here) == RECEIPT
    assert desk.keys() == ["work#1", "work_twice#1"]


@in_loop
async def test_cancelling_one_that_waits_for_another_says_nothing(here, path, desk, capsys):
    gate = desk.hold("first")
    async with engine_at(path, errand, desk=desk) as engine:
        handle = await engine.enqueue(errand, ORDER, run_id="r")
        await gate.arrival()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(perdure.arun(errand, ORDER, **here), 0.1)
        assert capsys.readouterr().err == ""
        gate.open()
        assert await handle.result() == RECEIPT
    assert desk.keys() == ["work#1", "work_twice#1"]


@in_loop
async def test_only_its_own_run_is_executed(here, path, desk):
    async with engine_at(path).client() as client:
        await client.enqueue(errand, ORDER, run_id="another")
        assert await perdure.arun(errand, ORDER, **here) == RECEIPT
        assert (await client.get("another").row()).status is Status.PENDING


@in_loop
async def test_a_run_of_another_version_is_a_conflict_until_it_has_ended(here, path, desk, clock):
    newer = perdure.workflow(name="chore", version="2")(chore.fn)
    async with engine_at(path).client() as client:
        await client.enqueue(chore, run_id="r")
    with pytest.raises(RunConflict) as raised:
        await perdure.arun(newer, **here)
    assert (raised.value.recorded, raised.value.found) == ("1", "2")
    assert await perdure.arun(chore, **here) == "chore"
    assert await perdure.arun(newer, **here) == "chore"
