"""Claiming runs: by route, then rank, suspects one at a time."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from perdure.errors import IntegrityError
from perdure.model.queues import Ready
from perdure.model.records import FORMAT, Claim, Event, Kind
from perdure.store.creating import PRIORITY_WEIGHT, URGENT
from perdure.store.protocol import PAGE
from perdure.store.queueing import choose, without
from perdure.store.sqlite import queues
from perdure.store.sqlite.builds import open_refusals
from perdure.store.sqlite.log import set_aside, tail
from perdure.store.sqlite.rows import fetch, fetch_value, json_list
from perdure.store.sqlite.runs import get_runs
from perdure.store.sqlite.sql import QUERIES
from perdure.store.tails import DAMAGED, check_epoch, follow, tail_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from perdure.model.queues import Gate
    from perdure.store.queueing import Gated
    from perdure.store.sqlite.rows import Row


_READ, _EVENT, _CLAIM = QUERIES["read_logs"], QUERIES["insert_event"], QUERIES["claim_runs"]

_Candidate = tuple[int, int, int, int, bytes]
"""Rank, run key, epoch, and the last event at the last change of state: sorts in the order of claiming."""

_SEQ = itemgetter(1)


def any_claimable(
    cursor: apsw.Cursor, worker_key: int, routes: Sequence[int], now: int, *, only: int | None = None
) -> bool:
    """Whether a claim would find anything; a hint, for which no lock is taken."""
    # Of one run that is asked for it is not known yet whether it needs a slot.
    gated = queues.gates(cursor, routes, worker_key, now) if only is None else []
    if gated:
        refusals = open_refusals(cursor, worker_key)
        if any(queues.any_claimable(cursor, one, refusals, now) for one in gated):
            return True
        routes = without(routes, gated)
    return bool(fetch_value(cursor, QUERIES["any_claimable"], (json_list(routes), now, worker_key)))


def claim_runs(
    cursor: apsw.Cursor, worker_key: int, routes: Sequence[int], limit: int, *, facts: bytes, only: int | None, now: int
) -> list[Claim]:
    """Take up to ``limit`` due runs, inside the caller's transaction."""
    if not fetch_value(cursor, QUERIES["is_working"], (worker_key,)):
        return []
    gated = queues.gates(cursor, routes, worker_key, now)
    through: list[tuple[Gate, list[Ready]]] = []
    if only is not None:
        chosen, through = _candidate(cursor, worker_key, routes, only, gated, now)
    elif gated:
        chosen, through = _gated_candidates(cursor, worker_key, routes, gated, limit, now)
    else:
        chosen = _candidates(cursor, worker_key, routes, limit, now)
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
        changes.append((run_key, worker_key, epoch + 1, event.seq, event.hash, now))
    cursor.executemany(_CLAIM, changes)
    cursor.executemany(_EVENT, appended)
    for gate, claimed in through:
        queues.note_claimed(cursor, gate, [one for one in claimed if one.run_key in logs], now)
    found = get_runs(cursor, list(logs)) if logs else {}
    return [Claim(found[key], *logs[key]) for key in logs]


def _candidates(cursor: apsw.Cursor, worker_key: int, routes: Sequence[int], limit: int, now: int) -> list[_Candidate]:
    refusals = open_refusals(cursor, worker_key)
    ready, suspect = _of_routes(cursor, worker_key, routes, refusals, limit, now)
    if suspect is not None:
        ready.append(suspect[1][:5])
    ready.sort()
    return ready[:limit]


def _of_routes(
    cursor: apsw.Cursor, worker_key: int, routes: Sequence[int], refusals: list[int], limit: int, now: int
) -> tuple[list[_Candidate], tuple[int, Row] | None]:
    """What is claimable of routes without limits; and of the suspects the first, with its route."""
    ready: list[_Candidate] = []
    for route in routes:
        cursor.execute(QUERIES["promote_due"], (route, now, limit, PRIORITY_WEIGHT))
        ready += fetch(cursor, QUERIES["claim_ready"], (route, limit, FORMAT))
        for refusal in refusals:
            ready += fetch(cursor, QUERIES["claim_refused"], (route, limit, FORMAT, refusal))
    return ready, _suspect(cursor, worker_key, routes, refusals)


def _suspect(
    cursor: apsw.Cursor, worker_key: int, routes: Sequence[int], refusals: list[int]
) -> tuple[int, Row] | None:
    listed = json_list(refusals)
    suspects = [
        (row, route) for route in routes for row in fetch(cursor, QUERIES["claim_suspect"], (route, FORMAT, listed))
    ]
    if not suspects or _holds_suspect(cursor, worker_key):
        return None
    row, route = min(suspects)
    return route, row


def _gated_candidates(
    cursor: apsw.Cursor, worker_key: int, routes: Sequence[int], gated: list[Gated], limit: int, now: int
) -> tuple[list[_Candidate], list[tuple[Gate, list[Ready]]]]:
    """The same where queues have limits; and of each of those what is to be claimed of it."""
    refusals = open_refusals(cursor, worker_key)
    free = without(routes, gated)
    rows, suspect = _of_routes(cursor, worker_key, free, refusals, limit, now)
    ungated = [Ready(row[0], row[1], None, False, row) for row in rows]
    through: list[tuple[Gate, list[Ready]]] = []
    first = [] if suspect is None else [suspect]
    for one in gated:
        if one.gate.room > 0:
            for route in one.routes:
                cursor.execute(QUERIES["promote_due"], (route, now, limit, PRIORITY_WEIGHT))
            if (found := _suspect(cursor, worker_key, one.routes, refusals)) is not None:
                first.append(found)
        through.append((one.gate, queues.candidates(cursor, one, refusals, limit)))
    if first:
        route, row = min(first, key=itemgetter(1))
        of_route = next((n for n, one in enumerate(gated) if route in one.routes), None)
        (ungated if of_route is None else through[of_route][1]).append(queues.candidate(row))
    chosen, claimed = choose(ungated, through, limit)
    return [(one.rank, *one.found[1:]) for one in chosen], claimed


def _candidate(
    cursor: apsw.Cursor, worker_key: int, routes: Sequence[int], run_key: int, gated: list[Gated], now: int
) -> tuple[list[_Candidate], list[tuple[Gate, list[Ready]]]]:
    """One run, if it may be claimed; one that is to be cancelled needs no slot of its queue."""
    cursor.execute(QUERIES["promote_one"], (run_key, now, PRIORITY_WEIGHT))
    listed = json_list(open_refusals(cursor, worker_key))
    found = fetch(cursor, QUERIES["claim_one"], (run_key, json_list(routes), FORMAT, listed))
    if not found or (found[0][5] and _holds_suspect(cursor, worker_key)):
        return [], []
    row, route = found[0], found[0][6]
    gate = next((one.gate for one in gated if route in one.routes), None)
    if gate is None or row[0] <= URGENT:
        return [row[:5]], []
    one = queues.candidate(row)
    return ([row[:5]], [(gate, [one])]) if gate.admits(one) else ([], [])


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
