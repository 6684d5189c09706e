"""Runs whose hold ends: given back by their worker, or taken from a dead one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from perdure.model.records import Event, Kind, Status
from perdure.store.postgres.arrays import bigints
from perdure.store.postgres.log import (
    append_all,
    asked_to_end,
    end_unheld,
    make_claimable,
    set_aside,
    tails,
    the_tail,
)
from perdure.store.protocol import Reclaimed
from perdure.store.tails import DAMAGED, follow, tail_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.store.postgres.session import Session
    from perdure.store.tails import Tail

SUSPECT: Final = 2
"""Crashes in a row without progress from which a run is a suspect; the queries and an index know it too."""


class _Held(NamedTuple):
    """A locked run of the worker."""

    run_key: int
    epoch: int
    seq: int
    crashes: int


def release(session: Session, worker_key: int, run_keys: Sequence[int]) -> int:
    """Give back those of ``run_keys`` that the worker holds; no crash is counted."""
    held = [_Held(*row) for row in session.fetch("held_among", worker_key, bigints(run_keys))]
    now = session.fetch_value("clock") if held else 0
    _let_go(
        session,
        held,
        lambda run, last: follow(last, now, run.epoch + 1, Kind.RUN_RELEASED),
        {run.run_key: run.crashes for run in held},
    )
    return len(held)


def _let_go(
    session: Session, held: Sequence[_Held], end: Callable[[_Held, Tail], Event], crashes: dict[int, int]
) -> dict[int, Event]:
    """Append what ends each hold, and make the runs claimable; set aside those that are damaged."""
    ends = tails(session, [run.run_key for run in held])
    appended: dict[int, Event] = {}
    for run in held:
        try:
            appended[run.run_key] = end(run, the_tail(ends, run.run_key))
        except DAMAGED as error:
            set_aside(session, run.run_key, error)
    if appended:
        events = list(appended.values())
        append_all(session, events)
        make_claimable(session, events, [crashes[event.run_key] for event in events])
    return appended


def reclaim(session: Session, worker_key: int, *, sign: tuple[str, int] | None, cap: int) -> list[Reclaimed]:
    """Take the runs of one dead worker, count the crash where it is theirs, and forget the worker.

    ``sign`` is what its row showed when it was taken for dead: if that has changed, it lives. Nothing is waited for: a
    process that was stopped within a transaction has its locks until the server ends its session. Then all is left to
    a later try.
    """
    found = session.fetch("lock_dead_worker", worker_key)
    if not found and session.fetch_value("has_row", worker_key):
        return []
    stopped, *shown = found[0] if found else (False,)
    if not stopped and shown and sign is not None and tuple(shown) != sign:
        return []
    held = [_Held(*row) for row in session.fetch("held_by_dead", worker_key)]
    if len(held) < session.fetch_value("count_held", worker_key):
        return []
    session.change("retire_worker", worker_key)
    crashed = not stopped
    progress = _with_progress(session, held)
    # While it holds a run that has crashed twice, a worker's crash is laid to that run, not to its neighbours.
    suspect_held = any(run.crashes >= SUSPECT and run.run_key not in progress for run in held)
    counts = {run.run_key: crashed and (not suspect_held or run.crashes >= SUSPECT) for run in held}
    totals = {run.run_key: 0 if run.run_key in progress else run.crashes + counts[run.run_key] for run in held}
    now = session.fetch_value("clock") if held else 0

    def end(run: _Held, last: Tail) -> Event:
        payload = json.dumps({"worker": worker_key, "crashes": totals[run.run_key]}).encode()
        return follow(last, now, run.epoch + 1, Kind.RUN_RECLAIMED, payload)

    appended = _let_go(session, held, end, totals)
    done: list[Reclaimed] = []
    for run in held:
        key = run.run_key
        if key not in appended:
            blocked = True
        else:
            poisoned = counts[key] and totals[key] >= cap
            blocked = poisoned and _end_poisoned(session, appended[key], totals[key], now)
        done.append(Reclaimed(key, blocked))
    session.change("forget_worker", worker_key)
    return done


def _with_progress(session: Session, held: Sequence[_Held]) -> set[int]:
    if not held:
        return set()
    keys, seqs = bigints([run.run_key for run in held]), bigints([run.seq for run in held])
    return {key for (key,) in session.fetch("have_progress", keys, seqs)}


def _end_poisoned(session: Session, reclaimed: Event, crashes: int, now: int) -> bool:
    """Block a run that keeps killing its workers, or cancel it if that was asked for; returns whether it is blocked."""
    asked = asked_to_end(session, reclaimed.run_key)
    if asked is not None:
        status, (payload, reason) = Status.CANCELLED, asked
    else:
        status, reason = Status.BLOCKED, f"its workers died {crashes} times in a row without progress"
        payload = json.dumps({"reason": reason}).encode()
    end_unheld(session, tail_of(reclaimed), now, reclaimed.epoch, status, payload, reason)
    return status is Status.BLOCKED
