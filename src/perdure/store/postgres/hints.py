"""Hints that something was committed: heard from others, and given to them, on a connection of their own.

A hint is never part of a commit, since the server would let only one such commit go at a time; all that is committed
within a moment shares one. Hints may get lost, so the truth is asked for now and then all the same.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from os import getpid
from typing import TYPE_CHECKING, Final

import psycopg

from perdure.clock import SystemClock
from perdure.errors import StoreError
from perdure.store.postgres.connection import Reader
from perdure.store.postgres.waiting import PATIENCE, Bell, take_in
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from perdure.store.postgres.connect import Connector
    from perdure.store.postgres.session import Session

_CLOCK = SystemClock()

SOON: Final = 0.02
"""Seconds between hints at least."""
LATER: Final = 0.1
"""Seconds after which a commit is hinted at that changes no run's state."""
FLOOR: Final = 0.5
"""Seconds between looks at the database where hints are heard."""
POOLED_FLOOR: Final = 0.1
"""The same where none are heard, since sessions are not ours to keep."""
_RETRY: Final = 0.25


class Hints(Reader):
    """A connection that listens, and a thread that serves it from the first question on."""

    def __init__(self, connector: Connector) -> None:
        super().__init__(connector)
        self._channel = connector.address.schema
        self._floor = POOLED_FLOOR if connector.pooled else FLOOR
        self._thread: threading.Thread | None = None
        self._bell: Bell | None = None
        self._news = True
        self._due: float | None = None
        """When others are to be told of what was committed here."""
        self._told_at = 0.0
        self._others = 0
        """Hints heard from others since the last one of ours."""
        self._snapshot = ""
        self._looked_at = 0.0

    # -- asked by the store

    def heard(self) -> bool:
        """Whether anything was, or may have been, committed since the last call; never waits."""
        if self._thread is None or getpid() != self._pid:
            with self._hold():
                self._start()
        news, self._news = self._news, False
        return news

    def mark(self, *, soon: bool = True) -> None:
        """Something was committed here: others are to be told."""
        due = _CLOCK.monotonic() + (0 if soon else LATER)
        before = self._due
        if before is None or before > due:
            self._due = due
            bell = self._bell
            if bell is not None:
                bell.ring()

    def close(self) -> None:
        """Give the last hint and end."""
        if getpid() != self._pid:
            return
        if self._thread is None and self._due is not None and not self._closed:
            with suppress(StoreError):
                self.read(self._tell)
        self._closed = True
        bell, thread = self._bell, self._thread
        if bell is not None and thread is not None:
            bell.ring()
            if thread.ident is not None:  # else it is about to begin, and ends at once
                thread.join(PATIENCE)
            if not thread.is_alive():
                bell.close()
                self._bell = None
        super().close()

    # -- the thread

    def _start(self) -> None:
        if self._thread is None and not self._closed:
            self._bell = bell = Bell()
            self._thread = threading.Thread(target=self._serve, args=(bell,), name="perdure-hints", daemon=True)
            self._thread.start()

    def _serve(self, bell: Bell) -> None:
        failing = False
        while not self._closed:
            try:
                pause = self.read(self._look)
                failing = False
            except StoreError as error:
                # Nothing is known now, so it is worth a look now and then.
                self._news = True
                if not failing:
                    say(lines.HINTS_NOT_HEARD, error=error)
                failing, pause = True, _RETRY
            bell.wait(self._session, pause)
        if self._due is not None and self._session is not None:
            with suppress(StoreError):
                self.read(self._tell)

    def _adopt(self, connection: psycopg.Connection) -> Session:
        session = super()._adopt(connection)
        if not self._connector.pooled and self._thread is not None:
            connection.add_notify_handler(self._hear)
            session.control("listen")
            session.control("synchronous_process")  # a hint that a crash loses is no loss
        self._news = True
        return session

    def _look(self, session: Session) -> float:
        """Give and take hints; how long to wait before the next look (seconds)."""
        if not take_in(session.connection):
            raise psycopg.OperationalError("the server has closed the connection")
        while (notify := session.connection.pgconn.notifies()) is not None:
            self._count(notify.be_pid, session.connection)
        now = _CLOCK.monotonic()
        if self._due is not None and now >= max(self._due, self._told_at + self._gap):
            self._tell(session)
        if now >= self._looked_at + self._floor:
            self._looked_at = now
            snapshot = session.fetch_value("snapshot")
            if snapshot != self._snapshot:
                self._news, self._snapshot = True, snapshot
        wait = self._looked_at + self._floor - now
        if self._due is not None:
            wait = min(wait, max(self._due, self._told_at + self._gap) - now)
        return max(wait, 0.0)

    @property
    def _gap(self) -> float:
        """Seconds between hints: more where others give theirs, which have everybody look as well."""
        return min(SOON * (1 + self._others), FLOOR / 2)

    def _hear(self, notify: psycopg.Notify) -> None:
        session = self._session
        if session is not None:
            self._count(notify.pid, session.connection)

    def _count(self, teller: int, connection: psycopg.Connection) -> None:
        self._news = True
        self._others += teller != connection.info.backend_pid

    def _tell(self, session: Session) -> None:
        self._due = None
        self._others = 0
        self._told_at = _CLOCK.monotonic()
        session.fetch("hint", self._channel)
