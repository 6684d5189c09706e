"""Which builds have the code for what: runs that builds refuse, and what is then left."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from perdure.model.records import Event, Kind, Status
from perdure.store import rows
from perdure.store.postgres.arrays import bigints, texts
from perdure.store.postgres.log import append, asked_to_end, end_unheld, make_claimable, set_aside, tail
from perdure.store.tails import DAMAGED, tail_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from perdure.store.postgres.session import Session
    from perdure.store.tails import Tail

_PAGE: Final = 1000
"""Stranded runs looked at per route and set of builds at a time."""


def living(session: Session, route: int) -> set[str]:
    """Builds of the living workers that serve a route."""
    return {build for (build,) in session.fetch("living_builds", route)}


def refuse_run(session: Session, run_key: int, epoch: int, build: str, payload: bytes) -> list[Event]:
    """End a run's hold because ``build`` cannot go on with it: leave it to other builds, or block it."""
    found = session.fetch("refused_runs", bigints([run_key]))
    if not found:
        return []
    _, current, held, route, crashes, refused, now = found[0]
    if not held or current != epoch:
        return _refused_before(session, run_key, epoch, payload)
    try:
        drift = append(session, tail(session, run_key), now, epoch, Kind.DRIFT_FOUND, payload)
    except DAMAGED as error:
        set_aside(session, run_key, error)
        return []
    builds = {build, *(refused or ())}
    session.change("refuse", run_key, _number(session, builds))
    if living(session, route) - builds and asked_to_end(session, run_key) is None:
        last = append(session, tail_of(drift), now, epoch + 1, Kind.RUN_RELEASED)
        make_claimable(session, [last], [crashes])
    else:
        last = _end(session, tail_of(drift), epoch + 1, payload, builds, now)
    return [drift, last]


def _refused_before(session: Session, run_key: int, epoch: int, payload: bytes) -> list[Event]:
    """What this very refusal has appended, if it is there already."""
    found = session.fetch("find_drift", run_key, epoch, payload)
    return rows.events(session.fetch("read_events", run_key, found[0][0] - 1, 2)) if found else []


def _number(session: Session, builds: set[str]) -> int:
    listed = texts(sorted(builds))
    session.change("intern_refusal", listed)
    number: int = session.fetch_value("find_refusal", listed)
    return number


def _end(session: Session, last: Tail, epoch: int, payload: bytes, builds: Collection[str], now: int) -> Event:
    """Block a run that nobody is left for, or cancel it if that was asked for; ``payload`` is the drift's."""
    asked = asked_to_end(session, last.run_key)
    if asked is not None:
        return end_unheld(session, last, now, epoch, Status.CANCELLED, *asked)
    said = json.loads(payload)
    reason = str(said.get("reason", ""))
    if len(builds) > 1:
        reason += f" (no build is left for it: {', '.join(sorted(builds))} have all refused it)"
    blocked = json.dumps({"code": said.get("code"), "reason": reason}).encode()
    return end_unheld(session, last, now, epoch, Status.BLOCKED, blocked, reason)


def stranded(session: Session) -> dict[int, set[str]]:
    """Claimable runs that every living worker of their route has refused, and by which builds."""
    refusals = {number: set(builds) for number, builds in session.fetch("refusals")}
    found: dict[int, set[str]] = {}
    if not refusals:
        return found
    living: defaultdict[int, set[str]] = defaultdict(set)
    for route, build in session.fetch("living_routes"):
        living[route].add(build)
    for route, builds in living.items():
        for number, refused in refusals.items():
            if builds <= refused:
                ready = session.fetch("refused_ready", route, number, _PAGE)
                found.update((run_key, refused) for (run_key,) in ready)
    return found


def block_stranded(session: Session, seen: Collection[int]) -> None:
    """Block those of ``seen`` that are stranded, inside the caller's transaction."""
    locked = session.fetch("refused_runs", bigints(sorted(seen)))
    # Looked for again now that they are locked: nobody claims them any more.
    still = stranded(session)
    for run_key, epoch, _, _, _, _, now in locked:
        if run_key not in still:
            continue
        drifts = session.fetch("last_drift", run_key)
        try:
            payload = drifts[0][0] if drifts else b"{}"
            _end(session, tail(session, run_key), epoch + 1, payload, still[run_key], now)
        except DAMAGED as error:
            set_aside(session, run_key, error)


__all__ = ["block_stranded", "refuse_run", "stranded"]
