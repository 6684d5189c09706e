"""Which builds have the code for what: routes that are served, runs that builds refuse, and what is then left."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from perdure.model.records import Event, Kind, Status
from perdure.store.sqlite.liveness import boot_id, boot_now
from perdure.store.sqlite.log import append, asked_to_end, end_unheld, make_claimable, set_aside, tail
from perdure.store.sqlite.rows import fetch, fetch_value
from perdure.store.sqlite.sql import QUERIES
from perdure.store.tails import DAMAGED, tail_of

if TYPE_CHECKING:
    from collections.abc import Collection

    import apsw

    from perdure.store.tails import Tail

_PAGE: Final = 1000
"""Stranded runs looked at per route and set of builds at a time."""


def open_refusals(cursor: apsw.Cursor, worker_key: int) -> list[int]:
    """The sets of builds whose refused runs a worker may claim, as its own build is not among them."""
    return [refusal for (refusal,) in fetch(cursor, QUERIES["open_refusals"], (worker_key,))]


def living(cursor: apsw.Cursor, route: int) -> set[str]:
    """Builds of the living workers that serve a route."""
    return {build for (build,) in fetch(cursor, QUERIES["living_builds"], (route, boot_id(), boot_now()))}


def refuse_run(cursor: apsw.Cursor, run_key: int, epoch: int, build: str, payload: bytes, *, now: int) -> list[Event]:
    """End a run's hold because ``build`` cannot go on with it: leave it to other builds, or block it."""
    found = fetch(cursor, QUERIES["refused_run"], (run_key,))
    if not found:
        return []
    current, held, route, crashes, refused = found[0]
    if not held or current != epoch:
        return _refused_before(cursor, run_key, epoch, payload)
    try:
        drift = append(cursor, tail(cursor, run_key), now, epoch, Kind.DRIFT_FOUND, payload)
    except DAMAGED as error:
        set_aside(cursor, run_key, error)
        return []
    builds = {build, *json.loads(refused or "[]")}
    cursor.execute(QUERIES["refuse"], (run_key, _number(cursor, builds)))
    if living(cursor, route) - builds and asked_to_end(cursor, run_key) is None:
        last = append(cursor, tail_of(drift), now, epoch + 1, Kind.RUN_RELEASED)
        make_claimable(cursor, last, crashes)
    else:
        last = _end(cursor, tail_of(drift), epoch + 1, payload, builds, now)
    return [drift, last]


def _refused_before(cursor: apsw.Cursor, run_key: int, epoch: int, payload: bytes) -> list[Event]:
    """What this very refusal has appended, if it is there already."""
    found = fetch(cursor, QUERIES["find_drift"], (run_key, epoch, payload))
    if not found:
        return []
    return [Event._make(row) for row in fetch(cursor, QUERIES["read_events"], (run_key, found[0][0] - 1, 2))]


def _number(cursor: apsw.Cursor, builds: set[str]) -> int:
    listed = json.dumps(sorted(builds))
    cursor.execute(QUERIES["intern_refusal"], (listed,))
    number: int = fetch_value(cursor, QUERIES["find_refusal"], (listed,))
    return number


def _end(cursor: apsw.Cursor, last: Tail, epoch: int, payload: bytes, builds: Collection[str], now: int) -> Event:
    """Block a run that nobody is left for, or cancel it if that was asked for; ``payload`` is the drift's."""
    asked = asked_to_end(cursor, last.run_key)
    if asked is not None:
        return end_unheld(cursor, last, now, epoch, Status.CANCELLED, *asked)
    said = json.loads(payload)
    reason = str(said.get("reason", ""))
    if len(builds) > 1:
        reason += f" (no build is left for it: {', '.join(sorted(builds))} have all refused it)"
    blocked = json.dumps({"code": said.get("code"), "reason": reason}).encode()
    return end_unheld(cursor, last, now, epoch, Status.BLOCKED, blocked, reason)


def stranded(cursor: apsw.Cursor) -> dict[int, set[str]]:
    """Claimable runs that every living worker of their route has refused, and by which builds."""
    refusals = {number: set(json.loads(builds)) for number, builds in fetch(cursor, QUERIES["refusals"])}
    found: dict[int, set[str]] = {}
    if not refusals:
        return found
    living: defaultdict[int, set[str]] = defaultdict(set)
    for route, build in fetch(cursor, QUERIES["living_routes"], (boot_id(), boot_now())):
        living[route].add(build)
    for route, builds in living.items():
        for number, refused in refusals.items():
            if builds <= refused:
                rows = fetch(cursor, QUERIES["refused_ready"], (route, number, _PAGE))
                found.update((run_key, refused) for (run_key,) in rows)
    return found


def block_stranded(cursor: apsw.Cursor, seen: Collection[int], *, now: int) -> None:
    """Block those of ``seen`` that are stranded, inside the caller's transaction."""
    for run_key, builds in stranded(cursor).items():
        if run_key not in seen:
            continue
        epoch = fetch_value(cursor, QUERIES["refused_run"], (run_key,))
        drifts = fetch(cursor, QUERIES["last_drift"], (run_key,))
        try:
            _end(cursor, tail(cursor, run_key), epoch + 1, drifts[0][0] if drifts else b"{}", builds, now)
        except DAMAGED as error:
            set_aside(cursor, run_key, error)


__all__ = ["block_stranded", "open_refusals", "refuse_run", "stranded"]
