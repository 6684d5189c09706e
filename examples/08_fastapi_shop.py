"""A shop that is killed between charging a card and writing that down, and charges nobody twice.

$ pip install fastapi uvicorn perdure
$ python examples/08_fastapi_shop.py                        (in one terminal; it dies of the first order)
$ curl -X POST 'localhost:8000/orders/42?amount=50'         (in another)
$ python examples/08_fastapi_shop.py                        (again: it goes on by itself)
$ curl localhost:8000/orders/42
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI
from pydantic import BaseModel

from perdure import INJECTED, Engine, StepContext, step, workflow
from perdure.contrib.starlette import engine_of, handle_errors, lifespan


class Order(BaseModel):
    """What somebody buys."""

    id: str
    amount: int


class Provider:
    """Stands for a payment service."""

    def charge(self, amount: int, key: str) -> str:
        """Charge a card; under a key that it knows, not again."""
        charged = Path(f"charge-{key}.json")
        if charged.exists():
            print(f"provider: {key[:8]} is charged already", flush=True)
        else:
            charged.write_text(json.dumps({"amount": amount}))
            print(f"provider: charging {amount} as {key[:8]}", flush=True)
        return f"payment {key[:8]}"


@step
def charge(order: Order, *, ctx: StepContext[Provider] = INJECTED) -> str:
    payment = ctx.tools.charge(order.amount, ctx.idempotency_key)  # the same whenever the step is repeated
    crashed = Path("crashed")
    if not crashed.exists():
        crashed.touch()
        print("the money is taken, and the process dies before anything is written down", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return payment


@workflow
async def fulfil(order: Order) -> str:
    return await charge.aio(order)


engine = Engine("shop.db", workflows=[fulfil], tools=Provider())
app = FastAPI(lifespan=lifespan(engine, worker=True))  # executes in this process, too: a small shop
handle_errors(app)


@app.post("/orders/{order_id}", status_code=202)
async def put(order_id: str, amount: int, perdure: Annotated[Engine, Depends(engine_of)]) -> str:
    return (await perdure.enqueue(fulfil, Order(id=order_id, amount=amount), run_id=f"order-{order_id}")).run_id


@app.get("/orders/{order_id}")
async def show(order_id: str, perdure: Annotated[Engine, Depends(engine_of)]) -> str:
    return await perdure.get(f"order-{order_id}", fulfil).result(timeout=10)


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000, log_level="warning")
