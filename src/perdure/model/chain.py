"""The hash chain of a run's log: every event's hash covers its predecessor's, so any change shows.

The first link is the hash of the run's uid, so that no log can pass for another run's. SHA-256, cut to
16 bytes: it guards against damage and mistakes, not against an attacker who can rewrite the whole chain.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class
from typing import TYPE_CHECKING

from perdure.errors import IntegrityError
from perdure.model.records import Event, Opened

if TYPE_CHECKING:
    from collections.abc import Iterable

SIZE = 16

_HEAD = Struct(">16s10q").pack
_new = tuple.__new__  # a named tuple's own constructor is a Python function


def genesis(uid: bytes) -> bytes:
    """Return what stands before a run's first event."""
    return sha256(b"perdure run " + uid).digest()[:SIZE]


def seal(  # noqa: PLR0913, PLR0917 - the columns of an event
    previous: bytes,
    run_key: int,
    seq: int,
    at: int,
    epoch: int,
    kind: int,
    key: str | None = None,
    attempt: int | None = None,
    took: int | None = None,
    codec: int = 0,
    payload: bytes | None = None,
    args: bytes | None = None,
) -> Event:
    """Make an event whose hash continues the chain after ``previous``.

    ``run_key`` is not covered: it is the store's own and changes when a history moves to another store.
    """
    link = _link(previous, seq, at, epoch, kind, key, attempt, took, codec, payload, args)
    return _new(Event, (run_key, seq, at, epoch, kind, key, attempt, took, codec, payload, args, link))


def _link(  # noqa: PLR0913, PLR0917 - the columns of an event
    previous: bytes, seq: int, at: int, epoch: int, kind: int, key: str | None, attempt: int | None, took: int | None,
    codec: int, payload: bytes | None, args: bytes | None,
) -> bytes:  # fmt: skip
    place = b"" if key is None else key.encode()
    head = _HEAD(
        previous, seq, at, epoch, kind, -1 if attempt is None else attempt, -1 if took is None else took, codec,
        -1 if key is None else len(place), -1 if payload is None else len(payload), -1 if args is None else len(args),
    )  # fmt: skip
    return sha256(head + place + (payload or b"") + (args or b"")).digest()[:SIZE]


def check(uid: bytes, events: Iterable[Event], *, run_id: str = "", after: Event | None = None) -> None:
    """Verify the chain of a log, or of a part of it that follows ``after``.

    Raises:
        IntegrityError: a row is missing or out of place, or a byte of it is not what was written.
    """
    previous, seq = (genesis(uid), 0) if after is None else (after.hash, after.seq)
    for one in events:
        event = one.stored if isinstance(one, Opened) else one
        seq += 1
        if event.seq != seq:
            raise IntegrityError(
                f"event {seq} of run {run_id!r} is missing (found {event.seq})",
                run_id=run_id,
                seq=seq,
                advice="the database was changed or damaged outside Perdure; restore it from a backup",
            )
        try:
            # To the hash an attempt or a duration of -1 is none at all; nothing ever has one.
            sound = _link(previous, *event[1:-1]) == event.hash and event.attempt != -1 and event.took != -1
        except (StructError, TypeError, ValueError):  # a column holds what no event can
            sound = False
        if not sound:
            raise IntegrityError(
                f"event {seq} of run {run_id!r} is not what was written",
                run_id=run_id,
                seq=seq,
                advice="the database was changed or damaged outside Perdure; restore it from a backup",
            )
        previous = event.hash
