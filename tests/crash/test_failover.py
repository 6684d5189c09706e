"""The primary dies under load and its synchronous standby goes on; or it comes back after a while. O27."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import threading
from typing import Any

import psycopg
import pytest

from perdure import Engine
from perdure.clock import SystemClock
from perdure.model.records import Status
from tests.crash import apps
from tests.crash.chaos import audit_all, insist, logs
from tests.crash.procs import Crew, ended
from tests.servers.ground import Own
from tests.servers.reaper import eventually
from tests.servers.server import Server

pytestmark = [pytest.mark.crash, pytest.mark.postgres, pytest.mark.slow]

STORM = bool(os.environ.get("PERDURE_STORM"))
CLOCK = SystemClock()
RUNS = 1000 if STORM else 250
AWAY = 10.0 if STORM else 2.0
"""Seconds for which there is no use in the database."""
LINE = re.compile("(INFO|WARNING|ERROR|CRITICAL):")


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_when_a_standby_is_promoted_under_load(tmp_path, servers: Own) -> None:
    primary = servers.server()
    standby = servers.standby(primary)
    crew = Crew(tmp_path, primary.url("failover", standby, target_session_attrs="read-write"))
    try:
        fleet = [crew.worker(concurrency=20) for _ in range(3)]
        user = crew.start(_enqueue_and_wait, crew, RUNS)
        crew.ledger.until_said("result", RUNS // 4)
        killed = CLOCK.monotonic()
        primary.kill_hard()
        crew.ledger.write("died")
        standby.promote()
        promoted = CLOCK.monotonic()
        assert ended(user, 120) == 0
        entries = crew.ledger.entries()
        died = next(n for n, entry in enumerate(entries) if entry.what == "died")
        early = {what: {e.run for e in entries[:died] if e.what == what} for what in ("enqueued", "result")}
        assert early["enqueued"] > early["result"] > set()
        answers = {entry.run: entry.key for entry in entries if entry.what == "result"}
        assert answers == {f"r{n}": repr(n + 4) for n in range(RUNS)}
        with standby.connect() as connection:
            assert connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)
        found = logs(crew, list(answers))
        assert {row.status for row, _ in found.values()} == {Status.COMPLETED}
        audit_all(crew, list(answers))
        _no_step_runs_again_once_the_next_has_begun(crew)
        began = [entry.mono for entry in crew.ledger.entries("begin")]
        silence = max(later - sooner for sooner, later in itertools.pairwise(began))
        print(f"no body began for {silence:.2f} s, of which the promotion took {promoted - killed:.2f} s")
        for process in fleet:
            assert process.is_alive()
            process.terminate()
        assert [ended(process) for process in fleet] == [0] * len(fleet)
    finally:
        crew.close()


def _no_step_runs_again_once_the_next_has_begun(crew: Crew) -> None:
    """What the workflow saw was on the disks of both servers, whichever of them is asked now."""
    latest: dict[str, str] = {}
    for entry in crew.ledger.entries("begin"):
        assert entry.key >= latest.get(entry.run, ""), f"{entry.run}: {entry.key} after {latest[entry.run]}"
        latest[entry.run] = entry.key


def _enqueue_and_wait(crew: Any, runs: int) -> None:
    """Be a user who notes what was acknowledged, and asks again for what was not."""

    async def follow(client: Any, n: int) -> None:
        handle = await insist(lambda: client.enqueue(apps.slow, n, run_id=f"r{n}"))
        crew.ledger.write("enqueued", run=handle.run_id)
        result = await insist(handle.result)
        crew.ledger.write("result", run=handle.run_id, key=repr(result))

    async def main() -> None:
        async with Engine(crew.store, workflows=apps.WORKFLOWS).client() as client, asyncio.TaskGroup() as group:
            for n in range(runs):
                group.create_task(follow(client, n))
                await asyncio.sleep(0.005)

    asyncio.run(main())


def take_no_writes(server: Server, first: psycopg.Connection[Any]) -> None:
    """Have a server take no writes any more. Sessions are told by and by, the first one of all as the last."""
    server.reload(default_transaction_read_only="on")
    with first:
        assert eventually(lambda: first.execute("SHOW default_transaction_read_only").fetchone() == ("on",))


@pytest.mark.parametrize("fault", ["takes no writes", "is down"])
def test_a_database_that_is_of_no_use_for_a_while_costs_no_run_and_no_worker(tmp_path, servers: Own, fault) -> None:
    server = servers.server()
    first = server.connect()
    crew = Crew(tmp_path, server.url("away"))
    try:
        worker = crew.worker(lease=30.0, heartbeat=0.5)
        crew.enqueue("gated", 1, "r")
        crew.ledger.until_said("begin", key="wait_at_gate#1")
        if fault == "is down":
            first.close()
            server.kill_hard()
        else:
            take_no_writes(server, first)
        began, before = CLOCK.monotonic(), len(crew.log(worker).splitlines())
        crew.ledger.open_gate()
        crew.ledger.until_said("end", key="wait_at_gate#1")
        threading.Event().wait(AWAY)
        said = [line for line in crew.log(worker).splitlines()[before:] if LINE.match(line)]
        assert any(line.startswith("WARNING:perdure.worker:heartbeat") for line in said), said
        # Each part of it says once that it has noticed; then there is little to say.
        assert len(said) < 10 + 4 * (CLOCK.monotonic() - began), "\n".join(said)
        assert not crew.ledger.entries("begin", key="arrive#1")
        if fault == "is down":
            server.start()
        else:
            server.reload(default_transaction_read_only="off")
        began = CLOCK.monotonic()
        assert crew.outcome("r") == 2
        print(f"went on {CLOCK.monotonic() - began:.2f} s after the database had come back")
        assert CLOCK.monotonic() - began < 10
        assert [entry.key for entry in crew.ledger.entries("begin")] == ["depart#1", "wait_at_gate#1", "arrive#1"]
        assert "step_failed" not in crew.kinds("r")
        audit_all(crew, ["r"])
        crew.enqueue("five", 1, "next")
        assert crew.outcome("next") == 6
        worker.terminate()
        assert ended(worker) == 0
    finally:
        crew.close()


def test_nobody_stays_with_a_primary_that_was_demoted_and_still_answers(tmp_path, servers: Own) -> None:
    demoted = servers.server()
    promoted = servers.standby(demoted)
    first = demoted.connect()
    crew = Crew(tmp_path, demoted.url("demoted", promoted))
    try:
        fleet = [crew.worker(lease=30.0, heartbeat=0.5) for _ in range(2)]
        crew.enqueue("gated", 1, "r")
        user = crew.start(_wait_for, crew, "r")
        crew.ledger.until_said("waits")
        crew.ledger.until_said("begin", key="wait_at_gate#1")
        take_no_writes(demoted, first)
        promoted.promote()
        crew.ledger.open_gate()
        began = CLOCK.monotonic()
        crew.ledger.until_said("result", run="r", timeout=10)
        crew.enqueue("gated", 1, *(f"more{n}" for n in range(20)))
        crew.ledger.until_said("begin", 21, key="wait_at_gate#1", timeout=10)
        print(f"all have moved after {CLOCK.monotonic() - began:.2f} s")
        crew.ledger.open_gate(20)
        assert {row.status for row in crew.all_ended(*(f"more{n}" for n in range(20))).values()} == {Status.COMPLETED}
        assert ended(user) == 0
        audit_all(crew, ["r"])
        for process in fleet:
            process.terminate()
        assert [ended(process) for process in fleet] == [0] * len(fleet)
    finally:
        crew.close()


def _wait_for(crew: Any, run_id: str) -> None:
    async def main() -> None:
        async with Engine(crew.store, workflows=apps.WORKFLOWS).client() as client:
            handle = client.get(run_id)
            await handle.row()
            crew.ledger.write("waits")
            crew.ledger.write("result", run=run_id, key=repr(await insist(handle.result)))

    asyncio.run(main())
