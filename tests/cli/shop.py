"""Workflows for the tests of the command line. Steps leave a line in the file named by EFFECTS, if there is one."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel

from perdure import INJECTED, Engine, Retry, Signal, StepContext, emit, parallel, saga, sleep, step, workflow


class Order(BaseModel):
    id: str
    amount: int = 1


class Rejected(Exception):
    pass


def leave(what: str) -> None:
    if "EFFECTS" in os.environ:
        with Path(os.environ["EFFECTS"]).open("a", encoding="utf-8") as file:
            file.write(f"{what}\n")


def done(what: str) -> bool:
    """Whether the test has let the step go on."""
    return Path(os.environ["GATES"], what).exists()


@step
async def charge(order: Order) -> str:
    leave(f"charge {order.id}")
    return f"payment-{order.id}"


@step(retry=Retry(max_attempts=2, initial_delay="10ms"))
async def check(order: Order) -> None:
    leave(f"check {order.id}")
    if order.amount > 100:
        raise Rejected(order.id)


@step
async def pack(order: Order) -> bytes:
    leave(f"pack {order.id}")
    return b"x" * order.amount


@step
async def hold(order: Order, *, ctx: StepContext[object] = INJECTED) -> str:
    leave(f"hold {order.id}")
    ctx.emit(f"holding {order.id}", "held")
    ctx.progress("holding on")
    while not done("hold"):  # noqa: ASYNC110 - another process says when
        await asyncio.sleep(0.005)
    return "held"


@step
async def ask(what: str, *, ctx: StepContext[dict[str, str]] = INJECTED) -> str:
    return ctx.tools[what]


@workflow
async def fulfil(order: Order) -> str:
    payment = await charge(order)
    await check(order)
    await pack(order)
    return payment


@workflow
async def slow(order: Order) -> str:
    payment, held = await parallel(charge(order), hold(order))
    return f"{payment} {held}"


@workflow
async def nap(order: Order) -> str:
    payment = await charge(order)
    await sleep(timedelta(days=14))
    return payment


@step
async def give_back(order: Order) -> None:
    leave(f"give back {order.id}")
    if order.amount == 13 and not done("mended"):
        raise Rejected("the till is closed")


@workflow(deadline="9d")
async def bundle(order: Order) -> str:
    async with saga() as undo:
        undo.push(give_back, order)
        payment = await charge(order)
        if order.amount == 0:
            await sleep(timedelta(days=14))
        undo.push(give_back.with_options(key="last"), Order(id="last"))
        await check(Order(id=order.id, amount=101))
        return payment


@workflow
async def later(order: Order) -> str:
    try:
        return await charge(order)
    finally:
        await asyncio.sleep(3600)


@workflow
def plain() -> int:
    return 42


@workflow
async def tooled(what: str) -> str:
    return await ask(what)


@step
async def recite(number: int, *, ctx: StepContext[object] = INJECTED) -> None:
    for n in range(number):
        ctx.emit(f"line {n}\n", "lines")
    if number < 0:
        ctx.emit("x" * 100_000, "lines")


@workflow
async def tell(number: int) -> None:
    emit({"is": "a beginning"})
    await recite(number)


TOOLS = {"colour": "green"}
approved = Signal[bool]("approved")


@workflow
async def asks() -> bool:
    return await approved.wait(timeout="30d", default=False)


engine = Engine(workflows=[slow, fulfil])
NOTHING = 5
