"""Absurd: async workers with connections of their own, polling as fast as helps."""

from __future__ import annotations

import asyncio
from typing import Any

import absurdctl
import psycopg
from absurd_sdk import AsyncAbsurd

from benchmarks.peers import measuring

Order = dict[str, Any]
POLL = 0.005
"""Seconds; the SDK's 0.25 would be most of what W5 measures."""
QUEUE = "bench"
WORKERS = 2
CONNECTIONS = 4


def register(worker: AsyncAbsurd) -> None:
    """Have a worker know the tasks."""

    async def noop(order: Order) -> Order:
        return order

    @worker.register_task("W1")
    async def one_step(order: Order, ctx: Any) -> Order:
        return await ctx.step("noop", lambda: noop(order))

    @worker.register_task("W2")
    async def five_steps(order: Order, ctx: Any) -> Order:
        for number in range(5):
            order = await ctx.step(f"noop-{number}", lambda: noop(order))  # noqa: B023 - awaited at once
        return order

    @worker.register_task("W3")
    async def in_sequence(params: dict[str, int], ctx: Any) -> int:
        value = 0
        for number in range(params["steps"]):

            async def increment() -> int:
                return value + 1  # noqa: B023 - awaited at once

            value = await ctx.step(f"increment-{number}", increment)
        return value


async def main() -> None:
    """Measure what is asked for."""
    task = measuring.Task.read()
    with psycopg.connect(task.url, autocommit=True) as connection:
        if connection.execute("SELECT to_regnamespace('absurd')").fetchone() == (None,):
            connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
    clients = [AsyncAbsurd(task.url, queue_name=QUEUE) for _ in range(CONNECTIONS)]
    await clients[0].create_queue(QUEUE)
    workers = [AsyncAbsurd(task.url, queue_name=QUEUE) for _ in range(WORKERS)]
    for worker in workers:
        register(worker)
    each = max(1, task.clients // WORKERS)
    working = [asyncio.create_task(one.start_worker(concurrency=each, poll_interval=POLL)) for one in workers]

    async def execute(client: AsyncAbsurd, workload: str, inputs: list[Any]) -> list[Any]:
        workload = "W1" if workload == "WQ" else workload  # all its tasks are drained from a queue
        spawned = [await client.spawn(workload, one, queue=QUEUE) for one in inputs]
        results = [await client.await_task_result(one["task_id"]) for one in spawned]
        return [result.result for result in results]

    async def many(workload: str, n: int) -> None:
        orders = [measuring.order(number) for number in range(n)]
        parts = [orders[at::CONNECTIONS] for at in range(CONNECTIONS)]
        done = await asyncio.gather(
            *(execute(client, workload, part) for client, part in zip(clients, parts, strict=True))
        )
        assert done == parts

    async def sequence(n: int) -> None:
        assert await execute(clients[0], "W3", [{"steps": n}]) == [n]

    async def alone() -> None:
        assert await execute(clients[0], "W1", [measuring.order(1)]) == [measuring.order(1)]

    try:
        await measuring.measure(many, sequence, alone)
    finally:
        for one in working:
            one.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        for one in (*workers, *clients):
            await one.close()


if __name__ == "__main__":
    asyncio.run(main())
