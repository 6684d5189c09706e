"""Workflows whose tasks share things: queues, locks, lists, generators, context variables."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars

from perdure import run_context, sleep
from tests.runtime.harness import Scenarios, trace, work
from tests.runtime.scenarios import named

SCENARIOS = Scenarios()
scenario = SCENARIOS.add


@scenario
async def queues():
    """Producers and consumers over bounded, priority and lifo queues."""
    noted = trace()
    for make in (lambda: asyncio.Queue(2), lambda: asyncio.PriorityQueue(3), asyncio.LifoQueue):
        queue = make()

        async def produce(n, queue=queue):
            for i in range(3):
                await queue.put(await work(f"{n}.{i}"))

        async def consume(n, queue=queue):
            while True:
                noted.append((n, item := await queue.get()))
                await work(f"used {item}")
                queue.task_done()

        consumers = [asyncio.create_task(consume(n)) for n in range(2)]
        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(produce(n))
        await queue.join()
        for consumer in consumers:
            consumer.cancel()
        await asyncio.gather(*consumers, return_exceptions=True)


@scenario
async def primitives():
    """Lock, Semaphore, Event, Condition and Barrier."""
    noted = trace()
    lock, semaphore, event, condition = asyncio.Lock(), asyncio.Semaphore(2), asyncio.Event(), asyncio.Condition()
    barrier = asyncio.Barrier(3)
    ready = []

    async def branch(n):
        async with lock:
            noted.append(("lock", n, await work(f"l{n}")))
        async with semaphore:
            noted.append(("semaphore", n, await work(f"s{n}")))
        noted.append(("barrier", n, await barrier.wait()))
        await event.wait()
        async with condition:
            ready.append(n)
            condition.notify_all()
            await condition.wait_for(lambda: len(ready) == 3)
        noted.append(("done", n, await work(f"d{n}")))

    async def setter():
        await work("set", 20)
        event.set()

    await asyncio.gather(*[branch(n) for n in range(3)], setter())


variable = contextvars.ContextVar("variable", default="unset")


@scenario
async def generators():
    """Async generators with aclosing, exit stacks, and context variables."""
    noted = trace()

    async def produce(n):
        try:
            for i in range(5):
                yield await work(f"{n}.{i}")
        finally:
            noted.append(await work(f"closed {n}"))

    async with contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(contextlib.aclosing(produce(n))) for n in range(2)]
        stack.push_async_callback(work, "last")
        for _ in range(3):
            for stream in streams:
                noted.append(await anext(stream))
    variable.set("root")

    async def child(n):
        seen = variable.get()
        variable.set(f"{seen}.{n}")
        await work(str(n))
        noted.append(variable.get())

    await asyncio.gather(child(1), child(2), asyncio.create_task(child(3), context=contextvars.Context()))
    noted.append(variable.get())


@scenario
async def ping_pong():
    """Two tasks and two queues, a few hundred items, a step now and then."""
    noted = trace()
    there, back = asyncio.Queue(), asyncio.Queue()

    async def pong():
        while True:
            await back.put(await there.get() + 1)

    ponger = asyncio.create_task(pong())
    value = 0
    for n in range(300):
        await there.put(value)
        value = await back.get()
        if n % 50 == 0:
            noted.append(await work(str(value)))
    ponger.cancel()
    return value


@scenario
async def shared_list():
    """Workers that share a list, and suspensions between."""
    noted = trace()
    items = list(range(8))

    async def worker(n):
        while items:
            item = items.pop(0)
            noted.append((n, item, await work(str(item))))
            if item == 5:
                await asyncio.sleep(0.3)

    await asyncio.gather(*[worker(n) for n in range(3)])
    await sleep("2s")
    noted.append(run_context().run_id != "")
    noted.append(await asyncio.gather(asyncio.sleep(30, "slept"), asyncio.sleep(20, "less"), named("x")))
