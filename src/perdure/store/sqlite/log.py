"""Appending to the log of a run that nobody holds, or that changes hands: what the store itself writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perdure.model.records import InboxKind, Message, Status
from perdure.store.creating import PRIORITY_WEIGHT, URGENT
from perdure.store.sqlite.inbox import hearer, post
from perdure.store.sqlite.rows import fetch
from perdure.store.sqlite.sql import QUERIES
from perdure.store.tails import ENDING, Tail, follow, missing
from perdure.store.texts import storable

if TYPE_CHECKING:
    import apsw

    from perdure.model.records import Event, Kind

_LAST, _EVENT = QUERIES["last_event"], QUERIES["insert_event"]


def tail(cursor: apsw.Cursor, run_key: int) -> Tail:
    """Return the end of a run's log.

    Raises:
        IntegrityError: it is empty.
    """
    found = fetch(cursor, _LAST, (run_key,))
    if not found:
        raise missing(run_key)
    return Tail(run_key, *found[0])


def append(cursor: apsw.Cursor, last: Tail, now: int, epoch: int, kind: Kind, payload: bytes | None = None) -> Event:
    """Append the event that comes after ``last``."""
    event = follow(last, now, epoch, kind, payload)
    cursor.execute(_EVENT, event)
    return event


def set_aside(cursor: apsw.Cursor, run_key: int, error: Exception) -> None:
    """Block a run whose row or log is damaged, so that it hinders no other."""
    reason = f"integrity: its row or log in the database is damaged: {error}"
    cursor.execute(QUERIES["set_aside"], (run_key, storable(reason)))


def end_unheld(
    cursor: apsw.Cursor, last: Tail, now: int, epoch: int, status: Status, payload: bytes, reason: str
) -> Event:
    """Block, pause or cancel a run that nobody holds, and tell its parent; returns the event that says so."""
    event = append(cursor, last, now, epoch, ENDING[status], payload)
    ended_at = event.at if status.terminal else None
    values = (event.run_key, status, epoch, event.seq, event.hash, storable(reason), ended_at)
    cursor.execute(QUERIES["end_unheld"], values)
    if status is Status.CANCELLED:
        cursor.execute(QUERIES["drop_requests"], (event.run_key,))
        _tell_parent(cursor, event)
    elif status is Status.PAUSED:
        cursor.execute(QUERIES["drop_pauses"], (event.run_key,))
    return event


def _tell_parent(cursor: apsw.Cursor, cancelled: Event) -> None:
    for parent_key, run_id in fetch(cursor, QUERIES["find_parent"], (cancelled.run_key,)):
        message = Message(InboxKind.CHILD_CANCELLED, parent_key, name=run_id, payload=cancelled.payload)
        parent = hearer(cursor, message)
        if parent is not None:
            post(cursor, message, parent, now=cancelled.at)


def asked_to_cancel(cursor: apsw.Cursor, run_key: int) -> tuple[bytes, str] | None:
    """Return payload and reason of the cancel request in a run's inbox, if there is one."""
    asked = fetch(cursor, QUERIES["find_cancel"], (run_key,))
    return (asked[0][0], str(json.loads(asked[0][0])["reason"])) if asked else None


def asked_to_end(cursor: apsw.Cursor, run_key: int) -> tuple[bytes, str] | None:
    """The same, unless something has to be undone first."""
    return None if fetch(cursor, QUERIES["has_undo"], (run_key,)) else asked_to_cancel(cursor, run_key)


def make_claimable(cursor: apsw.Cursor, event: Event, crashes: int) -> None:
    """Give a run back with ``event``, its last."""
    # Ranked by when it was created: work that was begun goes before work that was not.
    values = (event.run_key, event.epoch, event.seq, event.hash, crashes, PRIORITY_WEIGHT, URGENT)
    cursor.execute(QUERIES["release"], values)
