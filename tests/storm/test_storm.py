"""Storms: everything at once, and whatever happens every law holds. G1 to G16, on both databases.

``PERDURE_STORM=1`` has many long ones, ``PERDURE_STORM_SEED=7`` that of one seed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from perdure.model.records import Kind
from tests.crash.procs import Crew
from tests.servers.ground import Ground
from tests.storm.covenants import broken
from tests.storm.evidence import Evidence, gather
from tests.storm.plan import LONG, SHORT, Plan, make_plan
from tests.storm.summary import ROUNDS, STORM
from tests.storm.world import World, small_disk

pytestmark = [pytest.mark.crash, pytest.mark.slow]

GIVEN = os.environ.get("PERDURE_STORM_SEED", "")


def seeds(database: str) -> list[int]:
    if GIVEN:
        return [int(GIVEN)]
    return list(range(1, 1 + (ROUNDS[database] if STORM else 1)))


@pytest.mark.only("sqlite")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds("sqlite"))
def test_every_law_holds_in_a_storm_on_a_small_disk(
    tmp_path: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    plan = make_plan(seed, "sqlite", (LONG if STORM else SHORT)["sqlite"])
    with ExitStack() as ends:
        disk = ends.enter_context(small_disk(tmp_path / "disk", print))
        crew = Crew(tmp_path / "crew", str((disk or tmp_path) / "perdure.db"))
        ends.callback(crew.close)
        weather(plan, World(plan, crew, disk=disk), record_property)


@pytest.mark.only("postgres")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds("postgres"))
def test_every_law_holds_in_a_storm_around_a_server(
    tmp_path: Path, seed: int, ground: Ground, record_property: Callable[[str, object], None]
) -> None:
    plan = make_plan(seed, "postgres", (LONG if STORM else SHORT)["postgres"])
    with ground.own() as own, ExitStack() as ends:
        server = own.server()
        crew = Crew(tmp_path / "crew", server.url("storm"))
        ends.callback(crew.close)
        weather(plan, World(plan, crew, server=server), record_property)


def weather(plan: Plan, world: World, record_property: Callable[[str, object], None]) -> None:
    """Have the storm, wait for the calm, and judge."""
    world.rage()
    evidence = gather(plan, world.crew, world.calm_down())
    kinds = Counter(case.workflow for case in evidence.cases)
    again = [len(case.begins) - len({(entry.key, entry.attempt) for entry in case.begins}) for case in evidence.cases]
    facts = {
        "database": plan.database,
        "seed": plan.seed,
        "kills": len(world.killed),
        "faults": dict(world.did),
        "runs": kinds.total(),
        "bodies": sum(len(case.begins) for case in evidence.cases),
        "again": sum(again),
        "taken over": sum(len(list(case.of(Kind.RUN_RECLAIMED))) for case in evidence.cases),
    }
    record_property("storm", facts)
    print(facts, kinds)
    if found := broken(evidence):
        again = f"PERDURE_STORM_SEED={plan.seed}{' PERDURE_STORM=1' if STORM else ''}"
        pytest.fail("\n".join([f"broken with {again}:", *found, *told(evidence, found)]), pytrace=False)
    assert len(world.killed) >= 0.95 * plan.size.kills, "workers ended before they could be killed"
    assert facts["taken over"], "nobody was killed while it held a run"


def told(evidence: Evidence, found: list[str]) -> list[str]:
    """What is known of the runs that are named, for whoever looks for the reason."""
    lines: list[str] = []
    for case in [case for case in evidence.cases if any(case.row.run_id in what for what in found)][:4]:
        lines.append(f"--- {case.row}")
        lines += [
            f"{e.seq:4} {e.at} {e.epoch} {e.word} {e.key} {e.attempt} {e.took} {(e.payload or b'')[:150]!r}"
            for e in case.log[-60:]
        ]
        lines += [
            f"     {e.at} {e.what} {e.key} {e.attempt} {e.pid} {e.idem}" for e in evidence.entries if e.run == case.name
        ][-60:]
    return lines
