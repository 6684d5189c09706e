"""A run is forked, and the process that asked for it dies anywhere: there is one fork, and it does its part once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine
from perdure.model import forking
from perdure.model.records import Kind, Status
from perdure.runtime import points
from perdure.store.open import is_postgres, open_store
from perdure.store.protocol import Filter
from tests.crash import apps
from tests.crash.apps import JOURNEY, journey_result
from tests.crash.procs import SLACK, Bomb, Count, Crew, audit_log, ended, make_engine

pytestmark = [pytest.mark.crash, pytest.mark.slow]
STORM = bool(os.environ.get("PERDURE_STORM"))
NewStore = Callable[[], str]
AT_ONCE = 6
"""Forks whose processes mostly wait."""
POINTS = (
    points.FORK,
    points.FORKED,
    points.CLAIM,
    points.CLAIMED,
    points.COMMIT,
    points.COMMITTED,
    points.BODY,
    points.BODY_ENDED,
)
FROM = "by_air#1"
"""Two others go on beside it, it is tried twice, and a timer comes after it."""


def fork_it(crew: Any, keep_keys: bool, reached: Callable[[str], object]) -> None:
    """Be a process that lives a run undisturbed, if nobody has, then forks it and waits for the fork's end."""

    async def main() -> None:
        async with make_engine(crew.store, crew.ledger) as engine:
            await engine.run(apps.journey, 1, run_id="r")
        async with make_engine(crew.store, crew.ledger, reached=reached) as engine:
            fork = await engine.get("r", apps.journey).fork(FROM, run_id="fork", keep_keys=keep_keys)
            crew.ledger.write("result", key=await fork.result())

    asyncio.run(main())


def _nothing(_point: str) -> None:
    pass


def dies(crew: Crew, point: str, n: int, *, keep_keys: bool) -> bool:
    """Live a fork whose first process dies somewhere, and say whether it did."""
    try:
        died = ended(crew.start(fork_it, crew, keep_keys, Bomb(point, n))) == -signal.SIGKILL
        if died:
            assert ended(crew.start(fork_it, crew, keep_keys, _nothing)) == 0
        check(crew, f"{point} {n}", keep_keys=keep_keys)
        return died
    finally:
        crew.close()


def check(crew: Crew, label: str, *, keep_keys: bool) -> None:
    assert crew.ledger.entries("result")[-1].key == journey_result(1), label
    with open_store(crew.store) as store:
        rows = {row.run_id: row for row in store.list_runs(Filter())}
    assert {run_id: row.status for run_id, row in rows.items()} == dict.fromkeys(("r", "fork"), Status.COMPLETED), label
    origin, fork = crew.events("r"), crew.events("fork")
    lineage = forking.lineage(fork[0])
    assert lineage is not None
    copied = lineage.seq
    assert [event[2:9] for event in fork[1:copied]] == [event[2:9] for event in origin[1:copied]], label
    assert fork[copied].kind == Kind.RUN_FORKED, label
    assert sum(event.kind == Kind.RUN_FORKED for event in fork) == 1, label

    done = {event.key for event in fork[:copied] if event.kind == Kind.STEP_COMPLETED}
    begun = {run: [e for e in crew.ledger.entries("begin") if e.run == run] for run in ("r", "fork")}
    assert {entry.key for entry in begun["fork"]} == set(JOURNEY) - done, f"{label}: what had been done was done again"
    keys = {run: {entry.key: entry.idem for entry in entries} for run, entries in begun.items()}
    for key, idem in keys["fork"].items():
        assert (idem == keys["r"][key]) == keep_keys, label
    audit_log(fork, begun["fork"], SLACK if is_postgres(crew.store) else 0, copied=copied)
    again = len(begun["fork"]) - len(keys["fork"]) - 1
    assert 0 <= again <= 3, f"{label}: {again} bodies ran again after one kill"


@pytest.mark.timeout(300)
def test_a_fork_survives_the_death_of_whoever_makes_and_executes_it(
    tmp_path: Path, database: str, made_store: NewStore
) -> None:
    crew = Crew(tmp_path / "learn", made_store())
    assert ended(crew.start(fork_it, crew, False, Count(crew.ledger))) == 0
    check(crew, "undisturbed", keep_keys=False)
    seen = Counter(entry.key for entry in crew.ledger.entries("point"))
    crew.close()
    assert all(seen[point] for point in POINTS), seen
    some = POINTS if database == "sqlite" or STORM else (points.FORK, points.FORKED, points.COMMITTED)
    times = {point: range(1, seen[point] + 1) if STORM else {1, (seen[point] + 1) // 2} for point in some}
    cases = [(point, n) for point in some for n in times[point]]
    with ThreadPoolExecutor(AT_ONCE) as several:
        lived = [
            several.submit(dies, Crew(tmp_path / f"{point}-{n}", made_store()), point, n, keep_keys=bool(number % 2))
            for number, (point, n) in enumerate(cases)
        ]
        died = sum(one.result() for one in lived)
    print(f"{died} kills in {len(cases)} forks")
    assert died > len(cases) / 2


def test_two_processes_that_fork_at_once_make_one_fork(tmp_path: Path, made_store: NewStore) -> None:
    crew = Crew(tmp_path / "two", made_store())
    assert ended(crew.script("journey", 1, "r")) == 0
    both = [crew.start(fork_it, crew, False, _nothing) for _ in range(2)]
    assert [ended(process) for process in both] == [0, 0]
    check(crew, "two at once", keep_keys=False)

    async def there() -> list[str]:
        async with Engine(crew.store).client() as client:
            return [row.run_id async for row in client.runs()]

    assert sorted(asyncio.run(there())) == ["fork", "r"]
    crew.close()
