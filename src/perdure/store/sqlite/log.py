"""Appending to the log of a run that nobody holds, or that changes hands: what the store itself writes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from perdure.errors import IntegrityError
from perdure.model.chain import seal
from perdure.model.records import Event, Kind, Status
from perdure.store.sqlite.rows import fetch
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    import apsw

_LAST, _EVENT = QUERIES["last_event"], QUERIES["insert_event"]


class Tail(NamedTuple):
    """What a run's next event continues."""

    run_key: int
    seq: int
    at: int
    hash: bytes


def tail(cursor: apsw.Cursor, run_key: int) -> Tail:
    """Return the end of a run's log.

    Raises:
        IntegrityError: it is empty.
    """
    found = fetch(cursor, _LAST, (run_key,))
    if not found:
        raise IntegrityError(f"the log of run {run_key} is gone", run_key=run_key, advice="restore it from a backup")
    return Tail(run_key, *found[0])


def tail_of(event: Event) -> Tail:
    """Return the same of a log that ends with ``event``."""
    return Tail(event.run_key, event.seq, event.at, event.hash)


def follow(last: Tail, now: int, epoch: int, kind: Kind, payload: bytes | None = None) -> Event:
    """Seal the event that comes after ``last``, no earlier than it."""
    return seal(last.hash, last.run_key, last.seq + 1, max(now, last.at), epoch, kind, payload=payload)


def append(cursor: apsw.Cursor, last: Tail, now: int, epoch: int, kind: Kind, payload: bytes | None = None) -> Event:
    """Append that event."""
    event = follow(last, now, epoch, kind, payload)
    cursor.execute(_EVENT, event)
    return event


DAMAGED = (IntegrityError, struct.error)
"""What appending to a run's log raises if its row or its log is not what was written."""


def set_aside(cursor: apsw.Cursor, run_key: int, error: Exception) -> None:
    """Block a run whose row or log is damaged, so that it hinders no other."""
    reason = f"integrity: its row or log in the database is damaged: {error}"
    cursor.execute(QUERIES["set_aside"], (run_key, reason))


_ENDING = {Status.BLOCKED: Kind.RUN_BLOCKED, Status.CANCELLED: Kind.RUN_CANCELLED}


def end_unheld(
    cursor: apsw.Cursor, last: Tail, now: int, epoch: int, status: Status, payload: bytes, reason: str
) -> None:
    """Block or cancel a run that nobody holds."""
    event = append(cursor, last, now, epoch, _ENDING[status], payload)
    ended_at = event.at if status.terminal else None
    cursor.execute(QUERIES["end_unheld"], (event.run_key, status, epoch, event.seq, event.hash, reason, ended_at))
    if status.terminal:
        cursor.execute(QUERIES["empty_inbox"], (event.run_key,))
