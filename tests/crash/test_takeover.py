"""G3, G13: who is dead is noticed at once, who was only frozen writes nothing more."""

from __future__ import annotations

import os
import signal
from statistics import median

import pytest

from perdure.model.records import Kind
from perdure.store.open import is_postgres
from tests.crash.procs import Crew, audit, ended

pytestmark = pytest.mark.crash


def show(what: str, seconds: list[float]) -> None:
    ms = sorted(1000 * one for one in seconds)
    print(f"{what}: median {median(ms):.0f} ms, p99 {ms[-1]:.0f} ms of {len(ms)}")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_live_worker_takes_over_from_a_killed_one_within_the_blink_of_an_eye(crew: Crew) -> None:
    kills = 200 if os.environ.get("PERDURE_STORM") else 5 if is_postgres(crew.store) else 20
    took: list[float] = []
    # One looks on all the time, with no room for these runs: whoever has only just come to a database does not take the
    # end of a session for that of its worker.
    watcher = crew.worker(lease=30.0, heartbeat=10.0, concurrency=1)
    crew.enqueue("long_step", 600.0, "long")
    crew.ledger.until_said("begin", pid=watcher.pid, run="long")
    workers = [crew.worker(lease=30.0, heartbeat=10.0)]
    for n in range(kills):
        workers.append(crew.worker(lease=30.0, heartbeat=10.0))
        crew.enqueue("gated", 1, f"r{n}")
        begun = crew.ledger.until_said("begin", run=f"r{n}", key="wait_at_gate#1")[-1]
        holder = next(one for one in workers if one.pid == begun.pid)
        crew.ledger.write("kill")
        holder.kill()
        again = crew.ledger.until_said("begin", 2, run=f"r{n}", key="wait_at_gate#1")[-1]
        took.append(again.mono - crew.ledger.entries("kill")[-1].mono)
        crew.ledger.open_gate()
        assert crew.outcome(f"r{n}") == 2
        audit(crew, f"r{n}", crew.ledger.entries())
        workers.remove(holder)
    show("SIGKILL to first new body in another worker", took)
    assert median(took) < 1.0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_fresh_call_takes_over_from_a_killed_one_at_once(crew: Crew) -> None:
    took: list[float] = []
    for n in range(2 if is_postgres(crew.store) else 20):
        run_id = f"r{n}"
        first = crew.script("gated", 1, run_id, lease=30.0, heartbeat=10.0)
        crew.ledger.until_said("begin", 1, run=run_id, key="wait_at_gate#1")
        crew.ledger.write("kill")
        first.kill()
        ended(first)
        second = crew.script("gated", 1, run_id, lease=30.0, heartbeat=10.0)
        again = crew.ledger.until_said("begin", 2, run=run_id, key="wait_at_gate#1")[-1]
        took.append(again.mono - crew.ledger.entries("kill")[-1].mono)
        crew.ledger.open_gate()
        assert ended(second) == 0
        audit(crew, run_id, crew.ledger.entries())
    show("SIGKILL to first new body in a fresh perdure.run, start of the process included", took)
    # On PostgreSQL it waits until its own session is old enough for the end of another to mean something.
    assert median(took) < (4.0 if is_postgres(crew.store) else 1.0)


def test_who_was_stopped_past_its_lease_writes_nothing_more_and_goes_on_as_a_new_worker(crew: Crew) -> None:
    frozen = crew.worker()
    crew.enqueue("gated", 1, "r")
    crew.ledger.until_said("begin", pid=frozen.pid, key="wait_at_gate#1")
    os.kill(frozen.pid or 0, signal.SIGSTOP)
    other = crew.worker()
    crew.ledger.until_said("begin", pid=other.pid, key="wait_at_gate#1")
    epoch = crew.row("r").epoch
    os.kill(frozen.pid or 0, signal.SIGCONT)
    crew.ledger.until_said("aborted", pid=frozen.pid)
    crew.ledger.open_gate(2)  # also for a body of the stopped one, if it were still there
    assert crew.outcome("r") == 2
    assert not crew.ledger.entries("begin", pid=frozen.pid, key="arrive#1")
    late = [event for event in crew.events("r") if event.epoch < epoch and event.kind == Kind.STEP_COMPLETED]
    assert [event.key for event in late] == ["depart#1"]
    assert all(e.epoch == epoch for e in crew.events("r")[-3:])
    audit(crew, "r", crew.ledger.entries())
    other.kill()
    ended(other)
    crew.enqueue("short", 1, "next")
    assert crew.outcome("next") == 2
    assert "taken for dead" in crew.log(frozen)


def test_a_step_that_blocks_the_loop_keeps_its_lease_and_is_named(crew: Crew) -> None:
    blocked = crew.worker(lease=0.9, heartbeat=0.3)
    crew.enqueue("blocking", 2.7, "r")
    crew.ledger.until_said("begin", pid=blocked.pid)
    crew.worker(lease=0.9, heartbeat=0.3)
    assert crew.outcome("r") == 2.7
    assert len(crew.ledger.entries("begin")) == 1
    assert "has not turned for" in crew.log(blocked)
    assert "block_loop_async" in crew.log(blocked)
    assert "run_reclaimed" not in crew.kinds("r")
