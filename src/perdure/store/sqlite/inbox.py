"""What has come in from outside for runs that are held."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from perdure.store import rows
from perdure.store.sqlite.rows import fetch
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    import apsw

    from perdure.model.records import InboxRow


def unread(cursor: apsw.Cursor, worker_key: int) -> list[tuple[int, int, list[InboxRow]]]:
    """Run key, inbox counter and rows of every held run that has any."""
    found = fetch(cursor, QUERIES["unread"], (worker_key,))
    return [
        (run_key, counter, [rows.inbox_row(row[1:]) for row in group])
        for (counter, run_key), group in groupby(found, itemgetter(0, 2))
    ]
