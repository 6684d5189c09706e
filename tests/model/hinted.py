"""Functions with postponed annotations of every kind; the classes they name come later or not at all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Generic, ParamSpec, TypeVar

from pydantic import BaseModel

from perdure.model.hints import volatile

if TYPE_CHECKING:
    from nowhere import Missing

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
INJECTED: Any = object()


def wrapped(fn: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(fn)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return fn(*args, **kwargs)

    return wrapper


def plain(order: Later, count: int = 1) -> Later | None: ...
def quoted(orders: list["Later"]) -> "Later": ...  # noqa: UP037 - quotes within postponed annotations
def half(good: Later, bad: Missing, worse: list[Missing]) -> Missing: ...
def generic(box: LaterBox[int]) -> None: ...
def marked(
    prompt: Annotated[str, volatile], seed: Annotated[int, "kept", volatile], temperature: float = 0.5
) -> str: ...
def with_context(order: Later, *, ctx: Any = INJECTED, note: str = "") -> None: ...


@wrapped
def decorated(order: Later) -> Later: ...


class Service:
    class Inner(BaseModel):
        y: int

    @wrapped
    def method(self, order: Later, inner: Inner) -> Later: ...

    @classmethod
    def of_class(cls, order: Later) -> Later: ...

    @staticmethod
    def static(order: Later) -> Later: ...

    def __call__(self, order: Later) -> Later: ...


class Later(BaseModel):
    x: int


class LaterBox(BaseModel, Generic[T]):
    content: T


def make_local() -> tuple[Any, dict[str, object], type]:
    class Local(BaseModel):
        z: int

    def closed(local: Local) -> Local:
        return Local(z=local.z)

    def open_(local: Local) -> Local: ...

    return closed, {"open": open_, "scope": dict(locals())}, Local
