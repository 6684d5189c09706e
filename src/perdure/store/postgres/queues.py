"""Queues: what their limits let through, counted under a lock on each, so that they hold together across processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.model.builds import is_superseded
from perdure.model.deeds import QUEUE
from perdure.model.queues import Gate, Held, QueueRow, QueueUsage, Ready, next_turn, opens_at
from perdure.model.records import FORMAT
from perdure.store.postgres.arrays import bigints, texts
from perdure.store.postgres.deeds import record_deed
from perdure.store.postgres.words import ask, tell
from perdure.store.queueing import COLUMNS, COUNTED, Gated, definition, held_by_queue, queue_row
from perdure.store.rows import run_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.deeds import Deed
    from perdure.store.postgres.session import Session
    from perdure.store.postgres.words import Ask, Words
    from perdure.store.rows import Row


# -- what is let through


class Seen(NamedTuple):
    """A queue with limits as it was seen without a lock, so a hint; ``gate`` knows no partition keys."""

    gate: Gate
    routes: tuple[int, ...]
    is_ahead: bool
    """Whether a run has begun in the future, by a clock that was set back since."""
    any_ready: bool
    any_begun: bool
    """Whether a claimable run has been claimed before."""
    any_due: bool
    any_suspect: bool

    @property
    def any_claimable(self) -> bool:
        """Whether a claim may find anything in it."""
        gate = self.gate
        if gate.room < 1:
            return False
        makes_up = gate.fresh < 1 and self.is_ahead
        return makes_up or self.any_due or self.any_suspect or self.any_begun or (self.any_ready and gate.fresh > 0)


def look(routes: Sequence[int], worker_key: int, now: int) -> Words[list[Seen]]:
    """What the queues of these routes that have limits may let a worker claim now."""
    seen: list[Seen] = []
    for row in (yield ask("look_at_queues", bigints(routes), worker_key, now)):
        of_queue, runs, mine, begun, *rest = row[COLUMNS:]
        held = [Held(worker_key, None, mine), Held(-1, None, runs - mine)]
        seen.append(Seen(Gate(queue_row(row), worker_key, held, begun), tuple(of_queue), *rest))
    return seen


def locked_gates(seen: Sequence[Seen], worker_key: int, given: int | None) -> Words[tuple[list[Gated], int]]:
    """What queues let a worker claim: until the transaction ends nobody else claims from them. And the instant.

    Unless that is given, it is read once they are locked: what is noted later is never earlier.
    """
    keys = bigints([one.gate.row.queue_key for one in seen])
    of_queue = {one.gate.row.queue_key: one.routes for one in seen}
    # Counted by a later statement, which sees what others have claimed before they let the lock go.
    locked = [*map(queue_row, (yield ask("lock_queues", keys)))]
    now: int = (yield ask("clock"))[0][0] if given is None else given
    held = held_by_queue((yield ask("held_of_queues", keys)))
    gated: list[Gated] = []
    for row in locked:
        begun = yield from _begun(row, now)
        gated.append(Gated(Gate(row, worker_key, held.get(row.queue_key, ()), begun), of_queue[row.queue_key]))
    return gated, now


def _begun(row: QueueRow, now: int) -> Words[int]:
    if row.limits.starts is None or row.limits.period is None:
        return 0
    begun: int = (yield ask("count_starts", row.queue_key, now - row.limits.period))[0][0]
    return begun


def candidates(gated: Gated, worker_key: int, refusals: Sequence[int], limit: int) -> Words[list[Ready]]:
    """Lock what is claimable of a queue, as much of it as could be let through; suspects are not among it."""
    gate, room, routes = gated.gate, min(gated.gate.room, limit), bigints(gated.routes)

    def look(query: str, many: int, *more: Any) -> Ask:
        return ask(query, routes, many, FORMAT, worker_key, *more)

    if gate.row.limits.per_partition is not None:
        many, full = min(gate.row.limits.per_partition, room), texts(gate.full)
        wanted = room + len(gate.full)
        found = yield look("gated_parts", many, gate.row.turn, wanted, full)
        if gate.row.turn and len({row[17] for row in found}) < wanted:
            found += yield look("gated_parts", many, "", wanted, full)
        found += yield look("gated_whole", room)
    elif gate.fresh >= room:
        found = yield look("gated_ready", room)
    else:
        found = yield look("gated_new", gate.fresh)
    if gate.fresh < room:
        found += yield look("gated_begun", room + len(gate.full))
    if refusals:
        found += yield look("claim_refused", room, bigints(refusals))
    return [candidate(row) for row in found]


def candidate(row: Row) -> Ready:
    """A run as claims find it, followed by its rank and whether it is new."""
    found = run_row(row)
    return Ready(row[26], found.run_key, found.partition, bool(row[27]), found)


def note_claimed(gate: Gate, claimed: Sequence[Ready], now: int) -> Words[None]:
    """Count what has been claimed of a queue."""
    row = gate.row
    if (turn := next_turn(row, claimed)) != row.turn:
        yield tell("turn_queue", row.queue_key, turn)
    if row.limits.starts is not None and row.limits.period is not None:
        begun = [one.run_key for one in claimed if one.is_new]
        if begun:
            yield tell("note_starts", row.queue_key, now, bigints(begun))
        yield tell("forget_starts", row.queue_key, now - row.limits.period)
        yield tell("set_back_starts", row.queue_key, now)


def rate_opens_at(session: Session, row: QueueRow, now: int) -> int | None:
    """When a queue's rate lets the next run begin; None: now, or it has none."""
    if row.limits.starts is None:
        return None
    return opens_at(row.limits, _latest(session, row), now)


def _latest(session: Session, row: QueueRow) -> list[int]:
    return [at for (at,) in session.fetch("latest_starts", row.queue_key, row.limits.starts or 0)]


# -- defining and looking


def define_queues(session: Session, rows: Sequence[QueueRow]) -> None:
    """Define queues, or define them anew, but for those whose definition is a younger one's."""
    for row in sorted(rows, key=lambda row: (row.namespace, row.name)):
        found = session.fetch("find_queue", row.namespace, row.name)
        if not found or not is_superseded(queue_row(found[0]), row):
            session.change("define_queue", *definition(row))


def pause_queue(session: Session, name: str, namespace: str, deed: Deed | None, *, paused: bool) -> bool:
    """Claim nothing more from a queue, or claim from it again; whether that is a change."""
    found = session.fetch("find_queue", namespace, name)
    if (queue_row(found[0]).paused if found else False) == paused:
        return False
    session.change("pause_queue", namespace, name, int(paused))
    if deed is not None:
        record_deed(session, QUEUE, name, namespace, deed)
    return True


def list_queues(session: Session, namespace: str, now: int) -> list[QueueUsage]:
    """The queues of a namespace by name, and how much of each is in use."""
    found: list[QueueUsage] = []
    for row in map(queue_row, session.fetch("list_queues", namespace)):
        held, waiting = session.fetch("queue_counts", namespace, row.name, COUNTED)[0]
        found.append(QueueUsage(row, held, waiting, session.hear(_begun(row, now)), rate_opens_at(session, row, now)))
    return found
