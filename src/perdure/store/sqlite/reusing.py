"""Idempotency keys that stand for a run for a while only: freed, or the run put off, before the new one is created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.payloads import tags_of
from perdure.model.reuse import Found, gives_way, put_off
from perdure.store import creating
from perdure.store.protocol import PAGE
from perdure.store.sqlite.rows import fetch
from perdure.store.sqlite.sql import QUERIES
from perdure.store.sqlite.tags import tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from perdure.model.records import NewRun


def make_way(cursor: apsw.Cursor, runs: Sequence[NewRun], routes: Sequence[int], now: int) -> None:
    """Free the keys of runs that do not stand in the way of new ones any more; put off what is debounced."""
    for run, route in zip(runs, routes, strict=True):
        reuse = run.reuse
        if reuse is None or run.idempotency_key is None:
            continue
        for row in fetch(cursor, QUERIES["run_of_key"], (run.namespace, run.idempotency_key)):
            found = Found._make(row)
            if gives_way(reuse, found, now):
                cursor.execute(QUERIES["free_key"], (found.run_key,))
            elif reuse.debounce is not None and found.route == route:
                _put_off(cursor, put_off(run, found), found, now)
        for row in fetch(cursor, QUERIES["purged_of_key"], (run.namespace, run.idempotency_key)):
            if gives_way(reuse, Found._make(row), now):
                cursor.execute(QUERIES["free_purged_key"], (run.namespace, run.idempotency_key))


def _put_off(cursor: apsw.Cursor, run: NewRun, found: Found, now: int) -> None:
    key, first = found.run_key, creating.created(run, found.run_key)
    delayed = creating.is_delayed(run, now)
    cursor.execute(QUERIES["put_off_event"], (key, first.codec, first.payload, first.args, first.hash))
    cursor.execute(
        QUERIES["put_off_run"],
        (
            key, first.hash, run.codec, run.delay_until if delayed else None, None if delayed else creating.rank(run),
            run.deadline_at, creating.priority(run), run.partition, run.meta,
        ),
    )  # fmt: skip
    if found.meta:
        cursor.executemany(QUERIES["untag_run"], [(*one, key) for one in tags_of(found.meta).items()])
    tag(cursor, [(key, run.meta)])
    for digest, _ in fetch(cursor, QUERIES["list_uses"], (key, PAGE)):
        cursor.execute(QUERIES["drop_use"], (key, digest))
        cursor.execute(QUERIES["drop_artifact"], (digest,))
    cursor.executemany(QUERIES["keep_artifact"], run.artifacts)
    cursor.executemany(QUERIES["use_artifact"], [(artifact.hash, key) for artifact in run.artifacts])
