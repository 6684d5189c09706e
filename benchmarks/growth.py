"""What a step costs on a store that holds many events, beside what it costs on one that holds few."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import perdure
from benchmarks import workloads
from benchmarks.driving import STEPS, WORKFLOWS, many
from benchmarks.filling import fill, make_models, settle
from benchmarks.places import NewStore

RUNS, WARM = 1000, 500
EVENTS = 8
"""Of a run of five steps."""


@dataclass(frozen=True)
class Pairs:
    """Steps per second on a small store and a large one, measured in turn."""

    small: list[float]
    large: list[float]

    @property
    def ratio(self) -> float:
        """The large store's rate to the small one's: the median over the pairs."""
        return statistics.median(large / small for small, large in zip(self.small, self.large, strict=True))

    def __str__(self) -> str:
        rates = f"{statistics.median(self.large):>9,.0f} steps/s  ({min(self.large):,.0f} to {max(self.large):,.0f})"
        return f"{rates}  = {self.ratio:.2f} x {statistics.median(self.small):,.0f}"


def filled(target: str, events: int) -> str:
    """Make a store that holds about so many events of finished runs."""
    models = make_models(target)
    fill(target, [models.finished], events // EVENTS)
    settle(target)
    return target


def pairs(small: Callable[[], str], large: str, rounds: int) -> Pairs:
    """Measure W2 on a fresh small store and on the large one, whichever comes first by turns."""
    seen = Pairs([], [])
    for number in range(rounds):
        sides = [(seen.small, small()), (seen.large, large)]
        for rates, target in sides if number % 2 else reversed(sides):
            rates.append(asyncio.run(_rate(target)))
    return seen


async def _rate(target: str) -> float:
    async with perdure.Engine(target, workflows=WORKFLOWS, concurrency=1000) as engine:
        await many(engine, workloads.five_steps, STEPS, WARM)
        return await many(engine, workloads.five_steps, STEPS, RUNS)


def w8(new: NewStore, rounds: int, events: int = 1_000_000) -> Pairs:
    """W8: W2 on a store that holds a million events, beside an empty one."""
    return pairs(new, filled(new(), events), rounds)
