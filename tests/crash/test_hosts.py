"""G3: who is cut off from the database is taken over from, fenced, and goes on as a new worker; nobody waits for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure.clock import SystemClock
from perdure.model.records import Kind
from tests.crash.chaos import audit_all, enqueue_each, results
from tests.crash.hosts import Host, network, work_on
from tests.crash.procs import Crew, ended
from tests.servers.ground import Own
from tests.servers.reaper import eventually
from tests.servers.server import address

pytestmark = [pytest.mark.crash, pytest.mark.postgres]
CLOCK = SystemClock()


@dataclass
class Two:
    """Two hosts with a worker each, one of which will be cut off."""

    crew: Crew
    hosts: list[Host]
    url: str

    def worker(self, host: Host, **options: Any) -> int:
        """Start a worker on a host; its pid."""
        process = self.crew.start(work_on, host, self.url, self.crew.ledger, options)
        assert process.pid is not None
        self.crew.ledger.until_said("up", pid=process.pid)
        return process.pid


@pytest.fixture
def two(tmp_path: Path, servers: Own) -> Iterator[Two]:
    with network(2) as net:
        server = servers.server(listen=f"127.0.0.1,{net.address}")
        crew = Crew(tmp_path, server.url("hosts"))
        yield Two(crew, net.hosts, address([server.port], host=net.address, schema="hosts"))
        crew.close()


@pytest.mark.slow
def test_who_was_cut_off_past_its_lease_writes_nothing_more_and_goes_on_as_a_new_worker(two: Two) -> None:
    crew, (far, near) = two.crew, two.hosts
    cut_off = two.worker(far)
    crew.enqueue("gated", 1, "r")
    crew.ledger.until_said("begin", pid=cut_off, key="wait_at_gate#1")
    other = two.worker(near)
    far.cut()
    crew.ledger.until_said("begin", pid=other, key="wait_at_gate#1")
    taken = crew.row("r").epoch
    # The bodies of both end now: one outcome is of a holder, and one of somebody who cannot know yet that it is none.
    crew.ledger.open_gate(2)
    crew.ledger.until_said("end", pid=cut_off, key="wait_at_gate#1")
    assert crew.outcome("r") == 2
    far.mend()
    assert eventually(lambda: "taken for dead" in _log(crew, cut_off), 30)
    done = [event for event in crew.events("r") if event.kind == Kind.STEP_COMPLETED]
    assert [(event.key, event.epoch < taken) for event in done] == [
        ("depart#1", True), ("wait_at_gate#1", False), ("arrive#1", False),
    ]  # fmt: skip
    assert not crew.ledger.entries("begin", pid=cut_off, key="arrive#1")
    audit_all(crew, ["r"])
    next(one for one in crew.processes if one.pid == other).kill()
    crew.enqueue("five", 1, "next")
    assert crew.outcome("next") == 6
    assert {entry.pid for entry in crew.ledger.entries("begin", run="next")} == {cut_off}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_runs_under_way_on_a_host_that_is_cut_off_and_mended_end_once(two: Two) -> None:
    crew, (far, near) = two.crew, two.hosts
    runs = [f"r{n}" for n in range(60)]
    cut_off = two.worker(far, concurrency=10)
    other = two.worker(near, concurrency=10)
    enqueue_each(crew, "slow", runs)
    crew.ledger.until_said("begin", 40, pid=cut_off)
    far.cut()
    crew.ledger.write("cut")
    assert results(crew, runs) == [n + 4 for n in range(len(runs))]
    cut = crew.ledger.entries("cut")[0]
    silent = [entry for entry in crew.ledger.entries("begin", pid=cut_off) if entry.mono > cut.mono + 2.0]
    assert silent == [], "a body began without a lease"
    far.mend()
    assert eventually(lambda: "taken for dead" in _log(crew, cut_off), 30)
    crew.enqueue("gated", 1, *(f"more{n}" for n in range(15)))
    crew.ledger.until_said("begin", 15, key="wait_at_gate#1")
    assert {e.pid for e in crew.ledger.entries("begin", key="wait_at_gate#1")} == {cut_off, other}
    events = audit_all(crew, runs)
    taken = sum(event.kind == Kind.RUN_RECLAIMED for log in events.values() for event in log)
    print(f"{taken} runs were taken over")
    assert taken
    crew.ledger.open_gate(15)
    assert [one.exitcode for one in crew.processes] == [None, None]
    for process in crew.processes:
        process.terminate()
    assert [ended(process) for process in crew.processes] == [0, 0]


def _log(crew: Crew, pid: int) -> str:
    return crew.log(next(one for one in crew.processes if one.pid == pid))


@pytest.mark.slow
def test_a_worker_that_stops_in_the_middle_of_a_transaction_keeps_nobody_else_waiting(tmp_path, servers: Own) -> None:
    server = servers.server()
    crew = Crew(tmp_path, server.url("stopped"))
    try:
        stopped = crew.worker()
        crew.enqueue("gated", 1, "r")
        crew.ledger.until_said("begin", pid=stopped.pid, key="wait_at_gate#1")
        os.kill(stopped.pid or 0, signal.SIGSTOP)
        with server.connect() as session, session.transaction():
            # Its transaction is open, as it is while it claims.
            session.execute("SELECT FROM stopped.workers FOR KEY SHARE")
            session.execute("SELECT FROM stopped.runs FOR NO KEY UPDATE")
            other = crew.worker()
            up = crew.ledger.entries("up", pid=other.pid)[0]
            for n in range(1000):
                crew.enqueue("five", n, f"r{n}")
                assert crew.outcome(f"r{n}", 3.0) == n + 5
                if CLOCK.monotonic() > up.mono + 4.0:  # its lease has ended, and it was seen to stand still
                    break
        crew.ledger.until_said("begin", pid=other.pid, key="wait_at_gate#1", timeout=5)
    finally:
        crew.close()
