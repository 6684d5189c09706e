"""DBOS: sync workflows, which are its faster kind, called by as many threads as there are clients."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dbos import DBOS

from benchmarks.peers import measuring

Order = dict[str, Any]


@DBOS.step()
def noop(order: Order) -> Order:
    """Do nothing."""
    return order


@DBOS.step()
def increment(value: int) -> int:
    """Add one."""
    return value + 1


@DBOS.workflow()
def one_step(order: Order) -> Order:
    """W1, W5."""
    return noop(order)


@DBOS.workflow()
def five_steps(order: Order) -> Order:
    """W2."""
    for _ in range(5):
        order = noop(order)
    return order


@DBOS.workflow()
def in_sequence(steps: int) -> int:
    """W3."""
    value = 0
    for _ in range(steps):
        value = increment(value)
    return value


WORKFLOWS = {"W1": one_step, "W2": five_steps}
QUEUE = "drained"
POLLING = 0.05
"""Seconds between looks at the queue; one by default."""


async def main() -> None:
    """Measure what is asked for."""
    task = measuring.Task.read()
    DBOS(config={"name": "bench", "system_database_url": task.url, "log_level": "ERROR"})
    DBOS.launch()
    await DBOS.register_queue_async(QUEUE, global_concurrency=2 * task.clients, polling_interval_sec=POLLING)
    try:
        with ThreadPoolExecutor(task.clients) as clients:

            async def many(workload: str, n: int) -> None:
                orders = [measuring.order(number) for number in range(n)]
                if workload == "WQ":
                    handles = list(clients.map(lambda order: DBOS.enqueue_workflow(QUEUE, one_step, order), orders))
                    assert list(clients.map(lambda handle: handle.get_result(), handles)) == orders
                    return
                assert list(clients.map(WORKFLOWS[workload], orders)) == orders

            async def sequence(n: int) -> None:
                assert in_sequence(n) == n

            async def alone() -> None:
                assert one_step(measuring.order(1)) == measuring.order(1)

            await measuring.measure(many, sequence, alone)
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main())
