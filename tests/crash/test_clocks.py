"""O04: the wall clock steps back an hour under a worker: its heartbeats and its runs go on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from perdure.clock import SystemClock
from tests.crash.procs import Crew, make_engine

pytestmark = pytest.mark.crash

HOUR = 3_600_000_000


class Shifted(SystemClock):
    """The system's clock, an hour back once a file is there."""

    __slots__ = ("flag",)

    def __init__(self, flag: str) -> None:
        self.flag = flag

    def now(self) -> int:
        return super().now() - (HOUR if os.path.exists(self.flag) else 0)  # noqa: PTH110


def test_a_worker_whose_wall_clock_steps_back_keeps_its_lease_and_its_sleeps_end(crew: Crew) -> None:
    flag = str(crew.folder / "back")
    shifted = crew.start(_work_shifted, crew, flag)
    crew.ledger.until_said("up", pid=shifted.pid)
    crew.enqueue("long_step", 3.0, "step")
    crew.enqueue("nap", 2.0, "nap")
    crew.ledger.until_said("begin", run="step")
    crew.ledger.until_said("end", run="nap", key="depart#1")
    Path(flag).touch()
    other = crew.worker(lease=1.0, heartbeat=0.3)
    assert crew.outcome("step") == 3.0
    assert [entry.pid for entry in crew.ledger.entries("begin", run="step")] == [shifted.pid]
    assert crew.outcome("nap") == "awake"
    woke = crew.ledger.entries("begin", run="nap", key="arrive#1")
    assert len(woke) == 1
    slept = woke[0].mono - crew.ledger.entries("end", run="nap", key="depart#1")[0].mono
    print(f"slept {slept:.2f} s")
    assert 1.9 < slept < 5
    for process in (shifted, other):
        assert process.is_alive()
        assert "taken for dead" not in crew.log(process)
    os.kill(shifted.pid or 0, signal.SIGTERM)


def _work_shifted(crew: Any, flag: str) -> None:
    engine = make_engine(crew.store, crew.ledger, lease=1.0, heartbeat=0.3, clock=Shifted(flag))
    asyncio.run(engine.serve())
