"""G13, O26: take-over by locks of sessions; behind PgBouncer by leases, with polling for hints, and nothing fails."""

from __future__ import annotations

import os
import random
import time
from statistics import median

import pytest

from perdure.clock import SystemClock
from perdure.model.records import Status
from tests.crash.apps import journey_result
from tests.crash.chaos import audit_all, enqueue_each, results
from tests.crash.procs import FAST as LEASE
from tests.crash.procs import Crew, ended
from tests.servers.ground import Own
from tests.servers.reaper import eventually

pytestmark = [pytest.mark.crash, pytest.mark.postgres, pytest.mark.slow]

STORM = bool(os.environ.get("PERDURE_STORM"))
CLOCK = SystemClock()
HOLDERS = 15
BUSY = 2.0
"""Seconds by which a busy machine may be late."""


@pytest.mark.parametrize("pooled", [True, False], ids=["pooled", "sessions"])
def test_runs_of_killed_workers_are_taken_over_by_their_locks_or_their_leases(tmp_path, servers: Own, pooled) -> None:
    server = servers.server()
    url = servers.bouncer(server).url("killed", pooled="1") if pooled else server.url("killed")
    lease = LEASE if pooled else {"lease": 60.0, "heartbeat": 20.0}
    crew = Crew(tmp_path, url)
    chance = random.Random(5)  # noqa: S311 - repeatable on purpose
    runs = [f"r{n}" for n in range(HOLDERS)]
    try:
        fleet = [crew.worker(up=False, concurrency=1, **lease) for _ in runs]
        crew.enqueue("gated", 1, *runs)
        crew.ledger.until_said("begin", HOLDERS, key="wait_at_gate#1")
        holders = {entry.pid: entry.run for entry in crew.ledger.entries("begin", key="wait_at_gate#1")}
        heir = crew.worker(concurrency=HOLDERS, **lease)
        if not pooled:  # whoever has only just come does not believe in locks yet
            assert eventually(lambda: CLOCK.monotonic() > crew.ledger.entries("up")[-1].mono + 2.5, 30)
        for process in fleet:
            time.sleep(chance.random() / 5)
            crew.ledger.write("kill", run=holders[process.pid or 0])
            process.kill()
        crew.ledger.until_said("begin", HOLDERS, pid=heir.pid, key="wait_at_gate#1")
        killed = {entry.run: entry.mono for entry in crew.ledger.entries("kill")}
        took = [e.mono - killed[e.run] for e in crew.ledger.entries("begin", pid=heir.pid, key="wait_at_gate#1")]
        print(f"SIGKILL to first new body: median {median(took):.2f} s, most {max(took):.2f} s of {len(took)}")
        if pooled:
            assert LEASE["lease"] - LEASE["heartbeat"] - BUSY / 2 < min(took)
            assert max(took) < LEASE["lease"] + BUSY
        else:
            assert median(took) < 1.0
            assert max(took) < 1.0 + 2 * BUSY
        crew.ledger.open_gate(HOLDERS)
        assert results(crew, runs) == [2] * HOLDERS
        audit_all(crew, runs)
    finally:
        crew.close()


def test_a_fleet_shares_two_sessions_of_the_server(tmp_path, servers: Own) -> None:
    bouncer = servers.bouncer(servers.server(), pool=2)
    crew = Crew(tmp_path, bouncer.url("pooled"))
    runs = [f"r{n}" for n in range(500 if STORM else 100)]
    sleepers = [f"s{n}" for n in range(10)]
    try:
        # All at once, so that all want to make the schema.
        fleet = [crew.worker(up=False, lease=10.0, heartbeat=2.0, concurrency=50) for _ in range(4)]
        enqueue_each(crew, "journey", runs)
        crew.enqueue("nap", 600.0, *sleepers)
        crew.ledger.until(lambda said: {entry.run for entry in said if entry.what == "end"} >= set(sleepers))
        for run_id in sleepers:
            crew.cancel(run_id, "enough")
        assert results(crew, runs) == [journey_result(n) for n in range(len(runs))]
        assert {row.status for row in crew.all_ended(*sleepers).values()} == {Status.CANCELLED}
        audit_all(crew, runs)
        for process in fleet:
            process.terminate()
        assert [ended(process) for process in fleet] == [0] * len(fleet)
        for process in fleet:
            log = crew.log(process).replace("(the lease is kept meanwhile)", "")  # on a busy machine a loop may be late
            for wrong in ("prepared statement", "ERROR", "CRITICAL", "taken for dead", "lease"):
                assert wrong not in log, log
    finally:
        crew.close()
