"""What editors and type checkers infer of workflows, of running them, and of their contexts."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import assert_type
from uuid import UUID

import perdure
from perdure import INJECTED, Engine, Handle, RunContext, StepContext, workflow
from perdure.workflow import AsyncWorkflow, SyncWorkflow, Workflow


@dataclass
class Order:
    id: str


@dataclass
class Rush(Order):
    hours: int


@workflow
async def fulfil(order: Order, *, ctx: RunContext = INJECTED) -> str:
    assert_type(ctx.run_id, str)
    assert_type(ctx.scheduled_at, datetime | None)
    return order.id


@workflow(version="2")
async def tidy() -> int:
    return 1


@workflow(name="report", queue="slow")
def report(order: Order) -> bytes:
    return order.id.encode()


@workflow
def nightly(*, ctx: RunContext = INJECTED) -> float:
    return float(ctx.version)


assert_type(fulfil, AsyncWorkflow[Order, str])
assert_type(tidy, AsyncWorkflow[None, int])
assert_type(report, SyncWorkflow[Order, bytes])
assert_type(nightly, SyncWorkflow[None, float])

# -- running one

assert_type(perdure.run(fulfil, Order("1")), str)
assert_type(perdure.run(fulfil, Rush("1", 2), run_id="order-1"), str)
assert_type(perdure.run(tidy), int)
assert_type(perdure.run(report, Order("1")), bytes)
perdure.run(fulfil, 1)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]


async def running(engine: Engine) -> None:
    assert_type(await perdure.arun(fulfil, Order("1")), str)
    assert_type(await engine.run(tidy), int)
    handle = await engine.enqueue(fulfil, Order("1"))
    assert_type(handle, Handle[str])
    assert_type(await handle.result(), str)


# -- child runs


async def parent() -> None:
    _ = assert_type(fulfil(Order("1")), Coroutine[object, None, str])
    assert_type(await fulfil.with_options(key="a")(Order("1")), str)
    assert_type(await tidy(), int)
    assert_type(await report.aio(Order("1")), bytes)
    await fulfil("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await tidy(1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


# -- one input or none


@workflow  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator]
async def two(a: int, b: int) -> int:
    return a + b


# -- collections of workflows of several types

registry: list[Workflow[Order, object]] = [fulfil, report]

# -- from deeper down

assert_type(perdure.run_context(), RunContext)
assert_type(perdure.now(), datetime)
assert_type(perdure.uuid4(), UUID)
assert_type(perdure.random(), Random)
assert_type(perdure.is_replaying(), bool)
assert_type(perdure.patched("new rates"), bool)

# -- changed code


def from_text(old: str) -> Order:
    return Order(old)


@workflow(name="fulfil", version="3", upcast=from_text)
async def newest(order: Order) -> str:
    return order.id


assert_type(newest, AsyncWorkflow[Order, str])
perdure.patched()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
warning = Engine("a.db", workflows=[fulfil, newest], on_drift="warn")
Engine("a.db", on_drift="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
tools: StepContext[Order] = perdure.step_context()
