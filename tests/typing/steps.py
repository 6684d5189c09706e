"""What editors and type checkers infer of steps."""

from __future__ import annotations

import functools
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_type

from perdure import INJECTED, Retry, StepContext, step


@dataclass
class Order:
    id: str


@dataclass
class Tools:
    stripe: str


@step
async def charge(order: Order, *, ctx: StepContext[Tools] = INJECTED) -> str:
    assert_type(ctx.tools, Tools)
    assert_type(ctx.attempt, int)
    assert_type(ctx.idempotency_key, str)
    return order.id


@step(name="print", retry=Retry(max_attempts=5, initial_delay="200ms"), timeout="30s", at_most_once=False)
def label(order: Order, copies: int = 1) -> bytes:
    return order.id.encode() * copies


@step(timeout=timedelta(seconds=1))
async def refund(order: Order) -> None:
    assert order.id


@step(upcast=lambda old: {"id": old})
async def found(order: Order) -> Order:
    return order


made: list[Coroutine[object, None, object]] = []

# -- the function's colour, and the other one

made.append(assert_type(charge(Order("1")), Coroutine[object, None, str]))
made.append(assert_type(charge.aio(Order("1")), Coroutine[object, None, str]))
assert_type(charge.sync(Order("1")), str)
assert_type(label(Order("1")), bytes)
made.append(assert_type(label.aio(Order("1"), copies=2), Coroutine[object, None, bytes]))
assert_type(label.sync(Order("1"), 2), bytes)


async def awaited() -> None:
    assert_type(await charge(Order("1")), str)
    assert_type(await label.aio(Order("1")), bytes)
    assert_type(await refund(Order("1")), None)
    assert_type(await found(Order("1")), Order)


# -- the signature is kept

charge("1")  # type: ignore[arg-type, unused-coroutine]  # pyright: ignore[reportArgumentType, reportUnusedCoroutine]
charge()  # type: ignore[call-arg, unused-coroutine]  # pyright: ignore[reportCallIssue]
label(Order("1"), "2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
label(Order("1"), copies="2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
label.sync(Order("1"), copy=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
charge(Order("1"))  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]

# -- options keep it too, and are checked themselves

made.append(assert_type(charge.with_options(key="a", timeout="1m")(Order("1")), Coroutine[object, None, str]))
assert_type(label.with_options(retry=None)(Order("1")), bytes)
made.append(
    assert_type(label.with_options(timeout=None, at_most_once=True).aio(Order("1")), Coroutine[object, None, bytes])
)
label.with_options(key=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
label.with_options(name="b")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
made.append(charge.with_options(key="a")("1"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
step(retry=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


# -- methods


class Api:
    @step
    async def get(self, order: Order, /, *, ctx: StepContext[None] = INJECTED) -> int:
        return len(order.id) + ctx.attempt

    @step(name="post")
    def post(self, order: Order) -> str:
        return order.id

    @step
    @staticmethod
    def plain(order: Order) -> str:
        return order.id

    @staticmethod
    @step
    def plain2(order: Order) -> str:
        return order.id

    @step
    @classmethod
    def make(cls, order: Order) -> Api:
        assert order.id
        return cls()

    @classmethod
    @step
    def make2(cls, order: Order) -> Api:
        assert order.id
        return cls()


made.append(assert_type(Api().get(Order("1")), Coroutine[object, None, int]))
assert_type(Api().get.with_options(key="1").sync(Order("1")), int)
assert_type(Api().post(Order("1")), str)
made.append(assert_type(Api().post.aio(Order("1")), Coroutine[object, None, str]))
made.append(assert_type(Api().get(Order("1")), Coroutine[object, None, int]))
# mypy takes the first overload of __get__ without looking whether self fits; basedpyright has it right.
assert_type(Api.plain(Order("1")), str)  # type: ignore[call-arg]
assert_type(Api.plain2(Order("1")), str)  # type: ignore[call-arg]
assert_type(Api.make(Order("1")), Api)
assert_type(Api.make2(Order("1")), Api)
Api().post("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# -- other callables


def scale(by: int, x: int) -> float:
    return by * x * 0.5


class Scale:
    def __call__(self, x: int) -> float:
        return x * 0.5


assert_type(step(Scale())(1), float)
assert_type(step(name="twice")(lambda: 2)(), int)
assert_type(step(functools.partial(scale, 2))(x=1), float)
