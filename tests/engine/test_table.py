"""Run, attach, enqueue, by the state of the run that is there."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack

import pytest

import perdure
from perdure.errors import RunBlocked, RunCancelled, RunConflict
from perdure.model.records import Status
from tests.crash.procs import SERVER
from tests.engine.desk import (
    ORDER,
    PATIENCE,
    RECEIPT,
    Order,
    Refused,
    die_in_the_second_step,
    engine_at,
    errand,
    in_loop,
    other,
    until,
)

RUN = ["perdure.run", "perdure.arun", "engine.run"]
NAPS = Order("42", naps=True)


class Place:
    """A store with a run ``r`` in some state, the desk of its steps, and the doors to it."""

    def __init__(self, path, desk, clock):
        self.path, self.desk, self.clock = path, desk, clock
        self.order = ORDER
        self.stack = AsyncExitStack()

    def engine(self, *workflows):
        return engine_at(self.path, *(workflows or (errand,)), desk=self.desk, clock=self.clock)

    async def run(self, door, workflow=errand, order=None):
        order = order or self.order
        here = {"run_id": "r", "store": self.path, "tools": self.desk, "clock": self.clock, "durability": "process"}
        if door == "perdure.run":
            return await asyncio.to_thread(perdure.run, workflow, order, **here)
        if door == "perdure.arun":
            return await perdure.arun(workflow, order, **here)
        async with self.engine(workflow) as engine:
            return await engine.run(workflow, order, run_id="r")

    async def enter(self, door, workflow, order):
        if door != "enqueue":
            return await self.run(door, workflow, order)
        async with self.engine().client() as client:
            return await client.enqueue(workflow, order, run_id="r")

    async def row(self):
        async with self.engine().client() as client:
            return await client.get("r").row()


@pytest.fixture
def place(path, desk, clock):
    return Place(path, desk, clock)


async def absent(place):
    pass


async def pending(place):
    async with place.engine().client() as client:
        await client.enqueue(errand, ORDER, run_id="r")


async def sleeping(place):
    place.order = NAPS
    async with place.engine() as engine:
        await engine.enqueue(errand, NAPS, run_id="r")
        await engine.idle()


async def retrying(place):
    place.desk.fails["second"] = [Refused("once")]
    async with place.engine() as engine:
        await engine.enqueue(errand, ORDER, run_id="r")
        await engine.idle()


async def running(place):
    gate = place.desk.hold("second")
    owner = await place.stack.enter_async_context(place.engine())
    await owner.enqueue(errand, ORDER, run_id="r")
    await gate.arrival()


async def owner_dead(place):
    process = SERVER.Process(target=die_in_the_second_step, args=(place.path,))
    process.start()
    await asyncio.to_thread(process.join, PATIENCE)
    assert process.exitcode == -signal.SIGKILL


async def completed(place):
    async with place.engine() as engine:
        await engine.run(errand, ORDER, run_id="r")


async def failed(place):
    place.desk.fails["second"] = [Refused("once"), Refused("twice")]
    async with place.engine() as engine:
        await engine.enqueue(errand, ORDER, run_id="r")
        await place.clock.armed()
        place.clock.advance("1h")
        with pytest.raises(Refused):
            await engine.get("r").result()


async def cancelled(place):
    await sleeping(place)
    async with place.engine().client() as client:
        await client.get("r").cancel("not wanted")


async def blocked(place):
    await sleeping(place)
    async with place.engine().client() as client:
        row = await client.get("r").row()
        assert client._store.block_run(row.run_key, row.epoch, b'{"reason":"look at it"}', "look at it")


STATES = [absent, pending, sleeping, retrying, running, owner_dead, completed, failed, cancelled, blocked]


@in_loop
async def started(place, state, act):
    await state(place)
    async with place.stack:
        try:
            await act()
        finally:
            for gate in place.desk.gates.values():
                gate.open()


@pytest.mark.parametrize("door", RUN)
@pytest.mark.parametrize("state", [absent, pending, owner_dead])
def test_what_is_due_is_executed_here_at_once(place, door, state):
    async def act():
        assert await place.run(door) == RECEIPT
        left = ["work_twice#1"] if state is owner_dead else ["work#1", "work_twice#1"]
        assert place.desk.keys() == left
        assert {begun.attempt for begun in place.desk.begun} == {1}

    started(place, state, act)


@pytest.mark.parametrize("door", RUN)
@pytest.mark.parametrize(("state", "status"), [(sleeping, Status.SLEEPING), (retrying, Status.RETRYING)])
def test_what_waits_is_executed_here_as_soon_as_it_is_due(place, door, state, status):
    async def act():
        assert (await place.row()).status is status
        before = place.desk.keys()
        result = asyncio.create_task(place.run(door))
        await place.clock.armed()
        place.clock.advance("59m")
        assert (await place.row()).status is status
        assert place.desk.keys() == before
        place.clock.advance("1m")
        assert (await result).parts == ("first", "second")
        assert place.desk.keys().count("work#1") == 1

    started(place, state, act)


@pytest.mark.parametrize("door", RUN)
def test_what_a_living_owner_executes_is_waited_for(place, door):
    async def act():
        result = asyncio.create_task(place.run(door))
        async with place.engine().client() as client:
            await until(lambda: len(client._store.list_workers()) == 2)
        assert not result.done()
        place.desk.gates["second"].open()
        assert await result == RECEIPT
        assert place.desk.keys() == ["work#1", "work_twice#1"]

    started(place, running, act)


@pytest.mark.parametrize("door", RUN)
def test_a_completed_run_gives_its_recorded_result_and_runs_nothing(place, door):
    async def act():
        assert await place.run(door) == RECEIPT
        assert len(place.desk.begun) == 2

    started(place, completed, act)


@pytest.mark.parametrize("door", ["perdure.run", "perdure.arun"])
def test_a_failed_run_goes_on_here_from_what_failed(place, door):
    async def act():
        assert await place.run(door) == RECEIPT
        assert place.desk.keys() == ["work#1", *["work_twice#1"] * 3]

    started(place, failed, act)


def test_an_engine_raises_the_recorded_error_of_a_failed_run(place):
    async def act():
        with pytest.raises(Refused, match="twice"):
            await place.run("engine.run")
        assert len(place.desk.begun) == 3

    started(place, failed, act)


@pytest.mark.parametrize("door", RUN)
@pytest.mark.parametrize(
    ("state", "error", "reason"), [(cancelled, RunCancelled, "not wanted"), (blocked, RunBlocked, "look at it")]
)
def test_a_run_that_needs_a_person_raises_with_the_reason(place, door, state, error, reason):
    async def act():
        before = await place.row()
        with pytest.raises(error, match=reason) as raised:
            await place.run(door)
        assert "resume" in "".join(raised.value.__notes__)
        assert await place.row() == before

    started(place, state, act)


@pytest.mark.parametrize("door", [*RUN, "enqueue"])
@pytest.mark.parametrize("state", STATES[1:])
def test_an_id_that_is_taken_is_a_conflict_in_every_state(place, door, state):
    async def act():
        before = (await place.row()).status, len(place.desk.begun)
        taken = [(other, place.order, ("errand", "other")), (errand, Order("43"), ('"42"', '"43"'))]
        for workflow, order, (recorded, found) in taken:
            with pytest.raises(RunConflict) as raised:
                await place.enter(door, workflow, order)
            assert recorded in raised.value.recorded
            assert found in raised.value.found
        if state is not pending:  # an engine that starts there may execute it before it refuses the other
            assert ((await place.row()).status, len(place.desk.begun)) == before

    started(place, state, act)


@pytest.mark.parametrize("state", STATES)
def test_enqueue_creates_or_attaches_and_changes_nothing(place, state):
    async def act():
        before = None if state is absent else await place.row()
        async with place.engine().client() as client:
            handle = await client.enqueue(errand, place.order, run_id="r")
            row = await handle.row()
            assert row == before or (state is absent and row.status is Status.PENDING)

    started(place, state, act)
