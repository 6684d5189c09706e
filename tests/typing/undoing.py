"""What editors and type checkers infer of sagas, of handlers of failures, and of deadlines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import assert_type

import perdure
from perdure import INJECTED, Engine, Failure, StepContext, Undo, saga, step, workflow
from perdure.workflow import AsyncWorkflow, SyncWorkflow


@dataclass
class Order:
    id: str


@dataclass
class Rush(Order):
    hours: int


@step
async def charge(order: Order) -> str:
    return order.id


@step
async def refund(order: Order, *, ctx: StepContext[None] = INJECTED) -> str:
    return order.id + ctx.run_id


@step
def release(order: Order, shelf: int, count: int = 1) -> bool:
    return count > shelf and bool(order.id)


class Depot:
    @step
    async def unpack(self, order: Order) -> str:
        return order.id


@workflow
async def return_parcel(order: Order) -> str:
    return order.id


@workflow
async def sweep() -> None: ...


depot = Depot()


@workflow
async def fulfil(order: Order) -> str:
    async with saga() as undo:
        assert_type(undo, Undo)
        undo.push(refund, order)
        undo.push(refund.with_options(key="k"), Rush(order.id, 1))
        undo.push(release, order, 3)
        undo.push(release, order, shelf=3, count=2)
        undo.push(depot.unpack, order)
        undo.push(return_parcel, order)
        undo.push(sweep)
        undo.push(refund)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
        undo.push(refund, 1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
        undo.push(release, order)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
        undo.push(return_parcel)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
        undo.push(return_parcel, 1)  # type: ignore[misc]  # pyright: ignore[reportCallIssue, reportArgumentType]
        undo.push(refund(order))  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
        undo.pop()
        undo.clear()
        return await charge(order)


@workflow
def fulfil_sync(order: Order) -> str:
    with perdure.sync.saga() as undo:
        assert_type(undo, Undo)
        undo.push(release, order, 3)
        return charge.sync(order)


# -- told of a failure


@step
async def tell(failure: Failure) -> None:
    assert_type(failure.type, str)
    assert_type(failure.step, str | None)
    assert_type(failure.attempt, int | None)


@step
def tell_all(failure: Failure, order: Order, *, ctx: StepContext[None] = INJECTED) -> str:
    return failure.message + order.id + ctx.run_id


@step
async def tell_other(failure: Failure, order: int) -> str:
    return failure.message * order


@workflow(on_failure=tell)
async def told(order: Order) -> str:
    return order.id


@workflow(on_failure=tell_all, deadline="7d", version="2")
async def told_all(order: Order) -> str:
    return order.id


@workflow(on_failure=tell_all)
def told_sync(order: Order) -> bytes:
    return order.id.encode()


@workflow(on_failure=tell)
def told_of_nothing() -> bytes:
    return b""


assert_type(told, AsyncWorkflow[Order, str])
assert_type(told_all, AsyncWorkflow[Order, str])
assert_type(told_sync, SyncWorkflow[Order, bytes])
assert_type(told_of_nothing, SyncWorkflow[None, bytes])


@workflow(on_failure=tell_other)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator]
async def told_wrongly(order: Order) -> str:
    return order.id


# -- deadlines


async def starts(engine: Engine) -> None:
    await engine.enqueue(fulfil, Order("1"), deadline="2h")
    await engine.enqueue(fulfil, Order("1"), deadline=timedelta(hours=2))
    await engine.enqueue_many(fulfil, [Order("1")], deadline=7200)
    assert_type(await engine.run(fulfil, Order("1"), deadline=datetime.max.replace(tzinfo=UTC)), str)
    await engine.enqueue(fulfil, Order("1"), deadline=["2h"])  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await engine.get("r").cancel("enough", force=True)


assert_type(perdure.run(fulfil, Order("1"), deadline="2h"), str)
