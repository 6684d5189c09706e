from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from perdure import INJECTED, Hooks, StepContext, step, workflow
from perdure.errors import ColourError, DefinitionError, EngineNotOpen, RunCancelled, UnknownWorkflow
from perdure.testing import ManualClock, RunNotFinished, env
from tests.testing import shop
from tests.testing.shop import add, approved, charge, hangs


def test_a_run_goes_to_its_end_in_no_time_and_its_clock_shows_how_long_it_took():
    with env(workflows=[shop.fulfil]) as kit:
        kit.override(charge, "paid")
        assert kit.run(shop.fulfil, 5) == "paid"
        assert kit.clock.now() == (datetime(2030, 1, 15, 12, tzinfo=UTC)).timestamp() * 1e6


def test_signals_are_sent_when_they_are_waited_for_and_children_are_found_by_themselves():
    with env(workflows=[shop.order]) as kit:
        kit.override(charge, "paid")
        assert kit.run(shop.order, 5, signals=[(approved, True)]) == "paid"
        assert kit.run(shop.order, 5) == "nobody wanted it"


def test_a_run_that_waits_for_what_nobody_sends_says_so_and_goes_on_with_the_same_call():
    with env(workflows=[shop.patient]) as kit:
        with pytest.raises(RunNotFinished, match="waiting, for signal 'approved', and nothing"):
            kit.run(shop.patient, run_id="r")
        assert kit.run(shop.patient, run_id="r", signals=[("approved", True)]) is True


def test_a_failed_run_goes_on_with_the_same_call():
    with env(workflows=[shop.fulfil]) as kit:
        with kit.override(charge, OSError), pytest.raises(OSError):  # noqa: PT011 - it has no text
            kit.run(shop.fulfil, 5, run_id="r")
        kit.override(charge, "paid")
        assert kit.run(shop.fulfil, 5, run_id="r") == "paid"


def test_time_is_the_tests_own_between_start_and_advance():
    with env(workflows=[shop.order]) as kit:
        kit.override(charge, "paid")
        handle = kit.start(shop.order, 5, run_id="r", tags={"customer": "42"})
        kit.advance("6d")
        assert handle.view().awaits == ["approved"]
        handle.signal(approved, True)
        kit.advance("335h")
        assert handle.view().status.word == "waiting"  # for its child, which sleeps
        kit.advance("1h")
        assert handle.result() == "paid"
        assert [row.run_id for row in kit.engine.runs(tags={"customer": "42"})] == ["r"]


def test_all_that_is_due_happens_in_its_order_and_what_follows_from_it():
    seen = []
    with env(workflows=[shop.fulfil]) as kit:
        kit.override(charge, lambda amount, _note: seen.append((amount, kit.clock.now())) or "paid")
        for amount, delay in ((1, "3h"), (2, "1h"), (3, "2h")):
            kit.start(shop.fulfil, amount, delay=delay)
        kit.advance("30d")
        start = kit.clock.now() - 30 * 86400 * 1_000_000
        hour = 3600 * 1_000_000
        assert seen == [(2, start + hour), (3, start + 2 * hour), (1, start + 3 * hour)]
        assert {row.status.word for row in kit.engine.runs()} == {"completed"}


def test_a_result_that_only_time_could_bring_is_not_waited_for():
    with env(workflows=[shop.fulfil]) as kit:
        kit.override(charge, "paid")
        handle = kit.start(shop.fulfil, 5, run_id="r")
        with pytest.raises(RunNotFinished, match=r"'r' is sleeping, until 2030-01-15 12:00:00\+00:00, and the clock"):
            handle.result()


def test_with_a_timeout_a_result_is_waited_for_while_another_task_moves_the_clock():
    async def main():
        async with env(workflows=[shop.fulfil]) as kit:
            kit.override(charge, "paid")
            handle = await kit.start(shop.fulfil, 5)
            waiting = asyncio.create_task(handle.result(timeout="30s"))
            await kit.advance("14d")
            return await waiting

    assert asyncio.run(main()) == "paid"


def test_a_run_that_is_blocked_or_cancelled_is_said_to_be():
    with env(workflows=[shop.patient]) as kit:
        handle = kit.start(shop.patient)
        kit.idle()
        handle.cancel("enough")
        with pytest.raises(RunCancelled, match="enough"):
            handle.result()


def test_a_step_times_out_when_the_clock_is_moved_under_it():
    async def main():
        begun = asyncio.Event()

        async def hanging(n):
            begun.set()
            await asyncio.get_running_loop().create_future()

        async with env(workflows=[shop.patience]) as kit:
            kit.override(hangs, hanging)
            handle = await kit.start(shop.patience, 1)
            await begun.wait()
            kit.clock.advance("29s")
            assert (await handle.view()).status.word == "running"
            kit.clock.advance("1s")
            return await handle.result()

    assert asyncio.run(main()) == -1


@workflow
async def hurried(n: int) -> int:
    try:
        return await hangs.with_options(timeout="20ms")(n)
    except TimeoutError:
        return -1


def test_a_step_times_out_in_real_time_as_well():
    with env(workflows=[hurried]) as kit:
        assert kit.run(hurried, 1) == -1


def test_what_ran_is_told_by_calls_with_arguments_attempts_and_keys():
    with env(workflows=[shop.fulfil]) as kit:
        kit.override(charge, OSError)
        with pytest.raises(OSError):  # noqa: PT011 - it has no text
            kit.run(shop.fulfil, 5, run_id="r")
        ran = kit.ran(charge)
        assert ran.count == 3
        assert ran.arguments == [{"amount": 5, "note": ""}] * 3
        assert [(one.run_id, one.key, one.attempt, one.faked) for one in ran.calls] == [
            ("r", "charge#1", attempt, True) for attempt in (1, 2, 3)
        ]
        assert len({one.idempotency_key for one in ran.calls}) == 1
        assert repr(ran).startswith("<charge ran 3×: charge#1(amount=5, note='') of run r, attempt 1 (fake); ")
        assert repr(kit.ran(add)) == "<add never ran>"


def test_what_is_recorded_does_not_count_as_run_again():
    with env(workflows=[shop.fulfil]) as kit:
        kit.override(charge, "paid")
        kit.run(shop.fulfil, 5, run_id="r")
        kit.run(shop.fulfil, 5, run_id="r")
        kit.crash()
        kit.run(shop.fulfil, 5, run_id="r")
        assert kit.ran(charge).count == 1


class Bank:
    def __init__(self):
        self.open = False

    async def __aenter__(self):
        self.open = True
        return self

    async def __aexit__(self, *_exc):
        self.open = False


@step
async def asks(n: int, *, ctx: StepContext[Bank] = INJECTED) -> bool:
    return ctx.tools.open


@workflow
async def asking(n: int) -> bool:
    return await asks(n)


def test_tools_are_given_as_to_an_engine_and_left_in_the_end():
    made = []

    def make() -> Bank:
        made.append(Bank())
        return made[-1]

    with env(workflows=[asking], tools=make) as kit:
        assert kit.run(asking, 1) is True
    assert [bank.open for bank in made] == [False]


def test_options_of_the_engine_are_taken_and_others_refused():
    told = []

    class Notes(Hooks):
        def run_completed(self, notice):
            told.append(notice.run_id)

    clock = ManualClock(datetime(2031, 5, 1, tzinfo=UTC))
    with env(workflows=[shop.sums], hooks=[Notes()], clock=clock, concurrency=1) as kit:
        kit.run(shop.sums, 1, run_id="r")
        assert kit.clock is clock
    assert told == ["r"]
    with pytest.raises(DefinitionError, match="env takes no store"):
        env(workflows=[shop.sums], store="x.db")
    with pytest.raises(DefinitionError, match="concurrency"), env(concurrency=0):
        raise AssertionError


def test_it_is_left_while_bodies_hang_on_the_loop_and_on_threads_and_tools_are_left_too(caplog):
    let_go, begun, ended = threading.Event(), threading.Event(), threading.Event()
    bank = Bank()

    def stuck(amount):
        begun.set()
        let_go.wait(30)
        ended.set()
        return b""

    async def main():
        async with env(workflows=[shop.both], tools=lambda: bank) as kit:
            kit.override(charge, lambda *_: asyncio.get_running_loop().create_future())
            kit.override(shop.label, stuck)
            await kit.start(shop.both, 5)
            await asyncio.to_thread(begun.wait, 30)
            assert bank.open
        assert not bank.open
        let_go.set()
        await asyncio.to_thread(ended.wait, 30)
        await asyncio.sleep(0)
        return asyncio.all_tasks()

    assert len(asyncio.run(main())) == 1
    assert caplog.records == []


def test_in_an_async_test_a_plain_with_is_refused():
    async def main():
        with env(workflows=[shop.sums]):
            raise AssertionError

    with pytest.raises(ColourError, match="async with"):
        asyncio.run(main())


def test_outside_its_block_there_is_nothing():
    opening = env(workflows=[shop.sums])
    with opening as kit:
        handle = kit.start(shop.sums, 1)
    with pytest.raises(EngineNotOpen, match="the engine is not open"):
        kit.run(shop.sums, 1)
    with pytest.raises(EngineNotOpen):
        handle.view()
    with pytest.raises(EngineNotOpen, match="no engine outside the block"):
        _ = opening.env.engine


def test_what_was_not_given_is_refused_with_the_engines_own_words():
    with env(workflows=[shop.sums]) as kit, pytest.raises(UnknownWorkflow, match="workflows="):
        kit.run(shop.fulfil, 5)


def log_of(test, *workflows):
    """What is told of the runs of a test that fails."""
    opening = env(workflows=workflows)

    def fail():
        with opening as kit:
            test(kit)
            raise AssertionError("mine")

    with pytest.raises(AssertionError, match="mine"):
        fail()
    return opening.env.log.splitlines()


def test_when_the_block_fails_the_runs_are_told():
    def test(kit):
        kit.override(charge, OSError("no line"))
        with pytest.raises(OSError, match="no line"):
            kit.run(shop.fulfil, 5, run_id="f")
        kit.start(shop.patient, run_id="p")
        kit.idle()
        assert kit.log == ""

    log = log_of(test, shop.fulfil, shop.patient)
    assert log[0] == "fulfil f: failed"
    assert "patient p: waiting for approved" in log
    assert any("step_failed" in line and "charge#1 attempt 2" in line and "OSError: no line" in line for line in log)


def test_of_many_runs_the_oldest_are_told_and_of_long_ones_the_last_events():
    def test(kit):
        kit.run(many, 100, run_id="long")
        for number in range(12):
            kit.run(shop.sums, number, run_id=f"r{number}")

    log = log_of(test, shop.sums, many)
    assert log[0] == "many long: completed"
    assert len(set(log[1:61])) == 60
    assert log[60].split()[3] == "run_completed"
    assert "sums r0: completed" in log[61]
    assert log[-1] == "and 3 more runs"


@workflow
async def many(n: int) -> int:
    for number in range(n):
        await add(number, 0)
    return n


@asynccontextmanager
async def slow_tools():
    yield object()
    await asyncio.sleep(0)


def test_several_runs_may_go_on_at_once_and_each_gets_its_own_signals():
    async def main():
        async with env(workflows=[shop.order, shop.sums], tools=slow_tools) as kit:
            kit.override(charge, "paid")
            return await asyncio.gather(
                kit.run(shop.order, 6),
                kit.run(shop.order, 5, signals=[(approved, True)]),
                kit.run(shop.sums, 1),
            )

    assert asyncio.run(main()) == ["nobody wanted it", "paid", 6]


def test_signals_of_one_run_are_not_sent_to_others_that_wait():
    with env(workflows=[shop.patient, shop.parent]) as kit:
        handle = kit.start(shop.patient)
        kit.idle()
        assert kit.run(shop.patient, signals=[(approved, True)]) is True
        assert kit.run(shop.parent, signals=[(approved, True)]) is True
        assert handle.view().awaits == ["approved"]
