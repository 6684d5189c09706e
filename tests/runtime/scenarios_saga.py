"""Scenarios that undo: each is cut at random places, resumed and replayed."""

from __future__ import annotations

import asyncio

import perdure
from perdure import Failure, Retry, parallel, saga, sleep, step, step_context
from tests.runtime.harness import Scenarios, cancel_me, fail, trace, work

SCENARIOS = Scenarios()
scenario = SCENARIOS.add


@step
async def undo_work(tag: str) -> None:
    """Take a while."""
    here = step_context().tools
    here.began()
    await here.nap()


@step(retry=Retry(max_attempts=3, initial_delay="5ms", jitter=False))
async def undo_twice(tag: str) -> None:
    """Fail at the first attempt."""
    ctx = step_context()
    ctx.tools.began()
    await ctx.tools.nap()
    if ctx.attempt == 1:
        raise ConnectionError(tag)


@step
async def never_undone(tag: str) -> None:
    """Fail for good."""
    here = step_context().tools
    here.began()
    await here.nap()
    raise ConnectionError(tag)


@step
async def tell(failure: Failure) -> None:
    """Be told."""
    here = step_context().tools
    here.began()
    await here.nap()


async def leg(name: str, noted: list, ends: bool = True) -> str:
    try:
        async with saga() as undo:
            for part in ("seat", "meal", "bed"):
                undo.push(undo_twice if part == "meal" else undo_work, f"{name} {part}")
                noted.append(await work(f"{name} {part}"))
            if not ends:
                await fail(name)
            await sleep(3600)
            return name
    finally:
        noted.append(f"{name} is left")


@scenario
async def saga_failing():
    """The third step fails, and what was done is undone."""
    await leg("a", trace(), ends=False)


@scenario
async def saga_caught():
    """The workflow goes on after it has undone something."""
    noted = trace()
    try:
        await leg("a", noted, ends=False)
    except ValueError as error:
        noted.append(str(error))
    return await work("instead")


@scenario
async def saga_branches():
    """One of three branches fails, and each undoes its own."""
    noted = trace()
    await parallel(leg("a", noted), leg("b", noted, ends=False), leg("c", noted))


@scenario
async def saga_group_in_saga():
    """A task group in a saga: what the branches undo comes before what the whole does."""
    noted = trace()
    try:
        async with saga() as undo:
            undo.push(undo_work, "whole")
            noted.append(await work("whole"))
            async with asyncio.TaskGroup() as group:
                group.create_task(leg("a", noted))
                group.create_task(leg("b", noted, ends=False))
    except* ValueError as failed:
        noted.append([str(error) for error in failed.exceptions])


@scenario
async def saga_cancelled():
    """The engine cancels in the middle."""
    noted = trace()
    async with asyncio.TaskGroup() as group:
        group.create_task(leg("a", noted))
        group.create_task(leg("b", noted))
        group.create_task(ask())


async def ask() -> None:
    await work("wait", 15)
    await cancel_me()


@scenario
async def saga_cancelled_at_its_end():
    """The cancel is on its way when the block, and with it the run, ends well."""
    noted = trace()
    async with saga() as undo:
        for part in ("seat", "bed"):
            undo.push(undo_work, part)
            noted.append(await work(part))
        undo.push(undo_twice, "cancel")
        await cancel_me()


@scenario
async def saga_timed_out():
    """A timeout strikes, wherever the branch is by then."""
    noted = trace()
    try:
        async with asyncio.timeout(0.06):
            await leg("a", noted)
    except TimeoutError:
        noted.append("timed out")
    return await work("after")


@scenario
async def saga_stuck():
    """A compensation fails for good."""
    noted = trace()
    async with saga() as undo:
        undo.push(undo_work, "a")
        undo.push(never_undone, "b")
        noted.append(await work("a"))
        await fail("c")


@scenario
async def saga_after_the_code():
    """The code breaks a rule, so that it can undo nothing itself."""
    noted = trace()
    async with saga() as undo:
        undo.push(undo_twice, "a")
        noted.append(await work("a"))
        undo.push(undo_work, "b")
        noted.append(await work("b"))
        await asyncio.get_running_loop().run_in_executor(None, print)


async def fails_and_tells(how: str = "fails") -> None:
    """A saga, and then somebody is told."""
    noted = trace()
    async with saga() as undo:
        undo.push(undo_work, "a")
        noted.append(await work("a"))
        if how == "fails":
            await fail("b")
        await asyncio.Event().wait()


async def deadlocks_and_tells() -> None:
    """The same where the code waits for nothing."""
    await fails_and_tells("waits")


async def fails_told() -> None:
    """The same as a workflow of no input."""
    await fails_and_tells()


SCENARIOS += [perdure.workflow(on_failure=tell)(one) for one in (fails_told, deadlocks_and_tells)]


@scenario
def saga_sync():
    """A sync workflow undoes."""
    noted = trace()
    with perdure.sync.saga() as undo:
        for part in ("seat", "bed"):
            undo.push(undo_work, part)
            noted.append(work.sync(part))
        fail.sync("c")


@scenario
def saga_sync_cancelled():
    """A sync workflow with branches is cancelled."""
    noted = trace()

    def branch(name: str) -> None:
        with perdure.sync.saga() as undo:
            undo.push(undo_work, name)
            noted.append(work.sync(name))
            perdure.sync.sleep(3600)

    def trigger() -> None:
        work.sync("wait", 15)
        cancel_me.sync()

    perdure.sync.parallel(lambda: branch("a"), lambda: branch("b"), trigger)
