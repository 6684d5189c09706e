"""What every system is measured by, so that the same is measured: sizes, clocks, and how figures are told."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

FULL = {"W1": 2000, "WQ": 2000, "W2": 2000, "W3": 2000, "W5": 300}
"""Runs of W1, W2 and W5, steps of W3; and runs of W1 that are drained from a queue with a limit on all workers."""
STEPS = {"W1": 1, "WQ": 1, "W2": 5}
WARM = 20

Many = Callable[[str, int], Awaitable[None]]
Sequence = Callable[[int], Awaitable[None]]
Alone = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Task:
    """What a process is to measure."""

    url: str
    clients: int

    @classmethod
    def read(cls) -> Task:
        """What this process was started for."""
        url, clients = sys.argv[1:]
        return cls(url, int(clients))


def order(number: int) -> dict[str, object]:
    """An input of ordinary size."""
    return {"id": f"order-{number}", "amount": number}


async def measure(many: Many, sequence: Sequence, alone: Alone) -> None:
    """Measure one system as the parent asks: it says a workload and its size, and is told what it took.

    Args:
        many: executes so many runs of W1, WQ or W2, and reads their results.
        sequence: executes one run of so many steps.
        alone: executes one run of one step.
    """
    for _ in range(WARM):
        await alone()
    gc.collect()
    gc.freeze()  # as ``perdure worker`` does: what was imported is not looked through again and again
    gc.set_threshold(10_000, 10, 10)
    tell(ready=1)
    while line := await asyncio.to_thread(sys.stdin.readline):
        workload, size = line.split()
        if workload == "W5":
            tell(**await _one_by_one(alone, int(size)))
            continue
        began = time.perf_counter()
        await (sequence(int(size)) if workload == "W3" else many(workload, int(size)))
        tell(seconds=time.perf_counter() - began)


def tell(**figures: float) -> None:
    """Say something to the parent."""
    print(json.dumps(figures), flush=True)


async def _one_by_one(alone: Alone, count: int) -> dict[str, float]:
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        await alone()
        taken.append((time.perf_counter() - began) * 1000)
    taken.sort()
    return {"p50": taken[count // 2], "p99": taken[int(count * 0.99)]}
