"""G15, G16: a run in any state can be cancelled from anywhere, and ended is ended. O13."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Engine, errors
from perdure.model.records import Status
from tests.crash import apps
from tests.crash.procs import Crew, ended

pytestmark = pytest.mark.crash


def cancelled(crew: Crew, run_id: str, reason: str) -> None:
    with pytest.raises(errors.RunCancelled, match=reason):
        crew.outcome(run_id)
    row = crew.row(run_id)
    assert (row.status, row.reason, row.worker_key, row.wake_at) == (Status.CANCELLED, reason, None, None)
    crew.cancel(run_id, "again")  # of what is cancelled already: nothing changes
    assert crew.row(run_id).reason == reason


def test_a_pending_run_is_cancelled_at_once(crew: Crew) -> None:
    crew.enqueue("gated", 1, "r")
    crew.cancel("r", "not needed")
    assert crew.row("r").status is Status.CANCELLED
    cancelled(crew, "r", "not needed")
    crew.worker()
    crew.enqueue("short", 1, "next")
    assert crew.outcome("next") == 2
    assert not crew.ledger.entries("begin")


def test_a_delayed_run_is_cancelled_at_once(crew: Crew) -> None:
    crew.enqueue("gated", 1, "r", delay="1h")
    crew.cancel("r", "too late")
    cancelled(crew, "r", "too late")


def test_a_run_nobody_has_the_code_of_is_left_alone_and_cancelled_at_once(crew: Crew) -> None:
    asyncio.run(_enqueue_stranger(crew))
    worker = crew.worker()
    crew.enqueue("short", 1, "next")
    assert crew.outcome("next") == 2
    assert crew.row("stranger").status is Status.PENDING
    crew.cancel("stranger", "no such code")
    cancelled(crew, "stranger", "no such code")
    assert worker.is_alive()


async def _enqueue_stranger(crew: Crew) -> None:
    from perdure import workflow

    @workflow(name="stranger")
    async def stranger(n: int) -> int:
        return n

    async with Engine(crew.store).client() as client:
        await client.enqueue(stranger, 1, run_id="stranger")


WAITING = [("nap", Status.SLEEPING), ("retried", Status.RETRYING), ("listening", Status.WAITING)]


@pytest.mark.parametrize("has_code", [True, False], ids=["with a worker", "codeless"])
@pytest.mark.parametrize(("name", "status"), WAITING)
def test_a_waiting_run_is_cancelled_although_nothing_else_would_ever_wake_it(
    crew: Crew, name: str, status: Status, has_code: bool
) -> None:
    worker = crew.worker()
    crew.enqueue(name, 50, "r")
    while crew.row("r").status is not status:
        crew.ledger.until_said("begin")
    if not has_code:
        worker.terminate()
        ended(worker)
    crew.cancel("r", "enough")
    if not has_code:
        assert crew.row("r").status is Status.CANCELLED
    cancelled(crew, "r", "enough")
    assert ("cancel_delivered" in crew.kinds("r")) is has_code


def test_a_paused_run_is_cancelled_by_the_worker_that_has_its_code(crew: Crew) -> None:
    crew.worker()
    crew.enqueue("listening", 1, "r")
    while crew.row("r").status is not Status.WAITING:
        crew.ledger.until_said("begin")
    crew.pause("r")
    assert crew.row("r").status is Status.PAUSED
    crew.cancel("r", "enough")
    cancelled(crew, "r", "enough")


def test_a_blocked_run_is_cancelled_at_once(crew: Crew) -> None:
    crew.enqueue("short", 1, "r")
    crew.vandalise("UPDATE events SET payload = x'00' WHERE seq = 1")
    crew.worker()
    with pytest.raises(errors.IntegrityError):
        crew.outcome("r")
    assert crew.row("r").status is Status.BLOCKED
    crew.cancel("r", "beyond repair")
    assert crew.row("r").status is Status.CANCELLED


@pytest.mark.parametrize(("name", "key"), [("tidy", "wait_at_gate#1"), ("tidy_sync", "watch_for_abort#1")])
def test_a_running_step_hears_of_a_cancel_from_another_process_and_cleans_up(crew: Crew, name: str, key: str) -> None:
    crew.worker()
    crew.enqueue(name, 1, "r")
    crew.ledger.until_said("begin", key=key)
    crew.ledger.write("cancel")
    crew.cancel("r", "changed my mind")
    aborted = crew.ledger.until_said("aborted", key=key)[0]
    took = aborted.mono - crew.ledger.entries("cancel")[0].mono
    print(f"from cancel() to the step's abort: {1000 * took:.0f} ms")
    assert took < 1.0
    cancelled(crew, "r", "changed my mind")
    assert len(crew.ledger.entries("begin", key="clean_up#1")) == 1
    kinds = crew.kinds("r")
    assert kinds.index("cancel_delivered") < kinds.index("step_cancelled") < kinds.index("run_cancelled")


def test_a_cancel_survives_the_holder_it_was_asked_of(crew: Crew) -> None:
    first = crew.worker()
    crew.enqueue("deaf", 1, "r")
    crew.ledger.until_said("begin")
    crew.cancel("r", "now or never")
    first.kill()
    ended(first)
    crew.worker()
    crew.ledger.open_gate(2)
    cancelled(crew, "r", "now or never")
    assert not crew.ledger.entries("begin", key="arrive#1")


def test_what_has_ended_cannot_be_cancelled(crew: Crew) -> None:
    crew.worker()
    crew.enqueue("short", 1, "r")
    assert crew.outcome("r") == 2
    with pytest.raises(errors.WrongState, match="already completed"):
        crew.cancel("r")
    assert crew.row("r").status is Status.COMPLETED


def test_cancel_and_completion_race_and_one_of_them_wins(crew: Crew) -> None:
    crew.worker(concurrency=200)

    async def race() -> tuple[int, int]:
        won = lost = 0
        async with Engine(crew.store, workflows=apps.WORKFLOWS).client() as client:
            for turn in range(8):
                handles = await client.enqueue_many(apps.five, [0] * 50)
                await asyncio.sleep(turn * 0.03)
                said = await asyncio.gather(*(handle.cancel("race") for handle in handles), return_exceptions=True)
                ends = await asyncio.gather(*(handle.result() for handle in handles), return_exceptions=True)
                for handle, answer, end in zip(handles, said, ends, strict=True):
                    row = await handle.row()
                    if answer is None:
                        assert row.status is Status.CANCELLED, "a cancel that was accepted did not win"
                        assert isinstance(end, errors.RunCancelled)
                        won += 1
                    else:
                        assert isinstance(answer, errors.WrongState)
                        assert (row.status, end) == (Status.COMPLETED, 5)
                        lost += 1
                    kinds = [event.kind async for event in handle.events()]
                    assert sum(kind in {18, 19, 20} for kind in kinds) == 1
        return won, lost

    won, lost = asyncio.run(race())
    print(f"{won} cancels came first, {lost} completions")
    assert won > 0
    assert lost > 0
