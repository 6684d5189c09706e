"""Crashes by SIGKILL: what dies in the explorer's own process dies there in a process of its own."""

from __future__ import annotations

import asyncio
import os

import pytest

from perdure import INJECTED, Signal, StepContext, sleep, step, workflow
from perdure.errors import DefinitionError
from perdure.testing import Ledger, UnsafeWorkflow, explore_crashes
from tests.testing import planted

go = Signal[int]("go")


@step
async def pay(what: str, *, ctx: StepContext[Ledger] = INJECTED) -> str:
    ctx.tools.effect(what, ctx.idempotency_key)
    return what


@step
def pack(what: str, *, ctx: StepContext[Ledger] = INJECTED) -> str:
    ctx.tools.effect(what, ctx.idempotency_key)
    return what


@workflow
async def child(what: str) -> str:
    return await pay(what)


@workflow
async def parent() -> list[str]:
    first = list(await asyncio.gather(pay("a"), pack.aio("b")))
    await sleep("14d")
    return [*first, await child("c"), str(await go.wait())]


@step
async def ends_the_process() -> None:
    os._exit(3)


@workflow
async def takes_its_process_along() -> None:
    await ends_the_process()


def test_a_run_survives_sigkill_wherever_its_process_is(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    report = explore_crashes(
        parent, tools=ledger, ledger=ledger, signals=[(go, 7)], interleavings=1, limit=24, kill=True
    )
    assert report.result == 'the result ["a","b","c","7"]'
    assert {row.place for row in report.rows} == {"before", "after", "inside"}
    assert any(row.ran_twice for row in report.rows)
    assert len(report.orders) == 1
    inside = sum(row.place == "inside" for row in report.rows)
    assert len({entry.pid for entry in ledger.entries()}) > inside, "each body began in a process that is no more"


def test_what_dies_here_and_what_is_killed_dies_at_the_same_points(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    here, killed = (
        explore_crashes(planted.pays_well, 1, tools=ledger, ledger=ledger, kill=kill) for kill in (False, True)
    )
    assert here == killed


def test_an_effect_with_another_key_each_time_is_found_across_processes(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    with pytest.raises(UnsafeWorkflow, match="pays_with_any_key#1 did 'pay' more than once, with different keys"):
        explore_crashes(planted.pays, 1, tools=ledger, ledger=ledger, kill=True)


def test_what_cannot_be_had_in_another_process_is_refused(tmp_path):
    @workflow
    async def of_this_function(n: int) -> int:
        return n

    with pytest.raises(DefinitionError, match="cannot be imported as"):
        explore_crashes(of_this_function, 1, kill=True)
    with pytest.raises(DefinitionError, match="a ledger in memory is of one process only: give it a path"):
        explore_crashes(planted.pays_well, 1, tools=Ledger(), kill=True)
