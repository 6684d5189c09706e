"""Workflows that use asyncio in every way that could decide differently on a replay. Each notes what it sees."""

from __future__ import annotations

import asyncio
import contextlib

from perdure import map as map_steps
from perdure import parallel, sleep
from tests.runtime.harness import Scenarios, blocking, cancel_me, fail, trace, work

SCENARIOS = Scenarios()
scenario = SCENARIOS.add


@scenario
async def group_abort():
    """A failing branch aborts its group; the others clean up with steps."""
    noted = trace()

    async def branch(n):
        try:
            for i in range(5):
                noted.append(await work(f"{n}.{i}"))
        except asyncio.CancelledError:
            noted.append(f"{n} cancelled")
            noted.append(await work(f"{n} undone"))
            raise

    async def failing():
        await work("before the failure")
        await fail("boom")

    for _ in range(3):
        try:
            async with asyncio.TaskGroup() as group:
                for n in range(4):
                    group.create_task(branch(n))
                group.create_task(failing())
        except* ValueError as errors:
            noted.append([str(e) for e in errors.exceptions])


@scenario
async def group_abort_idle():
    """Aborted branches wait for nothing that is recorded: their order is asyncio's alone."""
    noted = trace()

    async def idle(n):
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            noted.append(n)

    for round_ in range(3):
        with contextlib.suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for n in range(8):
                    group.create_task(idle(n))
                group.create_task(fail(str(round_)))
    return noted


@scenario
async def timeouts():
    """Nested and rescheduled timeouts."""
    noted = trace()
    loop = asyncio.get_running_loop()
    for n in range(3):
        try:
            async with asyncio.timeout(0.04):
                try:
                    async with asyncio.timeout(0.02):
                        noted.append(await work(f"a{n}", 15 + 5 * n))
                except TimeoutError:
                    noted.append("inner")
                noted.append(await work(f"b{n}"))
        except TimeoutError:
            noted.append("outer")
    try:
        async with asyncio.timeout(0.01) as scope:
            noted.append(await work("c"))
            scope.reschedule(loop.time() + 0.03)
            noted.append(await work("d"))
            scope.reschedule(None)
            noted.append(await work("e", 50))
            scope.reschedule(loop.time() - 1)
            await asyncio.sleep(0.5)
    except TimeoutError:
        noted.append("rescheduled")


@scenario
async def wait_sets():
    """Sets of done and pending tasks, and the order in which they are gone through."""
    noted = trace()
    tasks = [asyncio.create_task(named(n)) for n in range(6)] + [
        asyncio.ensure_future(work(f"call {n}")) for n in range(4)
    ]
    pending = set(tasks)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        noted.append([task.result() for task in done])
        for task in pending:
            noted.append(tasks.index(task))
        noted.append(await work("between"))
    done, pending = await asyncio.wait([asyncio.ensure_future(work(f"late {n}", 30)) for n in range(3)], timeout=0.03)
    noted.append((len(done), len(pending)))
    for task in pending:
        task.cancel()
    noted.append(await asyncio.gather(*pending, return_exceptions=True) == [] or "some cancelled")


async def named(n):
    await work(f"one of {n}")
    return await work(f"two of {n}")


@scenario
async def completed_in_order():
    """as_completed over tasks and over step calls."""
    noted = trace()
    for future in asyncio.as_completed([asyncio.create_task(named(n)) for n in range(5)]):
        noted.append(await future)
    for future in asyncio.as_completed([work(f"call {n}") for n in range(5)], timeout=3):
        noted.append(await future)
        noted.append(await work("after"))


@scenario
async def waits_for():
    """wait_for over coroutines, calls and tasks; in time and too late."""
    noted = trace()
    for n in range(4):
        for make in (named, lambda n: work(f"call {n}"), lambda n: asyncio.create_task(named(n))):
            try:
                noted.append(await asyncio.wait_for(make(n), 0.02))
            except TimeoutError:
                noted.append("late")
    try:
        noted.append(await asyncio.wait_for(work("x", 5), None))
        noted.append(await asyncio.wait_for(work("y", 5), 0))
    except TimeoutError:
        noted.append("at once")


@scenario
async def shielded():
    """shield lets the inner task go on; the outer wait is cancelled."""
    noted = trace()
    inner = asyncio.create_task(named(1))
    try:
        async with asyncio.timeout(0.01):
            noted.append(await asyncio.shield(inner))
    except TimeoutError:
        noted.append("gave up")
        noted.append(await inner)
    with contextlib.suppress(TimeoutError):
        noted.append(await asyncio.wait_for(asyncio.shield(work("step", 20)), 0.015))


@scenario
async def swallowed():
    """A task that swallows its cancel, and one that takes it back."""
    noted = trace()

    async def stubborn():
        for n in range(3):
            try:
                noted.append(await work(f"s{n}", 20))
            except asyncio.CancelledError:
                noted.append(f"swallowed {n}")
                asyncio.current_task().uncancel()
        async with asyncio.timeout(0.02):
            await work("t", 40)

    task = asyncio.create_task(stubborn())
    for _ in range(2):
        await work("wait", 15)
        task.cancel()
    noted.append(repr(await asyncio.gather(task, return_exceptions=True)))


@scenario
async def gathered():
    """gather of tasks, calls and gathers; failing and returning exceptions."""
    noted = trace()
    noted.append(await asyncio.gather(work("a"), named(1), asyncio.gather(work("b"), named(2)), blocking.aio("c")))
    noted.append([str(r) for r in await asyncio.gather(fail("x"), work("d"), fail("y"), return_exceptions=True)])
    try:
        await asyncio.gather(named(3), fail("z"), named(4))
    except ValueError as error:
        noted.append(str(error))
    noted.append(await parallel(work("e"), named(5)))
    try:
        await parallel(named(6), fail("v"), named(7))
    except ValueError as error:
        noted.append(str(error))
    noted.append(await map_steps(work, [str(n) for n in range(7)], limit=3))


@scenario
async def strays():
    """Tasks left behind at return are cancelled and clean up."""
    noted = trace()
    await work("first")

    async def stray(n):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            noted.append(await work(f"cleaned {n}"))
            asyncio.create_task(late(n)) if n == 1 else None
            raise

    async def late(n):
        try:
            noted.append(await work(f"late {n}", 5))
            await asyncio.sleep(3600)
        finally:
            noted.append("late ended")

    tasks = [asyncio.create_task(stray(n)) for n in range(3)]
    await work("second")
    return len(tasks)


@scenario
async def polling():
    """sleep(0) until something is there, with and without something pending."""
    noted = trace()
    task = asyncio.create_task(named(1))
    turns = 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    noted.append(turns)
    for _ in range(1000):
        await asyncio.sleep(0)
    noted.append(await work("after"))
    spin = asyncio.create_task(spinner(noted))
    noted.append(await work("beside"))
    spin.cancel()


async def spinner(noted):
    turns = 0
    try:
        while True:
            turns += 1
            await asyncio.sleep(0)
    finally:
        noted.append(("turns", turns))


@scenario
async def cancelled_run():
    """The engine cancels; branches clean up with steps, and the cancel goes on."""
    noted = trace()

    async def branch(n):
        try:
            await work(f"a{n}", 40)
            await sleep(3600)
        finally:
            noted.append(await work(f"cleaned {n}"))

    async def trigger():
        await work("wait", 20)
        await cancel_me()

    try:
        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(branch(n))
            group.create_task(trigger())
    finally:
        noted.append(await work("root cleaned"))
        noted.append(await work("and more", 30))


@scenario
async def cancelled_spinning():
    """The engine cancels a run that polls without a pause."""
    noted = trace()
    asking = asyncio.create_task(ask())
    turns = 0
    try:
        while True:
            turns += 1
            await asyncio.sleep(0)
    finally:
        noted.append(turns)
        noted.append(asking.done())
        noted.append(await work("cleaned"))


async def ask():
    await cancel_me()
