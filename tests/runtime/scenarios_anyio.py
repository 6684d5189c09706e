"""The same with anyio, whose task groups and scopes lean on other corners of asyncio."""

from __future__ import annotations

import anyio

from tests.runtime.harness import Scenarios, cancel_me, fail, trace, work

SCENARIOS = Scenarios()
scenario = SCENARIOS.add


@scenario
async def any_groups():
    """Task groups: start(), nested, failing."""
    noted = trace()

    async def branch(n):
        try:
            for i in range(4):
                noted.append(await work(f"{n}.{i}"))
        except anyio.get_cancelled_exc_class():
            noted.append(f"{n} cancelled")
            with anyio.CancelScope(shield=True):
                noted.append(await work(f"{n} undone"))
            raise

    async def service(n, *, task_status):
        task_status.started(await work(f"started {n}"))
        noted.append(await work(f"serving {n}"))

    async def failing():
        await work("before")
        await fail("boom")

    async with anyio.create_task_group() as group:
        for n in range(3):
            group.start_soon(branch, n, name=f"branch {n}")
        noted.append(await group.start(service, 1))
        async with anyio.create_task_group() as inner:
            inner.start_soon(branch, 7)
            noted.append(await inner.start(service, 2))
    try:
        async with anyio.create_task_group() as group:
            for n in range(3):
                group.start_soon(branch, f"f{n}")
            group.start_soon(failing)
    except* ValueError as errors:
        noted.append([str(e) for e in errors.exceptions])


@scenario
async def any_scopes():
    """Scopes: deadlines, nested, shielded, cancelled by hand."""
    noted = trace()
    for n in range(3):
        with anyio.move_on_after(0.03) as outer:
            with anyio.move_on_after(0.01 + 0.01 * n) as inner:
                noted.append(await work(f"a{n}", 5 + 10 * n))
            with anyio.CancelScope(shield=True):
                noted.append(await work(f"shielded {n}"))
            noted.append(await work(f"b{n}", 15))
        noted.append((outer.cancelled_caught, inner.cancelled_caught))
    try:
        with anyio.fail_after(0.02):
            await work("slow", 50)
    except TimeoutError:
        noted.append("timed out")
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 5)
        noted.append(await work("then"))
        group.cancel_scope.cancel()


@scenario
async def any_streams():
    """Memory streams, a limiter, and the other primitives."""
    noted = trace()
    send, receive = anyio.create_memory_object_stream(2)
    limiter, event, lock = anyio.CapacityLimiter(2), anyio.Event(), anyio.Lock()

    async def produce(n, stream):
        async with stream:
            for i in range(3):
                async with limiter:
                    await stream.send(await work(f"{n}.{i}"))

    async def consume(n, stream):
        async with stream:
            async for item in stream:
                async with lock:
                    noted.append((n, item, await work(f"used {item}")))
        event.set()

    async with anyio.create_task_group() as group:
        async with send, receive:
            for n in range(3):
                group.start_soon(produce, n, send.clone())
            for n in range(2):
                group.start_soon(consume, n, receive.clone())
        await event.wait()
        noted.append(await work("one is done"))


@scenario
async def any_cancelled():
    """The engine cancels a run inside anyio's groups."""
    noted = trace()

    async def branch(n):
        try:
            await work(f"a{n}", 40)
            await anyio.sleep(3600)
        finally:
            with anyio.CancelScope(shield=True):
                noted.append(await work(f"cleaned {n}"))

    async def trigger():
        await work("wait", 20)
        await cancel_me()

    try:
        async with anyio.create_task_group() as group:
            for n in range(3):
                group.start_soon(branch, n)
            group.start_soon(trigger)
    finally:
        noted.append("left")
