"""``perdure worker``: it executes what is there, and stops when asked to."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from perdure import Engine, workflow
from tests.cli import shop
from tests.cli.conftest import PATIENCE, SHOP, until
from tests.house import tree


@pytest.fixture
def enqueue(store):
    def put(workflow, run_id):
        async def main():
            engine = Engine(str(store))
            async with engine.client():
                await engine.enqueue(workflow, shop.Order(id=run_id), run_id=run_id)

        asyncio.run(main())

    return put


def kinds(events):
    return [event.word for event in events]


@pytest.mark.parametrize("target", [f"{SHOP}:slow", SHOP, f"{SHOP}:engine"])
def test_sigterm_lets_steps_finish_and_the_rest_goes_on_later(start, enqueue, effects, gate, log, target):
    enqueue(shop.slow, "a")
    child = start("worker", target)
    until(lambda: "hold a" in effects(), child)
    child.send_signal(signal.SIGTERM)
    said = [child.stderr.readline() for _ in range(3)]
    assert "executes" in said[0]
    assert "draining" in said[2]
    gate("hold")
    err = child.stderr.read()
    assert (child.wait(timeout=20), child.stdout.read()) == (0, "")
    assert "stopped" in err
    assert kinds(log("a"))[-1] in {"run_released", "run_completed"}
    assert {event.key for event in log("a") if event.took is not None} == {"charge#1", "hold#1"}


def test_a_second_signal_aborts_what_is_in_flight(start, enqueue, effects, log):
    enqueue(shop.slow, "a")
    child = start("worker", SHOP)
    until(lambda: "hold a" in effects(), child)
    child.send_signal(signal.SIGTERM)
    until(lambda: "draining" in child.stderr.readline(), child)
    child.send_signal(signal.SIGINT)
    err = child.stderr.read()
    assert (child.wait(timeout=20), "stopped" in err) == (0, True)
    assert kinds(log("a"))[-1] == "run_released"


def test_what_was_not_finished_goes_on_with_the_next_worker(start, enqueue, effects, gate, log):
    enqueue(shop.slow, "a")
    first = start("worker", SHOP)
    until(lambda: "hold a" in effects() and any(event.key == "charge#1" for event in log("a")), first)
    first.kill()
    first.wait()
    gate("hold")
    second = start("worker", SHOP)
    until(lambda: kinds(log("a"))[-1] == "run_completed", second)
    second.send_signal(signal.SIGINT)
    assert second.wait(timeout=20) == 0
    assert effects().count("charge a") == 1


@workflow
async def frozen() -> int:
    raise NotImplementedError("the worker has code of its own")


FROZEN = """
import gc
from perdure import step, workflow

@step
def count() -> int:
    return gc.get_freeze_count()

@workflow
async def frozen() -> int:
    return await count.aio()
"""


def test_what_a_worker_has_imported_is_nothing_that_its_collector_goes_over(start, store, tmp_path):
    (tmp_path / "freezing.py").write_text(FROZEN)
    start("worker", "freezing", env={"PYTHONPATH": os.pathsep.join([str(tmp_path), str(tree.PACKAGE.parent)])})

    async def main():
        async with Engine(str(store)).client() as engine:
            return await (await engine.enqueue(frozen)).result(timeout=PATIENCE)

    assert asyncio.run(main()) > 10_000


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["worker"], "Missing argument"),
        (["worker", "perdure.errors"], "there are no workflows in perdure.errors"),
        (["worker", f"{SHOP}:NOTHING"], "is neither an engine nor a workflow but int"),
        (["worker", f"{SHOP}:engine", SHOP], "give nothing beside it"),
        (["worker", SHOP, "--lease", "5s", "--heartbeat", "9s"], "must be shorter than the lease"),
        (["worker", SHOP, "--drain", "soon"], "is not a duration"),
    ],
)
def test_a_wrong_command_line_is_told_in_a_sentence(perdure, args, message):
    told = perdure(*args)
    assert told.exit_code == 2, told.stderr
    assert message in told.stderr
