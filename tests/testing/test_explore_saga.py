"""``explore_crashes`` over a saga: nothing that was taken is kept, wherever the process dies."""

from __future__ import annotations

import pytest

import perdure
from perdure import INJECTED, Failure, Retry, StepContext, saga, step, workflow
from perdure.testing import UnsafeWorkflow, explore_crashes


class Shop:
    """What was taken and not given back."""

    def __init__(self) -> None:
        self.taken: dict[str, str] = {}
        self.told: set[str] = set()


Ctx = StepContext[Shop]


@step
async def take(thing: str, *, ctx: Ctx = INJECTED) -> str:
    ctx.tools.taken[thing] = ctx.idempotency_key
    return thing


@step(retry=Retry(max_attempts=3, initial_delay="1h", max_delay="1h", jitter=False))
async def give_back(thing: str, *, ctx: Ctx = INJECTED) -> None:
    if ctx.attempt == 1:
        raise ConnectionError("closed for lunch")
    ctx.tools.taken.pop(thing, None)


@step
async def complain() -> None:
    raise ValueError("enough")


@step
async def hear(failure: Failure, *, ctx: Ctx = INJECTED) -> None:
    ctx.tools.told.add(ctx.idempotency_key)


@workflow(on_failure=hear)
async def gives_back() -> None:
    async with saga() as undo:
        for thing in ("a", "b"):
            undo.push(give_back, thing)
            await take(thing)
        await complain()


@workflow(on_failure=hear)
def gives_back_sync() -> None:
    with perdure.sync.saga() as undo:
        for thing in ("a", "b"):
            undo.push(give_back, thing)
            take.sync(thing)
        complain.sync()


def nothing_is_kept(shop: Shop) -> None:
    assert shop.taken == {}


def told_once(shop: Shop) -> None:
    nothing_is_kept(shop)
    assert len(shop.told) == 1


@pytest.mark.parametrize("definition", [gives_back, gives_back_sync])
def test_nothing_is_kept_wherever_the_process_dies(definition) -> None:
    report = explore_crashes(definition, tools=Shop, check=told_once)
    assert report.safe
    assert len(report.rows) > 20


@step
async def takes_and_fails(*, ctx: Ctx = INJECTED) -> None:
    """Has its effect, and fails all the same: its compensation was to be there before."""
    ctx.tools.taken["a"] = ctx.idempotency_key
    raise ValueError("enough")


@workflow
async def undoes_only_what_succeeded() -> None:
    async with saga() as undo:
        await takes_and_fails()
        undo.push(give_back, "a")


def test_a_compensation_that_is_pushed_after_its_effect_is_found_out() -> None:
    with pytest.raises(UnsafeWorkflow, match="the check failed"):
        explore_crashes(undoes_only_what_succeeded, tools=Shop, check=nothing_is_kept)
