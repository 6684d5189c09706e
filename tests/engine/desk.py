"""What the tests of the engine's surface run: workflows on a desk that notes, holds and fails their steps."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import threading
from concurrent.futures import Future
from dataclasses import dataclass

from perdure import INJECTED, Engine, Retry, StepContext, sleep, step, workflow
from perdure.testing import ManualClock

PATIENCE = float(os.environ.get("PERDURE_TEST_PATIENCE", "20"))


class Clock(ManualClock):
    """A manual clock that one can wait for until something is due on it."""

    def __init__(self):
        super().__init__()
        self._armed = threading.Condition()

    def call_at(self, due, loop, callback):
        with self._armed:
            alarm = super().call_at(due, loop, callback)
            self._armed.notify_all()
        return alarm

    async def armed(self):
        """Wait until something is due."""

        def wait():
            with self._armed:
                assert self._armed.wait_for(lambda: self.next_due() is not None, PATIENCE)

        await asyncio.to_thread(wait)


class Gate:
    """Holds whoever passes until it is opened; from any loop or thread."""

    def __init__(self):
        self.reached, self._opened = Future(), Future()

    async def passed(self):
        if not self.reached.done():
            self.reached.set_result(None)
        await asyncio.shield(asyncio.wrap_future(self._opened))

    async def arrival(self):
        async with asyncio.timeout(PATIENCE):
            await asyncio.shield(asyncio.wrap_future(self.reached))

    def open(self):
        if not self._opened.done():
            self._opened.set_result(None)


class Desk:
    """The tools of all steps: what began, what is to fail (and how often), what is to be held."""

    def __init__(self):
        self.begun = []
        self.fails = {}
        self.gates = {}

    def began(self, ctx):
        self.begun.append(Begun(ctx.key, ctx.attempt, ctx.idempotency_key))

    def keys(self):
        return [begun.key for begun in self.begun]

    def hold(self, tag):
        self.gates[tag] = Gate()
        return self.gates[tag]


@dataclass(frozen=True)
class Begun:
    key: str
    attempt: int
    idem: str


class Refused(Exception):
    """What failing steps raise."""


async def _work(tag, ctx):
    desk = ctx.tools
    desk.began(ctx)
    if tag in desk.gates:
        await desk.gates[tag].passed()
    if tag in desk.fails:
        failure = desk.fails[tag]
        if isinstance(failure, list):
            failure = failure.pop(0) if failure else None
        if failure is not None:
            raise failure
    return tag


@step
async def work(tag: str, *, ctx: StepContext[Desk] = INJECTED) -> str:
    return await _work(tag, ctx)


@step(retry=Retry(max_attempts=2, initial_delay="1h", max_delay="1h", jitter=False))
async def work_twice(tag: str, *, ctx: StepContext[Desk] = INJECTED) -> str:
    return await _work(tag, ctx)


@dataclass
class Order:
    id: str
    naps: bool = False


@dataclass
class Receipt:
    order: str
    parts: tuple[str, ...]


@workflow
async def errand(order: Order) -> Receipt:
    first = await work("first")
    if order.naps:
        await sleep("1h")
    return Receipt(order.id, (first, await work_twice("second")))


@workflow
async def other(order: Order) -> Receipt:
    return Receipt(order.id, (await work("other"),))


@workflow
async def chore() -> str:
    return await work("chore")


@workflow
async def job(n: int) -> int:
    return n + len(await work(str(n)))


ORDER = Order("42")
RECEIPT = Receipt("42", ("first", "second"))


def in_loop(test):
    """Have an async test run in a loop of its own."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        async def bounded():
            async with asyncio.timeout(1.5 * PATIENCE), asyncio.timeout(PATIENCE):  # the rest is for engines to stop
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


def engine_at(path, *workflows, desk=None, **options):
    """An engine on a file, with a desk; does no fsync."""
    return Engine(path, workflows=workflows, **{"tools": desk, "durability": "process"} | options)


def asked(engine):
    """What waits its turn of what was asked of an engine's store from outside."""
    return engine._journal._verbs if engine._store.inline else engine._journal.outside._asked


def die_in_the_second_step(path):
    """Be a process that is killed while it executes an errand."""

    async def main():
        desk = Desk()
        gate = desk.hold("second")
        engine = engine_at(path, errand, desk=desk, clock=Clock())
        await engine.start()
        await engine.enqueue(errand, ORDER, run_id="r")
        await gate.arrival()
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())


async def until(condition):
    """Let the loop turn until something is so."""
    while not condition():
        await asyncio.sleep(0)


async def in_status(engine, run_id, status):
    """Wait until a run is written in a status."""
    async with asyncio.timeout(PATIENCE):
        while (await engine.get(run_id).row()).status is not status:
            await asyncio.sleep(0)


async def log_of(engine, run_id):
    return [event async for event in engine.get(run_id).events()]
