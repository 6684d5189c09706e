"""G9, O01, O08, O09: a worker asked to stop finishes what it may, keeps what it must, gives back the rest."""

from __future__ import annotations

import signal

import pytest

from perdure.model.records import Status
from tests.crash.procs import Crew, audit, ended

pytestmark = pytest.mark.crash


def test_a_step_longer_than_the_lease_is_finished_by_the_worker_that_drains(crew: Crew) -> None:
    draining = crew.worker(lease=0.6, heartbeat=0.2)
    crew.enqueue("long_step", 2.4, "r")
    crew.ledger.until_said("begin", pid=draining.pid)
    idle = crew.worker(lease=0.6, heartbeat=0.2)
    draining.terminate()
    assert ended(draining) == 0
    assert crew.outcome("r") == 2.4
    assert [entry.pid for entry in crew.ledger.entries("begin")] == [draining.pid]
    assert "run_reclaimed" not in crew.kinds("r")
    assert idle.is_alive()


def test_what_a_draining_worker_gives_back_is_picked_up_at_once(crew: Crew) -> None:
    first = crew.worker(drain=0, grace=2)
    crew.enqueue("gated", 1, "r")
    crew.ledger.until_said("begin", key="wait_at_gate#1")
    second = crew.worker()
    first.terminate()
    aborted = crew.ledger.until_said("aborted", pid=first.pid)[0]
    again = crew.ledger.until_said("begin", pid=second.pid, key="wait_at_gate#1")[0]
    print(f"from the abort to the new body elsewhere: {1000 * (again.mono - aborted.mono):.0f} ms")
    assert again.mono - aborted.mono < 1.0
    assert (again.attempt, again.idem) == (aborted.attempt, aborted.idem)
    assert ended(first) == 0
    crew.ledger.open_gate()
    assert crew.outcome("r") == 2
    assert "run_released" in crew.kinds("r")
    assert crew.row("r").crashes == 0
    audit(crew, "r", crew.ledger.entries())


@pytest.mark.slow
def test_deploys_use_up_no_attempt_and_count_as_no_crash(crew: Crew) -> None:
    for name in ("gated", "deaf"):
        crew.enqueue(name, 1, name)
    for n in range(1, 7):
        # Where a worker has left what it could not stop, the end of its lease is waited for, on PostgreSQL.
        worker = crew.worker(drain=0, grace=0.3, lease=0.6, heartbeat=0.2)
        crew.ledger.until_said("begin", n, run="gated", key="wait_at_gate#1")
        crew.ledger.until_said("begin", n, run="deaf", key="wait_at_gate_deaf#1")
        worker.terminate()
        assert ended(worker) == 0
        assert crew.ledger.entries("left")[-1].key == "deaf"
        assert all(e.pid == worker.pid for e in crew.ledger.entries("begin", key="wait_at_gate#1")[n - 1 :])
    assert {e.attempt for e in crew.ledger.entries("begin")} == {1}
    crew.worker()
    crew.ledger.until_said("begin", 7, key="wait_at_gate#1")
    crew.ledger.until_said("begin", 7, key="wait_at_gate_deaf#1")
    crew.ledger.open_gate(2)
    assert crew.outcome("gated") == 2
    assert crew.outcome("deaf") == 1
    assert "step_failed" not in crew.kinds("gated")


def test_a_run_is_cancelled_while_its_worker_drains(crew: Crew) -> None:
    draining = crew.worker(drain=60)
    crew.enqueue("tidy", 1, "r")
    crew.ledger.until_said("begin", key="wait_at_gate#1")
    draining.terminate()
    crew.cancel("r", "holds up the deploy")
    assert ended(draining) == 0
    row = crew.row("r")
    assert (row.status, row.reason) == (Status.CANCELLED, "holds up the deploy")
    assert len(crew.ledger.entries("begin", key="clean_up#1")) == 1


def test_a_second_signal_stops_at_once_and_still_gives_the_runs_back(crew: Crew) -> None:
    worker = crew.worker(drain=60, grace=60)
    crew.enqueue("gated", 1, "polite")
    crew.enqueue("deaf", 1, "deaf")
    crew.ledger.until_said("begin", key="wait_at_gate#1")
    crew.ledger.until_said("begin", key="wait_at_gate_deaf#1")
    worker.terminate()
    worker.join(0.3)
    assert worker.is_alive()
    worker.terminate()
    assert ended(worker) == 0
    assert crew.ledger.entries("left")[-1].key == "deaf"
    assert crew.kinds("polite")[-1] == "run_released"
    assert crew.row("polite").worker_key is None
    crew.worker()
    crew.ledger.until_said("begin", 2, key="wait_at_gate_deaf#1")
    assert crew.row("deaf").crashes == 0


def test_a_step_deaf_to_the_request_keeps_its_claim_until_it_settles(crew: Crew) -> None:
    """Stopped in a process that lives on: the claim is renewed, and given back when the step has ended."""
    process = crew.start(_stop_and_stay, crew)
    crew.ledger.until_said("begin", key="wait_at_gate_deaf#1")
    crew.ledger.until_said("stopped")
    assert crew.ledger.entries("stopped")[0].key == "r"
    other = crew.worker(lease=0.6, heartbeat=0.2)
    crew.ledger.until_said("three leases later")
    assert not crew.ledger.entries("begin", pid=other.pid)
    crew.ledger.open_gate()
    assert crew.outcome("r") == 1
    assert len(crew.ledger.entries("begin", key="wait_at_gate_deaf#1")) == 1
    assert crew.ledger.entries("begin", key="arrive#1")[0].pid == other.pid
    process.terminate()


def _stop_and_stay(crew: Crew) -> None:
    import asyncio

    from tests.crash import apps
    from tests.crash.procs import make_engine

    async def main() -> None:
        engine = make_engine(crew.store, crew.ledger, lease=0.6, heartbeat=0.2)
        await engine.start()
        await engine.enqueue(apps.deaf, 1, run_id="r")
        while not crew.ledger.entries("begin"):
            await asyncio.sleep(0.01)
        crew.ledger.write("stopped", key=",".join(await engine.stop(drain=0, grace=0)))
        await asyncio.sleep(1.8)
        crew.ledger.write("three leases later")
        await asyncio.sleep(60)

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(main())
