"""Measure Perdure beside what SQLite and the disk allow; see README.md."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

import perdure
from benchmarks import workloads
from benchmarks.driving import RUNS, STEPS, WORKFLOWS, many
from benchmarks.growth import w8
from benchmarks.places import DATABASES, place
from perdure.model import chain
from perdure.model.records import CommitItem, Kind, NewRun, WorkerRow
from perdure.store.open import open_store
from perdure.store.protocol import Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SMALL = ("W1", "W2", "W2s", "W2j", "W3", "W4", "W5")
LARGE = ("W8", "W9")

# What raw_rows made on the machine that the aims of W1, W2 and W2j were set on.
REFERENCE = 153_000


def raw_commits(folder: Path, count: int = 1000) -> float:
    """Single-row commits per second with Perdure's settings: the limit of everything that waits for the disk."""
    connection = apsw.Connection(str(folder / "raw.db"))
    connection.execute("PRAGMA journal_mode = wal; PRAGMA synchronous = full")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS events (run INTEGER, seq INTEGER, data BLOB, PRIMARY KEY (run, seq))"
    )
    row = b"x" * 200
    first = connection.execute("SELECT coalesce(max(seq), 0) + 1 FROM events").fetchall()[0][0]
    began = time.perf_counter()
    for seq in range(first, first + count):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO events VALUES (1, ?, ?)", (seq, row))
        connection.execute("COMMIT")
    seconds = time.perf_counter() - began
    connection.close()
    return count / seconds


def raw_rows(folder: Path, count: int = 400, batch: int = 100) -> float:
    """Rows per second of commits of ``batch`` events, each with the update of its run: what batches can be at best.

    It takes next to no time of the disk, so beside REFERENCE it says how fast the processor is.
    """
    connection = apsw.Connection(str(folder / "rows.db"))
    connection.execute("PRAGMA journal_mode = wal; PRAGMA synchronous = full")
    connection.execute(
        "DROP TABLE IF EXISTS runs; DROP TABLE IF EXISTS events;"
        "CREATE TABLE runs (run_key INTEGER PRIMARY KEY, status TEXT, seq INTEGER, updated_at INTEGER);"
        "CREATE TABLE events (place INTEGER PRIMARY KEY, kind TEXT, data BLOB)"
    )
    keys = range(batch)
    connection.executemany("INSERT INTO runs VALUES (?, 'running', 0, 0)", [(key,) for key in keys])
    data = b"x" * 100
    began = time.perf_counter()
    for seq in range(1, count + 1):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO events VALUES (?, 'step_completed', ?)", [(key << 24 | seq, data) for key in keys]
        )
        connection.executemany(
            "UPDATE runs SET seq = ?, updated_at = ? WHERE run_key = ?", [(seq, seq, key) for key in keys]
        )
        connection.execute("COMMIT")
    seconds = time.perf_counter() - began
    connection.close()
    return count * batch / seconds


async def in_sequence(engine: perdure.Engine) -> float:
    """Steps per second of one run."""
    began = time.perf_counter()
    assert await engine.run(workloads.sequence, RUNS) == RUNS
    return RUNS / (time.perf_counter() - began)


async def fan(engine: perdure.Engine) -> float:
    """Milliseconds of one run that fans out."""
    began = time.perf_counter()
    await engine.run(workloads.fan_out, 200)
    return (time.perf_counter() - began) * 1000


async def alone(engine: perdure.Engine, count: int = 300) -> list[float]:
    """Milliseconds of single runs, one after the other, sorted."""
    order = workloads.Order(id="order", amount=1)
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        await engine.run(workloads.one_step, order)
        taken.append((time.perf_counter() - began) * 1000)
    return sorted(taken)


def scattered(target: str, live: int = 20_000, batch: int = 200, commits: int = 100) -> float:
    """W9: rows per second of commits with one event each of ``batch`` random runs among ``live``."""
    store = open_store(target)
    now = store.now()
    store.register_worker(
        WorkerRow(
            worker_key=1,
            name="bench",
            host="",
            pid=os.getpid(),
            pid_started=0,
            boot="",
            build="",
            sidecar="",
            started_at=now,
            lease_until=3_600_000_000,
            beat=0,
        )
    )
    new = [NewRun(f"r{n}", os.urandom(16), "w", "1", now, 0, b"null", b"{}") for n in range(live)]
    for at in range(0, live, 2000):
        store.create_runs(new[at : at + 2000])
    tails = {}
    while claims := store.claim_runs(1, [Route("w", "1")], 1000):
        for claim in claims:
            tails[claim.row.run_key] = (claim.row.epoch, claim.row.seq, claim.row.hash)
    keys, payload = list(tails), b'{"id":"order-1","amount":1}'
    rng = random.Random(1)  # noqa: S311 - not for secrets
    seconds = 0.0
    for _ in range(commits):
        items = []
        for key in rng.sample(keys, batch):
            epoch, seq, link = tails[key]
            event = chain.seal(
                link, key, seq + 1, now, epoch, Kind.STEP_COMPLETED, f"noop#{seq}", 1, 10, 0, payload, payload
            )
            tails[key] = (epoch, seq + 1, event.hash)
            items.append(CommitItem(key, epoch, [event]))
        began = time.perf_counter()
        store.commit(items)
        seconds += time.perf_counter() - began
    store.close()
    return commits * batch / seconds


async def rounds(wanted: list[str], count: int, folder: Path) -> None:
    """Measure the small workloads, interleaved, with the raw loop in every round."""
    seen: dict[str, list[float]] = {name: [] for name in [*wanted, "raw", "rows", "W5p99"]}
    async with (
        perdure.Engine(folder / "bench.db", workflows=WORKFLOWS, concurrency=1000) as engine,
        perdure.Engine(folder / "few.db", workflows=WORKFLOWS, concurrency=50) as few,
    ):
        measures: dict[str, Callable[[], Awaitable[float]]] = {
            "W1": lambda: many(engine, workloads.one_step, 1),
            "W2": lambda: many(engine, workloads.five_steps, STEPS),
            "W2s": lambda: many(few, workloads.five_steps, STEPS),
            "W2j": lambda: many(engine, workloads.five_jittered, STEPS),
            "W3": lambda: in_sequence(engine),
            "W4": lambda: fan(engine),
        }
        await alone(engine, 20)
        for _ in range(count):
            seen["raw"].append(raw_commits(folder))
            seen["rows"].append(raw_rows(folder))
            for name in wanted:
                if name == "W5":
                    taken = await alone(engine)
                    seen["W5"].append(taken[len(taken) // 2])
                    seen["W5p99"].append(taken[int(len(taken) * 0.99)])
                else:
                    seen[name].append(await measures[name]())
    raw = statistics.median(seen["raw"])
    print(f"raw commits     {raw:>9,.0f} /s   ({min(seen['raw']):,.0f} to {max(seen['raw']):,.0f})")
    rows = statistics.median(seen["rows"])
    print(
        f"raw rows        {rows:>9,.0f} /s   ({min(seen['rows']):,.0f} to {max(seen['rows']):,.0f})"
        f"  = {rows / REFERENCE:.2f} of the machine that the aims are for"
    )
    for name in wanted:
        report(name, seen)


UNITS = {"W1": "runs/s", "W2": "steps/s", "W2s": "steps/s", "W2j": "steps/s", "W3": "steps/s", "W4": "ms", "W5": "ms"}
# Of what is limited by the processor, not by the disk: how many rows one of these is.
ROWS = {"W1": 2, "W2": 1, "W2s": 1, "W2j": 1}
AIMS = {
    "W1": "10,000: 0.13", "W2": "20,000: 0.13", "W2s": "none", "W2j": "12,000: 0.08", "W3": "0.75 raw", "W4": "6",
    "W5": "2.8 raw commits", "W8": "0.9 W2", "W9": "30,000",
}  # fmt: skip


def report(name: str, seen: dict[str, list[float]]) -> None:
    """Print one line: median, range, ratio to the raw loops of the same round, and the aim."""
    values, raws = seen[name], seen["raw"]
    median = statistics.median(values)
    if name in {"W4", "W5"}:
        ratio = statistics.median(value * raw / 1000 for value, raw in zip(values, raws, strict=True))
        shown = f"{median:>9,.2f} {UNITS[name]:8}({min(values):,.2f} to {max(values):,.2f})  = {ratio:.1f} raw commits"
        if name == "W5":
            shown += f", p99 {statistics.median(seen['W5p99']):.2f} ms"
    else:
        ratio = statistics.median(value / raw for value, raw in zip(values, raws, strict=True))
        shown = (
            f"{median:>9,.0f} {UNITS[name]:8}({min(values):,.0f} to {max(values):,.0f})  = {ratio:.2f} x raw commits"
        )
    if rows := ROWS.get(name):
        share = statistics.median(rows * value / raw for value, raw in zip(values, seen["rows"], strict=True))
        shown += f", {share:.3f} of raw rows"
    print(f"{name:15} {shown}   [aim {AIMS[name]}]")


def large(wanted: list[str], count: int, folder: str | None) -> None:
    """Measure what needs a full store."""
    for database in DATABASES if "W8" in wanted else ():
        with place(database, folder) as new:
            print(f"W8 {database:12} {w8(new, 2 * count)} on an empty store   [aim {AIMS['W8']}]")
    if "W9" in wanted:
        with place("sqlite", folder) as new:
            print(f"W9              {scattered(new()):>9,.0f} rows/s   [aim {AIMS['W9']}]")


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", choices=[*SMALL, *LARGE, []], help="what to measure; by default all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the stores are made; it decides which disk is measured")
    options = parser.parse_args()
    wanted = options.workloads or [*SMALL, *LARGE]
    sqlite = apsw.sqlite_lib_version()
    print(f"perdure on Python {platform.python_version()}, SQLite {sqlite}, {os.cpu_count()} cores, fsync per commit")
    small = [name for name in SMALL if name in wanted]
    if small:
        with tempfile.TemporaryDirectory(dir=options.folder or Path.cwd(), prefix=".bench-") as name:
            asyncio.run(rounds(small, options.rounds, Path(name)))
    large(wanted, options.rounds, options.folder)


if __name__ == "__main__":
    main()
