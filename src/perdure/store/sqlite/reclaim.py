"""Runs whose hold ends: given back by their worker, or taken from a dead one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from perdure.model.records import Event, Kind, Status
from perdure.store.protocol import Reclaimed
from perdure.store.sqlite.log import append, asked_to_end, end_unheld, make_claimable, set_aside, tail
from perdure.store.sqlite.rows import fetch, fetch_value
from perdure.store.sqlite.sql import QUERIES
from perdure.store.tails import DAMAGED, tail_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

SUSPECT: Final = 2
"""Crashes in a row without progress from which a run is a suspect; the queries and an index know it too."""


def release(cursor: apsw.Cursor, worker_key: int, run_keys: Sequence[int], *, now: int) -> int:
    """Give back those of ``run_keys`` that the worker holds; no crash is counted."""
    held = fetch(cursor, QUERIES["held_in_full"], (worker_key,))
    wanted = set(run_keys)
    held = [row for row in held if row[0] in wanted]
    for run_key, epoch, _, crashes in held:
        try:
            event = append(cursor, tail(cursor, run_key), now, epoch + 1, Kind.RUN_RELEASED)
        except DAMAGED as error:
            set_aside(cursor, run_key, error)
            continue
        make_claimable(cursor, event, crashes)
    return len(held)


def reclaim(cursor: apsw.Cursor, worker_key: int, *, sign: int | None, cap: int, now: int) -> list[Reclaimed]:
    """Take the runs of one dead worker, count the crash where it is theirs, and forget the worker.

    ``sign`` is what its row showed when it was taken for dead: if that has changed, it lives.
    """
    found = fetch(cursor, QUERIES["signs_of_life"], (worker_key,))
    stopped, shown = found[0] if found else (False, sign)
    if not stopped and sign is not None and shown != sign:
        return []
    crashed = not stopped
    cursor.execute(QUERIES["retire_worker"], (worker_key,))
    runs = [
        (run_key, epoch, crashes, _has_progress(cursor, run_key, seq))
        for run_key, epoch, seq, crashes in fetch(cursor, QUERIES["held_in_full"], (worker_key,))
    ]
    # While it holds a run that has crashed twice, a worker's crash is laid to that run, not to its neighbours.
    suspect_held = any(crashes >= SUSPECT and not progress for _, _, crashes, progress in runs)
    done: list[Reclaimed] = []
    for run_key, epoch, crashes, progress in runs:
        counts = crashed and (not suspect_held or crashes >= SUSPECT)
        total = 0 if progress else crashes + counts
        payload = json.dumps({"worker": worker_key, "crashes": total}).encode()
        try:
            event = append(cursor, tail(cursor, run_key), now, epoch + 1, Kind.RUN_RECLAIMED, payload)
        except DAMAGED as error:
            set_aside(cursor, run_key, error)
            done.append(Reclaimed(run_key, blocked=True))
            continue
        make_claimable(cursor, event, total)
        blocked = counts and total >= cap and _end_poisoned(cursor, event, total, now)
        done.append(Reclaimed(run_key, blocked))
    cursor.execute(QUERIES["forget_worker"], (worker_key,))
    return done


def _has_progress(cursor: apsw.Cursor, run_key: int, claimed_at: int) -> bool:
    return bool(fetch_value(cursor, QUERIES["has_progress"], (run_key, claimed_at)))


def _end_poisoned(cursor: apsw.Cursor, reclaimed: Event, crashes: int, now: int) -> bool:
    """Block a run that keeps killing its workers, or cancel it if that was asked for; returns whether it is blocked."""
    asked = asked_to_end(cursor, reclaimed.run_key)
    if asked is not None:
        status, (payload, reason) = Status.CANCELLED, asked
    else:
        status, reason = Status.BLOCKED, f"its workers died {crashes} times in a row without progress"
        payload = json.dumps({"reason": reason}).encode()
    end_unheld(cursor, tail_of(reclaimed), now, reclaimed.epoch, status, payload, reason)
    return status is Status.BLOCKED
