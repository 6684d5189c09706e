"""G8, G11, at most once: what was counted or set before a crash is counted and set after it. O06, O07, O12."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import timedelta
from typing import Any

import pytest

from perdure import errors
from perdure.clock import SystemClock
from perdure.model.records import Kind, Status
from perdure.runtime import points
from perdure.runtime.run import LAST_INSTANT
from tests.crash.procs import Bomb, Crew, audit, ended, make_engine

pytestmark = pytest.mark.crash
CLOCK = SystemClock()


def test_a_kill_between_two_attempts_costs_none_and_repeats_none(crew: Crew) -> None:
    first = crew.worker()
    crew.enqueue("retried", 1, "r")
    while "step_failed" not in crew.kinds("r"):
        crew.ledger.until_said("begin")
    first.kill()
    ended(first)
    crew.worker()
    assert crew.outcome("r") == 1
    assert [entry.attempt for entry in crew.ledger.entries("begin")] == [1, 2, 3]
    audit(crew, "r", crew.ledger.entries())


def test_the_wait_before_an_attempt_is_not_begun_anew_after_a_crash(crew: Crew) -> None:
    first = crew.worker()
    crew.enqueue("retried", 1, "r")
    failed = []
    while not failed:
        crew.ledger.until_said("begin")
        failed = [event for event in crew.events("r") if event.kind == Kind.STEP_FAILED]
    first.kill()
    ended(first)
    crew.worker()
    second = crew.ledger.until_said("begin", 2)[1]
    assert (second.at - failed[0].at) / 1e6 > 0.9


def test_attempts_are_counted_under_tick_and_in_branches(crew: Crew) -> None:
    """A process for each tick, killed as soon as an attempt has failed on disk."""
    crew.enqueue("retried_branches", 3, "r")
    for _ in range(12):
        process = crew.start(_tick, crew)
        ended(process)
        if crew.row("r").status is Status.COMPLETED:
            break
    entries = crew.ledger.entries()
    assert list(crew.outcome("r")) == [0, 1, 2]
    audit(crew, "r", entries)
    for n in (1, 2, 3):
        attempts = [entry.attempt for entry in entries if entry.what == "begin" and entry.key == f"third_time_soon#{n}"]
        assert sorted(set(attempts)) == [1, 2, 3]
        failed = [e.attempt for e in crew.events("r") if e.key == f"third_time_soon#{n}" and e.kind == Kind.STEP_FAILED]
        assert failed == [1, 2]


def _tick(crew: Any) -> None:
    async def main() -> None:
        engine = make_engine(crew.store, crew.ledger, reached=Bomb(points.COMMITTED, 2))
        await engine.tick()
        await asyncio.sleep(0.2)  # not everything was due: what waits is the next process's
        await engine.tick()
        await engine.stop()

    asyncio.run(main())


def test_a_recorded_none_is_a_result(crew: Crew) -> None:
    first = crew.worker()
    crew.enqueue("after_nothing", 1, "r")
    crew.ledger.until_said("begin", key="wait_at_gate#1")
    first.kill()
    ended(first)
    crew.worker()
    crew.ledger.until_said("begin", 2, key="wait_at_gate#1")
    crew.ledger.open_gate()
    assert crew.outcome("r") == 1
    assert len(crew.ledger.entries("begin", key="nothing#1")) == 1


@pytest.mark.parametrize("where", ["in the body", "between its mark and its body"])
def test_what_may_run_at_most_once_is_interrupted_and_never_begins_again(crew: Crew, where: str) -> None:
    inside = where == "in the body"
    first = crew.worker() if inside else crew.worker(up=False, reached=Bomb(points.BODY, 1))
    crew.enqueue("only_once", 1, "r")
    if inside:
        crew.ledger.until_said("begin")
        first.kill()
    assert ended(first) == -signal.SIGKILL
    crew.worker()
    with pytest.raises(errors.StepInterrupted):
        crew.outcome("r")
    assert len(crew.ledger.entries("begin")) == inside
    assert crew.kinds("r").count("step_started") == 1
    # Resumed by a person it may be decided anew, but by nobody else.
    crew.worker()
    assert crew.row("r").status is Status.FAILED


def test_twelve_hundred_attempts_with_a_capped_backoff(crew: Crew) -> None:
    crew.worker(durability="process")
    crew.enqueue("persistent", 1200, "r")
    assert crew.outcome("r") == 1200


def test_a_sleep_that_fell_due_while_nobody_was_there_ends_at_once_and_once(crew: Crew) -> None:
    first = crew.worker()
    crew.enqueue("nap", 0.6, "r")
    _until_status(crew, "r", Status.SLEEPING)
    first.kill()
    ended(first)
    wake_at = crew.row("r").wake_at
    assert wake_at is not None
    crew.worker(up=False).kill()  # a second death, with nothing claimed or something
    _until(lambda: CLOCK.now() > wake_at)
    crew.worker()
    up = crew.ledger.entries("up")[-1]
    assert crew.outcome("r") == "awake"
    woke = crew.ledger.entries("begin", key="arrive#1")
    assert len(woke) == 1
    assert woke[0].at >= wake_at
    assert woke[0].mono - up.mono < 1.0
    assert crew.kinds("r").count("timer_fired") == 1


def test_a_sleep_ends_when_it_was_set_to_however_often_its_worker_dies(crew: Crew) -> None:
    worker = crew.worker()
    crew.enqueue("nap", 1.5, "r")
    _until_status(crew, "r", Status.SLEEPING)
    wake_at = crew.row("r").wake_at
    for _ in range(3):
        worker.kill()
        ended(worker)
        worker = crew.worker()
        assert crew.row("r").wake_at == wake_at
    assert crew.outcome("r") == "awake"
    late = crew.ledger.entries("begin", key="arrive#1")[0].at - (wake_at or 0)
    print(f"woke {late / 1000:.0f} ms after it was due")
    assert 0 <= late < 1_000_000


@pytest.mark.parametrize("seconds", [0, -5])
def test_no_sleep_or_less_ends_at_once(crew: Crew, seconds: float) -> None:
    crew.worker()
    crew.enqueue("nap", seconds, "r")
    try:
        assert crew.outcome("r") == "awake"
    except errors.DefinitionError:
        assert seconds < 0  # refused with a clear error


@pytest.mark.parametrize("seconds", [10**9, timedelta.max.total_seconds()], ids=["thirty-years", "longest"])
def test_a_very_long_sleep_is_kept_or_refused_and_hurts_nobody(crew: Crew, seconds: float) -> None:
    worker = crew.worker()
    crew.enqueue("nap", seconds, "long")
    crew.ledger.until_said("begin")
    crew.enqueue("short", 1, "next")
    assert crew.outcome("next") == 2
    _until(lambda: crew.row("long").status in {Status.SLEEPING, Status.FAILED})
    row = crew.row("long")
    if row.status is Status.SLEEPING:
        assert (row.wake_at or 0) >= min(CLOCK.now() + seconds * 1e6 - 60e6, LAST_INSTANT)
    assert worker.is_alive()
    assert "CRITICAL" not in crew.log(worker)


def _until_status(crew: Crew, run_id: str, status: Status) -> None:
    _until(lambda: crew.row(run_id).status is status)


def _until(condition: Any) -> None:
    """Ask the store until it says so: its state has no bell."""
    deadline = CLOCK.monotonic() + 30
    while not condition():
        assert CLOCK.monotonic() < deadline
        os.sched_yield()
