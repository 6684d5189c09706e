"""The workflows that are measured: their bodies do nothing, so that what is left is the engine."""

from __future__ import annotations

import asyncio
import random

from pydantic import BaseModel

import perdure


class Order(BaseModel):
    """An input of ordinary size."""

    id: str
    amount: int


@perdure.step
async def noop(order: Order) -> Order:
    """Do nothing."""
    return order


@perdure.step
async def jittered(order: Order) -> Order:
    """Take 0 to 4 ms."""
    await asyncio.sleep(random.random() * 0.004)  # noqa: S311 - not for secrets
    return order


@perdure.workflow
async def one_step(order: Order) -> Order:
    """W1, W5."""
    return await noop(order)


@perdure.workflow
async def five_steps(order: Order) -> Order:
    """W2, W8."""
    for _ in range(5):
        order = await noop(order)
    return order


@perdure.workflow
async def five_jittered(order: Order) -> Order:
    """W2j."""
    for _ in range(5):
        order = await jittered(order)
    return order


@perdure.step
async def increment(value: int) -> int:
    """Add one."""
    return value + 1


@perdure.workflow
async def sequence(steps: int) -> int:
    """W3."""
    value = 0
    for _ in range(steps):
        value = await increment(value)
    return value


@perdure.workflow
async def fan_out(width: int) -> int:
    """W4."""
    return sum(await asyncio.gather(*[increment(i) for i in range(width)]))


@perdure.workflow
async def asleep(order: Order) -> Order:
    """Wait for ten years: part of what a large store is filled with."""
    await perdure.sleep("3650d")
    return order
