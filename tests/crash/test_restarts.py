"""A server that dies and comes back takes nobody's runs away: its locks are gone, and prove nothing."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from perdure.model.records import Kind
from tests.crash.chaos import audit_all, results
from tests.crash.procs import Crew, ended
from tests.servers.ground import Own
from tests.servers.reaper import eventually
from tests.servers.server import Server

pytestmark = [pytest.mark.crash, pytest.mark.postgres, pytest.mark.slow]

RUNS = [f"r{n}" for n in range(24)]
LONG_ENOUGH = 4.5
"""Seconds after which free locks of sessions would be believed again, and runs be taken."""


def test_nobody_loses_a_run_to_others_because_the_server_died(tmp_path, servers: Own) -> None:
    server = servers.server()
    crew = Crew(tmp_path, server.url("restarts"))
    try:
        fleet = [crew.worker(lease=30.0, heartbeat=1.0, concurrency=10) for _ in range(3)]
        crew.enqueue("gated", 1, *RUNS)
        crew.ledger.until_said("begin", len(RUNS), key="wait_at_gate#1")
        holders = {entry.run: entry.pid for entry in crew.ledger.entries("begin", key="wait_at_gate#1")}
        assert set(holders.values()) == {process.pid for process in fleet}
        before = {run_id: crew.row(run_id) for run_id in RUNS}
        # One cannot take its lock again on the new server; only its lease says that it lives.
        stopped = fleet[0].pid or 0
        os.kill(stopped, signal.SIGSTOP)
        for _ in range(2):
            server.kill_hard()
            server.start()
        assert eventually(lambda: _up_for(server) > LONG_ENOUGH, 30)
        after = {run_id: crew.row(run_id) for run_id in RUNS}
        assert {run_id: (row.epoch, row.worker_key) for run_id, row in after.items()} == {
            run_id: (row.epoch, row.worker_key) for run_id, row in before.items()
        }
        locked_at = Counter(worker.boot for worker in crew.workers())
        assert sorted(locked_at.values()) == [1, 2], "those that could have not locked again"
        os.kill(stopped, signal.SIGCONT)
        crew.ledger.open_gate(len(RUNS))
        assert results(crew, RUNS) == [2] * len(RUNS)
        begun = crew.ledger.entries("begin", key="wait_at_gate#1")
        assert {entry.run: entry.pid for entry in begun} == holders
        assert len(begun) == len(RUNS)
        events = audit_all(crew, RUNS)
        assert not [event for log in events.values() for event in log if event.kind == Kind.RUN_RECLAIMED]
        for process in fleet:
            assert "taken for dead" not in crew.log(process)
            process.terminate()
        assert [ended(process) for process in fleet] == [0] * len(fleet)
    finally:
        crew.close()


def _up_for(server: Server) -> float:
    with server.connect() as connection:
        found = connection.execute("SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())")
        return float(found.fetchone()[0])
