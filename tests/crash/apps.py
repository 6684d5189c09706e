"""What the children of these tests execute: workflows whose steps say in the ledger that they begin and end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from typing import Any

from perdure import INJECTED, Failure, Retry, Signal, StepContext, emit, parallel, saga, sleep, step, workflow
from perdure.workflow import Workflow
from tests.crash import outcomes, vocabulary
from tests.crash.ledger import Ledger
from tests.transactional import teller


@dataclass
class Tools:
    """What steps get: the ledger."""

    ledger: Ledger


Ctx = StepContext[Tools]


def begin(ctx: Ctx) -> None:
    ctx.tools.ledger.note("begin", ctx)


def end(ctx: Ctx) -> None:
    ctx.tools.ledger.note("end", ctx)


# -- a journey: six steps, three branches, a retry, a sleep --------------------------------------


@step
async def depart(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    end(ctx)
    return n + 1


@step
async def by_road(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    await asyncio.sleep(0.01)
    end(ctx)
    return n * 2


@step(retry=Retry(max_attempts=3, initial_delay="150ms", jitter=False))
async def by_air(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    end(ctx)
    if ctx.attempt == 1:
        raise ConnectionError("no flight today")
    return n * 3


@step
def by_sea(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    end(ctx)
    return n * 5


@step
async def arrive(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    end(ctx)
    return n


@step
async def unpack(n: int, *, ctx: Ctx = INJECTED) -> str:
    begin(ctx)
    end(ctx)
    return f"unpacked {n}"


@workflow
async def journey(n: int) -> str:
    start = await depart(n)
    routes = await parallel(by_road(start), by_air(start), by_sea.aio(start))
    await sleep("120ms")
    return await unpack(await arrive(sum(routes)))


JOURNEY = ("depart#1", "by_road#1", "by_air#1", "by_sea#1", "arrive#1", "unpack#1")


def journey_result(n: int) -> str:
    return f"unpacked {(n + 1) * 10}"


# -- many small runs -----------------------------------------------------------------------------


@step
async def count(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    return n + 1


@workflow
async def five(n: int) -> int:
    for _ in range(5):
        n = await count(n)
    return n


@step
async def plain(n: int) -> int:
    return n + 1


@workflow
async def short(n: int) -> int:
    return await plain(n)


@workflow
async def told() -> int:
    return await arrive(1)


# -- steps that take their time ------------------------------------------------------------------


@step
async def wait_at_gate(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    try:
        await ctx.tools.ledger.pass_gate()
    except asyncio.CancelledError:
        ctx.tools.ledger.note("aborted", ctx)
        raise
    end(ctx)
    return n


@workflow
async def gated(n: int) -> int:
    """A step that waits at the gate, between two that do not."""
    return await arrive(await wait_at_gate(await depart(n)))


@step
def wait_at_gate_deaf(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    ctx.tools.ledger.block_at_gate()
    end(ctx)
    return n


@workflow
async def deaf(n: int) -> int:
    return await arrive(await wait_at_gate_deaf.aio(n))


@step
def watch_for_abort(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    while not ctx.cancelled:
        time.sleep(0.005)
    ctx.tools.ledger.note("aborted", ctx)
    ctx.raise_if_cancelled()
    return n


@step
async def clean_up(n: int, *, ctx: Ctx = INJECTED) -> None:
    begin(ctx)
    end(ctx)


@workflow
async def tidy(n: int) -> int:
    """Cleans up with a step when it is cancelled."""
    try:
        return await wait_at_gate(n)
    finally:
        await clean_up(n)


@workflow
async def tidy_sync(n: int) -> int:
    try:
        return await watch_for_abort.aio(n)
    finally:
        await clean_up(n)


@step
def block_loop(seconds: float, *, ctx: Ctx = INJECTED) -> float:
    begin(ctx)
    time.sleep(seconds)
    end(ctx)
    return seconds


@step
async def block_loop_async(seconds: float, *, ctx: Ctx = INJECTED) -> float:
    begin(ctx)
    time.sleep(seconds)  # noqa: ASYNC251 - the fault under test
    end(ctx)
    return seconds


@workflow
async def blocking(seconds: float) -> float:
    return await block_loop_async(seconds)


@workflow
async def long_step(seconds: float) -> float:
    return await block_loop.aio(seconds)


@step
async def bulky(n: int, *, ctx: Ctx = INJECTED) -> bytes:
    return os.urandom(12_000)


@workflow
async def gated_big(n: int) -> int:
    await wait_at_gate(n)
    return len([await bulky(i) for i in range(n)])


@step
async def tick(seconds: float, *, ctx: Ctx = INJECTED) -> float:
    """How long the event loop stood still at most, while this step watched."""
    begin(ctx)
    clock = asyncio.get_running_loop().time
    last = began = clock()
    worst = 0.0
    while last < began + seconds:
        await asyncio.sleep(0.01)
        worst, last = max(worst, clock() - last), clock()
    return worst


@workflow
async def ticking(seconds: float) -> float:
    return await tick(seconds)


# -- killers -------------------------------------------------------------------------------------


@step
async def kill_worker(n: int, *, ctx: Ctx = INJECTED) -> None:
    begin(ctx)
    os.kill(os.getpid(), signal.SIGKILL)


@workflow
async def killer(n: int) -> None:
    await kill_worker(n)


@step
async def stroll(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    await asyncio.sleep(0.02)
    return n + 1


@workflow
async def slow(n: int) -> int:
    for _ in range(4):
        n = await stroll(n)
    return n


@step
async def occupy(seconds: float, *, ctx: Ctx = INJECTED) -> float:
    begin(ctx)
    await asyncio.sleep(seconds)
    end(ctx)
    return seconds


@workflow(queue="desk")
async def occupying(seconds: float) -> float:
    return await occupy(seconds)


@workflow(queue="desk")
async def occupying_again_and_again(seconds: float) -> float:
    for _ in range(10):
        seconds = await occupy(seconds)
    return seconds


@step
def fork_here(n: int, *, ctx: Ctx = INJECTED) -> int:
    """Leave a process behind that lives until it is killed."""
    pid = os.fork()
    if pid == 0:
        while True:
            signal.pause()
    ctx.tools.ledger.write("forked", key=str(pid))
    return pid


@workflow
async def forking(n: int) -> int:
    return await fork_here.aio(n)


# -- retries, timers, at most once ---------------------------------------------------------------


@step(retry=Retry(max_attempts=4, initial_delay="1s", backoff="constant", jitter=False))
async def third_time(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    if ctx.attempt < 3:
        raise ConnectionError(ctx.attempt)
    end(ctx)
    return n


@step(retry=Retry(max_attempts=4, initial_delay="150ms", backoff="constant", jitter=False))
async def third_time_soon(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    if ctx.attempt < 3:
        raise ConnectionError(ctx.attempt)
    end(ctx)
    return n


@workflow
async def retried(n: int) -> int:
    return await third_time(n)


@workflow
async def retried_branches(n: int) -> list[int]:
    return await parallel(*(third_time_soon(i) for i in range(n)))


@step
async def nothing(n: int, *, ctx: Ctx = INJECTED) -> None:
    begin(ctx)


@workflow
async def after_nothing(n: int) -> int:
    assert await nothing(n) is None
    return await wait_at_gate(n)


@step(at_most_once=True)
async def once(n: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    await ctx.tools.ledger.pass_gate()
    return n


@workflow
async def only_once(n: int) -> int:
    return await once(n)


@step(retry=Retry(max_attempts=1200, initial_delay="1ms", max_delay="1ms", factor=2.0))
async def stubborn(n: int, *, ctx: Ctx = INJECTED) -> int:
    if ctx.attempt < n:
        raise ConnectionError(ctx.attempt)
    return ctx.attempt


@workflow
async def persistent(n: int) -> int:
    return await stubborn(n)


@workflow
async def nap(seconds: float) -> str:
    await depart(0)
    await sleep(seconds)
    await arrive(0)
    return "awake"


word = Signal[str]("word")


@workflow
async def listening(n: int) -> str:
    await depart(n)
    return await word.wait()


# -- texts ---------------------------------------------------------------------------------------


@step
async def say(text: str) -> str:
    return text


@step
async def complain(text: str) -> None:
    raise ValueError(text)


@workflow
async def echoed(text: str) -> list[str]:
    """Says a text back: as it came, as a step gave it, and as a step failed with it."""
    said = await say(text)
    try:
        await complain(text)
    except ValueError as error:
        complaint = str(error)
    await wait_at_gate(0)
    return [text, said, complaint]


@step
async def make_text(point: int) -> str:
    return f"a{chr(point)}b"


@workflow
async def gives_text(point: int) -> str:
    return await make_text(point)


@workflow
async def raises_text(point: int) -> None:
    await complain(chr(point))


# -- what is taken is given back -----------------------------------------------------------------


@step
async def take(thing: int, *, ctx: Ctx = INJECTED) -> int:
    begin(ctx)
    ctx.tools.ledger.write("taken", ctx.run_id, str(thing), ctx.attempt, ctx.idempotency_key)
    return thing


@step
async def give_back(thing: int, *, ctx: Ctx = INJECTED) -> None:
    begin(ctx)
    ctx.tools.ledger.write("given back", ctx.run_id, str(thing), ctx.attempt, ctx.idempotency_key)


@step
async def hear(failure: Failure, *, ctx: Ctx = INJECTED) -> None:
    begin(ctx)
    ctx.tools.ledger.write("heard", ctx.run_id, failure.message, ctx.attempt, ctx.idempotency_key)


@workflow(on_failure=hear)
async def takes_and_fails(things: int) -> None:
    """Takes things, one after the other, and then something fails."""
    async with saga() as undo:
        for thing in range(things):
            undo.push(give_back, thing)
            await take(thing)
        await complain("enough")


@workflow(on_failure=hear)
async def takes_and_waits(things: int) -> None:
    """Takes things, and waits at the gate with them."""
    async with saga() as undo:
        for thing in range(things):
            undo.push(give_back, thing)
            await take(thing)
        await wait_at_gate(things)


# -- a story, told while it happens --------------------------------------------------------------


@step
async def narrate(chapter: int, n: int, *, ctx: Ctx = INJECTED) -> int:
    """Tell a chapter; the first telling of the first one stops halfway, for good."""
    begin(ctx)
    stops = chapter == 0 and ctx.last_progress is None
    for i in range(n):
        if stops and i == n // 2:
            ctx.progress("halfway")
            await asyncio.Event().wait()
        ctx.emit([chapter, i], "story")
        await asyncio.sleep(0.002)
    end(ctx)
    return n


@workflow
async def narrating(n: int) -> int:
    told = 0
    for chapter in range(3):
        emit(chapter, "chapters")
        told += await narrate(chapter, n)
    return told


WORKFLOWS: list[Workflow[Any, Any]] = [
    listening,
    takes_and_fails,
    takes_and_waits,
    narrating,
    journey,
    five,
    short,
    told,
    gated,
    deaf,
    tidy,
    tidy_sync,
    blocking,
    long_step,
    gated_big,
    ticking,
    forking,
    killer,
    slow,
    occupying,
    occupying_again_and_again,
    retried,
    retried_branches,
    after_nothing,
    only_once,
    persistent,
    nap,
    echoed,
    gives_text,
    raises_text,
    *outcomes.WORKFLOWS,
    *vocabulary.WORKFLOWS,
    *teller.WORKFLOWS,
]
BY_NAME = {one.name: one for one in WORKFLOWS}
