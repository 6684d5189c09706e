"""Workflows that wait for signals in every way that could decide differently on a replay.

They send them to themselves, in their own commits, so a history tells what was on its way when it is cut.
"""

from __future__ import annotations

import asyncio
import contextlib

from perdure import Signal, run_context
from perdure.context import on_run
from perdure.errors import SignalTimeout
from perdure.signals import message
from tests.runtime.harness import Scenarios, trace, work

SCENARIOS = Scenarios()
scenario = SCENARIOS.add
RED, BLUE = Signal[int]("red"), Signal[int]("blue")


class Voice:
    """Sends the n-th message of each name with n as its value, from 0."""

    def __init__(self):
        self.said = {RED: 0, BLUE: 0}

    def say(self, signal):
        what = message(signal, self.said[signal], None)._replace(run_id=run_context().run_id)
        self.said[signal] += 1
        on_run(lambda run: run.send(what))


@scenario
async def mailbox():
    """Messages that are there before anyone waits, and others that come while somebody does."""
    noted, voice = trace(), Voice()
    voice.say(RED)
    voice.say(RED)
    await work("first")
    noted.append(await RED.wait())

    async def later():
        for n in range(3):
            await work(f"later {n}", 5)
            voice.say(RED)

    async with asyncio.TaskGroup() as group:
        group.create_task(later())
        for _ in range(4):
            noted.append(await RED.wait())
            noted.append(await work("between"))


@scenario
async def waiters():
    """Several tasks wait for one signal: who waited first gets the first."""
    noted, voice = trace(), Voice()

    async def waiter(n):
        await work(f"before {n}")
        noted.append((n, await RED.wait()))
        await work(f"after {n}")

    async with asyncio.TaskGroup() as group:
        for n in range(4):
            group.create_task(waiter(n))
        for n in range(4):
            await work(f"say {n}", 4)
            voice.say(RED)


@scenario
async def in_time_or_not():
    """Timeouts of waits, and around them, against messages that come about then."""
    noted, voice = trace(), Voice()

    async def sender():
        for n in range(5):
            await work(f"s{n}", 9)
            voice.say(RED if n % 2 else BLUE)

    async with asyncio.TaskGroup() as group:
        group.create_task(sender())
        for n in range(4):
            try:
                noted.append(("red", await RED.wait(timeout=0.01)))
            except SignalTimeout:
                noted.append("red is late")
            noted.append(("blue", await BLUE.wait(timeout=0.004, default=None)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.006):
                    noted.append(("any", await RED.wait()))
            noted.append(await work(f"w{n}"))


@scenario
async def whichever():
    """The first of two signals, a step and a timer; what is given up consumes nothing."""
    noted, voice = trace(), Voice()

    async def sender():
        for n in range(4):
            await work(f"s{n}", 3 + 4 * (n % 3))
            voice.say(BLUE)
            voice.say(RED)

    async with asyncio.TaskGroup() as group:
        group.create_task(sender())
        for n in range(4):
            waits = {
                asyncio.ensure_future(RED.wait()): "red",
                asyncio.ensure_future(BLUE.wait()): "blue",
                asyncio.create_task(asyncio.sleep(0.012, "sleep")): "sleep",
                asyncio.ensure_future(work(f"step {n}", 10)): "step",
            }
            done, left = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            noted.append(sorted((waits[one], one.result()) for one in done))
            for one in left:
                one.cancel()
            await asyncio.wait(left)
    noted.append(await work("end"))
