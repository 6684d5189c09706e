"""Purging: runs become tombstones, and what they have left behind is deleted bit by bit.

Whatever is locked here is locked without waiting: what somebody else is at work on is left for the next pass. So nobody
who waits for this can be waited for by it.

A purged run's row stays for a while, of no route and with a status that no run has. Otherwise a statement that began
before the purge, and so sees no tombstone, could wait for the row to go and then create the run anew; as long as such a
statement may last, it finds the row in its way.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from perdure.model.payloads import tags_of
from perdure.model.purging import Collected
from perdure.store.postgres.arrays import bigints, byteas, texts
from perdure.store.purging import BURIED, COLLECTED, LAST, MORE, ROWS, SANE, ended_page, weight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.purging import EndedPage, EndedPlace, Purgeable
    from perdure.store.postgres.session import Session
    from perdure.store.rows import Row

_STAYS: Final = 120_000_000
"""µs that a purged run's row stays: twice what a statement of ours may last (``statement_timeout``)."""

_EVER: Final = 1 << 62


def list_ended(session: Session, what: Purgeable, after: EndedPlace | None, limit: int) -> EndedPage:
    """Look at up to ``limit`` runs that have ended."""
    routes = [(route, workflow) for route, workflow in session.fetch("named_routes", what.namespace)]
    return ended_page(what, routes, after, limit, partial(_read, session))


def _read(session: Session, *values: int) -> Sequence[Row]:
    return session.fetch("list_ended", *values)


def purge_runs(session: Session, run_keys: Sequence[int], what: Purgeable, now: int | None) -> list[int]:
    """Put tombstones in the places of runs, those that may still be purged."""
    asked = bigints(sorted(run_keys[:BURIED]))
    found = session.fetch("find_purgeable", asked, what.before, bigints(list(map(int, what.statuses))))
    if not found:
        return []
    instant = session.fetch_value("clock") if now is None else now
    keys = [key for key, _ in found]
    session.change("bury_runs", bigints(keys), instant, MORE)
    tags = [(name, value, key) for key, meta in found if meta for name, value in tags_of(meta).items()]
    if tags:
        names, values, tagged = zip(*tags, strict=True)
        session.change("untag_runs", texts(names), texts(values), bigints(tagged))
    return keys


def collect_purged(session: Session, now: int | None) -> Collected:
    """Delete what purged runs have left behind, a bounded number of rows."""
    instant: int = session.fetch_value("clock") if now is None else now
    remains = _remains(session, MORE, _EVER)
    rows = artifacts = emptied = 0
    left = ROWS
    if remains:
        keys = bigints(remains)
        for query in ("collect_events", "collect_inbox"):
            deleted = session.change(query, keys, left) if left else 0
            rows += deleted
            left -= deleted
        if left:
            dropped, left = _drop_uses(session, remains, left)
            artifacts += dropped
        emptied = len(session.fetch("only_rows_left", keys))
    buried = _remains(session, LAST, instant - _STAYS)
    if buried:
        gone = [key for (key,) in session.fetch("delete_rows", bigints(buried))]
        session.change("rest_in_peace", bigints(gone), LAST)
    more = left <= 0 or COLLECTED in {emptied, len(buried)}
    return Collected(emptied, rows, artifacts, more)


def _remains(session: Session, what: int, before: int) -> list[int]:
    return [key for (key,) in session.fetch("list_remains", what, before, COLLECTED)]


def _drop_uses(session: Session, run_keys: Sequence[int], left: int) -> tuple[int, int]:
    """Forget which artifacts runs referred to, and delete those that nothing refers to; how many, and what is left."""
    chosen: list[bytes] = []
    for digest, size in session.fetch("lock_artifacts", bigints(run_keys), left):
        chosen.append(digest)
        left -= weight(size)
        if left <= 0:
            break
    hashes = byteas(chosen)
    session.change("drop_uses", bigints(run_keys), hashes)
    # In a statement of its own, which sees every use that was noted before the artifacts were locked.
    return session.change("drop_artifacts", hashes), left


def forget_purged(session: Session, namespace: str, before: int, limit: int) -> int:
    """Forget runs that were purged long ago."""
    return session.change("forget_purged", namespace, before, limit)


def elect(session: Session, chore: str, holder: int, lease: int, now: int | None) -> bool:
    """Give a chore to one who would do it, if nobody else has it."""
    instant = session.fetch_value("clock") if now is None else now
    return bool(session.fetch("elect", chore, holder, instant, lease, SANE))


__all__ = ["collect_purged", "elect", "forget_purged", "list_ended", "purge_runs"]
