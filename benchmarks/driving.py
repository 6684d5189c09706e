"""An engine driven through many runs of one workflow, as several benchmarks do it."""

from __future__ import annotations

import time
from typing import Any

import perdure
from benchmarks import workloads
from perdure.workflow import Workflow

RUNS = 2000
STEPS = 5
WORKFLOWS: list[Workflow[Any, Any]] = [
    workloads.one_step, workloads.five_steps, workloads.five_jittered, workloads.sequence, workloads.fan_out,
    workloads.asleep,
]  # fmt: skip


async def many(
    engine: perdure.Engine, workflow: Workflow[workloads.Order, workloads.Order], steps: int, count: int = RUNS
) -> float:
    """Runs (or steps) per second from enqueue to the last result."""
    orders = [workloads.Order(id=f"order-{n}", amount=n) for n in range(count)]
    began = time.perf_counter()
    handles = await engine.enqueue_many(workflow, orders)
    results = [await handle.result() for handle in handles]
    seconds = time.perf_counter() - began
    assert results == orders
    return count * steps / seconds
