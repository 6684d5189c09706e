"""Claiming runs: by route, then rank, suspects one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perdure.errors import IntegrityError
from perdure.model.queues import Ready
from perdure.model.records import FORMAT, Claim, Event, Kind, RunRow, Status
from perdure.store.creating import PRIORITY_WEIGHT, URGENT
from perdure.store.postgres import queues
from perdure.store.postgres.arrays import bigints, byteas
from perdure.store.postgres.histories import histories
from perdure.store.postgres.log import setting_aside, the_tail
from perdure.store.postgres.words import BEGIN, COMMIT, ROLLBACK, ask, tell
from perdure.store.protocol import PAGE
from perdure.store.queueing import choose, without
from perdure.store.rows import event_of, run_row
from perdure.store.tails import DAMAGED, Tail, check_epoch, follow, tail_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.queues import Gate
    from perdure.store.postgres.queues import Seen
    from perdure.store.postgres.words import Ask, Words
    from perdure.store.queueing import Gated
    from perdure.store.rows import Row

SUSPECT = 2
"""Crashes in a row from which on a run is claimed alone."""

EASY = 2000
"""Events of logs that are read without having somebody wait for them: more would keep the event loop from its work."""

_SEQ = 28
"""Where the columns of an event begin, in what is ready."""

_Candidate = tuple[int, int, RunRow]
"""Rank, run key and row: sorts in the order of claiming."""


class _TooMuch(Exception):
    """There is more to read than is good for an event loop."""


class Plain(NamedTuple):
    """What a worker claims from if nothing but what is ready matters, as it was when it last claimed.

    Attributes:
        routes: all of the worker's.
        free: those to queues without limits.
        gated: the others, of which there was nothing to claim.
        limiting: keys of all queues that had limits.
    """

    routes: Sequence[int]
    free: Sequence[int]
    gated: Sequence[int]
    limiting: Sequence[int]


class Claiming:
    """One try of a worker to claim runs; done again it gives what an earlier try has claimed.

    Attributes:
        worker: its key.
        tried: run key and epoch of what was about to be claimed.
        plain: what is ready is locked at once, if this still holds; what to go by the next time.
    """

    def __init__(self, worker_key: int, routes: Sequence[int], limit: int, *, facts: bytes, only: int | None) -> None:
        self.worker, self._limit = worker_key, limit
        self._all = routes
        self._routes = self._free = bigints(routes)
        """All routes, and those to queues without limits."""
        self._facts, self._only = facts, only
        self._seen: list[Seen] = []
        """Queues with limits."""
        self._now = 0
        self._given: int | None = None
        self._ready = self._due = self._refused = self._suspects = False
        self._limiting: list[int] = []
        self._open: list[int] = []
        """Sets of builds whose refused runs the worker may claim, as its own build is not among them."""
        self._ats: dict[int, int] = {}
        self._locked: list[Row] | None = None
        """What is ready, if it is locked already."""
        self._logs: dict[int, list[Event]] = {}
        """Logs that came with what is ready."""
        self.tried: list[tuple[int, int]] = []
        self.plain: Plain | None = None

    def talk(self, now: int | None) -> Words[list[Claim] | None]:
        """Look and claim without anybody who waits; None if that is too much to read, or others would wait."""
        plain = self.plain
        if plain is None or plain.routes != self._all or not (yield from self._guess(plain, now)):
            found = yield from self.look(now)
            self.plain = self._how_plain()
            if not found:
                return []
            if self.locks_queues:
                return None
            yield BEGIN
        try:
            claims = yield from self.claim(most=EASY)
        except _TooMuch:
            _ = yield ROLLBACK
            return None
        _ = yield COMMIT
        return claims

    def _guess(self, plain: Plain, now: int | None) -> Words[bool]:
        """Lock what is ready before it is known whether that is all that matters; False, with no lock, if it is not."""
        self._given, self._free = now, bigints(plain.free)
        yield tell("look_for_claims", self._free, now, self.worker)
        if plain.gated:
            yield tell("look_for_claims", bigints(plain.gated), now, self.worker)
        yield BEGIN
        seen, *found = yield self._ask_for_ready()
        self._see(seen)
        is_gated_ready = bool(plain.gated) and any(found.pop(0)[1:5])
        if is_gated_ready or not self._is_all_ready or self._limiting != plain.limiting:
            _ = yield ROLLBACK
            return False
        self._locked = found
        return True

    def _ask_for_ready(self) -> Ask:
        return ask("claim_ready", self._free, self._limit, FORMAT, self.worker, PAGE)

    def _see(self, found: Row) -> None:
        """Take in what there is to claim."""
        self._now, self._ready, self._due, self._refused, self._suspects, self._open, self._limiting = found

    @property
    def _is_all_ready(self) -> bool:
        """Whether what there is is ready."""
        return self._ready and not (self._due or self._refused or self._suspects)

    def _how_plain(self) -> Plain | None:
        if not self._is_all_ready or any(one.any_ready or one.any_due or one.any_suspect for one in self._seen):
            return None
        gated = [route for one in self._seen for route in one.routes]
        return Plain(self._all, without(self._all, self._seen), gated, self._limiting)

    def look(self, now: int | None) -> Words[bool]:
        """Whether a claim would find anything; a hint, for which no lock is taken."""
        self._given, self._seen, self._free = now, [], self._routes
        self._see((yield ask("look_for_claims", self._routes, now, self.worker))[0])
        ready = self._ready
        if self._limiting and (ready or self._due or self._refused):
            self._seen = yield from queues.look(self._all, self.worker, self._now)
        if not self._seen or self._only is not None:
            return bool(ready or self._due or self._refused)
        free = without(self._all, self._seen)
        self._free = bigints(free)
        self._ready = self._due = self._refused = self._suspects = False
        if free:
            found = (yield ask("look_for_claims", self._free, self._now, self.worker))[0]
            _, self._ready, self._due, self._refused, self._suspects, _, _ = found
        others = self._ready or self._due or self._refused
        return others or self.locks_queues

    @property
    def locks_queues(self) -> bool:
        """Whether a claim keeps others from claiming until it ends, as it locks queues with limits."""
        return any(one.any_claimable for one in self._seen)

    def claim(self, *, most: int | None = None) -> Words[list[Claim]]:
        """Take up to ``limit`` due runs, inside a transaction.

        Args:
            most: so many events may be read.

        Raises:
            _TooMuch: there are more; nothing was written.
        """
        if self.tried:
            found = yield from find_claims(self.worker, self.tried)
            if found:
                return found
        self._logs = {}
        gated: list[Gated] = []
        # What no claim would find anything in is neither locked nor counted.
        seen = [one for one in self._seen if self._only is not None or one.any_claimable]
        if seen:
            gated, self._now = yield from queues.locked_gates(seen, self.worker, self._given)
        through: list[tuple[Gate, list[Ready]]] = []
        if self._only is not None:
            chosen, through = yield from self._candidate(self._only, gated)
        elif gated:
            chosen, through = yield from self._gated_candidates(gated)
        else:
            chosen = (yield from self._candidates())[: self._limit]
        if most is not None and sum(row.seq for _, _, row in chosen) > most:
            raise _TooMuch
        logs = self._logs
        logs |= yield from histories([key for _, key, _ in chosen if key not in logs])
        claims: list[Claim] = []
        for _, key, row in chosen:
            try:
                claims.append((yield from self._seal(row, logs[key])))
            except DAMAGED as error:
                yield setting_aside(key, error)
        yield from self._write([claim.row for claim in claims])
        taken = {claim.row.run_key for claim in claims}
        for gate, claimed in through:
            yield from queues.note_claimed(gate, [one for one in claimed if one.run_key in taken], self._now)
        return claims

    def _candidates(self) -> Words[list[_Candidate]]:
        """What is claimable of routes to queues without limits, and a suspect."""
        if self._due:
            yield tell("promote_due", self._free, self._now, self._limit, PRIORITY_WEIGHT)
        found, self._locked = self._locked, None
        if found is None:
            found = yield self._ask_for_ready()
        rows = {row[0]: row for row in found}
        for row in found:
            if row[_SEQ] is not None:
                self._logs.setdefault(row[0], []).append(event_of((row[0], *row[_SEQ:])))
        found = list(rows.values())
        listed = bigints(self._open)
        if self._refused:
            found += yield ask("claim_refused", self._free, self._limit, FORMAT, self.worker, listed)
        if self._suspects:
            found += yield ask("claim_suspect", self._free, FORMAT, self.worker, listed)
        return sorted(map(_candidate, found))

    def _gated_candidates(self, gated: list[Gated]) -> Words[tuple[list[_Candidate], list[tuple[Gate, list[Ready]]]]]:
        """The same where queues have limits; and of each of those what is to be claimed of it."""
        ungated: list[Ready] = []
        if self._ready or self._due or self._refused or self._suspects:
            ungated = [Ready(rank, key, None, False, row) for rank, key, row in (yield from self._candidates())]
        through: list[tuple[Gate, list[Ready]]] = []
        has_suspect = any(row.found.crashes >= SUSPECT for row in ungated)
        seen = {one.gate.row.queue_key: one for one in self._seen}
        for one in gated:
            found: list[Ready] = []
            if one.gate.room > 0:
                routes, was = bigints(one.routes), seen[one.gate.row.queue_key]
                if was.any_due:
                    yield tell("promote_due", routes, self._now, self._limit, PRIORITY_WEIGHT)
                found = yield from queues.candidates(one, self.worker, self._open, self._limit)
                if was.any_suspect and not has_suspect:
                    suspects = yield ask("claim_suspect", routes, FORMAT, self.worker, bigints(self._open))
                    found += map(queues.candidate, suspects)
                    has_suspect = bool(suspects)
            through.append((one.gate, found))
        chosen, claimed = choose(ungated, through, self._limit)
        return [(one.rank, one.run_key, one.found) for one in chosen], claimed

    def _candidate(
        self, run_key: int, gated: list[Gated]
    ) -> Words[tuple[list[_Candidate], list[tuple[Gate, list[Ready]]]]]:
        """One run, if it may be claimed; one that is to be cancelled needs no slot of its queue."""
        if self._due:
            yield tell("promote_one", run_key, self._now, PRIORITY_WEIGHT)
        listed = bigints(self._open)
        found = yield ask("claim_one", run_key, self._routes, FORMAT, self.worker, listed)
        if not found:
            return [], []
        chosen = _candidate(found[0])
        one = queues.candidate(found[0])
        gate = next((each.gate for each in gated if _leads_to(each, chosen[2])), None)
        if gate is None or one.rank <= URGENT:
            return [chosen], []
        return ([chosen], [(gate, [one])]) if gate.admits(one) else ([], [])

    def _seal(self, row: RunRow, log: list[Event]) -> Words[Claim]:
        """What becomes of a run's row and log."""
        key, epoch = row.run_key, row.epoch + 1
        # A page less the event that the claim appends.
        complete = len(log) < PAGE
        if (yield from _mark(row, log)) != row.hash:
            raise IntegrityError(f"event {row.seq} is not the one that the run's row names", run_key=key, seq=row.seq)
        check_epoch(key, row.epoch, log, complete=complete)
        last = tail_of(log[-1]) if complete else (yield from _tail(key))
        event = follow(last, self._now, epoch, Kind.RUN_CLAIMED, self._facts)
        if complete:
            log.append(event)
        claimed = row._replace(
            status=Status.RUNNING, worker_key=self.worker, epoch=epoch, seq=event.seq, hash=event.hash,
            wake_at=None, reason=None,
        )  # fmt: skip
        self._ats[key] = event.at
        return Claim(claimed, log, complete)

    def _write(self, rows: list[RunRow]) -> Words[None]:
        self.tried = [(row.run_key, row.epoch) for row in rows]
        if rows:
            yield tell("claim_runs", *self._columns(rows))

    def _columns(self, rows: list[RunRow]) -> tuple[object, ...]:
        return (
            bigints([row.run_key for row in rows]),
            bigints([row.seq for row in rows]),
            bigints([self._ats[row.run_key] for row in rows]),
            bigints([row.epoch for row in rows]),
            byteas([row.hash for row in rows]),
            self.worker,
            self._facts,
        )


def find_claims(worker_key: int, tried: Sequence[tuple[int, int]]) -> Words[list[Claim]]:
    """Return what a worker has claimed of what it tried to, where the answer was lost; inside a transaction."""
    wanted = set(tried)
    # The server may be at it still: whether it has claimed them is known once it has let go of their locks.
    yield ask("lock_runs", bigints(sorted(key for key, _ in wanted)), bigints([]))
    held = map(run_row, (yield ask("held_rows", worker_key)))
    rows = [row for row in held if (row.run_key, row.epoch) in wanted]
    logs = yield from histories([row.run_key for row in rows])
    claims: list[Claim] = []
    for row in rows:
        log = logs[row.run_key]
        claims.append(Claim(row, log, len(log) < PAGE or log[-1].seq == row.seq))
    return claims


def _leads_to(gated: Gated, row: RunRow) -> bool:
    return (gated.gate.row.namespace, gated.gate.row.name) == (row.namespace, row.queue)


def _candidate(row: tuple[object, ...]) -> _Candidate:
    found = run_row(row)
    rank = row[26]
    assert isinstance(rank, int)
    return rank, found.run_key, found


def _mark(row: RunRow, log: list[Event]) -> Words[bytes | None]:
    """The hash of the event in the log that the run's row names."""
    seq = row.seq
    if 0 < seq <= len(log):
        return log[seq - 1].hash
    marks = yield ask("read_marks", row.run_key, seq, seq)
    return marks[0][2] if marks else None


def _tail(run_key: int) -> Words[Tail]:
    found = yield ask("last_events", bigints([run_key]))
    return the_tail({row[0]: Tail(*row) for row in found}, run_key)
