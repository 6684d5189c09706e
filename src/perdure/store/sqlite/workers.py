"""Workers: registering, renewing, retiring, and telling which of the others are dead."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from perdure.errors import StoreUnreachable
from perdure.store import rows
from perdure.store.protocol import Route
from perdure.store.sqlite import reading
from perdure.store.sqlite.liveness import Watch, boot_id, boot_now, signs
from perdure.store.sqlite.rows import fetch
from perdure.store.sqlite.sidecar import Sidecar, process_started
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perdure.model.records import WorkerRow
    from perdure.model.standing import Sign
    from perdure.store.sqlite.connection import Reader, Writer

_RENEW = QUERIES["renew"]
_NEVER = 1 << 62
"""A grace after which no frozen worker is called dead by one who has just come to look."""


class Workers:
    """The workers of a store, as one process sees them."""

    def __init__(self, path: Path, writer: Writer, heart: Writer, reader: Reader) -> None:
        self._path = path
        self._reader = reader
        self._writer = writer
        self._heart = heart
        self._sidecar = Sidecar(path)
        self._watches: dict[int, Watch] = {}
        self._beats: dict[int, dict[int, int]] = {}
        """By observer: what it saw of each worker when it last looked."""
        self._version = (0, 0)
        self._rows: tuple[list[WorkerRow], list[int]] = ([], [])

    def register(self, worker: WorkerRow, routes: Sequence[int]) -> None:
        """Lock first, then insert: a row whose byte is free is that of a dead worker."""
        try:
            mark = self._sidecar.hold(worker.worker_key)
        except OSError as error:
            raise StoreUnreachable(
                f"the lock file cannot be used: {self._sidecar.path}",
                store=str(self._path),
                detail=str(error),
                advice="it lies beside the database; make it and the directory writable",
            ) from error
        row = replace(
            worker,
            boot=boot_id(),
            sidecar=mark,
            pid_started=worker.pid_started or process_started(worker.pid),
            lease_until=boot_now() + worker.lease_until,
        )
        with self._writer as cursor:
            cursor.execute(QUERIES["register_worker"], (
                row.worker_key, row.name, row.host, row.pid, row.pid_started, row.boot, row.build, row.sidecar,
                row.started_at, row.lease_until, row.beat,
            ))  # fmt: skip
            cursor.executemany(QUERIES["serve_route"], [(row.worker_key, route) for route in routes])

    def renew(self, worker_key: int, lease: int, beat: int) -> bool:
        """Renew one row, from before now on, and lock the byte again in case something has dropped it."""
        until = boot_now() + lease
        mark = ""
        with suppress(OSError):
            mark = self._sidecar.hold(worker_key)
        with self._heart as cursor:
            return cursor.execute(_RENEW, (worker_key, until, beat, mark)).connection.changes() == 1

    def leave(self, worker_key: int) -> None:
        """Note that a worker is about to stop."""
        with self._writer as cursor:
            cursor.execute(QUERIES["leave_worker"], (worker_key,))

    def retire(self, worker_key: int) -> None:
        """Stop a worker; the row stays while it holds runs, for the others to see that they are to be taken."""
        with self._writer as cursor:
            cursor.execute(QUERIES["retire_worker"], (worker_key,))
            cursor.execute(QUERIES["forget_worker"], (worker_key,))
        self._sidecar.let_go(worker_key)

    def all(self) -> list[WorkerRow]:
        """All rows."""
        with self._reader as cursor:
            return [rows.worker_row(row) for row in fetch(cursor, QUERIES["list_workers"])]

    def served(self) -> set[Route]:
        """The routes that living workers serve."""
        dead = set(self.dead(0, grace=_NEVER))
        with self._reader as cursor:
            return {
                Route(workflow, version, queue, namespace)
                for key, namespace, queue, workflow, version in fetch(cursor, QUERIES["served"])
                if key not in dead
            }

    def serving(self) -> dict[int, list[Route]]:
        """The routes that each worker serves, dead or alive."""
        with self._reader as cursor:
            return rows.by_worker(fetch(cursor, QUERIES["served"]))

    def signs(self, now: int) -> dict[int, Sign]:
        """What shows of each worker that it lives; ``now`` (µs) is what leases are told by."""
        return signs(self.all(), self._sidecar, now)

    def sign(self, observer: int, worker_key: int) -> int | None:
        """What a worker's row showed when the observer last looked: its heartbeats."""
        return self._beats.get(observer, {}).get(worker_key)

    def dead(self, observer: int, *, grace: int) -> list[int]:
        """Judge all workers but the observer; a key that holds runs and has no row is dead too."""
        stored, holders = self._stored()
        workers = [worker for worker in stored if worker.worker_key != observer]
        known = {worker.worker_key for worker in workers} | {observer}
        self._beats[observer] = {worker.worker_key: worker.beat for worker in workers}
        watch = self._watches.setdefault(observer, Watch())
        dead = watch.dead(workers, self._sidecar, grace=grace)
        return dead + [key for key in holders if key not in known]

    def _stored(self) -> tuple[list[WorkerRow], list[int]]:
        """The rows of all workers and the keys that hold runs, kept as long as the store does not change."""
        with self._reader as cursor:
            # Taken first: what is committed between this and the reading is read, and read again the next time.
            version = reading.version(self._reader, cursor)
            if version != self._version:
                workers = [rows.worker_row(row) for row in fetch(cursor, QUERIES["watch_workers"])]
                self._rows = workers, [key for (key,) in fetch(cursor, QUERIES["list_holders"])]
                self._version = version
            return self._rows
