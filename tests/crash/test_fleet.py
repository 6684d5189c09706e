"""Many workers on one store: nothing fails, nothing runs twice, whoever dies meanwhile. G1, G2, G14, O02, O03."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.clock import SystemClock
from perdure.model.records import Kind, Status
from tests.crash.procs import Crew, audit, ended

pytestmark = pytest.mark.crash
CLOCK = SystemClock()
STORM = bool(os.environ.get("PERDURE_STORM"))
RUNS = [f"r{n}" for n in range(400)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [2, 4])
def test_workers_share_a_store_without_a_failure_or_a_repeat(crew: Crew, workers: int) -> None:
    fleet = [crew.worker(concurrency=20) for _ in range(workers)]
    began = CLOCK.monotonic()
    crew.enqueue("five", 0, *RUNS)
    rows = crew.all_ended(*RUNS)
    took = CLOCK.monotonic() - began
    assert Counter(row.status for row in rows.values()) == {Status.COMPLETED: len(RUNS)}
    said = Counter((entry.run, entry.key) for entry in crew.ledger.entries("begin"))
    assert len(said) == 5 * len(RUNS)
    assert set(said.values()) == {1}
    share = Counter(entry.pid for entry in crew.ledger.entries("begin"))
    print(f"{workers} workers: {5 * len(RUNS) / took:.0f} steps/s, shares {sorted(share.values())}")
    for process in fleet:
        assert "locked" not in crew.log(process), crew.log(process)
        assert "ERROR" not in crew.log(process), crew.log(process)
        process.terminate()
    assert [ended(process) for process in fleet] == [0] * workers


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_six_workers_that_find_fifty_orphans_at_one_instant_run_each_of_them_once(
    tmp_path: Path, database: str, made_store: Callable[[], str]
) -> None:
    orphans = [f"r{n}" for n in range(50)]
    for turn in range(20 if STORM else 1 if database == "postgres" else 3):
        crew = Crew(tmp_path / str(turn), made_store())
        first = crew.worker()
        crew.enqueue("gated", 0, *orphans)
        crew.ledger.until_said("begin", 50, key="wait_at_gate#1")
        # Stopped workers queue up at the barrier while the first one still lives.
        others = [crew.worker(concurrency=20) for _ in range(6)]
        first.kill()
        crew.ledger.until_said("begin", 100, key="wait_at_gate#1")
        crew.ledger.open_gate(50)
        rows = crew.all_ended(*orphans)
        assert {row.status for row in rows.values()} == {Status.COMPLETED}
        said = Counter(e.run for e in crew.ledger.entries("begin", key="wait_at_gate#1") if e.pid != first.pid)
        assert said == Counter(orphans)
        for run_id in orphans:
            kinds = [event.kind for event in crew.events(run_id)]
            assert kinds.count(Kind.RUN_RECLAIMED) == 1
            assert kinds.count(Kind.RUN_CLAIMED) == 2
        assert others
        crew.close()


@pytest.mark.parametrize("emptied", [False, True], ids=["same-name", "no-rows"])
def test_an_orphan_is_found_though_its_worker_has_a_namesake_or_no_row(crew: Crew, *, emptied: bool) -> None:
    first = crew.worker(name="w1")
    crew.enqueue("gated", 0, "orphan")
    crew.ledger.until_said("begin", key="wait_at_gate#1")
    first.kill()
    ended(first)
    if emptied:
        crew.vandalise("DELETE FROM workers")
    second = crew.worker(name="w1")
    crew.enqueue("short", 0, "busy")
    crew.ledger.until_said("begin", pid=second.pid, run="orphan", key="wait_at_gate#1")
    crew.ledger.open_gate()
    assert crew.outcome("orphan") == 1
    audit(crew, "orphan", crew.ledger.entries())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_that_kills_its_workers_is_blocked_and_the_innocent_complete(crew: Crew) -> None:
    innocent = [f"r{n}" for n in range(50 if STORM else 20)]  # which go on one by one once they are suspected
    half = len(innocent) // 2
    crew.enqueue("slow", 0, *innocent[:half])
    crew.enqueue("killer", 0, "killer")
    crew.enqueue("slow", 0, *innocent[half:])
    deaths = 0
    brief = {"lease": 0.6, "heartbeat": 0.2}  # there is one worker at a time, and nobody to take it for dead too soon
    worker = crew.worker(up=False, **brief)
    while crew.row("killer").status is not Status.BLOCKED:
        worker.join(0.1)
        if worker.exitcode is not None:
            deaths += 1
            assert deaths <= 5, "the killer goes on killing"
            worker = crew.worker(up=False, **brief)
    rows = crew.all_ended(*innocent)
    assert {row.status for row in rows.values()} == {Status.COMPLETED}
    assert all("run_blocked" not in crew.kinds(run_id) for run_id in innocent)
    row = crew.row("killer")
    assert "died 5 times in a row" in (row.reason or "")
    assert len(crew.ledger.entries("begin", run="killer")) == 5
    entries = crew.ledger.entries()
    for run_id in innocent:
        audit(crew, run_id, entries)
