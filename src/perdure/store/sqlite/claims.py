"""Claiming runs: by route, then rank, suspects one at a time."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from perdure.errors import IntegrityError
from perdure.model.records import FORMAT, Claim, Event, Kind
from perdure.store.creating import PRIORITY_WEIGHT
from perdure.store.protocol import PAGE
from perdure.store.sqlite.builds import open_refusals
from perdure.store.sqlite.log import set_aside, tail
from perdure.store.sqlite.rows import fetch, fetch_value, json_list
from perdure.store.sqlite.runs import get_runs
from perdure.store.sqlite.sql import QUERIES
from perdure.store.tails import DAMAGED, check_epoch, follow, tail_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw


_READ, _EVENT, _CLAIM = QUERIES["read_logs"], QUERIES["insert_event"], QUERIES["claim_runs"]

_Candidate = tuple[int, int, int, int, bytes]
"""Rank, run key, epoch, and the last event at the last change of state: sorts in the order of claiming."""

_SEQ = itemgetter(1)


def any_claimable(cursor: apsw.Cursor, worker_key: int, routes: Sequence[int], now: int) -> bool:
    """Whether a claim would find anything; a hint, for which no lock is taken."""
    return bool(fetch_value(cursor, QUERIES["any_claimable"], (json_list(routes), now, worker_key)))


def claim_runs(
    cursor: apsw.Cursor, worker_key: int, routes: Sequence[int], limit: int, *, facts: bytes, only: int | None, now: int
) -> list[Claim]:
    """Take up to ``limit`` due runs, inside the caller's transaction."""
    if not fetch_value(cursor, QUERIES["is_working"], (worker_key,)):
        return []
    if only is None:
        chosen = _candidates(cursor, worker_key, routes, limit, now)
    else:
        chosen = _candidate(cursor, worker_key, routes, only, now)
    logs: dict[int, tuple[list[Event], bool]] = {}
    appended: list[Event] = []
    changes: list[tuple[object, ...]] = []
    histories = _histories(cursor, [candidate[1] for candidate in chosen])
    for _, run_key, epoch, seq, mark in chosen:
        log = histories[run_key]
        # A page less the event that the claim appends.
        complete = len(log) < PAGE
        try:
            _check_mark(cursor, run_key, log, seq, mark)
            check_epoch(run_key, epoch, log, complete=complete)
            last = tail_of(log[-1]) if complete else tail(cursor, run_key)
            event = follow(last, now, epoch + 1, Kind.RUN_CLAIMED, facts)
        except DAMAGED as error:
            set_aside(cursor, run_key, error)
            continue
        if complete:
            log.append(event)
        logs[run_key] = log, complete
        appended.append(event)
        changes.append((run_key, worker_key, epoch + 1, event.seq, event.hash))
    cursor.executemany(_CLAIM, changes)
    cursor.executemany(_EVENT, appended)
    found = get_runs(cursor, list(logs)) if logs else {}
    return [Claim(found[key], *logs[key]) for key in logs]


def _candidates(cursor: apsw.Cursor, worker_key: int, routes: Sequence[int], limit: int, now: int) -> list[_Candidate]:
    refusals = open_refusals(cursor, worker_key)
    listed = json_list(refusals)
    ready: list[_Candidate] = []
    suspects: list[_Candidate] = []
    for route in routes:
        cursor.execute(QUERIES["promote_due"], (route, now, limit, PRIORITY_WEIGHT))
        ready += fetch(cursor, QUERIES["claim_ready"], (route, limit, FORMAT))
        for refusal in refusals:
            ready += fetch(cursor, QUERIES["claim_refused"], (route, limit, FORMAT, refusal))
        suspects += fetch(cursor, QUERIES["claim_suspect"], (route, FORMAT, listed))
    if suspects and not _holds_suspect(cursor, worker_key):
        ready.append(min(suspects))
    ready.sort()
    return ready[:limit]


def _candidate(cursor: apsw.Cursor, worker_key: int, routes: Sequence[int], run_key: int, now: int) -> list[_Candidate]:
    cursor.execute(QUERIES["promote_one"], (run_key, now, PRIORITY_WEIGHT))
    listed = json_list(open_refusals(cursor, worker_key))
    found = fetch(cursor, QUERIES["claim_one"], (run_key, json_list(routes), FORMAT, listed))
    return [row[:5] for row in found if not row[5] or not _holds_suspect(cursor, worker_key)]


def _holds_suspect(cursor: apsw.Cursor, worker_key: int) -> bool:
    return bool(fetch_value(cursor, QUERIES["holds_suspect"], (worker_key,)))


def _check_mark(cursor: apsw.Cursor, run_key: int, log: list[Event], seq: int, mark: bytes) -> None:
    """Compare a log with what the run's row says of it."""
    if 0 < seq <= len(log):
        found: bytes | None = log[seq - 1].hash
    else:
        marks = fetch(cursor, QUERIES["read_marks"], (run_key, seq, seq))
        found = marks[0][2] if marks else None
    if found != mark:
        raise IntegrityError(f"event {seq} is not the one that the run's row names", run_key=run_key, seq=seq)


def _histories(cursor: apsw.Cursor, run_keys: list[int]) -> dict[int, list[Event]]:
    """The first page of each log."""
    logs: dict[int, list[Event]] = {key: [] for key in run_keys}
    for event in map(Event._make, fetch(cursor, _READ, (json_list(run_keys), PAGE))):
        logs[event[0]].append(event)
    for log in logs.values():
        log.sort(key=_SEQ)  # they come sorted, but nothing promises it
    return logs
