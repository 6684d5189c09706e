"""The connections of an open store, each behind its own mutex: one that writes, one that reads, one for heartbeats.

Any thread may use any of them. A connection is opened when it is first used, and again after it was lost; what was
lost with it is tried once more, since every verb finds what it has already done.
"""

from __future__ import annotations

import os
import random
import time
import weakref
from contextlib import suppress
from os import getpid
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

from perdure.clock import SystemClock
from perdure.errors import StoreBusy, StoreError, StoreUnreachable, StoreUnsafe
from perdure.store.hasty import Hasty
from perdure.store.postgres.faults import AGAIN, READ_ONLY, is_lost, translate
from perdure.store.postgres.mutex import Mutex
from perdure.store.postgres.session import Session
from perdure.store.postgres.talks import ServerTalk
from perdure.store.postgres.words import ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.store.postgres.connect import Connector
    from perdure.store.postgres.words import Words

T = TypeVar("T")

_CLOCK = SystemClock()

_TRIES: Final = 10
"""How often a transaction is tried that the database undoes for the sake of others."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
"""Seconds in which no new connection is tried after one failed; doubled each time."""
_SURE: Final = 1.0
"""Seconds between questions whether a server that answers is still the primary."""


_links: weakref.WeakSet[Link] = weakref.WeakSet()


def _in_child() -> None:
    """In a forked child: let go of the parent's sockets, which would keep its sessions (and locks) when it dies."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for link in list(_links):
        session = link.session
        if session is not None:
            # The numbers stay taken, so that nobody mistakes another file for them. Nothing is said to the server.
            with suppress(OSError, psycopg.Error):
                os.dup2(nowhere, session.connection.fileno())
    os.close(nowhere)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class Link:
    """One connection, and what happens when it is lost."""

    def __init__(self, connector: Connector, connection: psycopg.Connection | None = None) -> None:
        self._connector = connector
        self.label = connector.label
        self._session: Session | None = None
        self._mutex = Mutex()
        self._pid = getpid()
        self._closed = False
        self._pause = 0.0
        self._not_before = 0.0
        self._era = connector.era
        self._pooled = connector.pooled
        self._talk: ServerTalk[Any] | None = None
        self.opened = 0
        """How often a connection was opened."""
        _links.add(self)
        if connection is not None:
            self._adopt(connection)

    @property
    def session(self) -> Session | None:
        """The session in use, if there is one."""
        return self._session

    def close(self) -> None:
        """Close the connection; in a forked child only forget it. Idempotent."""
        if getpid() != self._pid:
            return
        self._closed = True
        talk = self._talk
        if talk is not None:
            talk.abandon()  # it would keep others waiting
        with self._mutex:
            self._drop()

    def read(self, work: Callable[[Session], T]) -> T:
        """Do what is no transaction: every statement sees what was committed before it began."""
        return self._persist(work)

    def talk(
        self,
        words: Words[T | None],
        *,
        done: Callable[[], object] | None = None,
        lost: Callable[[], object] | None = None,
    ) -> ServerTalk[T] | None:
        """Begin to talk, with the connection to itself until that is over; None where somebody has to wait.

        Args:
            words: what is said: one statement, or a transaction.
            done: told once it is done.
            lost: told if it is not known what the server has made of it.
        """
        if self._pooled or getpid() != self._pid or not self._mutex.take():
            return None
        session = self._session
        if session is None or self._era != self._connector.era:
            self._mutex.release()
            return None
        self._talk = talk = ServerTalk(self, session, self._surely(words), done=done, lost=lost)
        return talk if talk.begin() else None

    def _surely(self, words: Words[T | None]) -> Words[T | None]:
        """What is said so that no old copy answers: a server that is written to refuses, if it is one."""
        return words

    def note(self, error: psycopg.Error) -> None:
        """Hear what went wrong in a talk: a connection that is not to be used again is given up."""
        self._fault(error)

    def talked(self, talk: ServerTalk[Any], *, is_clean: bool) -> None:
        """A talk is over; what it has left open is undone with its connection."""
        if self._talk is talk:
            self._talk = None
            if not is_clean:
                self._drop()
            self._mutex.release()

    def _persist(self, work: Callable[[Session], T]) -> T:
        """Do some work, again on a new connection if the old one is lost, and again if the database asks for it."""
        lost = False
        undone = 0
        while True:
            with self._hold():
                try:
                    return work(self._live())
                except psycopg.Error as error:
                    fault = self._fault(error)
                    if self._session is None and not lost:
                        lost = True
                    elif error.sqlstate in AGAIN and undone < _TRIES:
                        undone += 1
                    else:
                        raise fault from error
            if undone:
                # Whoever got in each other's way would do so again in step.
                time.sleep(random.uniform(0, 0.002 * 2**undone))  # noqa: S311

    def _hold(self) -> Mutex:
        if getpid() != self._pid:
            raise StoreUnsafe(
                f"this store was opened before a fork: {self.label}",
                store=self.label,
                advice="re-open it after the fork, in the child; or start processes with the 'spawn' method",
            )
        return self._mutex

    def _live(self) -> Session:
        if self._session is not None and self._era != self._connector.era:
            self._drop()
        if self._session is not None:
            return self._session
        if self._closed:
            raise StoreUnreachable("the store is closed", store=self.label, advice="open it again")
        if self._pause and _CLOCK.monotonic() < self._not_before:
            raise StoreUnreachable(
                f"the database could not be reached a moment ago: {self.label}",
                store=self.label,
                advice="it is tried again shortly; what was committed is safe",
            )
        self._era = self._connector.era
        try:
            connection = self._connector.connect()
        except StoreError:
            self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)
            self._not_before = _CLOCK.monotonic() + self._pause
            raise
        self._pause = 0.0
        return self._adopt(connection)

    def _adopt(self, connection: psycopg.Connection) -> Session:
        self.opened += 1
        self._session = Session(connection, self._connector.texts, prepares=not self._connector.pooled)
        return self._session

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(psycopg.Error, OSError):
                session.connection.close()

    def _fault(self, error: psycopg.Error) -> StoreError:
        """Give a connection up that is not to be used again, and say what the error means."""
        if error.sqlstate == READ_ONLY and self._era == self._connector.era:
            # Others of ours may go on reading what is old by now: the primary is elsewhere.
            self._connector.era += 1
        if is_lost(error) or self._session is None or self._session.connection.closed:
            self._drop()
        return translate(error, self.label)


class Reader(Link):
    """A connection that only reads. It makes sure now and then that it reads what is written, and not an old copy."""

    def __init__(self, connector: Connector) -> None:
        super().__init__(connector)
        self._sure_until = 0.0

    def _live(self) -> Session:
        session = super()._live()
        now = _CLOCK.monotonic()
        if now >= self._sure_until:
            if session.fetch_value("is_read_only"):
                raise psycopg.errors.ReadOnlySqlTransaction("the server takes no writes any more")
            self._sure_until = now + _SURE
        return session

    def hear(self, words: Callable[[], Words[T]]) -> T:
        """Ask what is made of words, and wait."""
        return self.read(lambda session: session.hear(words()))

    def _surely(self, words: Words[T | None]) -> Words[T | None]:
        now = _CLOCK.monotonic()
        if now >= self._sure_until:
            ((is_read_only,),) = yield ask("is_read_only")
            if is_read_only:
                return None  # whoever waits finds the primary
            self._sure_until = now + _SURE
        return (yield from words)


class Writer(Link, Hasty):
    """The connection that writes, in transactions."""

    def __init__(self, connector: Connector, connection: psycopg.Connection | None = None) -> None:
        Hasty.__init__(self)
        Link.__init__(self, connector, connection)
        self._begin = f"begin_pooled_{connector.durability}" if connector.pooled else "begin"

    def refuse_hasty(self) -> None:
        """Turn away who may not wait: there is a network in between, and no telling how long it takes.

        Raises:
            StoreBusy: the calling thread is hasty.
        """
        if self.hasty:
            raise StoreBusy("the database may take its time", store=self.label, advice="let a thread wait for it")

    def write(self, work: Callable[[Session], T]) -> T:
        """Do some work in one transaction: committed at the end, or undone whole.

        Work that is done again must find what an earlier try has committed: the connection may be lost just then.
        """
        self.refuse_hasty()
        return self._persist(lambda session: self._transaction(session, work))

    def write_at_once(self, work: Callable[[Session], T]) -> T:
        """The same for work that is one statement, which is a transaction of its own."""
        if self._pooled:
            return self.write(work)
        self.refuse_hasty()
        return self._persist(work)

    def _transaction(self, session: Session, work: Callable[[Session], T]) -> T:
        session.control(self._begin)
        try:
            done = work(session)
        except BaseException:
            self._undo(session)
            raise
        session.control("commit")
        return done

    def _undo(self, session: Session) -> None:
        try:
            session.control("rollback")
        except psycopg.Error:
            self._drop()
