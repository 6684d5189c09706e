"""A trip that is booked leg by leg, and undone: what the tests of sagas, and of what comes after a failure, run."""

from __future__ import annotations

import asyncio

import perdure
from perdure import INJECTED, Failure, Retry, StepContext, parallel, saga, step, workflow
from tests.engine.desk import Desk, Refused, _work


class Counter(Desk):
    """A desk that notes what was done, and what it was told."""

    def __init__(self):
        super().__init__()
        self.did = []
        self.told = []


Ctx = StepContext[Counter]


async def act(what: str, ctx: Ctx) -> str:
    """Note what is done, and hold or fail it as the desk says."""
    ctx.tools.did.append(what)
    return await _work(what, ctx)


@step
async def book(leg: str, *, ctx: Ctx = INJECTED) -> str:
    return await act(f"book {leg}", ctx)


@step
async def unbook(leg: str, *, ctx: Ctx = INJECTED) -> None:
    await act(f"unbook {leg}", ctx)


@step(retry=Retry(max_attempts=3, initial_delay="1h", max_delay="1h", jitter=False))
async def unbook_patiently(leg: str, *, ctx: Ctx = INJECTED) -> None:
    await act(f"unbook {leg}", ctx)


@step
def unbook_on_a_thread(leg: str, *, ctx: Ctx = INJECTED) -> None:
    ctx.tools.began(ctx)
    ctx.tools.did.append(f"unbook {leg}")


class Agency:
    """Has its steps as methods."""

    @step
    async def unbook(self, leg: str, *, ctx: Ctx = INJECTED) -> None:
        await act(f"unbook {leg}", ctx)


agency = Agency()


@workflow
async def undo_by_child(leg: str) -> None:
    await unbook(leg)


@workflow
async def trip(legs: list[str]) -> list[str]:
    booked: list[str] = []
    async with saga() as undo:
        for leg in legs:
            undo.push(unbook, leg)
            booked.append(await book(leg))
    return booked


@workflow
async def patient_trip(legs: list[str]) -> None:
    async with saga() as undo:
        for leg in legs:
            undo.push(unbook_patiently, leg)
            await book(leg)


@workflow
async def waiting_trip(legs: list[str]) -> None:
    async with saga() as undo:
        for leg in legs:
            undo.push(unbook, leg)
            await book(leg)
        await perdure.sleep("30d")


@workflow
def sync_trip(legs: list[str]) -> None:
    with perdure.sync.saga() as undo:
        for leg in legs:
            undo.push(unbook, leg)
            book.sync(leg)


@workflow
def sync_waiting_trip(legs: list[str]) -> None:
    with perdure.sync.saga() as undo:
        for leg in legs:
            undo.push(unbook, leg)
            book.sync(leg)
        perdure.sync.sleep("30d")


@workflow
async def all_kinds() -> None:
    async with saga() as undo:
        undo.push(unbook, "plain")
        undo.push(unbook.with_options(key="the-one"), "keyed")
        undo.push(unbook_on_a_thread, leg="thread")
        undo.push(undo_by_child, "child")
        undo.push(undo_by_child.with_options(run_id="chosen"), "named child")
        await book("x")


@workflow
async def by_method() -> None:
    async with saga() as undo:
        undo.push(agency.unbook, "bound")
        undo.push(Agency.unbook, agency, "unbound")
        await book("x")


@workflow
async def nested() -> str:
    async with saga() as outer:
        outer.push(unbook, "outer")
        try:
            async with saga() as inner:
                inner.push(unbook, "inner")
                await book("inner")
        except Refused:
            await book("instead")
        async with saga() as second:
            second.push(unbook, "second")
        return await book("outer")


async def leg(name: str) -> str:
    async with saga() as undo:
        undo.push(unbook, name)
        await book(name)
        return await book(f"{name} hotel")


@workflow
async def branches() -> tuple[str, str]:
    return await parallel(leg("a"), leg("b"))


@workflow
async def groups() -> None:
    async with saga() as undo:
        undo.push(unbook, "whole")
        async with asyncio.TaskGroup() as group:
            group.create_task(leg("a"))
            group.create_task(leg("b"))


@workflow
async def in_time() -> str:
    try:
        async with asyncio.timeout(60):
            return await leg("slow")
    except TimeoutError:
        return "too late"


@workflow
async def takes_back() -> None:
    async with saga() as undo:
        for name in ("a", "b", "c"):
            undo.push(unbook, name)
        undo.pop()
        await book("x")
        undo.clear()
        undo.push(unbook, "last")
        await book("y")


@workflow
async def changes_arguments(legs: list[str]) -> None:
    async with saga() as undo:
        undo.push(unbook_list, legs)
        legs.append("later")
        await book("x")


@step
async def unbook_list(legs: list[str], *, ctx: Ctx = INJECTED) -> None:
    await act(f"unbook {legs}", ctx)


@step
async def tell(failure: Failure, legs: list[str], *, ctx: Ctx = INJECTED) -> None:
    ctx.tools.told.append((failure, legs))
    await act("tell", ctx)


@step(retry=Retry(max_attempts=2, initial_delay="1h", max_delay="1h", jitter=False))
async def tell_briefly(failure: Failure, *, ctx: Ctx = INJECTED) -> None:
    ctx.tools.told.append(failure)
    await act("tell", ctx)
