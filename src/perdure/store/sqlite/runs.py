"""Creating runs."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from perdure.model.records import FORMAT, Claim, Created, Event, RunRow
from perdure.store import creating
from perdure.store.purging import refused
from perdure.store.rows import run_row
from perdure.store.sqlite.burial import buried
from perdure.store.sqlite.queues import limiting
from perdure.store.sqlite.reusing import make_way
from perdure.store.sqlite.rows import fetch, fetch_value, json_list
from perdure.store.sqlite.sql import QUERIES
from perdure.store.sqlite.tags import tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from perdure.model.records import NewRun

_CREATE, _FIND, _EVENT = QUERIES["create_runs"], QUERIES["find_run_key"], QUERIES["insert_event"]
_KEEP, _USE = QUERIES["keep_artifact"], QUERIES["use_artifact"]


def create_runs(
    cursor: apsw.Cursor, runs: Sequence[NewRun], routes: Sequence[int], *, claim_for: int | None, facts: bytes, now: int
) -> list[Created]:
    """Create runs, or find those that are there, inside the caller's transaction."""
    if claim_for is not None and not fetch_value(cursor, QUERIES["is_working"], (claim_for,)):
        claim_for = None
    limited: set[int] = set()
    if claim_for is not None:
        # What limits let through is decided where runs are claimed, for one of them as for many.
        limited = {route for _, of_queue in limiting(cursor, [*set(routes)]) for route in of_queue}
    make_way(cursor, runs, routes, now)
    # The keys are chosen here, under the write lock, so that the whole batch is one statement.
    top: int = fetch_value(cursor, QUERIES["last_run_key"])
    logs: dict[int, list[Event]] = {}
    values: list[tuple[object, ...]] = []
    rows: dict[int, RunRow] = {}
    for key, run, route in zip(count(top + 1), runs, routes, strict=False):
        delayed = creating.is_delayed(run, now)
        worker = None if delayed or route in limited else claim_for
        log = logs[key] = [creating.created(run, key)]
        if worker is not None:
            log.append(creating.claimed(log[0], facts, now))
        row = rows[key] = creating.row(run, key, log[-1], worker, delayed=delayed)
        values.append(_values(run, route, row, now, delayed=delayed))
    before = cursor.connection.total_changes()
    cursor.executemany(_CREATE, values)
    keys = list(logs)
    if cursor.connection.total_changes() - before != len(runs):
        keys = _find(cursor, runs, keys)
    new = logs.keys() & keys
    cursor.executemany(_EVENT, [event for key, log in logs.items() if key in new for event in log])
    for key, run in zip(logs, runs, strict=True):
        if run.artifacts and key in new:
            cursor.executemany(_KEEP, run.artifacts)
            cursor.executemany(_USE, [(artifact.hash, key) for artifact in run.artifacts])
    tag(cursor, ((key, run.meta) for key, run in zip(logs, runs, strict=True) if key in new))
    found = rows if len(new) == len(rows) else rows | get_runs(cursor, [key for key in keys if key not in new])
    made: list[Created] = []
    for own, key, run in zip(logs, keys, runs, strict=True):
        if key not in found:
            made.append(refused(run.created_at, buried(cursor, run)))
            continue
        row = found[key]
        claimed = own == key and row.worker_key is not None
        made.append(Created(row, own == key, Claim(row, logs[key]) if claimed else None))
    return made


def _find(cursor: apsw.Cursor, runs: Sequence[NewRun], own: list[int]) -> list[int]:
    """The keys under which runs are there: their own for those that are new, those of earlier ones for the others.

    Nought for those that were purged.
    """
    there = {key for (key,) in fetch(cursor, QUERIES["runs_since"], (own[0],))}
    return [
        key if key in there
        else fetch_value(cursor, _FIND, (run.namespace, run.run_id, run.idempotency_key)) or 0
        for key, run in zip(own, runs, strict=True)
    ]  # fmt: skip


def get_runs(cursor: apsw.Cursor, run_keys: Sequence[int]) -> dict[int, RunRow]:
    """Rows by key, those that exist."""
    found = fetch(cursor, QUERIES["get_runs"], (json_list(run_keys),))
    return {row[0]: run_row(row) for row in found}


def _values(run: NewRun, route: int, row: RunRow, now: int, *, delayed: bool) -> tuple[object, ...]:
    rank = None if delayed or row.worker_key is not None else creating.rank(run)
    return (
        row.run_key, row.namespace, row.run_id, row.uid, route, row.status, row.epoch, row.worker_key, row.seq,
        row.hash, rank, row.wake_at, row.deadline_at, row.priority, row.partition, row.parent_key,
        row.idempotency_key, row.meta, run.codec, FORMAT, row.created_at, None if row.worker_key is None else now,
    )  # fmt: skip
