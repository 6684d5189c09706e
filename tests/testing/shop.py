"""A small shop whose workflows call steps in every way there is; without a fake, its steps refuse to work."""

from __future__ import annotations

import asyncio

from perdure import INJECTED, Failure, Retry, Signal, StepContext, parallel, saga, sleep, step, workflow
from perdure import sync as blocking

approved = Signal[bool]("approved")


@step(retry=Retry(max_attempts=3, initial_delay="1m"), timeout="30s")
async def charge(amount: int, note: str = "", *, ctx: StepContext = INJECTED) -> str:
    raise ConnectionError(f"the real bank: {amount} {note} {ctx.attempt}")


@step
def label(amount: int) -> bytes:
    raise ConnectionError(f"the real printer: {amount}")


@step
async def refund(amount: int) -> None:
    raise ConnectionError(f"the real bank: {amount}")


@step
async def alarm(failure: Failure) -> None:
    raise ConnectionError(f"the real pager: {failure}")


@step
async def add(a: int, b: int) -> int:
    return a + b


@step
async def gather_all(*parts: int, **named: int) -> int:
    return sum(parts) + sum(named.values())


@step
async def hangs(n: int) -> int:
    await asyncio.get_running_loop().create_future()
    return n


class Desk:
    """Steps that are methods."""

    def __init__(self, name: str) -> None:
        self.name = name

    @step
    async def greet(self, whom: str) -> str:
        return f"{self.name} greets {whom}"

    @step
    @classmethod
    async def open(cls, hour: int) -> str:
        return f"{cls.__name__} opens at {hour}"

    @step
    @staticmethod
    def price(n: int) -> int:
        return n * 10


class SideDesk(Desk):
    """A kind of desk."""


front, back = Desk("front"), Desk("back")


@workflow
async def fulfil(amount: int) -> str:
    payment = await charge(amount)
    await sleep("14d")
    return payment


@workflow
async def order(amount: int) -> str:
    if not await approved.wait(timeout="7d", default=False):
        return "nobody wanted it"
    return await fulfil(amount)


@workflow
async def patient() -> bool:
    return await approved.wait()


@workflow
async def parent() -> bool:
    return await patient()


@workflow
async def both(amount: int) -> tuple[str, bytes]:
    return await parallel(charge(amount, note="n"), label.aio(amount))


@workflow
def in_sync(amount: int) -> str:
    payment = charge.sync(amount)
    blocking.sleep("1d")
    return f"{payment} {len(label(amount))}"


@workflow(on_failure=alarm)
async def undone(amount: int) -> str:
    async with saga() as undo:
        undo.push(refund, amount)
        return await charge(amount)


@workflow
async def at_desks() -> list[str]:
    return [
        await front.greet("Ann"),
        await back.greet("Bob"),
        await Desk.open(9),
        await SideDesk.open(10),
        str(await Desk.price.aio(3)),
    ]


@workflow
async def sums(n: int) -> int:
    first = await add(n, b=1)
    return await gather_all(first, n, extra=3)


@workflow
async def patience(n: int) -> int:
    try:
        return await hangs.with_options(timeout="30s")(n)
    except TimeoutError:
        return -1


@workflow
async def holds(n: int) -> int:
    return await add(await hangs(n), 1)
