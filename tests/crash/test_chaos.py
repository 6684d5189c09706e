"""Everything at once, on PostgreSQL: every run ends right, and nothing is done twice. G1, G2, G3, G13."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from perdure.model.records import Kind
from tests.crash.apps import JOURNEY, journey_result
from tests.crash.chaos import Conductor, audit_all, enqueue_each, results
from tests.crash.procs import Crew, ended
from tests.servers.ground import Own

pytestmark = [pytest.mark.crash, pytest.mark.postgres, pytest.mark.slow]

STORM = bool(os.environ.get("PERDURE_STORM"))
RUNS = [f"r{n}" for n in range(2000 if STORM else 300)]
ACTS = {"kill": 60, "stop": 15, "end_sessions": 20, "crash": 8} if STORM else {
    "kill": 8, "stop": 2, "end_sessions": 3, "crash": 3,
}  # fmt: skip


@pytest.mark.timeout(600)
def test_every_run_ends_right_whatever_happens_to_workers_server_and_clocks(tmp_path, servers: Own) -> None:
    server = servers.server()
    crew = Crew(tmp_path, server.url("chaos"))
    # Killed that often, an innocent run may well see five holders die in a row: hence the high cap.
    conductor = Conductor(crew, server, seed=11, options={"concurrency": 15, "crash_cap": 100})
    try:
        conductor.man(1, -1, 0, 0)
        enqueue_each(crew, "journey", RUNS)
        conductor.perform(list(Counter(ACTS).elements()), 2 * len(JOURNEY) * len(RUNS))
        assert results(crew, RUNS) == [journey_result(n) for n in range(len(RUNS))]
        events = audit_all(crew, RUNS)
        workers = [place.process for place in conductor.places]
        assert [process.exitcode for process in workers] == [None] * len(workers), "a worker died that was not killed"
        for process in workers:
            process.terminate()
        assert [ended(process) for process in workers] == [0] * len(workers)
        assert {ended(process) for process in conductor.killed} == {-9}
    finally:
        crew.close()
    begins = Counter(entry.run for entry in crew.ledger.entries("begin"))
    kinds = Counter(Kind(event.kind).word for log in events.values() for event in log)
    again = begins.total() - (len(JOURNEY) + 1) * len(RUNS)
    print(f"{ACTS}: {again} bodies ran again, {kinds['run_reclaimed']} runs were taken over")
    assert kinds["run_reclaimed"] > 0
    assert again > 0
