"""Workers: registering, renewing, retiring, and telling which of the others are dead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.store import rows
from perdure.store.postgres.arrays import bigints
from perdure.store.postgres.heart import Heart, lock_key
from perdure.store.postgres.liveness import Sight, Watch
from perdure.store.protocol import Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import WorkerRow
    from perdure.store.postgres.clocks import ServerClock
    from perdure.store.postgres.connect import Connector
    from perdure.store.postgres.connection import Link, Writer
    from perdure.store.postgres.session import Session


_THOROUGH: Final = 2.0
"""Seconds between looks at who holds runs."""
_CROWD: Final = 20
"""Workers from which each looks less often than it is asked to, as all of them look at all."""
_SHARE: Final = 0.005
"""Seconds between looks of one worker, for each worker there is."""
_NEVER: Final = 1 << 62
"""A grace after which no frozen worker is called dead by one who has just come to look."""


class Workers:
    """The workers of a store, as one process sees them."""

    def __init__(self, connector: Connector, writer: Writer, reader: Link, clock: ServerClock) -> None:
        self._pooled = connector.pooled
        self._place = connector.database, connector.address.schema
        self._writer, self._reader, self._clock = writer, reader, clock
        self._heart = Heart(connector)
        self._watches: dict[int, Watch] = {}
        self._signs: dict[int, dict[int, tuple[str, int]]] = {}
        """By observer: what it saw of each worker when it last looked."""
        self._thorough_at = 0.0
        self._crowded_until: dict[int, float] = {}
        """By observer: until when the others' looks are enough."""

    def close(self) -> None:
        """Let go of the connection and its locks."""
        self._heart.close()

    def register(self, worker: WorkerRow, routes: Sequence[int]) -> None:
        """Lock first, then insert: a row whose lock is free is that of a dead worker."""
        key = worker.worker_key
        number = lock_key(*self._place, key)
        self._heart.hold(key, number)
        server, session = self._heart.mark(key)
        self._writer.write_at_once(lambda connection: connection.change(
            "register_worker", key, worker.name, worker.host, worker.pid, worker.pid_started, server, worker.build,
            session, number, worker.started_at, worker.lease_until, worker.beat, bigints(routes),
        ))  # fmt: skip
        self._heart.told(key, (server, session))

    def renew(self, worker_key: int, lease: int, beat: int) -> bool:
        """Renew one row: its lease ends later by the server's clock than by that of whoever asks."""

        def renew(session: Session) -> list[rows.Row]:
            mark = self._heart.mark(worker_key)
            found = session.fetch("renew", worker_key, lease, beat, *mark)
            return [(*row, mark) for row in found]

        before = self._clock.monotonic()
        found = self._heart.read(renew)
        if found:
            instant, mark = found[0]
            self._clock.learn(instant, before)
            self._heart.told(worker_key, mark)
        return bool(found)

    def doubtful(self, worker_key: int) -> bool:
        """Whether the worker's row names a session that has ended."""
        return self._heart.doubtful(worker_key)

    def leave(self, worker_key: int) -> None:
        """Note that a worker is about to stop."""
        self._writer.write_at_once(lambda session: session.change("leave_worker", worker_key))

    def retire(self, worker_key: int) -> None:
        """Stop a worker; the row stays while it holds runs, for the others to see that they are to be taken."""

        def retire(session: Session) -> None:
            session.fetch("lock_worker", worker_key)
            session.change("retire_worker", worker_key)
            session.change("forget_worker", worker_key)

        self._writer.write(retire)
        self._heart.let_go(worker_key)

    def all(self) -> list[WorkerRow]:
        """All rows."""
        return [rows.worker_row(row) for row in self._reader.read(lambda session: session.fetch("list_workers"))]

    def served(self) -> set[Route]:
        """The routes that living workers serve."""
        dead = set(self.dead(0, grace=_NEVER))
        found = self._reader.read(lambda session: session.fetch("served"))
        return {
            Route(workflow, version, queue, namespace)
            for key, namespace, queue, workflow, version in found
            if key not in dead
        }

    def serving(self) -> dict[int, list[Route]]:
        """The routes that each worker serves, dead or alive."""
        return rows.by_worker(self._reader.read(lambda session: session.fetch("serving")))

    def sign(self, observer: int, worker_key: int) -> tuple[str, int] | None:
        """What a worker's row showed when the observer last looked: the session it names, and its heartbeats."""
        return self._signs.get(observer, {}).get(worker_key)

    def dead(self, observer: int, *, grace: int) -> list[int]:
        """Judge all workers but the observer; a key that holds runs and has no row is dead too."""
        # No verb leaves runs with a worker that has no row, so it is enough to look for them now and then.
        now = self._clock.monotonic()
        if now < self._crowded_until.get(observer, 0.0):
            return []
        thorough = now >= self._thorough_at
        if thorough:
            self._thorough_at = now + _THOROUGH

        def look(session: Session) -> tuple[list[rows.Row], list[rows.Row], int]:
            # Holders first, so that the row of each that has one is found.
            holders = session.fetch("list_holders") if thorough else []
            return holders, session.fetch("watch_workers"), self._reader.opened

        holders, found, opened = self._reader.read(look)
        if len(found) > _CROWD:
            self._crowded_until[observer] = now + _SHARE * len(found)
        known = {row[0] for row in found} | {observer}
        seen = [Sight(*row) for row in found if row[0] != observer]
        self._signs[observer] = {sight.worker_key: (sight.session, sight.beat) for sight in seen}
        watch = self._watches.setdefault(observer, Watch())
        dead = watch.dead(seen, opened=None if self._pooled else opened, grace=grace)
        return dead + [key for (key,) in holders if key not in known]
