"""What is said of storms at the end of a session, whichever process had them: seeds, kills, runs and faults."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

STORM = bool(os.environ.get("PERDURE_STORM"))
ROUNDS = {"sqlite": 24, "postgres": 10}
"""How many storms there are on each database if ``PERDURE_STORM`` is set."""
KILLS = 10_000
"""How many processes must have been killed then."""

storms: list[dict[str, Any]] = []
"""What storms have told of themselves."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        storms.extend(dict(value) for name, value in report.user_properties if name == "storm")  # type: ignore[call-overload]


def total(what: str) -> int:
    return sum(storm[what] for storm in storms)


def is_short_of_kills() -> bool:
    """Whether all storms were had, and too few processes killed in them."""
    return STORM and len(storms) == sum(ROUNDS.values()) and total("kills") < KILLS


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if is_short_of_kills():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not storms:
        return
    terminalreporter.section("storms")
    faults: Counter[str] = Counter()
    for database in ROUNDS:
        had = [storm for storm in storms if storm["database"] == database]
        seeds = ", ".join(str(storm["seed"]) for storm in sorted(had, key=lambda storm: storm["seed"]))
        if had:
            terminalreporter.line(f"{database}: seeds {seeds}")
    for storm in storms:
        faults.update(storm["faults"])
    terminalreporter.line(f"{total('kills')} kills; {total('runs')} runs, taken over {total('taken over')} times")
    terminalreporter.line(f"{total('bodies')} bodies, of which {total('again')} ran again")
    terminalreporter.line(", ".join(f"{fault} {times}" for fault, times in sorted(faults.items())))
    if is_short_of_kills():
        terminalreporter.line(f"FAILED: fewer than {KILLS} kills", red=True)
