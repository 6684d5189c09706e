"""Where a call gets its key from. The keys are part of the format: what is listed here may never change."""

from __future__ import annotations

import asyncio
import functools

import anyio
import pytest

from perdure import INJECTED, StepContext, parallel, step, workflow
from perdure import map as map_steps
from perdure.errors import DuplicateName, PerdureError
from perdure.model.records import Kind
from perdure.sync import parallel as sync_parallel
from perdure.sync import submit
from tests.runtime.harness import blocking, lab, work

TABLE = {}


def yields(*keys):
    """A workflow whose calls and timers get these keys."""

    def decorate(function):
        TABLE[workflow(function)] = set(keys)
        return function

    return decorate


async def branch(n=0):
    await work(str(n))


class Account:
    async def pay(self):
        await work("a")

    @step
    async def charge(self, n: int) -> int:
        return n

    async def __call__(self):
        await work("b")


@yields("work#1", "work#2", "blocking#1", "branch#1/work#1", "branch#2/work#1")
async def plain():
    await work("a")
    await asyncio.create_task(branch())
    await branch()
    await asyncio.create_task(branch())
    await blocking.aio("b")


@yields("branch#1/work#1", "branch#2/work#1", "work#1", "work#2")
async def gathers():
    await asyncio.gather(branch(), work("a"), branch(), work("b"))


@yields("branch#1/work#1", "branch#2/work#1", "work#1", "nested#1/branch#1/work#1", "nested#1/branch#2/work#1")
async def groups():
    async def nested():
        async with asyncio.TaskGroup() as group:
            group.create_task(branch())
            group.create_task(branch())

    async with asyncio.TaskGroup() as group:
        group.create_task(branch())
        group.create_task(nested())
        group.create_task(work("a"))
        group.create_task(branch(), name="a name changes nothing")


@yields("work#1", "work#2", "@timer#1")
async def waiting_for():
    """wait_for's own task, which only Python 3.11 makes, has no place of its own."""
    with_timer = asyncio.wait_for(branch(), 0.001)
    try:
        await with_timer
    except TimeoutError:
        pass
    await asyncio.wait_for(work("a"), 3600)


@yields("work#1", "sleep#1/@timer#1", "inner#1/@timer#1", "inner#1/@timer#2", "@timer#2")
async def timers():
    async def inner():
        await asyncio.sleep(0.001)
        await asyncio.sleep(0.001)

    await asyncio.gather(asyncio.sleep(0.001), inner())
    async with asyncio.timeout(3600):
        await work("the first timer of the root never fires")
    await asyncio.sleep(0.001)


@yields("work#1", "work#2", "parallel#1/branch#1/work#1", "map#1/work#1", "map#1/work#2")
async def combined():
    await asyncio.create_task(parallel(work("a"), branch()))
    await parallel(work("b"))
    await asyncio.create_task(map_steps(work, ["a", "b"]))


@yields("pay#1/work#1", "branch#1/work#1", "Account.pay#1/work#1", "Account.__call__#1/work#1", "Account.charge#1")
async def callables():
    async def pay():
        await work("a")

    await asyncio.create_task((lambda: pay())())
    for function in (functools.partial(branch, 1), Account().pay, Account()):
        await asyncio.create_task(function())
    await Account().charge(1)


@yields("work[one]", "work[two]", "branch#1/work#1", "branch#1/work[one]")
async def explicit():
    async def branch():
        await work("a")
        await work.with_options(key="one")("c")

    await asyncio.gather(work.with_options(key="one")("a"), work.with_options(key="two")("b"), branch())


@yields("branch#1/work#1", "branch#2/work#1", "deep#1/branch#1/work#1")
async def anyio_groups():
    async def deep():
        async with anyio.create_task_group() as group:
            group.start_soon(branch)

    async with anyio.create_task_group() as group:
        group.start_soon(branch)
        group.start_soon(functools.partial(branch, 1), name="a name changes nothing")
        group.start_soon(deep)


@yields("blocking#1", "work#1/work#1", "one#1/blocking#1", "<lambda>#1/work#1", "work#1")
def threads():
    def one():
        blocking("b")

    blocking("a")
    submit(functools.partial(work.sync, "a")).result()
    sync_parallel(one, lambda: work.sync("c"))
    work.sync("d")


@yields("<lambda>#1/blocking#1", "<lambda>#2/blocking#1", "<lambda>#3/blocking#1", "<lambda>#4/blocking#1")
def comprehensions():
    sync_parallel(*[lambda: blocking("a") for _ in range(1)])
    sync_parallel(*{n: lambda: blocking("b") for n in range(1)}.values())
    sync_parallel(*(lambda: blocking("c") for _ in range(1)))
    sync_parallel(*[[lambda: blocking("d") for _ in range(1)][0] for _ in range(1)])


def keys_of(history):
    return {
        e.key
        for e in history.events
        if e.key is not None
        and e.kind
        in {
            Kind.STEP_COMPLETED,
            Kind.STEP_FAILED,
            Kind.STEP_CANCELLED,
            Kind.TIMER_FIRED,
        }
    }


@pytest.mark.parametrize("made", TABLE, ids=lambda made: made.name)
def test_the_keys_are_these(made, tmp_path):
    async def main():
        async with lab(tmp_path, [made], patient=True) as here:
            seen = await here.live(made)
            assert seen.outcome[0] == "returned", seen.outcome
            assert keys_of(seen.history) == TABLE[made]

    asyncio.run(main())


DEPTH = 40


@workflow
async def recurses() -> None:
    async def deeper(n):
        await work(str(n))
        if n < DEPTH:
            await asyncio.create_task(deeper(n + 1))

    await deeper(0)


def test_deep_places_keep_short_and_different_keys(tmp_path):
    async def main():
        async with lab(tmp_path, [recurses]) as here:
            seen = await here.live(recurses)
            keys = keys_of(seen.history)
            assert len(keys) == DEPTH + 1
            assert max(map(len, keys)) < 220
            assert (await here.replay(recurses, seen.history)).outcome == seen.outcome

    asyncio.run(main())


@workflow
async def names_twice(nested: bool) -> None:
    async def again():
        await work.with_options(key="one")("b")

    await work.with_options(key="one")("a")
    await (asyncio.create_task(again()) if nested else again())


def test_an_explicit_key_names_one_call_of_its_place(tmp_path):
    async def main():
        async with lab(tmp_path, [names_twice]) as here:
            with pytest.raises(DuplicateName, match="one"):
                await here.engine.run(names_twice, False)
            await here.engine.run(names_twice, True)

    asyncio.run(main())


@pytest.mark.parametrize("key", ["", "a/b", "a#1", "@a", "a[0]", "a]", "a\nb", "x" * 201, 7, None and 0], ids=repr)
def test_keys_that_the_grammar_reserves_are_refused(key):
    if key is None:
        return
    with pytest.raises(PerdureError):
        work.with_options(key=key)


ADDED = {"is": False}


@workflow
async def grows(n: int) -> list[str]:
    async def old():
        return await work("old")

    async def new():
        return await work("new")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(new())] if ADDED["is"] else []
        tasks += [group.create_task(old()) for _ in range(n)]
        tasks += [group.create_task(new())] if ADDED["is"] else []
    return [await task for task in tasks]


def test_a_task_added_elsewhere_moves_no_key(tmp_path):
    async def main():
        async with lab(tmp_path, [grows]) as here:
            ADDED["is"] = False
            first = await here.live(grows, 3)
            ADDED["is"] = True
            resumed = await here.resume(grows, first.history, len(first.history.events) - 1)
            assert resumed.outcome == ("returned", ["new", "old", "old", "old", "new"])
            assert resumed.bodies == {"new#1/work#1": 1, "new#2/work#1": 1}

    asyncio.run(main())


@step
async def same_key_everywhere(*, ctx: StepContext = INJECTED) -> str:
    return ctx.key


@workflow
async def tells_its_keys() -> list[str]:
    async def inside():
        return await same_key_everywhere()

    return [*await asyncio.gather(inside(), inside()), await same_key_everywhere()]


def test_a_body_is_told_its_key(tmp_path):
    async def main():
        async with lab(tmp_path, [tells_its_keys]) as here:
            keys = ["inside#1/same_key_everywhere#1", "inside#2/same_key_everywhere#1", "same_key_everywhere#1"]
            assert await here.engine.run(tells_its_keys) == keys

    asyncio.run(main())
