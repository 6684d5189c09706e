"""The connections of an open store, each behind its own mutex: one that writes, one that reads, one for heartbeats.

Any thread may use any of them. No cursor outlives the verb that opened it.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from os import getpid
from typing import TYPE_CHECKING, Final, NamedTuple

import apsw

from perdure.errors import StoreBusy, StoreError, StoreUnreachable
from perdure.store.hasty import Hasty
from perdure.store.sqlite import guard
from perdure.store.sqlite.connect import PATIENCE_MS, be_patient
from perdure.store.sqlite.faults import OutcomeUnknown
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from perdure.store.sqlite.place import Place

_BEGIN, _COMMIT, _ROLLBACK = QUERIES["begin"], QUERIES["commit"], QUERIES["rollback"]

CHECKPOINT_PAGES: Final = 1000
"""Pages in the write-ahead log from which it is copied into the database."""

EXTEND_PAGES: Final = 64
"""Pages from which the log's file is extended."""

LOG_BYTES: Final = 5 * 1024 * 1024
"""A little more than the log grows to between checkpoints: overwriting blocks syncs faster than appending them."""


class LogSize(NamedTuple):
    """How large the write-ahead log is let grow.

    Attributes:
        extend_at: pages from which its file is extended.
        extend_to: bytes to which it is extended.
        checkpoint_at: pages from which it is copied into the database.
    """

    extend_at: int = EXTEND_PAGES
    extend_to: int = LOG_BYTES
    checkpoint_at: int = CHECKPOINT_PAGES


LOG_SIZE: Final = LogSize()

_FORK_PATIENCE: Final = 1.0
"""Seconds a fork waits for a connection that is in use."""


class Link:
    """A connection that is opened when it is first used, and again after it failed."""

    def __init__(
        self, place: Place, connect: Callable[[], apsw.Connection], connection: apsw.Connection | None = None
    ) -> None:
        self.path = place.path
        self._place = place
        self._connect = connect
        self._connection: apsw.Connection | None = None
        self._cursor: apsw.Cursor | None = None
        self._mutex = threading.Lock()
        self._pid = getpid()
        self._closed = False
        self.opened = 0
        """How often a connection was opened; what one connection counts says nothing about another's."""
        guard.keep_through_fork(self)
        if connection is not None:
            self._adopt(connection)

    def close(self) -> None:
        """Close the connection; in a forked child only forget it. Idempotent."""
        if getpid() != self._pid:
            return
        with self._mutex:
            self._closed = True
            self._drop()

    def _adopt(self, connection: apsw.Connection) -> apsw.Cursor:
        self.opened += 1
        self._connection = connection
        self._cursor = connection.cursor()
        return self._cursor

    def pause(self) -> bool:
        """Before a fork: close the connection and keep everybody off it; False if it stays in use."""
        if getpid() != self._pid or not self._mutex.acquire(timeout=_FORK_PATIENCE):
            return False
        self._drop()
        return True

    def go_on(self) -> None:
        """After the fork, in the parent: the connection is opened again when it is next used."""
        self._mutex.release()

    def _drop(self) -> None:
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            # What cannot be closed cleanly is given up: its transaction is rolled back by whoever opens the file next.
            with suppress(apsw.Error):
                connection.close(True)

    def _acquire(self, *, wait: bool) -> apsw.Cursor:
        if getpid() != self._pid:
            guard.refuse_fork(str(self.path))
        if not self._mutex.acquire(wait):
            raise StoreBusy("the store is writing", store=str(self.path), advice="try again")
        if self._cursor is not None:
            return self._cursor
        try:
            return self._live()
        except BaseException:
            self._mutex.release()
            raise

    def _live(self) -> apsw.Cursor:
        if self._cursor is not None:
            return self._cursor
        if self._closed:
            raise StoreUnreachable("the store is closed", store=str(self.path), advice="open it again")
        return self._adopt(self._open())

    def _open(self) -> apsw.Connection:
        place = self._place
        place.require()
        try:
            connection = self._connect()
        except StoreError:
            place.require()  # if it is gone by now, that is why
            raise
        try:
            # SQLite opens the log, by name, when it first reads: so that is done before the name is asked again.
            connection.execute(QUERIES["data_version"]).fetchall()
            place.require()
        except apsw.Error as error:
            connection.close(True)
            raise place.explain(error) from error
        except StoreError:
            connection.close(True)
            raise
        return connection

    def fault(self, error: apsw.Error) -> StoreError:
        """Note what a statement ran into, for the next one to go through a new connection where it must.

        Returns:
            What it means; the caller raises it from ``error``.
        """
        if isinstance(error, apsw.IOError | apsw.CorruptError):
            self._drop()  # what its cache holds may not be what the disk holds
        return self._place.explain(error)


class Reader(Link):
    """``with reader as cursor:`` reads; every statement sees what was committed before it began."""

    def __enter__(self) -> apsw.Cursor:
        return self._acquire(wait=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, apsw.Error):
                raise self.fault(error) from error
        finally:
            self._mutex.release()


class Writer(Link, Hasty):
    """``with writer as cursor:`` is one transaction, committed at the end or rolled back whole.

    The log is checkpointed by whoever may wait, after its commit; a caller that may not wait is turned away
    when a checkpoint is due.

    Args:
        place: the database's file.
        connect: opens a connection to it.
        connection: one that is open already.
        extend: whether the log's file is to be extended once it grows: of use where commits are synced.
        size: how large the log is let grow.
    """

    def __init__(
        self,
        place: Place,
        connect: Callable[[], apsw.Connection],
        connection: apsw.Connection | None = None,
        *,
        extend: bool,
        size: LogSize = LOG_SIZE,
    ) -> None:
        self._patient = True
        self._log_pages = 0
        self._to_extend = extend
        self._size = size
        self._checkpoint_at = size.extend_at if extend else size.checkpoint_at
        Hasty.__init__(self)
        Link.__init__(self, place, connect, connection)

    def _adopt(self, connection: apsw.Connection) -> apsw.Cursor:
        self._patient = True
        connection.set_wal_hook(self._note_log)
        return super()._adopt(connection)

    def _note_log(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        # SQLite calls it after every commit; having it switches SQLite's own checkpointing off.
        if pages < self._log_pages and not self._to_extend:
            self._checkpoint_at = self._size.checkpoint_at
        self._log_pages = pages
        return apsw.SQLITE_OK

    # -- one transaction

    def __enter__(self) -> apsw.Cursor:
        self.acquire(wait=not self.hasty)
        try:
            return self.begin()
        except BaseException:
            self.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.commit()
                if self._patient:
                    self.checkpoint_if_due()
            else:
                self.rollback()
                if isinstance(error, apsw.Error):
                    raise self.fault(error) from error
        finally:
            self.release()

    # -- the same by hand, for several transactions under one mutex

    def acquire(self, *, wait: bool) -> None:
        """Take the mutex, and wait for SQLite's lock or not.

        Raises:
            StoreBusy: ``wait`` is False, and another thread writes or a checkpoint is due.
        """
        if not wait and self._log_pages >= self._checkpoint_at:
            raise StoreBusy("a checkpoint of the store is due", store=str(self.path), advice="let a thread wait for it")
        self._acquire(wait=wait)
        if wait is not self._patient and self._connection is not None:
            self._patient = wait
            be_patient(self._connection, PATIENCE_MS if wait else 0)

    def release(self) -> None:
        """Let the mutex go."""
        self._mutex.release()

    def begin(self) -> apsw.Cursor:
        """Take SQLite's write lock, through a new connection if the last one failed.

        Raises:
            StoreBusy: another process has it (for too long, if this one may wait).
            StoreError: any other fault.
        """
        try:
            return (self._cursor or self._live()).execute(_BEGIN)
        except apsw.Error as error:
            raise self.fault(error) from error

    def commit(self) -> None:
        """End the transaction.

        Raises:
            OutcomeUnknown: the disk failed meanwhile.
            StoreError: any other fault; nothing was written.
        """
        try:
            (self._cursor or self._live()).execute(_COMMIT)
        except apsw.IOError as error:
            self._drop()
            raise OutcomeUnknown(
                f"the disk failed during a commit; whether it was written is unknown: {self.path}",
                store=str(self.path),
                detail=str(error),
                advice="look into the system's log; ask again, nothing is done twice",
            ) from error
        except apsw.Error as error:
            self.rollback()
            raise self.fault(error) from error

    def rollback(self) -> None:
        """Undo the transaction, if SQLite has not done so itself."""
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._live().execute(_ROLLBACK)
            except apsw.Error:
                self._drop()

    def checkpoint_if_due(self) -> None:
        """Copy the log into the database once it is long; readers that hold it back cost nothing but its length."""
        if self._log_pages < self._checkpoint_at or self._connection is None:
            return
        if self._to_extend:
            self._extend_log()
            return
        with suppress(apsw.Error):
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        # Not asked for again before the log has grown by as much, or has begun anew.
        self._checkpoint_at = self._log_pages + self._size.checkpoint_at

    def _extend_log(self) -> None:
        """Fill the write-ahead log's file up with zeros, once, so that commits overwrite blocks that are there.

        Under the write lock, so that no other process appends meanwhile. Not before the log has grown a little: who
        commits a few times only would wait longer for this than it saves.
        """
        self._to_extend = False
        self._checkpoint_at = self._size.checkpoint_at
        with suppress(StoreError, OSError):
            self.begin()
            try:
                _fill(f"{self.path}-wal", self._size.extend_to)
            finally:
                self.rollback()


def _fill(log: str, to: int) -> None:
    # The log itself is never locked (only the database and its -shm file are), so opening and closing it is safe.
    descriptor = os.open(log, os.O_WRONLY)
    try:
        size = os.fstat(descriptor).st_size
        if size < to:
            os.pwrite(descriptor, bytes(to - size), size)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
