"""What the storm's workers execute: between them, these workflows use every feature there is.

Every body says in the ledger that it begins, before it does anything else. What a run comes to is a function of its
input and of what its log has recorded: ``tests/storm/oracle.py`` says which.
"""

from __future__ import annotations

import asyncio
import os
import time
from hashlib import sha256
from typing import Any

import perdure
from perdure import (
    INJECTED,
    Failure,
    Queue,
    Retry,
    RunContext,
    Signal,
    StepContext,
    continue_as_new,
    emit,
    parallel,
    patched,
    saga,
    sleep,
    step,
    workflow,
)
from perdure.errors import StepInterrupted
from perdure.workflow import Workflow

Ctx = StepContext[Any]

STURDY = Retry(max_attempts=30, initial_delay="30ms", max_delay="250ms", jitter=False)
"""Bears what a process short of memory or descriptors does to bodies."""
NEVER = 3600.0
"""Seconds: longer than any storm."""
LIVES = 3
"""How often a relay goes on as a new run, the first life included."""
NAP = 0.12
"""Seconds that a mixed run sleeps."""
PAUSE = 0.03
"""Seconds that one on a long way rests at a time."""
HEARD_FROM = ("north", "south")
"""Who sends signals to those that listen."""
WORDS = 4
"""How many signals each of them sends."""
LIFE = 0.4
"""Seconds that a run with a deadline may take, and does not keep to."""

narrow = Queue("narrow", concurrency=2)
"""Where so many runs are executed at once, and no more."""
word = Signal[str]("word")
silence = Signal[str]("silence")
"""What nobody ever sends."""
baton = Signal[int]("baton")


class Refused(Exception):
    """What a step fails with on purpose; tried again it would fail again."""


STUBBORN = Retry(max_attempts=30, initial_delay="30ms", max_delay="250ms", jitter=False, give_up_on=Refused)


def begin(ctx: Ctx) -> None:
    ctx.tools.ledger.note("begin", ctx)


def end(ctx: Ctx) -> None:
    ctx.tools.ledger.note("end", ctx)


# -- steps


@step(retry=STURDY)
async def work(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    await asyncio.sleep(0.01 * (n % 5))
    end(ctx)
    return 3 * n + 1


@step(retry=STURDY)
def grind(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    time.sleep(0.01 * (n % 5))
    end(ctx)
    return 5 * n


@step(retry=STURDY)
async def flaky(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    if ctx.attempt <= n % 3:
        raise ConnectionError(ctx.attempt)
    end(ctx)
    return n + 7


@step(retry=STURDY, timeout="1s")
async def dawdle(n: int, *, ctx: Ctx = INJECTED) -> int:
    """Hangs the first time, so that its timeout ends it."""
    begin(ctx)
    if ctx.attempt == 1:
        await asyncio.Event().wait()
    end(ctx)
    return n


@step(retry=STURDY)
async def weigh(n: int, *, ctx: Ctx = INJECTED) -> bytes:
    """A result that is too large for the log, and an artifact that is as well."""
    begin(ctx)
    data = heavy(n)
    ctx.artifact("copy", data + b"!")
    end(ctx)
    return data


def heavy(n: int) -> bytes:
    return bytes([n % 256]) * (400_000 + n)


@step(retry=STURDY)
def split(n: int, *, ctx: Ctx = INJECTED) -> int:
    """Leaves a process behind, which ends by itself, having everything open that this one has."""
    begin(ctx)
    if os.fork() == 0:
        time.sleep(0.3)
        os._exit(0)
    end(ctx)
    return n + 1


@step(retry=STURDY)
async def narrate(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    for i in range(n):
        ctx.emit(i, "story")
        if i == n // 2:
            ctx.progress(i)
        await asyncio.sleep(0.004)
    end(ctx)
    return n


@step(at_most_once=True)
async def only_once(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    await asyncio.sleep(0.03)
    end(ctx)
    return n


@step(retry=STUBBORN)
async def refuse(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    raise Refused(n)


@step(retry=STURDY)
async def take(thing: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    await asyncio.sleep(0.02)
    end(ctx)
    return thing


@step(retry=STURDY)
async def give_back(thing: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    await asyncio.sleep(0.02)
    end(ctx)
    return thing


@step(retry=STUBBORN)
async def cannot_give_back(thing: int, *, ctx: Ctx = INJECTED) -> None:
    begin(ctx)
    raise Refused(thing)


@step(retry=STURDY)
async def hear(failure: Failure, value: int, *, ctx: Ctx = INJECTED) -> str:
    begin(ctx)
    await asyncio.sleep(0.02)
    end(ctx)
    return f"{value}: {failure.message}"


@step(retry=STURDY)
async def idle(seconds: float, *, ctx: Ctx = INJECTED) -> None:
    begin(ctx)
    await asyncio.sleep(seconds)
    end(ctx)


# -- workflows


@workflow
async def mixed(n: int) -> int:
    """Branches of each colour, retries, a sleep, a task group, a patch."""
    first = await work(n)
    some = await parallel(work(n + 1), grind.aio(n + 2), flaky(n))
    await sleep(NAP)
    if patched("newer"):
        first += await flaky(n + 1)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(twice(n + i)) for i in range(2)]
    return first + sum(some) + sum(task.result() for task in tasks) + await grind.aio(n)


async def twice(n: int) -> int:
    return await work(await work(n))


@workflow
def blocking(n: int) -> int:
    """The same for those who do not await: on a thread, unwound while it waits long."""
    first = work.sync(n)
    some = perdure.sync.parallel(lambda: grind(n), lambda: flaky.sync(n + 1), lambda: grind(n + 2))
    perdure.sync.sleep(NAP)
    heard = perdure.sync.receive(silence, timeout=0.05, default="")
    with perdure.sync.saga() as undo:
        undo.push(give_back, n)
        last = grind(n + 3)
    return first + sum(some) + last + len(heard)


@workflow
async def listening(n: int) -> list[str]:
    """Hears what two senders send; and once nobody."""
    heard = [await word.wait() for _ in range(len(HEARD_FROM) * WORDS // 2)]
    await work(n)
    heard.append(await silence.wait(timeout=0.05, default="nobody"))
    return [*heard, *[await word.wait() for _ in range(len(HEARD_FROM) * WORDS // 2)]]


@workflow
async def errand(n: int) -> int:
    return await work(n)


@workflow
async def doomed(n: int) -> int:
    return await refuse(n)


@workflow
async def lingering(n: int) -> int:
    await sleep(NEVER)
    return n


@workflow
async def family(n: int) -> list[int]:
    """Children that are started, awaited, mapped; and one that fails."""
    started = errand.start(n)
    awaited = await errand(n + 1)
    mapped = await perdure.map(errand, range(n, n + 3), limit=2)
    try:
        await doomed(n)
    except Refused as refused:
        mapped.append(refused.args[0])
    return [await started.result(), awaited, *mapped]


@workflow
async def guardian(n: int) -> int:
    """Is cancelled with two children: one goes along, one goes on."""
    lingering.start(n)
    errand.with_options(abandon=True).start(n)
    await work(n)
    await sleep(NEVER)
    return n


@workflow
async def relay(heard: list[int]) -> list[int]:
    """Goes on as a new run, twice; a baton is received in each."""
    heard = [*heard, await work(len(heard)), await baton.wait()]
    if len(heard) < 2 * LIVES:
        continue_as_new(heard)
    return heard


@workflow(on_failure=hear)
async def trip(n: int) -> int:
    """Takes things, and fails with every other number."""
    async with saga() as undo:
        for thing in range(2 + n % 3):
            undo.push(give_back, thing)
            await take(thing)
        if n % 2:
            await refuse(n)
    return await work(n)


@workflow
async def cancelled(n: int) -> int:
    """Takes things until it is cancelled."""
    async with saga() as undo:
        for thing in range(3):
            undo.push(give_back, thing)
            await take(thing)
        while True:
            await idle(0.05)
            await sleep(0.05)


@workflow(deadline=LIFE)
async def overdue(n: int) -> int:
    await work(n)
    await sleep(NEVER)
    return n


@workflow
async def stuck(n: int) -> int:
    """What it has done cannot be undone: it is blocked."""
    async with saga() as undo:
        undo.push(cannot_give_back, n)
        await take(n)
        await refuse(n)
    return n


@workflow
async def silent(n: int) -> str:
    """Waits for what nobody says."""
    await work(n)
    return await silence.wait()


@workflow
async def long_way(n: int) -> int:
    """Is paused on its way, and resumed."""
    for _ in range(6):
        n = await work(n % 100)
        await sleep(PAUSE)
    return n


@workflow
async def telling(n: int) -> int:
    told = 0
    for chapter in range(3):
        emit(chapter, "chapters")
        told += await narrate(n % 5 + 6)
    return told


@workflow
async def heavily(n: int) -> str:
    """Results and artifacts beside the log."""
    digest = sha256(await weigh(n))
    for data in await parallel(weigh(n + 1), weigh(n)):
        digest.update(data)
    return digest.hexdigest()


@workflow(queue=narrow)
async def narrowly(n: int) -> int:
    """Takes its turn, and another one when it has slept."""
    first = await work(n)
    await sleep(PAUSE)
    return await work(first % 100)


@workflow
async def splitting(n: int) -> int:
    return await work(await split.aio(n))


@workflow
async def once(n: int) -> str:
    try:
        return f"done {await only_once(n)}"
    except StepInterrupted:
        return "interrupted"


@workflow
async def tardy(n: int) -> int:
    """A step that times out, and a body that is cancelled by the workflow's own code."""
    value = await dawdle(n)
    try:
        async with asyncio.timeout(0.05):
            await idle(NEVER)
    except TimeoutError:
        value += 1
    return value


@workflow
async def posting(n: int, *, ctx: RunContext = INJECTED) -> int:
    """Starts another run, signals and cancels others, with its own commits."""
    value = await work(n)
    engine = perdure.Engine()
    listener = await engine.enqueue(posted, n, run_id=f"{ctx.run_id}-posted")
    for i in range(2):
        await listener.signal(word, f"{ctx.run_id} {i}")
    lost = await engine.enqueue(lingering, n, run_id=f"{ctx.run_id}-lost")
    await lost.cancel("not wanted any more")
    return value


@workflow
async def posted(n: int) -> list[str]:
    return [await word.wait(), await word.wait(), str(await work(n))]


@workflow
async def ticking(n: int, *, ctx: RunContext = INJECTED) -> str:
    """What the schedule starts."""
    await work(n)
    return "" if ctx.scheduled_at is None else ctx.scheduled_at.isoformat()


WORKFLOWS: list[Workflow[Any, Any]] = [
    mixed, blocking, listening, errand, doomed, lingering, family, guardian, relay, trip, cancelled, overdue, stuck,
    silent, narrowly, long_way, telling, heavily, splitting, once, tardy, posting, posted, ticking,
]  # fmt: skip
BY_NAME = {one.name: one for one in WORKFLOWS}
