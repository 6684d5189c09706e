"""Child processes: workers and runs that can be killed, stopped and restarted.

They are forked from a server that has imported everything, so one starts in a few milliseconds. Each writes its log
to a file of its own.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import multiprocessing
import os
import signal
import sys
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import perdure
from perdure import Engine
from perdure.model.payloads import fields
from perdure.model.records import Event, Kind, RunRow, WorkerRow
from perdure.store.open import is_postgres, open_store
from tests.crash import apps
from tests.crash.ledger import PATIENCE, Entry, Ledger
from tests.servers.behind import vandalise

if TYPE_CHECKING:
    from collections.abc import Callable, Container

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    ["tests.crash.apps", "tests.crash.procs", "perdure.store.sqlite.store", "perdure.store.postgres.store"]
)

FAST = {"lease": 2.0, "heartbeat": 0.5}
SLACK = 500_000
"""µs by which a process may misjudge the clock of its database: it was told the time over a busy line."""


class Bomb:
    """Kills its process at the n-th occurrence of a named point."""

    def __init__(self, point: str, n: int) -> None:
        self.point, self.n, self.seen = point, n, 0

    def __call__(self, point: str) -> None:
        if point == self.point:
            self.seen += 1
            if self.seen == self.n:
                os.kill(os.getpid(), signal.SIGKILL)


class Count:
    """Writes every point reached to the ledger, for a sweep to learn how many there are."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def __call__(self, point: str) -> None:
        self.ledger.write("point", key=point)


class Announced(Engine):
    """An engine that says in the ledger when it is up."""

    ledger: Ledger

    async def start(self) -> None:
        await super().start()
        self.ledger.write("up")


def make_engine(store: str, ledger: Ledger, **options: Any) -> Announced:
    engine = Announced(store, workflows=apps.WORKFLOWS, tools=apps.Tools(ledger), **(FAST | options))
    engine.ledger = ledger
    return engine


def log_to(ledger: Ledger) -> None:
    for handler in logging.root.handlers[:]:
        logging.root.removeHandler(handler)
    logging.basicConfig(filename=f"{ledger.file}-{os.getpid()}.log", level=logging.INFO)


def _begin(target: Callable[..., object], *args: object) -> None:
    faulthandler.register(signal.SIGUSR1)
    target(*args)


def work(store: str, ledger: Ledger, options: dict[str, Any], drain: float, grace: float) -> None:
    """Be a worker until SIGTERM."""
    log_to(ledger)
    left = asyncio.run(make_engine(store, ledger, **options).serve(drain=drain, grace=grace))
    ledger.write("left", key=",".join(left))


def run_here(store: str, ledger: Ledger, name: str, value: object, run_id: str, options: dict[str, Any]) -> None:
    """Be a script that calls ``perdure.run``."""
    log_to(ledger)
    ledger.write("call", run=run_id)
    try:
        result = perdure.run(
            apps.BY_NAME[name], value, run_id=run_id, store=store, tools=apps.Tools(ledger), **(FAST | options)
        )
    except BaseException as error:  # noqa: BLE001 - told to the test
        ledger.write("raised", run=run_id, key=repr(error))
    else:
        ledger.write("result", run=run_id, key=repr(result))


class Crew:
    """The processes of one test. All are gone when it ends."""

    def __init__(self, folder: Path, store: str | None = None) -> None:
        self.folder = folder
        self.store = store or str(folder / "perdure.db")
        self.ledger = Ledger.make(folder / "ledger")
        self.processes: list[BaseProcess] = []

    def start(self, target: Callable[..., object], *args: object) -> BaseProcess:
        """Start a process."""
        process = SERVER.Process(target=_begin, args=(target, *args), daemon=True)
        process.start()
        self.processes.append(process)
        return process

    def worker(self, *, drain: float = 30.0, grace: float = 5.0, up: bool = True, **options: Any) -> BaseProcess:
        """Start a worker, and wait until it is up."""
        process = self.start(work, self.store, self.ledger, options, drain, grace)
        if up:
            self.ledger.until_said("up", pid=process.pid)
        return process

    def script(self, name: str, value: object, run_id: str, **options: Any) -> BaseProcess:
        """Start a process that calls ``perdure.run``."""
        return self.start(run_here, self.store, self.ledger, name, value, run_id, options)

    def enqueue(self, name: str, value: object, *run_ids: str, **options: Any) -> None:
        """Enqueue runs, from this process."""

        async def enqueue() -> None:
            async with Engine(self.store).client() as client:
                if options:
                    for run_id in run_ids:
                        await client.enqueue(apps.BY_NAME[name], value, run_id=run_id, **options)
                else:
                    await client.enqueue_many(apps.BY_NAME[name], [value] * len(run_ids), run_ids=run_ids)

        asyncio.run(enqueue())

    def cancel(self, run_id: str, reason: str = "") -> None:
        """Cancel a run, from this process."""

        async def cancel() -> None:
            async with Engine(self.store).client() as client:
                await client.get(run_id).cancel(reason)

        asyncio.run(cancel())

    def pause(self, run_id: str) -> None:
        """Pause a run, from this process."""

        async def pause() -> None:
            async with Engine(self.store).client() as client:
                await client.get(run_id).pause()

        asyncio.run(pause())

    def outcome(self, run_id: str, timeout: float = PATIENCE) -> Any:
        """Wait for a run and return its result, or raise what it ended with."""

        async def wait() -> Any:
            async with Engine(self.store, workflows=apps.WORKFLOWS).client() as client:
                return await client.get(run_id, None).result(timeout)

        return asyncio.run(wait())

    def all_ended(self, *run_ids: str, timeout: float = PATIENCE) -> dict[str, RunRow]:
        """Wait until all these runs have ended or are blocked; returns their rows."""

        async def wait() -> dict[str, RunRow]:
            async with Engine(self.store, workflows=apps.WORKFLOWS).client() as client:
                handles = [client.get(one) for one in run_ids]
                async with asyncio.timeout(timeout):
                    await asyncio.gather(*(handle.result() for handle in handles), return_exceptions=True)
                return {handle.run_id: await handle.row() for handle in handles}

        return asyncio.run(wait())

    def __reduce__(self) -> tuple[Any, ...]:
        return _Look, (self.store, self.ledger)

    # -- looking

    def row(self, run_id: str) -> RunRow:
        """Read a run's row."""
        store = open_store(self.store)
        try:
            row = store.get_run(run_id)
        finally:
            store.close()
        assert row is not None
        return row

    def workers(self) -> list[WorkerRow]:
        """The workers that have registered."""
        store = open_store(self.store)
        try:
            return store.list_workers()
        finally:
            store.close()

    def events(self, run_id: str) -> list[Event]:
        """Read a run's log."""
        store = open_store(self.store)
        try:
            row = store.get_run(run_id)
            assert row is not None
            return store.read_events(row.run_key, 0, 100_000)
        finally:
            store.close()

    def kinds(self, run_id: str) -> list[str]:
        """The kinds of a run's events, in words."""
        return [event.word for event in self.events(run_id)]

    def log(self, process: BaseProcess) -> str:
        """What a process logged."""
        path = Path(f"{self.ledger.file}-{process.pid}.log")
        return path.read_text() if path.exists() else ""

    def vandalise(self, sql: str, *values: object) -> None:
        """Change the database behind everybody's back."""
        vandalise(self.store, sql, *values)

    def close(self) -> None:
        """End every process."""
        for process in self.processes:
            if process.is_alive():
                os.kill(process.pid or 0, signal.SIGCONT)
                process.kill()
        for process in self.processes:
            process.join(PATIENCE)
            process.close()
        self.processes.clear()
        self.ledger.close()


class _Look:
    """A crew as its processes see it."""

    def __init__(self, store: str, ledger: Ledger) -> None:
        self.store, self.ledger = store, ledger


def ended(process: BaseProcess, timeout: float = PATIENCE) -> int:
    """Wait for a process's end; returns its exit code, or minus the signal that ended it."""
    process.join(timeout)
    if process.exitcode is None:
        os.kill(process.pid or 0, signal.SIGUSR1)  # its stacks go to stderr
        process.join(1)
    assert process.exitcode is not None, "the process does not end"
    return process.exitcode


def audit(crew: Crew, run_id: str, entries: list[Entry]) -> None:
    """Hold a run's log against what its bodies said: G1 and G2."""
    begins = [entry for entry in entries if entry.what == "begin" and entry.run == run_id]
    audit_log(crew.events(run_id), begins, SLACK if is_postgres(crew.store) else 0)


def audit_log(
    events: list[Event], begins: list[Entry], slack: int, overlapping: Container[Entry] = (), *, copied: int = 0
) -> None:
    """The same of one run's log and the begins of its bodies.

    No body begins after its step's outcome was recorded, nor twice under one claim; all begins of a step carry one
    idempotency key of its own, and the attempt of each is one more than the failures recorded before it. What had begun
    in the origin of a fork counts as one of these.

    Args:
        events: the log.
        begins: what bodies said as they began.
        slack: µs by which their clock and that of the log may differ.
        overlapping: those that were about to begin when their process was stopped, and did when it went on.
        copied: the last event that a fork has of its origin.
    """
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    claims = [(fields(event.payload)["pid"], event.seq) for event in events if event.kind == Kind.RUN_CLAIMED]
    keys: dict[str, str] = {}
    times: Counter[tuple[str, int, int]] = Counter()
    for entry in begins:
        assert keys.setdefault(entry.key, entry.idem) == entry.idem
        done = [e for e in events if e.key == entry.key and e.kind == Kind.STEP_COMPLETED]
        failed = [e for e in events if e.key == entry.key and e.kind == Kind.STEP_FAILED]
        times[entry.key, entry.attempt, entry.pid] += 1
        ends = [e.seq for e in events if e in done or (e in failed and e.attempt == entry.attempt)]
        claimed = [seq for pid, seq in claims if pid == entry.pid and seq < min(ends, default=len(events) + 1)]
        assert times[entry.key, entry.attempt, entry.pid] <= len(claimed), f"{entry} without a claim of its own"
        if entry in overlapping:
            continue
        assert all(entry.at <= event.at + slack for event in done), f"{entry.key} began again after it was committed"
        begun = [e for e in events[:copied] if e.key == entry.key and e.kind == Kind.STEP_STARTED]
        over = {event.attempt: event.at for event in (*begun, *failed)}.values()
        earliest, latest = (sum(at < entry.at + error for at in over) for error in (-slack, slack))
        assert 1 + earliest <= entry.attempt <= 1 + latest
    assert len(set(keys.values())) == len(keys)
    for key in keys:
        assert sum(e.key == key and e.kind == Kind.STEP_COMPLETED for e in events) <= 1


def exit_now() -> None:
    """Leave without any goodbye of Python's."""
    sys.stdout.flush()
    os._exit(0)
