"""Messages on their way to runs: signals, the ends of children, and what is asked from afar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.records import Delivery, InboxKind
from perdure.store.hearing import REQUESTS, reason_of
from perdure.store.sqlite.control import pause_run, request_cancel
from perdure.store.sqlite.inbox import hearer, post
from perdure.store.sqlite.log import set_aside
from perdure.store.tails import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from perdure.model.records import Message


def deliver(cursor: apsw.Cursor, messages: Sequence[Message], *, now: int) -> list[Delivery]:
    """Put messages into the inboxes of their runs, in order, inside the caller's transaction."""
    return [_deliver(cursor, message, now) for message in messages]


def _deliver(cursor: apsw.Cursor, message: Message, now: int) -> Delivery:
    run = hearer(cursor, message)
    if run is None:
        return Delivery.UNKNOWN
    if message.kind not in REQUESTS:
        return post(cursor, message, run, now=now)
    if run.status.terminal:
        return Delivery.ENDED
    ask = request_cancel if message.kind is InboxKind.CANCEL else pause_run
    try:
        ask(cursor, run.run_key, reason_of(message), now=now)
    except DAMAGED as error:
        set_aside(cursor, run.run_key, error)
    return Delivery.DELIVERED


__all__ = ["deliver"]
