"""Claiming runs: by route, then rank, suspects one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import IntegrityError
from perdure.model.queues import Ready
from perdure.model.records import FORMAT, Claim, Event, Kind, RunRow, Status
from perdure.store.creating import PRIORITY_WEIGHT, URGENT
from perdure.store.postgres import queues
from perdure.store.postgres.arrays import bigints, byteas
from perdure.store.postgres.log import set_aside, tail
from perdure.store.protocol import PAGE
from perdure.store.queueing import choose, without
from perdure.store.rows import run_row
from perdure.store.tails import DAMAGED, check_epoch, follow, tail_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.queues import Gate
    from perdure.store.postgres.queues import Seen
    from perdure.store.postgres.session import Session
    from perdure.store.queueing import Gated

SUSPECT = 2
"""Crashes in a row from which on a run is claimed alone."""

_Candidate = tuple[int, int, RunRow]
"""Rank, run key and row: sorts in the order of claiming."""


class Claiming:
    """One try of a worker to claim runs; done again it gives what an earlier try has claimed."""

    def __init__(self, worker_key: int, routes: Sequence[int], limit: int, *, facts: bytes, only: int | None) -> None:
        self._worker, self._limit = worker_key, limit
        self._all = routes
        self._routes = self._free = bigints(routes)
        """All routes, and those to queues without limits."""
        self._facts, self._only = facts, only
        self._seen: list[Seen] = []
        """Queues with limits."""
        self._now = 0
        self._given: int | None = None
        self._ready = self._due = self._refused = self._suspects = False
        self._open: list[int] = []
        """Sets of builds whose refused runs the worker may claim, as its own build is not among them."""
        self._ats: dict[int, int] = {}
        self.tried: list[tuple[int, int]] = []
        """Run key and epoch of what was about to be claimed."""

    def look(self, session: Session, now: int | None) -> bool:
        """Whether a claim would find anything; a hint, for which no lock is taken."""
        self._given = now
        found = session.fetch("look_for_claims", self._routes, now, self._worker)[0]
        self._now, ready, self._due, self._refused, self._suspects, self._open, limited = found
        self._ready, self._seen, self._free = ready, [], self._routes
        if limited and (ready or self._due or self._refused):
            self._seen = queues.look(session, self._all, self._worker, self._now)
        if not self._seen or self._only is not None:
            return bool(ready or self._due or self._refused)
        free = without(self._all, self._seen)
        self._free = bigints(free)
        self._ready = self._due = self._refused = self._suspects = False
        if free:
            found = session.fetch("look_for_claims", self._free, self._now, self._worker)[0]
            _, self._ready, self._due, self._refused, self._suspects, _, _ = found
        others = self._ready or self._due or self._refused
        return others or any(one.any_claimable for one in self._seen)

    def claim(self, session: Session) -> list[Claim]:
        """Take up to ``limit`` due runs, inside the caller's transaction."""
        if self.tried:
            found = find_claims(session, self._worker, self.tried)
            if found:
                return found
        gated: list[Gated] = []
        if self._seen:
            gated, self._now = queues.locked_gates(session, self._seen, self._worker, self._given)
        through: list[tuple[Gate, list[Ready]]] = []
        if self._only is not None:
            chosen, through = self._candidate(session, self._only, gated)
        elif gated:
            chosen, through = self._gated_candidates(session, gated)
        else:
            chosen = self._candidates(session)[: self._limit]
        histories = _histories(session, [key for _, key, _ in chosen])
        claims: list[Claim] = []
        for _, key, row in chosen:
            try:
                claims.append(self._seal(session, row, histories[key]))
            except DAMAGED as error:
                set_aside(session, key, error)
        self._write(session, [claim.row for claim in claims])
        taken = {claim.row.run_key for claim in claims}
        for gate, claimed in through:
            queues.note_claimed(session, gate, [one for one in claimed if one.run_key in taken], self._now)
        return claims

    def _candidates(self, session: Session) -> list[_Candidate]:
        """What is claimable of routes to queues without limits, and a suspect."""
        if self._due:
            session.change("promote_due", self._free, self._now, self._limit, PRIORITY_WEIGHT)
        found = session.fetch("claim_ready", self._free, self._limit, FORMAT, self._worker)
        listed = bigints(self._open)
        if self._refused:
            found += session.fetch("claim_refused", self._free, self._limit, FORMAT, self._worker, listed)
        if self._suspects:
            found += session.fetch("claim_suspect", self._free, FORMAT, self._worker, listed)
        return sorted(map(_candidate, found))

    def _gated_candidates(
        self, session: Session, gated: list[Gated]
    ) -> tuple[list[_Candidate], list[tuple[Gate, list[Ready]]]]:
        """The same where queues have limits; and of each of those what is to be claimed of it."""
        ungated: list[Ready] = []
        if self._ready or self._due or self._refused or self._suspects:
            ungated = [Ready(rank, key, None, False, row) for rank, key, row in self._candidates(session)]
        through: list[tuple[Gate, list[Ready]]] = []
        has_suspect = any(row.found.crashes >= SUSPECT for row in ungated)
        seen = {one.gate.row.queue_key: one for one in self._seen}
        for one in gated:
            found: list[Ready] = []
            if one.gate.room > 0:
                routes, was = bigints(one.routes), seen[one.gate.row.queue_key]
                if was.any_due:
                    session.change("promote_due", routes, self._now, self._limit, PRIORITY_WEIGHT)
                found = queues.candidates(session, one, self._worker, self._open, self._limit)
                if was.any_suspect and not has_suspect:
                    suspects = session.fetch("claim_suspect", routes, FORMAT, self._worker, bigints(self._open))
                    found += map(queues.candidate, suspects)
                    has_suspect = bool(suspects)
            through.append((one.gate, found))
        chosen, claimed = choose(ungated, through, self._limit)
        return [(one.rank, one.run_key, one.found) for one in chosen], claimed

    def _candidate(
        self, session: Session, run_key: int, gated: list[Gated]
    ) -> tuple[list[_Candidate], list[tuple[Gate, list[Ready]]]]:
        """One run, if it may be claimed; one that is to be cancelled needs no slot of its queue."""
        if self._due:
            session.change("promote_one", run_key, self._now, PRIORITY_WEIGHT)
        listed = bigints(self._open)
        found = session.fetch("claim_one", run_key, self._routes, FORMAT, self._worker, listed)
        if not found:
            return [], []
        chosen = _candidate(found[0])
        one = queues.candidate(found[0])
        gate = next((each.gate for each in gated if _leads_to(each, chosen[2])), None)
        if gate is None or one.rank <= URGENT:
            return [chosen], []
        return ([chosen], [(gate, [one])]) if gate.admits(one) else ([], [])

    def _seal(self, session: Session, row: RunRow, log: list[Event]) -> Claim:
        """What becomes of a run's row and log."""
        key, epoch = row.run_key, row.epoch + 1
        # A page less the event that the claim appends.
        complete = len(log) < PAGE
        _check_mark(session, row, log)
        check_epoch(key, row.epoch, log, complete=complete)
        last = tail_of(log[-1]) if complete else tail(session, key)
        event = follow(last, self._now, epoch, Kind.RUN_CLAIMED, self._facts)
        if complete:
            log.append(event)
        claimed = row._replace(
            status=Status.RUNNING, worker_key=self._worker, epoch=epoch, seq=event.seq, hash=event.hash,
            wake_at=None, reason=None,
        )  # fmt: skip
        self._ats[key] = event.at
        return Claim(claimed, log, complete)

    def _write(self, session: Session, rows: list[RunRow]) -> None:
        self.tried = [(row.run_key, row.epoch) for row in rows]
        if rows:
            session.change(
                "claim_runs",
                bigints([row.run_key for row in rows]),
                bigints([row.seq for row in rows]),
                bigints([self._ats[row.run_key] for row in rows]),
                bigints([row.epoch for row in rows]),
                byteas([row.hash for row in rows]),
                self._worker,
                self._facts,
            )


def find_claims(session: Session, worker_key: int, tried: Sequence[tuple[int, int]]) -> list[Claim]:
    """Return what a worker has claimed of what it tried to, where the answer was lost."""
    wanted = set(tried)
    held = map(run_row, session.fetch("held_rows", worker_key))
    rows = [row for row in held if (row.run_key, row.epoch) in wanted]
    histories = _histories(session, [row.run_key for row in rows])
    claims: list[Claim] = []
    for row in rows:
        log = histories[row.run_key]
        claims.append(Claim(row, log, len(log) < PAGE or log[-1].seq == row.seq))
    return claims


def _leads_to(gated: Gated, row: RunRow) -> bool:
    return (gated.gate.row.namespace, gated.gate.row.name) == (row.namespace, row.queue)


def _candidate(row: tuple[object, ...]) -> _Candidate:
    found = run_row(row)
    rank = row[26]
    assert isinstance(rank, int)
    return rank, found.run_key, found


def _check_mark(session: Session, row: RunRow, log: list[Event]) -> None:
    """Compare a log with what the run's row says of it."""
    seq = row.seq
    if 0 < seq <= len(log):
        found: bytes | None = log[seq - 1].hash
    else:
        marks = session.fetch("read_marks", row.run_key, seq, seq)
        found = marks[0][2] if marks else None
    if found != row.hash:
        raise IntegrityError(f"event {seq} is not the one that the run's row names", run_key=row.run_key, seq=seq)


def _histories(session: Session, run_keys: list[int]) -> dict[int, list[Event]]:
    """The first page of each log."""
    logs: dict[int, list[Event]] = {key: [] for key in run_keys}
    if run_keys:
        for event in map(Event._make, session.fetch("read_logs", bigints(run_keys), PAGE)):
            logs[event[0]].append(event)
        for log in logs.values():
            log.sort(key=lambda event: event.seq)
    return logs
