"""The connection that renews leases and holds the locks which say that their workers live.

A session lock goes when its session ends, and the session ends when the process dies. It may end for other reasons
as well, so a thread watches the connection and locks again at once: who sees a lock free waits a moment for that.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from perdure.errors import StoreError
from perdure.store.postgres.connection import Link
from perdure.store.postgres.waiting import PATIENCE, Bell, take_in
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    import psycopg

    from perdure.store.postgres.connect import Connector
    from perdure.store.postgres.session import Session

_RETRY: Final = 0.1
"""Seconds between tries at a lock or a connection that is not to be had."""
_LONG: Final = 5.0
"""Seconds after which a quiet connection is looked at all the same."""


def lock_key(database: str, schema: str, worker_key: int) -> int:
    """Return the number of a worker's lock, among all that may be locked in the database."""
    digest = sha256(f"perdure worker {database}\0{schema}\0{worker_key}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


class Heart(Link):
    """A connection with locks that are taken again on each new one."""

    def __init__(self, connector: Connector) -> None:
        super().__init__(connector)
        self._wanted: dict[int, int] = {}
        """The lock's number by worker key."""
        self._held: set[int] = set()
        self._told: set[int] = set()
        """Workers whose rows say what this session holds: by them the others judge."""
        self.server = ""
        """Which start of the server the session is of."""
        self.name = ""
        """What names the session."""
        self._named = 0
        self._keeper: threading.Thread | None = None
        self._bell: Bell | None = None

    def mark(self, worker_key: int) -> tuple[str, str]:
        """Return what a worker's row says of its lock: start of the server and session; empty where it has none."""
        return (self.server, self.name) if worker_key in self._held else ("", "")

    def hold(self, worker_key: int, number: int) -> None:
        """Lock for a worker, from now on for as long as the process lives.

        Raises:
            StoreError: the database cannot be reached.
        """
        if self._connector.pooled:
            return
        self._wanted[worker_key] = number
        self.read(self._lock_all)
        self._keep()

    def doubtful(self, worker_key: int) -> bool:
        """Whether others may see a lock of the worker free that its row still names."""
        return worker_key in self._wanted and worker_key not in self._told

    def told(self, worker_key: int, mark: tuple[str, str]) -> None:
        """Note that a worker's row says ``mark``."""
        with self._mutex:
            if mark == self.mark(worker_key):
                self._told.add(worker_key)

    def let_go(self, worker_key: int) -> None:
        """Unlock; a database that cannot be reached has done so itself."""
        number = self._wanted.pop(worker_key, None)
        if number is None or self._session is None:
            return
        held = worker_key in self._held
        self._held.discard(worker_key)
        self._told.discard(worker_key)
        if held:
            with suppress(StoreError):
                self.read(lambda session: session.fetch("unlock_session", number))

    def close(self) -> None:
        """Close the connection, and with it let all locks go."""
        super().close()
        bell, keeper = self._bell, self._keeper
        if bell is not None and keeper is not None:
            bell.ring()
            if keeper.ident is not None:  # else it is about to begin, and ends at once
                keeper.join(PATIENCE)
            if not keeper.is_alive():
                bell.close()
                self._bell = None

    def _adopt(self, connection: psycopg.Connection) -> Session:
        session = super()._adopt(connection)
        if self._wanted:
            self._lock_all(session)
        return session

    def _lock_all(self, session: Session) -> None:
        """Take what is not held; a lock that an old session of ours still has is to be had when that has ended."""
        if self._named != self.opened:
            self.server, self.name = session.fetch("session")[0]
            self._named = self.opened
        for worker_key, number in list(self._wanted.items()):
            if worker_key not in self._held and session.fetch_value("lock_session", number):
                self._held.add(worker_key)

    def _drop(self) -> None:
        super()._drop()
        self._held.clear()
        self._told.clear()
        bell = self._bell
        if bell is not None:
            bell.ring()

    # -- keeping it

    def _keep(self) -> None:
        if self._bell is None:
            self._bell = bell = Bell()
            self._keeper = threading.Thread(target=self._watch, args=(bell,), name="perdure-locks", daemon=True)
            self._keeper.start()

    def _watch(self, bell: Bell) -> None:
        failing = False
        while not self._closed:
            try:
                pause = self._look()
                failing = False
            except StoreError as error:
                if not failing:
                    say(lines.LOCKS_NOT_HELD, error=error)
                failing, pause = True, _RETRY
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end the watch
                say(lines.LOCKS_FAULT, error=error, fault=True)
                pause = _RETRY
            bell.wait(self._session, pause)
            self._check()

    def _look(self) -> float:
        """Lock what is not locked, and say for how long to wait for news of the connection."""
        if self._closed:
            return 0.0
        if self._session is None or self._wanted.keys() - (self._held & self._told):
            opened = self.opened
            self.read(self._mark_all)
            if self.opened != opened:
                say(lines.LOCKS_HELD_ANEW)
        return _RETRY if self._wanted.keys() - self._held else _LONG

    def _mark_all(self, session: Session) -> None:
        self._lock_all(session)
        for worker_key in list(self._wanted):
            if session.change("mark_session", worker_key, *self.mark(worker_key)):
                self._told.add(worker_key)

    def _check(self) -> None:
        """Give the connection up if the server has closed it. A verb that is using it will notice by itself."""
        if self._mutex.acquire(timeout=_RETRY):
            try:
                if self._session is not None and not take_in(self._session.connection):
                    self._drop()
            finally:
                self._mutex.release()
