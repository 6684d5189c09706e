"""The store's disk fills up, is locked, read-only or gone: no run is lost, no log floods, and it goes on by itself."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, errors
from perdure.clock import SystemClock
from perdure.model.records import Status
from tests.crash import apps
from tests.crash.procs import Crew, ended

pytestmark = [pytest.mark.crash, pytest.mark.only("sqlite")]
CLOCK = SystemClock()


@contextmanager
def small_disk(at: Path, size: str) -> Iterator[Path]:
    """A file system of its own, or a skipped test where that is not allowed."""
    at.mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", at]
        done = subprocess.run(mount, capture_output=True, check=False)
    except OSError:
        pytest.skip("there is no mount command")
    if done.returncode != 0:
        pytest.skip("this user may not mount a tmpfs")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", at], check=True)


def fill(disk: Path) -> Path:
    """Take what is left of a disk, to the last block."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        block = 65_536
        while block:
            try:
                file.write(bytes(block))
            except OSError:
                block //= 2
    return ballast


@pytest.mark.parametrize("leases", [0.3, 3], ids=["briefly", "longer-than-the-lease"])
def test_runs_outlive_a_full_disk(tmp_path: Path, leases: float) -> None:
    with small_disk(tmp_path / "disk", "40m") as disk:
        crew = Crew(tmp_path / "crew")
        crew.store = str(disk / "perdure.db")
        try:
            worker = crew.worker(lease=1.0, heartbeat=0.3)
            runs = [f"r{n}" for n in range(20)]
            crew.enqueue("gated_big", 40, *runs)
            crew.ledger.until_said("begin", 20)
            ballast = fill(disk)
            crew.ledger.open_gate(200)  # bodies whose outcome could not be written wait there again
            while "full" not in crew.log(worker):
                worker.join(0.02)
                assert worker.is_alive()
            worker.join(leases)
            full = crew.log(worker)
            ballast.unlink()
            rows = crew.all_ended(*runs)
            assert {row.status for row in rows.values()} == {Status.COMPLETED}
            assert worker.is_alive()
            assert len(full.splitlines()) < 60 + 60 * leases, "the log floods"
            print(f"{len(full.splitlines())} lines of log while the disk was full")
        finally:
            crew.close()


@pytest.mark.parametrize("lease", [10.0, 1.0], ids=["within-the-lease", "past-the-lease"])
def test_a_lock_held_by_another_program_for_three_seconds_fails_nothing_and_stalls_no_step(
    crew: Crew, lease: float
) -> None:
    worker = crew.worker(lease=lease, heartbeat=lease / 3)
    crew.enqueue("ticking", 3.5, "ticks")
    crew.enqueue("gated", 1, "r")
    crew.ledger.until_said("begin", run="r", key="wait_at_gate#1")
    locker = crew.start(_lock, crew)
    crew.ledger.until_said("locked")
    crew.ledger.open_gate()
    ended(locker)
    assert crew.outcome("r") == 2
    stall = crew.outcome("ticks")
    print(f"the loop stood still for {1000 * stall:.0f} ms at most")
    assert stall < 1.0
    assert "ERROR" not in crew.log(worker)
    assert {crew.row(run_id).crashes for run_id in ("r", "ticks")} == {0}


def _lock(crew: Any) -> None:
    import time

    import apsw

    connection = apsw.Connection(crew.store)
    connection.set_busy_timeout(5000)
    connection.execute("BEGIN IMMEDIATE")
    crew.ledger.write("locked")
    time.sleep(3)
    connection.execute("COMMIT")


def test_a_read_only_store_is_refused_with_the_reason(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "16m") as disk:
        crew = Crew(tmp_path / "crew")
        crew.store = str(disk / "perdure.db")
        crew.enqueue("short", 1, "r")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with pytest.raises(errors.StoreError) as caught:
            crew.enqueue("short", 1, "s")
        assert isinstance(caught.value, errors.StoreReadOnly)
        crew.close()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_worker_whose_file_is_gone_ends_with_the_reason(crew: Crew, how: str) -> None:
    worker = crew.worker()
    crew.enqueue("gated", 1, "r")
    crew.ledger.until_said("begin", key="wait_at_gate#1")
    waiting = crew.script("gated", 1, "r")
    while len(crew.workers()) < 2:
        crew.ledger.until_said("call")
    for suffix in ("", "-wal", "-shm"):
        os.rename(crew.store + suffix, f"{crew.store}.gone{suffix}")  # noqa: PTH104
    if how == "replaced":
        crew.enqueue("short", 1, "other")
    assert ended(worker) != 0
    assert ended(waiting) == 0
    raised = crew.ledger.entries("raised")[-1].key
    assert raised.startswith("StoreGone"), raised


def test_a_waiter_in_the_same_process_hears_that_the_file_is_gone(crew: Crew) -> None:
    async def main() -> None:
        async with Engine(crew.store, workflows=apps.WORKFLOWS, tools=apps.Tools(crew.ledger)) as engine:
            handle = await engine.enqueue(apps.gated, 1, run_id="r")
            waiting = asyncio.create_task(handle.result())
            while not crew.ledger.entries("begin", key="wait_at_gate#1"):
                await asyncio.sleep(0.01)
            os.rename(crew.store, crew.store + ".gone")  # noqa: PTH104
            with pytest.raises(errors.StoreGone, match="removed or replaced"):
                await asyncio.wait_for(waiting, 10)

    asyncio.run(main())
