"""What editors and type checkers infer of several calls at once: parallel, map, and asyncio's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import assert_type

import perdure
from perdure import parallel, sleep, sleep_until, step, workflow


@step
async def charge(x: int) -> str:
    return str(x)


@step
def label(x: int) -> bytes:
    return bytes(x)


@step
async def add(x: int, y: int) -> int:
    return x + y


@workflow
async def child(x: int) -> float:
    return float(x)


async def numbers() -> AsyncIterator[int]:
    yield 1


async def plain() -> list[int]:
    return [1]


async def in_parallel() -> None:
    assert_type(await parallel(), tuple[()])
    assert_type(await parallel(charge(1)), tuple[str])
    assert_type(await parallel(charge(1), label.aio(2)), tuple[str, bytes])
    assert_type(await parallel(charge(1), label.aio(2), plain()), tuple[str, bytes, list[int]])
    a, b = await parallel(charge(1), child(2))
    assert_type(a, str)
    assert_type(b, float)
    assert_type(
        await parallel(charge(1), label.aio(2), plain(), charge(1), plain(), child(6)),
        tuple[str, bytes, list[int], str, list[int], float],
    )
    assert_type(await parallel(*[charge(n) for n in range(9)]), tuple[str, ...])
    assert_type(
        await parallel(charge(1), plain(), return_exceptions=True),
        tuple[str | BaseException, list[int] | BaseException],
    )
    assert_type(await parallel(*[charge(n) for n in range(9)], return_exceptions=True), tuple[str | BaseException, ...])
    await parallel(1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await parallel(charge)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


async def mapped() -> None:
    assert_type(await perdure.map(charge, [1, 2]), list[str])
    assert_type(await perdure.map(label, range(3), limit=2, key=str), list[bytes])
    assert_type(await perdure.map(charge, numbers()), list[str])
    assert_type(await perdure.map(child, (1, 2)), list[float])
    await perdure.map(charge, ["1"])  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await perdure.map(add, [1])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await perdure.map(plain, [1])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def with_asyncio() -> None:
    assert_type(await asyncio.gather(charge(1), plain()), tuple[str, list[int]])
    assert_type(await asyncio.gather(charge(1), label.aio(2), plain()), tuple[str, bytes, list[int]])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(charge(1))
        other = group.create_task(label.aio(1))
    assert_type(task.result(), str)
    assert_type(other.result(), bytes)
    assert_type(await asyncio.wait_for(charge(1), 3), str)
    first = asyncio.ensure_future(charge(1))
    assert_type(await asyncio.shield(first), str)


async def timed() -> None:
    await sleep("14d")
    await sleep_until(datetime(2030, 1, 1, tzinfo=UTC))
    await sleep(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await sleep_until("2030-01-01")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
