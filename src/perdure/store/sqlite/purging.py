"""Purging: runs become tombstones, and what they have left behind is deleted bit by bit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from perdure.model.payloads import tags_of
from perdure.model.purging import Collected
from perdure.store.purging import BURIED, COLLECTED, MORE, ROWS, SANE, ended_page, weight
from perdure.store.sqlite.rows import fetch, json_list
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from perdure.model.purging import EndedPage, EndedPlace, Purgeable
    from perdure.store.rows import Row


def list_ended(cursor: apsw.Cursor, what: Purgeable, after: EndedPlace | None, limit: int) -> EndedPage:
    """Look at up to ``limit`` runs that have ended."""
    routes = fetch(cursor, QUERIES["named_routes"], (what.namespace,))
    return ended_page(what, [(route, name) for route, name in routes], after, limit, partial(_read, cursor))


def _read(cursor: apsw.Cursor, *bindings: int) -> Sequence[Row]:
    return fetch(cursor, QUERIES["list_ended"], bindings)


def purge_runs(cursor: apsw.Cursor, run_keys: Sequence[int], what: Purgeable, now: int) -> list[int]:
    """Put tombstones in the places of runs, those that may still be purged."""
    asked = json_list(run_keys[:BURIED])
    found = fetch(cursor, QUERIES["find_purgeable"], (asked, what.before, json_list(map(int, what.statuses))))
    if not found:
        return []
    keys = json_list(key for key, _ in found)
    cursor.execute(QUERIES["bury_runs"], (keys, MORE, now))
    tags = [(name, value, key) for key, meta in found if meta for name, value in tags_of(meta).items()]
    if tags:
        cursor.executemany(QUERIES["untag_run"], tags)
    # At once: there is one writer at a time, so nobody is about to create the same.
    cursor.execute(QUERIES["delete_runs"], (keys,))
    return [key for key, _ in found]


def collect_purged(cursor: apsw.Cursor) -> Collected:
    """Delete what purged runs have left behind, a bounded number of rows."""
    remains = [key for (key,) in fetch(cursor, QUERIES["list_remains"], (MORE, COLLECTED))]
    runs = rows = artifacts = 0
    left = ROWS
    for key in remains:
        for query in ("collect_events", "collect_inbox"):
            deleted = cursor.execute(QUERIES[query], (key, left)).connection.changes()
            rows += deleted
            left -= deleted
        dropped, left = _drop_uses(cursor, key, left)
        artifacts += dropped
        if left <= 0:  # there may be more of this one
            return Collected(runs, rows, artifacts, more=True)
        cursor.execute(QUERIES["rest_in_peace"], (key, MORE))
        runs += 1
    return Collected(runs, rows, artifacts, more=len(remains) == COLLECTED)


def _drop_uses(cursor: apsw.Cursor, run_key: int, left: int) -> tuple[int, int]:
    """Forget which artifacts a run referred to, and delete those that nothing refers to; how many, and what is left."""
    dropped = 0
    for digest, size in fetch(cursor, QUERIES["list_uses"], (run_key, left)) if left > 0 else ():
        cursor.execute(QUERIES["drop_use"], (run_key, digest))
        gone = cursor.execute(QUERIES["drop_artifact"], (digest,)).connection.changes()
        dropped += gone
        left -= weight(size or 0) if gone else 1
        if left <= 0:
            break
    return dropped, left


def forget_purged(cursor: apsw.Cursor, namespace: str, before: int, limit: int) -> int:
    """Forget runs that were purged long ago."""
    return cursor.execute(QUERIES["forget_purged"], (namespace, before, limit)).connection.changes()


def elect(cursor: apsw.Cursor, chore: str, holder: int, lease: int, now: int) -> bool:
    """Give a chore to one who would do it, if nobody else has it."""
    return bool(fetch(cursor, QUERIES["elect"], (chore, holder, now, lease, SANE)))


__all__ = ["collect_purged", "elect", "forget_purged", "list_ended", "purge_runs"]
