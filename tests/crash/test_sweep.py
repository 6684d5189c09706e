"""G1, G2, G8: a process dies at every named point, and at many other moments, and every run ends right.

`make storm` has it die whenever each point is reached; else it dies the first time, the last, and once in between.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.clock import SystemClock
from perdure.runtime import points
from tests.crash.apps import JOURNEY, journey_result
from tests.crash.procs import Bomb, Count, Crew, audit, ended

pytestmark = pytest.mark.crash
CLOCK = SystemClock()
STORM = bool(os.environ.get("PERDURE_STORM"))
NewStore = Callable[[], str]
MANY = 16
"""Runs of a sweep that are under way side by side."""
EACH = (
    points.CREATE,
    points.CREATED,
    points.CLAIM,
    points.CLAIMED,
    points.COMMIT,
    points.COMMITTED,
    points.BODY,
    points.BODY_ENDED,
)
GROUPED = {points.CLAIM, points.CLAIMED, points.COMMIT, points.COMMITTED}
"""What is reached more or less often, as it happens."""


def crews(folder: Path, made_store: NewStore, cases: list[tuple[str, int]]) -> list[tuple[str, int, Crew]]:
    return [(point, n, Crew(folder / f"{point}-{n}", made_store())) for point, n in cases]


def times(seen: int) -> list[int]:
    """Which times of so many at which a point is reached are tried."""
    return list(range(1, seen + 1)) if STORM else sorted({1, (seen + 1) // 2, seen})


def check(crew: Crew, label: str) -> None:
    entries = crew.ledger.entries()
    audit(crew, "r", entries)
    begun = {entry.key for entry in entries if entry.what == "begin"}
    assert begun == set(JOURNEY), label
    again = len([entry for entry in entries if entry.what == "begin"]) - len(JOURNEY) - 1
    assert 0 <= again <= 3, f"{label}: {again} bodies ran again after one kill"


def learn(folder: Path, made_store: NewStore) -> dict[str, int]:
    crew = Crew(folder, made_store())
    try:
        assert ended(crew.script("journey", 1, "r", reached=Count(crew.ledger))) == 0
        said = [entry.key for entry in crew.ledger.entries("point")]
        assert crew.outcome("r") == journey_result(1)
        return {point: said.count(point) for point in EACH}
    finally:
        crew.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_same_call_resumes_a_run_whose_process_died_at_any_named_point(
    tmp_path: Path, made_store: NewStore
) -> None:
    seen = learn(tmp_path / "learn", made_store)
    assert all(seen.values()), seen
    cases = [(point, n) for point in EACH for n in times(seen[point])]
    survived = []
    for at in range(0, len(cases), MANY):
        batch = crews(tmp_path, made_store, cases[at : at + MANY])
        first = [crew.script("journey", 1, "r", reached=Bomb(point, n)) for point, n, crew in batch]
        exits = [ended(process) for process in first]
        survived += [case[:2] for case, code in zip(batch, exits, strict=True) if code != -signal.SIGKILL]
        second = [crew.script("journey", 1, "r") for _, _, crew in batch]
        for process, (point, n, crew) in zip(second, batch, strict=True):
            assert ended(process) == 0
            said = [entry.key for entry in crew.ledger.entries() if entry.what in {"result", "raised"}]
            assert said[-1] == repr(journey_result(1)), f"{point} {n}: {said}"
            check(crew, f"{point} {n}")
            crew.close()
    # How often a run commits depends on what happens to share a batch, so the last of those may not come; and a run
    # that is held from the beginning to the end is never claimed at all.
    always = {(points.COMMIT, 1), (points.COMMITTED, 1)}
    certain = [(point, n) for point, n in survived if point not in GROUPED or (point, n) in always]
    assert certain == []
    assert len(survived) < len(cases) / 2
    print(f"{len(cases) - len(survived)} kills at {len(cases)} points: {seen}")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_another_worker_takes_over_a_run_whose_worker_died_at_any_named_point(
    tmp_path: Path, made_store: NewStore
) -> None:
    seen = learn(tmp_path / "learn", made_store)
    cases = [(point, n) for point in EACH[2:] for n in times(seen[point] + 1)]
    died = 0
    for at in range(0, len(cases), MANY):
        batch = crews(tmp_path, made_store, cases[at : at + MANY])
        first = []
        for point, n, crew in batch:
            crew.enqueue("journey", 1, "r")
            first.append(crew.worker(up=False, reached=Bomb(point, n)))
        for _, _, crew in batch:
            crew.worker(up=False)
        for process, (point, n, crew) in zip(first, batch, strict=True):
            assert crew.outcome("r") == journey_result(1)
            process.join(0)
            died += process.exitcode == -signal.SIGKILL
            check(crew, f"{point} {n}")
            crew.close()
    print(f"{died} of {len(cases)} workers died; in the others the second one was quicker")
    assert died > len(cases) / 4


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_survives_a_kill_at_any_moment(tmp_path: Path, database: str, made_store: NewStore) -> None:
    began = CLOCK.monotonic()
    learn(tmp_path / "learn", made_store)
    whole = CLOCK.monotonic() - began
    kills = 600 if STORM else 2 * MANY if database == "sqlite" else MANY
    died = 0
    for at in range(0, kills, MANY):
        batch = [(n, Crew(tmp_path / str(n), made_store())) for n in range(at, min(at + MANY, kills))]
        first = [crew.script("journey", 1, "r") for _, crew in batch]
        starts = [crew.ledger.until_said("call")[0].mono for _, crew in batch]
        for (n, _), process, start in zip(batch, first, starts, strict=True):
            time.sleep(max(0.0, start + whole * (n % MANY + n / kills) / MANY - CLOCK.monotonic()))
            process.kill()
        died += sum(ended(process) == -signal.SIGKILL for process in first)
        second = [crew.script("journey", 1, "r") for _, crew in batch]
        for process, (n, crew) in zip(second, batch, strict=True):
            assert ended(process) == 0
            assert crew.ledger.entries("result")[-1].key == repr(journey_result(1))
            check(crew, str(n))
            crew.close()
    print(f"{died} of {kills} were killed before they had ended")
    assert died > kills / 3
