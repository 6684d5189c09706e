from __future__ import annotations

import asyncio
import re
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perdure
from perdure import INJECTED, Retry, StepContext, step, workflow
from perdure.errors import ColourError
from perdure.testing import Ledger, UnsafeWorkflow, explore_crashes
from tests.testing import planted

# -- what is sound is found sound


def test_a_sound_workflow_survives_every_crash():
    report = explore_crashes(planted.everything, 3)
    assert report.safe
    died = {(row.place, row.point) for row in report.rows}
    assert ("before", "the run is created") in died
    assert ("after", "the run is created") in died
    assert ("before", "commit of step_completed add#1") in died
    assert ("after", "commit of step_completed add#1") in died
    assert ("inside", "the body of add#1, attempt 1") in died
    assert ("inside", "the body of stubborn#1, attempt 3") in died
    assert any(place == "after" and "run_completed" in point for place, point in died)


def test_the_report_names_what_ran_twice_and_with_which_key():
    report = explore_crashes(planted.pays_well, 3, tools=Ledger)
    twice = {(row.place, row.point): [body.key for body in row.ran_twice] for row in report.rows}
    assert twice["before", "commit of step_completed pays_with_the_key#1, run_completed"] == ["pays_with_the_key#1"]
    assert twice["after", "commit of step_completed pays_with_the_key#1, run_completed"] == []
    assert twice["inside", "the body of pays_with_the_key#1, attempt 1"] == ["pays_with_the_key#1"]
    (body,) = {body for row in report.rows for body in row.ran_twice}
    assert body.attempt == 1
    assert body.idempotency_key[:12] in str(report)


def test_sync_workflows_and_bodies_on_threads_are_crashed_too():
    report = explore_crashes(planted.sync_sound, 3)
    assert ("inside", "the body of double#1, attempt 1") in {(row.place, row.point) for row in report.rows}


def test_a_workflow_may_fail_as_long_as_it_fails_alike():
    report = explore_crashes(planted.fails, 3)
    assert report.safe
    assert "ValueError" in report.result


def test_steps_may_give_something_else_each_time():
    report = explore_crashes(planted.makes_up)
    assert report.safe
    assert not report.comparable


def test_the_limit_says_what_it_leaves_out():
    report = explore_crashes(planted.everything, 3, limit=4)
    assert len(report.rows) == 4
    assert report.left_out > 4


def test_it_is_called_where_no_loop_runs():
    async def inside():
        return explore_crashes(planted.fails, 1)

    with pytest.raises(ColourError, match="to_thread"):
        asyncio.run(inside())


# -- what is unsound is found


def shared_ledger():
    ledger = Ledger()
    return {"ledger": ledger, "tools": ledger}


@pytest.mark.parametrize(
    ("workflow", "value", "said"),
    [
        (planted.reads_the_clock, 1, r"reads the clock \(time.time\(\)\): .*planted.py:\d+ in reads_the_clock"),
        (planted.asks_for_the_date, 1, r"reads the clock \(datetime.now\(\)\): .*planted.py:\d+ in asks_for_the_date"),
        (planted.draws_lots, 1, r"draws a random number: .*planted.py:\d+ in draws_lots"),
        (planted.goes_through_a_set, 8, r"name_of#\d was recorded with other arguments"),
        (planted.counts_in_a_global, 1, r"add#1 was recorded with other arguments"),
        (planted.caches_in_a_global, 5, r"the log has add#1, which it never asks for"),
        (planted.passes_results_by_a_global, 3, r"another result\s+recorded: 3\s+found: +0"),
        (planted.calls_a_step_in_a_thread, 1, r"it fails with NotDurable"),
        (
            planted.waits_for_a_thread,
            1,
            r"outside a step, it runs the body of step double: .*planted.py:\d+ in waits_for",
        ),
        (planted.forgets_to_await, 1, r"it fails with NotAwaited: step add#1 was called but never awaited"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_planted_bug_is_found_and_said(workflow, value, said):
    planted.cache.clear()
    with pytest.raises(UnsafeWorkflow, match=said) as caught:
        explore_crashes(workflow, value)
    assert not caught.value.report.safe
    assert workflow.name in str(caught.value)
    assert "belongs in a step" in caught.value.__notes__[0]


def test_an_effect_with_another_key_each_time_is_found():
    with pytest.raises(UnsafeWorkflow, match="pays_with_any_key#1 did 'pay' more than once, with different keys"):
        explore_crashes(planted.pays, 1, **shared_ledger())


def test_an_effect_with_the_steps_key_is_sound():
    assert explore_crashes(planted.pays_well, 1, **shared_ledger()).safe


def test_an_effect_outside_of_a_step_is_found(monkeypatch):
    ledger = Ledger()
    monkeypatch.setattr(planted, "outbox", ledger)
    with pytest.raises(UnsafeWorkflow, match="it did 'mail' again while it was replayed"):
        explore_crashes(planted.acts_outside_a_step, 1, ledger=ledger)


def test_a_check_sees_the_world_after_each_crash():
    def check(ledger):
        assert len(ledger.effects("pay")) == 1, "paid twice"

    with pytest.raises(UnsafeWorkflow, match="AssertionError: paid twice"):
        explore_crashes(planted.pays_well, 1, tools=Ledger, check=check)


def test_a_check_that_counts_by_key_is_content():
    def check(ledger):
        assert len({effect.idempotency_key for effect in ledger.effects("pay")}) == 1

    assert explore_crashes(planted.pays_well, 1, tools=Ledger, check=check).safe


@step
async def hangs_the_second_time(*, ctx: StepContext = INJECTED) -> None:
    if not ctx.tools.effect("begin", ctx.idempotency_key):
        await asyncio.Event().wait()


@workflow
async def hangs() -> None:
    await hangs_the_second_time()


def test_a_run_that_hangs_after_a_crash_is_found():
    with pytest.raises(UnsafeWorkflow, match=r"after the crash the run did not end within 0\.2 s"):
        explore_crashes(hangs, tools=Ledger, timeout=0.2)


def test_a_step_may_take_its_input_apart():
    report = explore_crashes(planted.has_its_input_taken_apart, [1, 2, 3])
    assert report.result == "the result [5,1,2,3]", "each attempt at it, and the workflow, have a list of their own"


# -- what goes on side by side


def paid_once(ledger):
    assert len({effect.idempotency_key for effect in ledger.effects("pay")}) == 1, "paid twice"


def test_an_order_of_events_that_does_harm_is_found_and_named():
    assert explore_crashes(planted.pays_elsewhere_if_it_takes_long, 1, tools=Ledger, interleavings=0, check=paid_once)
    with pytest.raises(UnsafeWorkflow, match=r"paid twice[\s\S]*\(order \d of seed 3\)"):
        explore_crashes(planted.pays_elsewhere_if_it_takes_long, 1, tools=Ledger, seed=3, check=paid_once)


@step
async def branch(name: str) -> str:
    return name


@workflow
async def side_by_side() -> list[str]:
    ended: list[str] = []

    async def one(name: str) -> None:
        ended.append(await branch(name))

    await asyncio.gather(*map(one, "abc"))
    return ended


def test_other_orders_are_crashed_in_too_and_the_same_seed_draws_the_same_ones():
    report = explore_crashes(side_by_side, interleavings=3)
    assert len(report.orders) == 3
    assert {row.order for row in report.rows} == {0, *report.orders}
    assert not report.comparable, "it ends otherwise in each"
    assert f"other orders: {', '.join(map(str, report.orders))} of seed 0" in str(report)
    assert f"/branch#1 (order {report.orders[0]})" in str(report)
    assert explore_crashes(side_by_side, interleavings=3) == report
    assert explore_crashes(side_by_side, interleavings=3, seed=1).orders != report.orders
    single = [row.ran_twice for row in report.rows if row.order and len(row.ran_twice) == 1]
    assert single, "what has ended alone is not run again with the rest"


def test_where_nothing_goes_on_side_by_side_there_are_no_other_orders():
    assert not explore_crashes(planted.pays_well, 1, tools=Ledger).orders


# -- how a process dies


@step
async def cleans_up(*, ctx: StepContext = INJECTED) -> None:
    ctx.tools.append("begins")
    try:
        await asyncio.sleep(0)
        ctx.tools.append("ends")
    finally:
        ctx.tools.append("finally")


@workflow
async def cleaning() -> None:
    await cleans_up()


def test_a_body_in_flight_is_torn_without_its_finally_blocks():
    worlds = []

    def check(world):
        worlds.append(tuple(world))

    report = explore_crashes(cleaning, tools=list, check=check, interleavings=0)
    inside = [row.place for row in report.rows].index("inside")
    assert worlds[2 + inside] == ("begins", "begins", "ends", "finally")


# -- any small workflow


@step(retry=Retry(max_attempts=2, initial_delay="10s"))
async def work(n: int, *, ctx: StepContext = INJECTED) -> int:
    if n % 3 == 0 and ctx.attempt == 1:
        raise TimeoutError(n)
    if n % 5 == 0:
        raise ValueError(n)
    await asyncio.sleep(0)
    return n + 1


@step
def toil(n: int) -> int:
    return n + 2


async def do(program, total):
    what, *rest = program
    if what == "work":
        try:
            return await work(total)
        except (ValueError, TimeoutError):
            return total + 7
    if what == "toil":
        return await toil.aio(total)
    if what == "sleep":
        await perdure.sleep(rest[0])
        return total + perdure.now().day
    if what == "draw":
        return total + perdure.random().randrange(10)
    if what == "both":
        return sum(await asyncio.gather(*[do(branch, total) for branch in rest[0]]))
    for part in rest[0]:
        total = await do(part, total)
    return total


@workflow
async def interpret(program: list) -> int:
    return await do(program, 1)


leaves = st.sampled_from([["work"], ["toil"], ["draw"], ["sleep", 30], ["sleep", 86400]])
programs = st.recursive(
    leaves,
    lambda part: st.tuples(st.sampled_from(["both", "all"]), st.lists(part, min_size=1, max_size=3)).map(list),
    max_leaves=6,
)


@settings(max_examples=12)
@given(programs)
@pytest.mark.slow
def test_small_workflows_of_any_shape_are_safe(program):
    assert explore_crashes(interpret, program, limit=20).safe


def test_a_fortnight_takes_no_time():
    began = time.perf_counter()
    explore_crashes(planted.everything, 3, limit=1)
    assert time.perf_counter() - began < 30
    assert re.search(r"2030-01-15", explore_crashes(planted.everything, 3, limit=1).result)


def test_a_step_that_may_begin_at_most_once_tells_the_workflow_so():
    report = explore_crashes(planted.shoots_once, 1)
    assert report.safe
    assert not any(row.ran_twice for row in report.rows)


class Connection:
    """Tools that a process opens and closes."""

    opened = closed = 0

    async def __aenter__(self):
        type(self).opened += 1
        return self

    async def __aexit__(self, *_exc):
        type(self).closed += 1


def test_tools_that_are_entered_are_made_for_each_process(monkeypatch):
    monkeypatch.setattr(Connection, "opened", 0)
    monkeypatch.setattr(Connection, "closed", 0)
    report = explore_crashes(planted.fails, 1, tools=Connection)
    assert report.rows
    assert Connection.opened - Connection.closed == len(report.rows)  # a process that dies closes nothing


async def numbers(n):
    for i in range(n):
        yield await planted.add(i, 1)


@workflow
async def generates(n: int) -> int:
    total = 0
    async for number in numbers(n):
        total += number
        if number == 2:
            break
    async with asyncio.timeout(60):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(planted.add(total, i)) for i in range(2)]
    return sum(task.result() for task in tasks)


@pytest.mark.filterwarnings("ignore:async generator .* was dropped:ResourceWarning")
def test_generators_timeouts_and_task_groups_survive():
    assert explore_crashes(generates, 3).safe


def test_nothing_is_left_running():
    explore_crashes(planted.everything, 3)
    before = threading.active_count()
    explore_crashes(planted.everything, 3)
    assert threading.active_count() <= before


@workflow(queue="slow")
async def queued(n: int) -> int:
    return await planted.add(n, 1)


def test_a_workflow_with_a_queue_of_its_own_is_taken_up_again():
    assert explore_crashes(queued, 1, timeout=2).safe
