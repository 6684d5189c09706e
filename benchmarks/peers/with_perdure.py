"""Perdure, in the process that measures it."""

from __future__ import annotations

import asyncio

import perdure
from benchmarks import workloads
from benchmarks.peers import measuring

WORKFLOWS = {
    "W1": workloads.one_step,
    "WQ": workloads.one_step,
    "W2": workloads.five_steps,
    "W3": workloads.sequence,
}


async def main() -> None:
    """Measure what is asked for."""
    task = measuring.Task.read()
    queue = perdure.Queue("drained", concurrency=2 * task.clients)
    workflows = dict.fromkeys(WORKFLOWS.values())
    async with perdure.Engine(task.url, workflows=workflows, queues=[queue], concurrency=task.clients) as engine:

        async def many(workload: str, n: int) -> None:
            orders = [workloads.Order.model_validate(measuring.order(number)) for number in range(n)]
            where = queue if workload == "WQ" else None
            handles = await engine.enqueue_many(WORKFLOWS[workload], orders, queue=where)
            assert [await handle.result() for handle in handles] == orders

        async def sequence(n: int) -> None:
            assert await engine.run(workloads.sequence, n) == n

        async def alone() -> None:
            order = workloads.Order.model_validate(measuring.order(1))
            assert await engine.run(workloads.one_step, order) == order

        await measuring.measure(many, sequence, alone)


if __name__ == "__main__":
    asyncio.run(main())
