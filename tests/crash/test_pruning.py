"""A fleet purges while it works: what it is given goes through as before, nothing is lost, nobody waits in a circle."""

from __future__ import annotations

import os
from time import perf_counter

import pytest

from perdure import Retention
from perdure.model.purging import Purgeable
from perdure.model.records import Status
from perdure.store.open import is_postgres, open_store
from perdure.store.protocol import Route
from perdure.testing.store_suite import Bench
from perdure.testing.store_suite.bench import Holder
from tests.crash.procs import Crew

pytestmark = pytest.mark.crash

STORM = bool(os.environ.get("PERDURE_STORM"))
BACKLOG = 20_000 if STORM else 1500
ASKED = 1000 if STORM else 100
PROBE = Route("probe")
AT_ONCE = Retention(workflows={"greet": Retention(completed=0)}, every="20ms")


def fill(crew: Crew) -> None:
    """Runs that ended some time ago, with logs."""
    with Bench(lambda: open_store(crew.store, durability="process")) as bench:
        worker = bench.worker()
        for at in range(0, BACKLOG, 500):
            new = [bench.new(f"old-{n}") for n in range(at, min(at + 500, BACKLOG))]
            made = [one.claim for one in bench.store.create_runs(new, claim_for=worker)]
            held = [Holder(bench.store, worker, claim) for claim in made if claim is not None]
            bench.store.commit([one.steps(10) for one in held])
            bench.store.commit([one.end() for one in held])
        bench.store.retire_worker(worker)


def latencies(crew: Crew, prefix: str) -> list[float]:
    """Seconds that a claim takes, run after run, sorted."""
    took = []
    with Bench(lambda: open_store(crew.store)) as bench:
        worker = bench.worker(routes=[PROBE])
        for n in range(ASKED):
            bench.create(f"{prefix}-{n}", workflow=PROBE.workflow)
            begun = perf_counter()
            (claim,) = bench.store.claim_runs(worker, [PROBE], 1)
            took.append(perf_counter() - begun)
            held = Holder(bench.store, worker, claim)
            held.commit(held.steps(3), held.end())
        bench.store.retire_worker(worker)
    return sorted(took)


def left(crew: Crew) -> int:
    with open_store(crew.store) as store:
        return len(store.list_ended(Purgeable((Status.COMPLETED,), 1 << 60, workflow="greet"), None, BACKLOG).runs)


@pytest.mark.slow
@pytest.mark.timeout(600 if STORM else 90)
def test_a_fleet_that_purges_answers_as_before(crew: Crew, capsys: pytest.CaptureFixture[str]) -> None:
    fill(crew)
    before = latencies(crew, "before")
    names = [f"{prefix}-{n}" for prefix in ("first", "then") for n in range(20)]
    for worker in range(2):
        crew.worker(durability="process", retention=AT_ONCE)
        crew.enqueue("short", 1, *names[worker * 20 : worker * 20 + 20])
    during = latencies(crew, "during")
    still = left(crew)
    middle, most = (during[at] / before[at] for at in (ASKED // 2, ASKED * 99 // 100))
    with capsys.disabled():
        print(
            f"\n  {crew.store[:8]}: while {BACKLOG - still} of {BACKLOG} old runs were purged, a claim took "
            f"{middle:.2f} times as long as else; 99 in 100 took less than {most:.2f} times as long as 99 in 100 else"
        )
    assert still < BACKLOG
    while left(crew):
        pass
    assert {row.status for row in crew.all_ended(*names).values()} == {Status.COMPLETED}
    with open_store(crew.store) as store:
        assert all(store.get_tombstone(f"old-{n}") for n in range(BACKLOG))
        for prefix in ("before", "during"):
            rows = [store.get_run(f"{prefix}-{n}") for n in range(ASKED)]
            assert {row and row.status for row in rows} == {Status.COMPLETED}
        if is_postgres(crew.store):
            deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            with store._writer._connector.connect() as watching:  # type: ignore[attr-defined]
                assert watching.execute(deadlocks).fetchone() == (0,)
