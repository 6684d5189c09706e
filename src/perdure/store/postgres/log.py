"""Appending to logs: what holders send in batches, and what the store itself writes when a run changes hands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perdure.model.records import InboxKind, Message, Status
from perdure.store.creating import PRIORITY_WEIGHT, URGENT
from perdure.store.postgres.arrays import bigints, byteas, nullable_bigints, texts
from perdure.store.postgres.inbox import hear, post
from perdure.store.postgres.words import tell
from perdure.store.tails import ENDING, Tail, follow, missing
from perdure.store.texts import storable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import Event, Kind
    from perdure.store.postgres.arrays import Column
    from perdure.store.postgres.session import Session
    from perdure.store.postgres.words import Ask


def columns(events: Sequence[Event]) -> tuple[Column, ...]:
    """Events, column by column."""
    run_keys, seqs, ats, epochs, kinds, keys, attempts, tooks, codecs, payloads, args, hashes = zip(
        *events, strict=True
    )
    return (
        bigints(run_keys), bigints(seqs), bigints(ats), bigints(epochs), bigints(kinds), texts(keys),
        nullable_bigints(attempts), nullable_bigints(tooks), bigints(codecs), byteas(payloads), byteas(args),
        byteas(hashes),
    )  # fmt: skip


def append_all(session: Session, events: Sequence[Event]) -> None:
    """Append events of any runs."""
    if events:
        session.change("insert_events", *columns(events))


def tails(session: Session, run_keys: Sequence[int]) -> dict[int, Tail]:
    """Return the ends of logs, of those runs that have one."""
    if not run_keys:
        return {}
    return {row[0]: Tail(*row) for row in session.fetch("last_events", bigints(run_keys))}


def tail(session: Session, run_key: int) -> Tail:
    """Return the end of a run's log.

    Raises:
        IntegrityError: it is empty.
    """
    return the_tail(tails(session, [run_key]), run_key)


def the_tail(found: dict[int, Tail], run_key: int) -> Tail:
    """Return the end of one of several logs.

    Raises:
        IntegrityError: it is empty.
    """
    if run_key not in found:
        raise missing(run_key)
    return found[run_key]


def append(session: Session, last: Tail, now: int, epoch: int, kind: Kind, payload: bytes | None = None) -> Event:
    """Append the event that comes after ``last``."""
    event = follow(last, now, epoch, kind, payload)
    append_all(session, [event])
    return event


def set_aside(session: Session, run_key: int, error: Exception) -> None:
    """Block a run whose row or log is damaged, so that it hinders no other."""
    said = setting_aside(run_key, error)
    session.change(said.query, *said.values)


def setting_aside(run_key: int, error: Exception) -> Ask:
    """What to say for that."""
    return tell("set_aside", run_key, storable(f"integrity: its row or log in the database is damaged: {error}"))


def end_unheld(
    session: Session, last: Tail, now: int, epoch: int, status: Status, payload: bytes, reason: str
) -> Event:
    """Block, pause or cancel a run that nobody holds, and tell its parent; returns the event that says so."""
    event = append(session, last, now, epoch, ENDING[status], payload)
    ended_at = event.at if status.terminal else None
    values = (event.run_key, int(status), epoch, event.seq, event.hash, storable(reason), ended_at)
    session.change("end_unheld", *values)
    if status is Status.CANCELLED:
        session.change("drop_requests", bigints([event.run_key]))
        _tell_parent(session, event)
    elif status is Status.PAUSED:
        session.change("drop_pauses", event.run_key)
    return event


def _tell_parent(session: Session, cancelled: Event) -> None:
    for parent_key, run_id in session.fetch("find_parent", cancelled.run_key):
        message = Message(InboxKind.CHILD_CANCELLED, parent_key, name=run_id, payload=cancelled.payload)
        post(session, [message], hear(session, [message]), now=cancelled.at)


def asked_to_cancel(session: Session, run_key: int) -> tuple[bytes, str] | None:
    """Return payload and reason of the cancel request in a run's inbox, if there is one."""
    asked = session.fetch("find_cancel", run_key)
    return (asked[0][0], str(json.loads(asked[0][0])["reason"])) if asked else None


def asked_to_end(session: Session, run_key: int) -> tuple[bytes, str] | None:
    """The same, unless something has to be undone first."""
    return None if session.fetch("has_undo", run_key) else asked_to_cancel(session, run_key)


def make_claimable(session: Session, events: Sequence[Event], crashes: Sequence[int]) -> None:
    """Give runs back with ``events``, the last of each."""
    # Ranked by when they were created: work that was begun goes before work that was not.
    session.change(
        "release",
        bigints([event.run_key for event in events]),
        bigints([event.epoch for event in events]),
        bigints([event.seq for event in events]),
        byteas([event.hash for event in events]),
        bigints(crashes),
        PRIORITY_WEIGHT,
        URGENT,
    )


def is_there(session: Session, event: Event) -> bool:
    """Whether this very event is in its log."""
    return session.fetch("read_marks", event.run_key, event.seq, event.seq) == [(event.seq, event.epoch, event.hash)]
