"""Steps and workflows of every shape, in a module whose annotations are postponed and name what comes later."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from perdure import INJECTED, StepContext, step, workflow
from perdure.workflow import Step

if TYPE_CHECKING:
    from decimal import Decimal

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@step
def later(x: Later | None) -> list[Later]:
    return [] if x is None else [x]


@workflow
async def flow(x: Later) -> Later:
    return x


@step
def unseen(x: Decimal, y: Later) -> Later:
    return y


@step
def quoted(x: list["Later"]) -> "Later":  # noqa: UP037 - quoted twice over
    return x[0]


@step
def generic(x: Box[Later]) -> Box[Later]:
    return x


def logged(fn: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    @functools.wraps(fn)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return await fn(*args, **kwargs)

    return wrapper


@step
@logged
async def wrapped(x: Later, *, ctx: StepContext[None] = INJECTED) -> Later:
    assert ctx is INJECTED
    return x


def local() -> Step[..., Any]:
    @dataclass
    class Local:
        n: int

    @step
    def takes_local(x: Local) -> Local:
        return x

    takes_local.local = Local  # type: ignore[attr-defined]
    return takes_local


class Service:
    """``self`` and ``cls`` are neither recorded nor compared."""

    @step
    def method(self, x: Later) -> Later:
        assert isinstance(self, Service)
        return x

    @step
    async def amethod(self, x: Later, *, ctx: StepContext[None] = INJECTED) -> Later:
        assert ctx is INJECTED
        assert isinstance(self, Service)
        return x

    @step
    @classmethod
    def outer_class(cls, x: Later) -> Later:
        assert issubclass(cls, Service)
        return x

    @classmethod
    @step
    def inner_class(cls, x: Later) -> Later:
        assert issubclass(cls, Service)
        return x

    @step
    @staticmethod
    def outer_static(x: Later) -> Later:
        return x

    @staticmethod
    @step
    def inner_static(x: Later) -> Later:
        return x


class Sub(Service):
    """Inherits its steps."""


class Callee:
    def __call__(self, x: Later) -> Later:
        return x


class AsyncCallee:
    async def __call__(self, x: Later) -> Later:
        return x


def two(y: int, x: Later) -> Later:
    return x


instance = step(Callee())
async_instance = step(AsyncCallee())
partial = step(functools.partial(two, 1))
bound = step(Service().method.fn.__get__(Service()))
anonymous = step(name="anonymous")(lambda x: x)


@dataclass
class Later:
    n: int


@dataclass
class Box(Generic[T]):
    it: T
