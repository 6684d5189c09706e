"""What a run has done is undone, whenever its process dies: no effect is lost, none is undone under two keys.

`make storm` has it die whenever each point is reached; else it dies a few times at each.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure import errors
from perdure.model.history import fold
from perdure.model.records import Kind, Status
from perdure.runtime import points
from tests.crash.procs import Bomb, Count, Crew, ended

pytestmark = pytest.mark.crash
NewStore = Callable[[], str]
STORM = bool(os.environ.get("PERDURE_STORM"))
THINGS = 3
MANY = 16
"""Runs of a sweep that are under way side by side."""
POINTS = (points.CLAIM, points.CLAIMED, points.COMMIT, points.COMMITTED, points.BODY, points.BODY_ENDED)


def check(crew: Crew, label: str, *, heard: int) -> None:
    """Every effect is undone after it happened, each compensation under one key, and recorded once."""
    entries = crew.ledger.entries()
    for thing in map(str, range(THINGS)):
        taken = [entry.mono for entry in entries if (entry.what, entry.key) == ("taken", thing)]
        given = [entry for entry in entries if (entry.what, entry.key) == ("given back", thing)]
        assert taken, label
        assert given, f"{label}: {thing} was never given back"
        assert max(taken) < min(entry.mono for entry in given), f"{label}: {thing} was taken after it was given back"
        assert len({entry.idem for entry in given}) == 1, f"{label}: {thing} was given back under several keys"
        assert len(given) <= 2, f"{label}: {thing} was given back {len(given)} times after one kill"
    told = [entry for entry in entries if entry.what == "heard"]
    assert heard <= len(told) <= 2 * heard, label
    assert len({entry.idem for entry in told}) == heard, label
    view = fold(crew.events("r"))
    assert view.undone == [f"give_back#{n}" for n in range(THINGS, 0, -1)], label
    assert all(view.steps[key].status == "completed" for key in view.undone), label
    assert sum(event.kind == Kind.UNDO_BEGUN for event in crew.events("r")) == 1, label
    assert crew.row("r").undo is None, label


def learn(folder: Path, new_store: NewStore, run: Callable[[Crew], object]) -> dict[str, int]:
    """How often each point is reached while a run is lived that nothing disturbs."""
    crew = Crew(folder, new_store())
    try:
        run(crew)
        said = [entry.key for entry in crew.ledger.entries("point")]
        return {point: said.count(point) for point in POINTS}
    finally:
        crew.close()


def times(seen: int, database: str) -> list[int]:
    """Which times of so many at which a point is reached are tried: what differs by the store is tried less often."""
    if STORM:
        return list(range(1, seen + 1))
    return sorted({1, (seen + 1) // 2, seen} if database == "sqlite" else {seen})


def crews(folder: Path, new_store: NewStore, cases: list[tuple[str, int]]) -> list[tuple[str, int, Crew]]:
    return [(point, n, Crew(folder / f"{point}-{n}", new_store())) for point, n in cases]


@pytest.mark.timeout(300)
def test_a_run_that_fails_goes_on_undoing_wherever_its_process_died(
    tmp_path: Path, database: str, new_store: NewStore
) -> None:
    seen = learn(
        tmp_path / "learn",
        new_store,
        lambda crew: ended(crew.script("takes_and_fails", THINGS, "r", reached=Count(crew.ledger))),
    )
    cases = [(point, n) for point in POINTS for n in times(seen[point], database)]
    died = 0
    for at in range(0, len(cases), MANY):
        batch = crews(tmp_path, new_store, cases[at : at + MANY])
        first = [crew.script("takes_and_fails", THINGS, "r", reached=Bomb(point, n)) for point, n, crew in batch]
        died += sum(ended(process) == -signal.SIGKILL for process in first)
        second = [crew.script("takes_and_fails", THINGS, "r") for _, _, crew in batch]
        for process, (point, n, crew) in zip(second, batch, strict=True):
            assert ended(process) == 0
            said = [entry.key for entry in crew.ledger.entries("raised")]
            assert said[-1] == "ValueError('enough')", f"{point} {n}: {said}"
            check(crew, f"{point} {n}", heard=1)
            crew.close()
    print(f"{died} kills at {len(cases)} points: {seen}")
    assert died > len(cases) / 2


def cancel_at_the_gate(crew: Crew) -> None:
    crew.ledger.until_said("begin", key="wait_at_gate#1")
    crew.cancel("r", "changed my mind")


@pytest.mark.timeout(300)
def test_a_cancelled_run_goes_on_undoing_wherever_its_worker_died(
    tmp_path: Path, database: str, new_store: NewStore
) -> None:
    def live(crew: Crew) -> None:
        crew.enqueue("takes_and_waits", THINGS, "r")
        crew.worker(up=False, reached=Count(crew.ledger))
        cancel_at_the_gate(crew)
        with pytest.raises(errors.RunCancelled):
            crew.outcome("r")

    seen = learn(tmp_path / "learn", new_store, live)
    cases = [(point, n) for point in POINTS for n in times(seen[point], database)]
    died = 0
    for at in range(0, len(cases), MANY):
        batch = crews(tmp_path, new_store, cases[at : at + MANY])
        first = []
        for point, n, crew in batch:
            crew.enqueue("takes_and_waits", THINGS, "r")
            first.append(crew.worker(up=False, reached=Bomb(point, n)))
        for _, _, crew in batch:
            crew.worker(up=False)
        for process, (point, n, crew) in zip(first, batch, strict=True):
            cancel_at_the_gate(crew)
            with pytest.raises(errors.RunCancelled, match="changed my mind"):
                crew.outcome("r")
            assert crew.row("r").status is Status.CANCELLED
            process.join(0)
            died += process.exitcode == -signal.SIGKILL
            check(crew, f"{point} {n}", heard=0)
            crew.close()
    print(f"{died} of {len(cases)} workers died; in the others the second one was quicker")
    assert died > len(cases) / 4


def test_a_cancel_that_finds_nobody_with_the_code_waits_for_it_also_after_a_crash(crew: Crew) -> None:
    first = crew.worker()
    crew.enqueue("takes_and_waits", THINGS, "r")
    crew.ledger.until_said("begin", key="wait_at_gate#1")
    first.kill()
    ended(first)
    crew.cancel("r", "changed my mind")
    row = crew.row("r")
    assert (row.status, row.undo) == (Status.RUNNING, '["give_back#1", "give_back#2", "give_back#3"]')
    crew.worker()
    with pytest.raises(errors.RunCancelled, match="changed my mind"):
        crew.outcome("r")
    check(crew, "codeless", heard=0)
