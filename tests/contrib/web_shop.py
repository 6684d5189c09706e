"""A FastAPI application that executes runs in its own process."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from pydantic import BaseModel

from perdure import Engine, parallel, step, workflow
from perdure.contrib.starlette import engine_of, handle_errors, lifespan
from tests.contrib.leaving import gate, leave


class Order(BaseModel):
    id: str
    amount: int = 1


@step
async def charge(order: Order) -> str:
    leave(f"charge {order.id}")
    return f"payment-{order.id}"


@step
async def pack(order: Order) -> str:
    leave(f"pack {order.id}")
    await gate("pack")
    leave(f"packed {order.id}")
    return "parcel"


@step
async def ship(parcel: str) -> str:
    leave("ship")
    return parcel


@workflow
async def fulfil(order: Order) -> str:
    payment, parcel = await parallel(charge(order), pack(order))
    return f"{payment} {await ship(parcel)}"


@asynccontextmanager
async def mine(app: FastAPI):
    leave("mine opens")
    yield {"mine": len(app.routes) > 0}
    leave("mine closes")


def make(engine: Engine, **options) -> FastAPI:
    app = FastAPI(lifespan=lifespan(engine, inside=mine, **options))
    handle_errors(app)

    @app.post("/orders")
    async def put(order: Order, engine: Annotated[Engine, Depends(engine_of)]) -> str:
        return (await engine.enqueue(fulfil, order, run_id=order.id)).run_id

    @app.get("/orders/{run_id}")
    async def get(run_id: str, request: Request) -> str:
        assert request.state.mine
        return (await request.state.perdure.get(run_id).view()).status.word

    @app.get("/orders/{run_id}/result")
    async def result(run_id: str, request: Request) -> str:
        return await request.state.perdure.get(run_id, fulfil).result(timeout=20)

    @app.get("/fault")
    async def fault(engine: Annotated[Engine, Depends(engine_of)]) -> None:
        await engine.enqueue(fulfil, Order(id="x"), priority=5000)

    return app


app = make(Engine(workflows=[fulfil], lease="5s", heartbeat="1s"), worker=True, drain=os.environ.get("DRAIN", "30s"))
