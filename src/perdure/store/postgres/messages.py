"""Messages on their way to runs: signals, the ends of children, and what is asked from afar."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from perdure.model.records import Delivery, InboxKind
from perdure.store.hearing import REQUESTS, reason_of
from perdure.store.postgres.arrays import bigints
from perdure.store.postgres.control import pause_run, request_cancel
from perdure.store.postgres.inbox import find_keys, hear, post
from perdure.store.postgres.log import set_aside
from perdure.store.tails import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perdure.model.records import Message
    from perdure.store.postgres.session import Session


class Delivering:
    """Messages that are delivered once: done again it finds that it has been done."""

    def __init__(self, messages: Sequence[Message], *, now: int | None) -> None:
        self._messages = messages
        self._now = now
        self._tried: tuple[int, list[Delivery]] | None = None
        """The number of the transaction of an earlier try, and what it would have told."""

    def deliver(self, session: Session) -> list[Delivery]:
        """Put the messages into the inboxes of their runs, in order; what became of each."""
        # Whatever an earlier try has written is under the same locks, so once they are had it has come to its end.
        lock(session, self._messages)
        if self._tried is not None and session.fetch_value("is_committed", self._tried[0]):
            return self._tried[1]
        now, transaction = session.fetch("sign", self._now)[0]
        told = deliver(session, self._messages, now=now)
        self._tried = transaction, told
        return told


def lock(session: Session, messages: Sequence[Message], run_keys: Iterable[int] = ()) -> None:
    """Lock, in the order in which all lock them, the runs that messages concern, and some others."""
    keys = find_keys(session, messages)
    cancels = {key for message, key in zip(messages, keys, strict=True) if message.kind is InboxKind.CANCEL}
    every = {*run_keys, *keys} - {None}
    session.fetch("lock_runs", bigints(sorted(filter(None, every))), bigints(sorted(filter(None, cancels))))


def deliver(session: Session, messages: Sequence[Message], *, now: int) -> list[Delivery]:
    """Put messages into the inboxes of their runs, in order, inside the caller's transaction."""
    told: list[Delivery] = []
    # A request changes what the next message finds.
    for asks, group in groupby(messages, lambda message: message.kind in REQUESTS):
        stretch = list(group)
        if asks:
            told += [_ask(session, message, now) for message in stretch]
        else:
            told += post(session, stretch, hear(session, stretch), now=now)
    return told


def _ask(session: Session, message: Message, now: int) -> Delivery:
    (run,) = hear(session, [message])
    if run is None:
        return Delivery.UNKNOWN
    if run.status.terminal:
        return Delivery.ENDED
    ask = request_cancel if message.kind is InboxKind.CANCEL else pause_run
    try:
        ask(session, run.run_key, reason_of(message), now=now)
    except DAMAGED as error:
        set_aside(session, run.run_key, error)
    return Delivery.DELIVERED


__all__ = ["Delivering", "deliver", "lock"]
