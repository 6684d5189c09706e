"""What steps may end with that is hard to store or dangerous to pass on."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import queue
import socket
import threading
from collections.abc import Callable
from typing import Any

from perdure import step, workflow


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __reduce__(self) -> Any:
        raise RuntimeError("no bytes either")


class Stateless:
    def __getstate__(self) -> object:
        raise RuntimeError("no state")


def cyclic() -> Exception:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


RAISED: dict[str, Callable[[], BaseException]] = {
    "exit": lambda: SystemExit(0),
    "exit-text": lambda: SystemExit("x"),
    "keyboard": KeyboardInterrupt,
    "generator": GeneratorExit,
    "cancelled": asyncio.CancelledError,
    "timeout": TimeoutError,
    "futures-timeout": concurrent.futures.TimeoutError,
    "stop": lambda: StopIteration(7),
    "stop-async": StopAsyncIteration,
    "empty": queue.Empty,
    "base": lambda: BaseException("bare"),
    "lock": lambda: Exception(threading.Lock()),
    "unspeakable": Unspeakable,
    "cyclic": cyclic,
    "group": lambda: ExceptionGroup("many", [ValueError(1), ExceptionGroup("more", [KeyError(2)])]),
    "huge": lambda: ValueError("m" * 50_000_000),
}

RETURNED: dict[str, Callable[[], object]] = {
    "lambda": lambda: lambda: None,
    "socket": socket.socket,
    "generator": lambda: (n for n in range(3)),
    "stateless": Stateless,
}


@step
async def raise_async(what: str) -> None:
    raise RAISED[what]()  # noqa: RSE102 - a function of the table, not a class


@step
def raise_sync(what: str) -> None:
    raise RAISED[what]()  # noqa: RSE102 - a function of the table, not a class


@step
async def give(what: str) -> Any:
    value = RETURNED[what]()
    if isinstance(value, socket.socket):
        value.close()
    return value


@workflow
async def raises_async(what: str) -> None:
    await raise_async(what)


@workflow
async def raises_sync(what: str) -> None:
    await raise_sync.aio(what)


@workflow
async def gives(what: str) -> None:
    await give(what)


@workflow
async def raises_itself(what: str) -> None:
    raise RAISED[what]()  # noqa: RSE102 - a function of the table, not a class


COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


@step
def see_sync() -> str:
    return COLOUR.get()


@step
async def see_async() -> str:
    return COLOUR.get()


@step
async def see_in_thread() -> str:
    return await asyncio.to_thread(COLOUR.get)


async def branch(colour: str) -> list[str]:
    COLOUR.set(f"{colour}-branch")
    return [await see_sync.aio(), await see_async()]


@workflow
async def coloured(colour: str) -> list[str]:
    seen = [await see_sync.aio(), await see_async()]
    if colour:
        COLOUR.set(colour)
    seen += [await see_sync.aio(), await see_async(), await see_in_thread()]
    for pair in await asyncio.gather(branch(f"{colour}1"), branch(f"{colour}2")):
        seen += pair
    return [*seen, await see_sync.aio()]


WORKFLOWS = [raises_async, raises_sync, gives, raises_itself, coloured]
