"""Measure Perdure, DBOS and Absurd side by side on one PostgreSQL server; see README.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.peers.measuring import FULL, STEPS
from tests.servers.ground import Ground

if TYPE_CHECKING:
    from tests.servers.server import Server

ROOT = Path(__file__).resolve().parents[2]
SHARES = {"perdure": 1.0, "dbos": 0.2, "absurd": 0.5}
"""What part of the full size a system is given: a slow one would take minutes. Rates are of the size printed."""
SHARED = ("W1", "WQ", "W2")
"""The workloads that several processes can share."""
UNITS = {"W1": "runs/s", "WQ": "runs/s", "W2": "steps/s", "W3": "steps/s", "W5": "ms"}
Figures = dict[tuple[str, "Setting", str], list[float]]
"""By workload, setting and system: a figure for every round."""


class Setting(NamedTuple):
    """How much goes on at a time."""

    clients: int
    """Runs that a system executes side by side."""
    processes: int = 1
    """Processes that share them."""

    def __str__(self) -> str:
        shared = "" if self.processes == 1 else f" in {self.processes} processes"
        return f"{self.clients} side by side{shared}"


class Child:
    """A process that executes and measures one system."""

    def __init__(self, system: str, url: str, clients: int, peers: Path) -> None:
        path = [ROOT, ROOT / "src"] if system == "perdure" else [peers, ROOT]
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.peers.with_{system}", url, str(clients)],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def hear(self) -> dict[str, float]:
        """What it says next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args} ended with {self.process.wait()}")
        heard: dict[str, float] = json.loads(line)
        return heard

    def say(self, *words: object) -> None:
        """Tell it what to do next."""
        assert self.process.stdin is not None
        print(*words, file=self.process.stdin, flush=True)

    def end(self) -> None:
        """Wait for its end, which comes when it hears nothing more."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def size(system: str, workload: str, processes: int = 1) -> int:
    """How many runs, or steps, each process is given."""
    return max(50, round(FULL[workload] * SHARES[system] / processes))


def measure(server: Server, system: str, options: argparse.Namespace, setting: Setting, seen: Figures) -> None:
    """Measure a system in a fresh database, with processes that share the work."""
    alone = setting == options.settings[0]
    processes = setting.processes
    database = f"bench_{system}_{os.urandom(3).hex()}"
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {database}")
    url = server.admin_url().removesuffix("postgres") + database
    with ExitStack() as ends:
        children = []
        for _ in range(processes):
            children.append(Child(system, url, setting.clients // processes, options.peers))
            ends.callback(children[-1].end)
            children[-1].hear()  # the first has made the tables then
        for workload in options.workloads:
            if workload not in SHARED and not alone:
                continue
            n = size(system, workload, processes)
            for child in children:
                child.say(workload, n)
            heard = [child.hear() for child in children]
            if workload == "W5":
                seen.setdefault(("W5", setting, system), []).append(heard[0]["p50"])
                seen.setdefault(("W5p99", setting, system), []).append(heard[0]["p99"])
            else:
                seconds = max(one["seconds"] for one in heard)
                rate = n * processes * STEPS.get(workload, 1) / seconds
                seen.setdefault((workload, setting, system), []).append(rate)
    with server.connect() as connection:
        connection.execute(f"DROP DATABASE {database} WITH (FORCE)")


def raw_commits(server: Server, count: int = 500) -> float:
    """Commits of one row per second over one session: the limit of everything that waits for the disk."""
    with server.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS raw (at bigint GENERATED ALWAYS AS IDENTITY, data bytea)")
        row = [b"x" * 200]
        began = time.perf_counter()
        for _ in range(count):
            connection.execute("INSERT INTO raw (data) VALUES (%s)", row)
        return count / (time.perf_counter() - began)


def report(systems: list[str], seen: Figures, raws: list[float]) -> None:
    """Print the table: medians, ranges, and what Perdure is to the better of its peers."""
    print(f"raw commits {statistics.median(raws):,.0f} /s ({min(raws):,.0f} to {max(raws):,.0f})")
    print(f"{'':44}" + "".join(f"{system:>24}" for system in systems))
    for workload, setting in dict.fromkeys((workload, setting) for workload, setting, _ in seen):
        if workload == "W5p99":
            continue
        name = f"{workload} {UNITS[workload]}" + (f", {setting}" if workload in SHARED else "")
        cells, medians = [], {}
        for system in systems:
            values = seen[workload, setting, system]
            medians[system] = statistics.median(values)
            if workload == "W5":
                p99 = statistics.median(seen["W5p99", setting, system])
                cells.append(f"{medians[system]:.2f}, p99 {p99:.2f}")
            else:
                cells.append(f"{medians[system]:,.0f} ({min(values):,.0f} to {max(values):,.0f})")
        print(f"{name:44}" + "".join(f"{cell:>24}" for cell in cells) + beside(workload, medians))
    given = ", ".join(f"{system} " + " ".join(f"{name}={size(system, name)}" for name in FULL) for system in systems)
    print(f"sizes: {given}")


def beside(workload: str, medians: dict[str, float]) -> str:
    """Perdure's ratio to the better peer."""
    peers = {system: value for system, value in medians.items() if system != "perdure"}
    if "perdure" not in medians or not peers:
        return ""
    best = (min if workload == "W5" else max)(peers, key=peers.__getitem__)
    low, high = sorted((peers[best], medians["perdure"]))
    better = (medians["perdure"] > peers[best]) != (workload == "W5")
    return f"   {high / low if better else low / high:.1f} x {best}"


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("workloads", nargs="*", choices=[*FULL, []], help="what to measure; everything by default")
    parser.add_argument("--peers", type=Path, default=ROOT / ".peers", help="where DBOS and Absurd are installed")
    parser.add_argument("--systems", default="perdure,dbos,absurd", help="which systems, with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--clients", type=int, nargs="+", default=[50, 100, 200], help="runs that a system executes side by side"
    )
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="processes that share the fewest")
    parser.add_argument("--folder", help="where the server's data is made; it decides which disk is measured")
    options = parser.parse_args()
    options.workloads = options.workloads or list(FULL)
    systems = options.systems.split(",")
    fewest, *more = options.clients
    options.settings = [Setting(fewest, options.processes[0]), *(Setting(many) for many in more)]
    options.settings += [Setting(fewest, processes) for processes in options.processes[1:]]
    seen: Figures = {}
    raws = []
    versions = {one.name: one.version for one in distributions(path=[str(options.peers)])}
    folder = options.folder or tempfile.gettempdir()
    with tempfile.TemporaryDirectory() as meeting, Ground(Path(meeting), within=folder).own() as own:
        server = own.server(max_connections=300, shared_buffers="256MB")
        with server.connect() as connection:
            durability = [connection.execute(f"SHOW {name}").fetchone() for name in ("fsync", "synchronous_commit")]
            assert durability == [("on",), ("on",)]
            postgres = connection.info.parameter_status("server_version")
        print(
            f"PostgreSQL {postgres}, fsync and synchronous_commit on, Python {platform.python_version()}, "
            f"{os.cpu_count()} cores; dbos {versions.get('dbos')}, absurd-sdk {versions.get('absurd-sdk')}; "
            f"median of {options.rounds}"
        )
        for _ in range(options.rounds):
            raws.append(raw_commits(server))
            for setting in options.settings:
                for system in systems:
                    measure(server, system, options, setting, seen)
    report(systems, seen, raws)


if __name__ == "__main__":
    main()
