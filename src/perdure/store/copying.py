"""Copying the beginning of a log to a fork: checked against the origin's chain, and sealed anew as the fork's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import IntegrityError, RunNotFound
from perdure.model import chain
from perdure.model.histories import referenced
from perdure.model.records import Event, Kind
from perdure.store.protocol import PAGE
from perdure.store.purging import refused
from perdure.store.tails import follow, tail_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.model.forking import Fork
    from perdure.model.records import Created, Tombstone


class Copy:
    """One log on its way into another.

    Args:
        fork: what is copied.
        run_key: of the fork.
        origin_uid: of its origin.
    """

    def __init__(self, fork: Fork, run_key: int, origin_uid: bytes) -> None:
        self._fork, self._key, self._uid = fork, run_key, origin_uid
        self._link = chain.genesis(fork.uid)
        self._read: Event | None = None
        self._last: Event | None = None

    def copy(
        self, read: Callable[[int, int, int], list[Event]], write: Callable[[list[Event], list[bytes]], object]
    ) -> Event:
        """Copy the log, page by page; returns the event that ends the copy, which is written too.

        Args:
            read: gives the page of a run's log after a seq, by the run's key, that seq and a number of events.
            write: appends events, and notes which artifacts they refer to.

        Raises:
            IntegrityError: the origin's log is not what was written, or not as long as it was said to be.
        """
        seq = 0
        while seq < self._fork.seq:
            page = self._seal(read(self._fork.origin_key, seq, min(PAGE, self._fork.seq - seq)))
            write(page, sorted(referenced(page)))
            seq = page[-1].seq
        last = self._last
        assert last is not None
        end = follow(tail_of(last), self._fork.created_at, last.epoch + 1, Kind.RUN_FORKED)
        write([end], [])
        return end

    def _seal(self, page: list[Event]) -> list[Event]:
        if not page:
            raise IntegrityError(
                f"the log of run {self._fork.origin_key} ends before event {self._fork.seq}",
                run_key=self._fork.origin_key,
                advice="the database was changed or damaged outside Perdure; restore it from a backup",
            )
        # A copy has a chain of its own, which would hide that the origin's is broken.
        chain.check(self._uid, page, after=self._read)
        self._read = page[-1]
        sealed: list[Event] = []
        for event in page:
            columns = event[1:-1] if event.seq > 1 else event._replace(args=self._fork.origin)[1:-1]
            self._last = chain.seal(self._link, self._key, *columns)
            self._link = self._last.hash
            sealed.append(self._last)
        return sealed


def no_origin(fork: Fork) -> RunNotFound:
    """Return what is raised where the run to fork is not there any more."""
    return RunNotFound(f"no run with key {fork.origin_key}", run_key=fork.origin_key)


def taken(fork: Fork, found: Tombstone | None) -> Created:
    """Return what becomes of a fork whose id was that of a run that has been purged.

    Raises:
        RunNotFound: it was not; then the origin is not there any more.
    """
    if found is None:
        raise no_origin(fork)
    return refused(fork.created_at, found)


__all__ = ["Copy", "no_origin", "taken"]
