"""What comes in from outside for runs: put into their inboxes, and read by those who hold them."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from perdure.model.records import Delivery, Status
from perdure.store import rows
from perdure.store.creating import PRIORITY_WEIGHT
from perdure.store.hearing import Hearer, is_deaf, wakes
from perdure.store.sqlite.rows import fetch, fetch_value
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    import apsw

    from perdure.model.records import InboxRow, Message


def unread(cursor: apsw.Cursor, worker_key: int) -> list[tuple[int, int, list[InboxRow]]]:
    """Run key, inbox counter and rows of every held run that has any."""
    found = fetch(cursor, QUERIES["unread"], (worker_key,))
    return [
        (run_key, counter, [rows.inbox_row(row[1:]) for row in group])
        for (counter, run_key), group in groupby(found, itemgetter(0, 2))
    ]


def hearer(cursor: apsw.Cursor, message: Message) -> Hearer | None:
    """Return the run that a message is for, if it is there."""
    if message.run_key is not None:
        found = fetch(cursor, QUERIES["hearer"], (message.run_key,))
    else:
        found = fetch(cursor, QUERIES["hearer_by_id"], (message.namespace, message.run_id))
    if not found:
        return None
    run_key, status, idle, awaits = found[0]
    return Hearer(run_key, Status(status), bool(idle), awaits)


def post(cursor: apsw.Cursor, message: Message, run: Hearer, *, now: int) -> Delivery:
    """Put news into the inbox of a run that is there, and make the run claimable if it waits for that."""
    key = run.run_key
    if is_deaf(message.kind, run.status):
        known = fetch_value(cursor, QUERIES["is_posted"], (key, message.name, message.dedup))
        return Delivery.DUPLICATE if known else Delivery.ENDED
    values = (key, message.kind, message.name, message.codec, message.payload, now, message.dedup, message.author)
    if not cursor.execute(QUERIES["post"], values).connection.changes():
        return Delivery.DUPLICATE
    if message.artifacts:
        cursor.executemany(QUERIES["keep_artifact"], message.artifacts)
        cursor.executemany(QUERIES["use_artifact"], [(artifact.hash, key) for artifact in message.artifacts])
    if wakes(message, run):
        cursor.execute(QUERIES["wake"], (key, now, PRIORITY_WEIGHT))
    else:
        cursor.execute(QUERIES["count_inbox"], (key,))
    return Delivery.DELIVERED


__all__ = ["hearer", "post", "unread"]
