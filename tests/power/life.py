"""What goes on while the power is cut: runs of every kind, and the calls by which somebody outside has them executed.

The calls are idempotent: after the cut the same ones are made again. Whatever somebody outside gets to see is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

import perdure
from perdure import INJECTED, Engine, Retry, Signal, StepContext, parallel, saga, sleep, step, workflow
from perdure.errors import WrongState
from perdure.handle import Handle
from perdure.model.records import Kind, Status
from perdure.testing import ManualClock
from perdure.testing.clock import BEGINNING
from perdure.testing.process import let_time_pass
from perdure.testing.script import Script
from perdure.workflow import Workflow

BIG = 70_000
"""Bytes: more than is kept in the log itself."""
ENOUGH = 20.0
"""Real seconds in which everything has ended."""


class Shown(NamedTuple):
    """Somebody outside knows that a run's log has (or, once it is read, will have) such an event."""

    run_id: str
    kind: Kind
    key: str | None = None
    attempt: int | None = None


class Began(NamedTuple):
    """A step's body began."""

    run_id: str
    key: str
    attempt: int
    idempotency_key: str


class Scheduled(NamedTuple):
    """A schedule was defined."""

    key: str


Say: TypeAlias = Callable[[object], None]


@dataclass
class World:
    """What steps find outside.

    Attributes:
        say: told of what somebody outside gets to see.
        mended: whether what was broken at first is so no more.
    """

    say: Say
    mended: bool = False
    bodies: list[Began] = field(default_factory=list)

    def begin(self, ctx: Ctx, *seen: str) -> None:
        """A body begins; the steps whose keys are given had ended for its workflow before it was called."""
        began = Began(ctx.run_id, ctx.key, ctx.attempt, ctx.idempotency_key)
        self.bodies.append(began)
        self.say(began)
        self.say(Shown(ctx.run_id, Kind.RUN_CREATED))
        for key in seen:
            self.say(Shown(ctx.run_id, Kind.STEP_COMPLETED, key))
        for attempt in range(1, ctx.attempt):
            self.say(Shown(ctx.run_id, Kind.STEP_FAILED, ctx.key, attempt))


Ctx = StepContext[World]


class Broken(Exception):
    pass


@step
async def do(*seen: str, ctx: Ctx = INJECTED) -> str:
    ctx.tools.begin(ctx, *seen)
    return ctx.key


@step
def do_on_a_thread(*seen: str, ctx: Ctx = INJECTED) -> str:
    ctx.tools.begin(ctx, *seen)
    return ctx.key


@step
async def fetch(size: int, *, ctx: Ctx = INJECTED) -> bytes:
    ctx.tools.begin(ctx)
    ctx.artifact("copy", bytes(size))
    return b"." * size


@step(retry=Retry(max_attempts=4, initial_delay="10m", max_delay="1h", jitter=False))
async def flicker(*seen: str, ctx: Ctx = INJECTED) -> str:
    ctx.tools.begin(ctx, *seen)
    if ctx.attempt < 3:
        raise Broken
    return ctx.key


@step
async def break_down(*seen: str, ctx: Ctx = INJECTED) -> str:
    ctx.tools.begin(ctx, *seen)
    if not ctx.tools.mended:
        raise Broken
    return ctx.key


@step
async def undo(*seen: str, ctx: Ctx = INJECTED) -> None:
    ctx.tools.begin(ctx, *seen)


@step
async def fall(*seen: str, ctx: Ctx = INJECTED) -> None:
    ctx.tools.begin(ctx, *seen)
    raise Broken


word = Signal[str]("word")


@workflow
async def walk(steps: int) -> list[str]:
    done: list[str] = []
    for _ in range(steps):
        done.append(await do(*done[-3:]))
    return done


@workflow
async def fan_out(width: int) -> list[str]:
    first = await do()

    async def branch(n: int) -> list[str]:
        own = [await do(first)]
        own.append(await (do_on_a_thread.aio(*own) if n % 2 else do(*own)))
        return own

    both = [key for own in await parallel(*(branch(n) for n in range(width))) for key in own]
    return [*both, await do(*both)]


@workflow
async def wait() -> list[str]:
    done = [await do()]
    await sleep("1d")
    done.append(await flicker(*done))
    heard = await word.wait(timeout="30d")
    await sleep("1h")
    return [*done, await do(*done), heard]


@workflow
async def bring(size: int) -> int:
    brought = await fetch(size)
    await do()
    return len(brought)


@workflow
async def have_children(n: int) -> list[list[str]]:
    await do()
    started = walk.start(2)
    mapped = await perdure.map(walk, [1] * n, limit=2)
    return [await walk(1), *mapped, await started.result()]


@workflow
async def give_up() -> str:
    try:
        async with saga() as compensations:
            compensations.push(undo)
            first = await do()
            compensations.push(undo, first)
            await fall(await do(first))
    except Broken:
        return await do()
    raise AssertionError


@workflow
async def hang() -> None:
    await do()
    try:
        await sleep("1000d")
    finally:
        await do()


@workflow
async def need_help() -> str:
    return await break_down(await do())


@workflow
async def chime() -> str:
    return await do()


WORKFLOWS: list[Workflow[Any, Any]] = [
    walk, fan_out, wait, bring, have_children, give_up, hang, need_help, chime,
]  # fmt: skip
STEPS, WIDTH, CHILDREN, CHIMES = 6, 3, 3, 2
CALLS: dict[str, tuple[Workflow[Any, Any], Any]] = {
    "walk": (walk, STEPS),
    "wait": (wait, None),
    "need_help": (need_help, None),
    "hang": (hang, None),
    "fan_out": (fan_out, WIDTH),
    "bring": (bring, BIG),
    "have_children": (have_children, CHILDREN),
    "give_up": (give_up, None),
}
"""The runs, by id: what is called with what."""


async def live(engine: Engine, clock: ManualClock, world: World) -> dict[str, Any]:
    """Have everything executed to its end; returns the results by run id, None where there is none."""
    passing = asyncio.ensure_future(let_time_pass(engine, clock, Script([])))
    try:
        async with asyncio.timeout(ENOUGH):
            return await _live(engine, world)
    finally:
        passing.cancel()
        await asyncio.wait({passing})
        if not passing.cancelled():
            passing.result()


async def _live(engine: Engine, world: World) -> dict[str, Any]:
    await engine.schedule(
        chime, every="1h", key="chime", start=BEGINNING + timedelta(hours=1),
        end=BEGINNING + timedelta(hours=CHIMES), catch_up="400d", overlap="allow",
    )  # fmt: skip
    world.say(Scheduled("chime"))
    results: dict[str, Any] = {}
    handles: dict[str, Handle[Any]] = {}
    for run_id, (called, value) in CALLS.items():
        handles[run_id] = await engine.enqueue(called, value, run_id=run_id)
        world.say(Shown(run_id, Kind.RUN_CREATED))
    with suppress(WrongState):  # it has ended
        await handles["wait"].signal(word, "hello", idempotency_key="once")
    world.say(Shown("wait", Kind.SIGNAL_RECEIVED))
    with suppress(Broken):
        results["need_help"] = await handles["need_help"].result()
    if "need_help" not in results:
        world.say(Shown("need_help", Kind.RUN_FAILED))
        world.mended = True
        await handles["need_help"].resume()
        world.say(Shown("need_help", Kind.RUN_RESUMED))
    with suppress(WrongState):  # it has ended
        await handles["hang"].cancel("enough")
    world.say(Shown("hang", Kind.CANCEL_DELIVERED))
    for run_id, handle in handles.items():
        try:
            results[run_id] = await handle.result()
            world.say(Shown(run_id, Kind.RUN_COMPLETED))
        except perdure.errors.RunCancelled:
            results[run_id] = None
            world.say(Shown(run_id, Kind.RUN_CANCELLED))
    async for row in engine.runs(status=Status.COMPLETED.word):
        world.say(Shown(row.run_id, Kind.RUN_COMPLETED))
    return results
