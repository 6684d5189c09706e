"""Measure a worker over a store in which many runs wait: its start, memory, wake-ups and idling; see README.md."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import perdure
from benchmarks.places import DATABASES, place
from perdure.workflow import Workflow

BATCH, WAKING, ASKED = 1000, 100, 50
CALM = 15
"""Seconds for which an idle worker's CPU time is counted."""
go = perdure.Signal[float]("go")


@perdure.step
async def note(instant: float) -> None:
    """Say how long after ``instant`` (seconds UTC) this body began."""
    with Path(os.environ["PERDURE_BENCH_NOTES"]).open("a", encoding="utf-8") as file:  # noqa: ASYNC230 - one line
        file.write(f"{time.time() - instant}\n")


@perdure.workflow
async def asleep(due: float) -> None:
    """Sleep until an instant (seconds UTC)."""
    await perdure.sleep_until(dt.datetime.fromtimestamp(due, dt.UTC))
    await note(due)


@perdure.workflow
async def waiting(_number: int) -> None:
    """Wait for a signal that says when it was sent."""
    await note(await go.wait())


WORKFLOWS: list[Workflow[Any, Any]] = [asleep, waiting]


async def fill(target: str, runs: int) -> None:
    """Execute runs until they wait, half of them for years and half for a signal."""
    far = time.time() + 3650 * 86400
    async with perdure.Engine(target, workflows=WORKFLOWS, concurrency=1000) as engine:
        for begun in range(0, runs, 2 * BATCH):
            await engine.enqueue_many(asleep, [far] * BATCH)
            await engine.enqueue_many(waiting, list(range(BATCH)))
            while [row async for row in engine.runs(status=("pending", "running"))]:  # noqa: ASYNC110 - of many, by others
                await asyncio.sleep(0.05)
            print(f"\r  filling: {begun + 2 * BATCH:,} runs\x1b[K", end="", file=sys.stderr, flush=True)
        for n in range(ASKED):
            await engine.enqueue(waiting, n, run_id=f"asked-{n}")
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


async def work(target: str) -> None:
    """Be the worker that is measured."""
    began = time.perf_counter()
    async with perdure.Engine(target, workflows=WORKFLOWS):
        print(time.perf_counter() - began, flush=True)
        ending = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
        await ending.wait()


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has had, all its threads together."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def memory(pid: int) -> float:
    """The most memory a process has had, MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


async def wake(target: str, notes: Path) -> list[list[float]]:
    """Have timers come due, then send signals; seconds from each to the next body."""
    found: list[list[float]] = []
    async with perdure.Engine(target, workflows=WORKFLOWS).client() as engine:
        soon = time.time() + 3
        await engine.enqueue_many(asleep, [soon + n * 0.07 for n in range(WAKING)])
        await asyncio.sleep(4 + WAKING * 0.07)
        found.append(read(notes))
        for n in range(ASKED):
            await engine.get(f"asked-{n}").signal(go, time.time())
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        found.append(read(notes)[WAKING:])
    return found


def read(notes: Path) -> list[float]:
    """What the bodies have noted so far."""
    return [float(line) for line in notes.read_text(encoding="utf-8").splitlines()] if notes.exists() else []


def measure(target: str) -> None:
    """Start a worker in a process of its own, and measure it."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.waiting", "--work", target],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PERDURE_BENCH_NOTES": str(notes)},
        )  # fmt: skip
        try:
            assert process.stdout is not None
            started = float(process.stdout.readline())
            print(f"  start {started:.2f} s, {time.perf_counter() - began:.2f} s with the interpreter   [aim 2]")
            time.sleep(3)
            before = cpu(process.pid)
            time.sleep(CALM)
            print(f"  idle {(cpu(process.pid) - before) / CALM:.1%} of a core   [aim 2 %]")
            for what, late in zip(("timer", "signal"), asyncio.run(wake(target, notes)), strict=True):
                p50, most = statistics.median(late) * 1e3, max(late) * 1e3
                print(f"  {what:6} to body p50 {p50:.1f} ms, at most {most:.1f} ms, {len(late)} times   [aim 100 ms]")
            print(f"  memory {memory(process.pid):.0f} MB at most   [aim 200]", flush=True)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.waiting", description=__doc__)
    parser.add_argument("databases", nargs="*", choices=[*DATABASES, []], help="which databases; by default all")
    parser.add_argument("--runs", type=int, default=100_000, help="that wait")
    parser.add_argument("--folder", help="where the stores are made; it decides which disk is measured")
    parser.add_argument("--work", metavar="STORE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        asyncio.run(work(options.work))
        return
    for database in options.databases or DATABASES:
        print(f"{database} on Python {platform.python_version()}, {os.cpu_count()} cores, {options.runs:,} runs wait")
        with place(database, options.folder) as new:
            target = new()
            asyncio.run(fill(target, options.runs))
            measure(target)


if __name__ == "__main__":
    main()
