"""What type checkers say of starting runs: the input is asked for where the workflow takes one, and only there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

import perdure
from perdure import Engine, Handle, sync, workflow
from perdure.model.records import Event, RunRow
from perdure.operations import Tally


@dataclass
class Order:
    id: str


@workflow
async def fulfil(order: Order) -> str:
    return order.id


@workflow
def report(order: Order) -> bytes:
    return order.id.encode()


@workflow
async def tidy() -> int:
    return 1


@workflow
async def perhaps(order: Order | None) -> float:
    return 1.0 if order is None else 2.0


# -- here and now

assert_type(perdure.run(fulfil, Order("1"), run_id="r", retry_failed=False, lease="1m"), str)
assert_type(perdure.run(tidy), int)
assert_type(perdure.run(tidy, store="x.db", tools=object()), int)
assert_type(perdure.run(perhaps, None), float)
assert_type(perdure.run(perhaps, Order("1")), float)
perdure.run(fulfil)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
perdure.run(report, run_id="r")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
perdure.run(tidy, 1)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
perdure.run(fulfil, "1")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
perdure.run(fulfil, Order("1"), id="r")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
perdure.run(fulfil, Order("1"), run_id=1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


async def here() -> None:
    assert_type(await perdure.arun(fulfil, Order("1"), run_id="r"), str)
    assert_type(await perdure.arun(tidy), int)
    await perdure.arun(fulfil)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# -- through an engine


async def starting(engine: Engine) -> None:
    assert_type(await engine.run(fulfil, Order("1"), run_id="r"), str)
    assert_type(await engine.run(tidy, retry_failed=True), int)
    assert_type(await engine.enqueue(report, Order("1"), delay="1h", tags={"a": "b"}), Handle[bytes])
    assert_type(await engine.enqueue(tidy, priority=1), Handle[int])
    assert_type(await engine.enqueue_many(fulfil, [Order("1")], run_ids=["r"]), list[Handle[str]])
    await engine.run(fulfil)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await engine.enqueue(fulfil, run_id="r")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await engine.enqueue(tidy, 1)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await engine.run(fulfil, Order("1"), delay="1h")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    async for row in engine.runs(status="failed"):
        assert_type(row, RunRow)
    assert_type(await engine.runs().page(), tuple[list[RunRow], str | None])
    assert_type(await engine.get("r", tidy).fork("step", run_id="f", keep_keys=True), Handle[int])
    assert_type(await engine.runs(tags={"a": "b"}).resume(), Tally)
    await engine.get("r").fork()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    engine.runs(tags={"a": 1})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]


def blocking(engine: sync.Engine) -> None:
    assert_type(engine.run(fulfil, Order("1"), run_id="r"), str)
    assert_type(engine.run(tidy), int)
    assert_type(engine.enqueue(report, Order("1"), delay="1h"), sync.Handle[bytes])
    assert_type(engine.enqueue(tidy).result(timeout="5s"), int)
    assert_type(engine.enqueue_many(fulfil, [Order("1")])[0].result(), str)
    assert_type(engine.get("r", tidy).result(), int)
    engine.run(fulfil)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    engine.enqueue(fulfil)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    engine.run(tidy, 1)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    assert_type(engine.get("r", tidy).fork("step"), sync.Handle[int])
    assert_type(engine.runs().fork("step"), Tally)
    for row in engine.runs():
        assert_type(row, RunRow)
    for event in engine.get("r").events(follow=True):
        assert_type(event, Event)


sync.Engine("x.db", workflows=[fulfil], lease="1m")
sync.Engine("x.db", leese="1m")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
