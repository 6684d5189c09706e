"""A run that waits for a person, for as long as that takes, while no process need be there.

$ python examples/04_approval.py ask 42 50000
$ python examples/04_approval.py approve 42      (or: perdure signal order-42 approved true --store orders.db)
$ python examples/04_approval.py work            (executes what can be executed, and ends)
"""

from __future__ import annotations

import asyncio
import sys

from pydantic import BaseModel

from perdure import Engine, Signal, step, workflow

LIMIT = 10_000


class Order(BaseModel):
    """What somebody wants to have."""

    id: str
    amount: int


approved = Signal[bool]("approved")


@step
async def ask(order: Order) -> None:
    print(f"somebody should look at order {order.id}: {order.amount}")


@step
async def pay(order: Order) -> str:
    print(f"paying {order.amount}")
    return f"paid {order.amount}"


@workflow
async def purchase(order: Order) -> str:
    if order.amount > LIMIT:
        await ask(order)
        if not await approved.wait(timeout="30d", default=False):
            return "rejected"
    return await pay(order)


async def main(what: str, order_id: str = "", amount: str = "0") -> None:
    engine = Engine("orders.db", workflows=[purchase])
    if what == "work":
        while await engine.tick():
            pass
        await engine.stop()
        return
    async with engine.client():
        if what == "ask":
            await engine.enqueue(purchase, Order(id=order_id, amount=int(amount)), run_id=f"order-{order_id}")
        else:
            await engine.get(f"order-{order_id}").signal(approved, True, idempotency_key="approve")
        row = await engine.get(f"order-{order_id}").row()
        print(f"order {order_id} is {row.status.word}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
