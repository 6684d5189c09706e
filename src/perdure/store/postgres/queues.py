"""Queues: what their limits let through, counted under a lock on each, so that they hold together across processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.model.queues import Gate, QueueRow, QueueUsage, Ready, is_superseded, next_turn, opens_at
from perdure.model.records import FORMAT
from perdure.store.postgres.arrays import bigints, texts
from perdure.store.queueing import COLUMNS, COUNTED, Gated, definition, held_by_queue, queue_row
from perdure.store.rows import run_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.store.postgres.session import Session
    from perdure.store.rows import Row


# -- what is let through


def gates(session: Session, routes: Sequence[int], worker_key: int, now: int) -> list[Gated]:
    """What the queues of these routes that have limits let a worker claim now; a hint, for which no lock is taken."""
    found = session.fetch("limiting_queues", bigints(routes))
    return _counted(session, [(queue_row(row), tuple(row[COLUMNS])) for row in found], worker_key, now)


def locked_gates(session: Session, routes: Sequence[int], worker_key: int, now: int) -> list[Gated]:
    """The same for a claim: until its transaction ends nobody else claims from these queues."""
    of_queue = {row[0]: tuple(row[COLUMNS]) for row in session.fetch("limiting_queues", bigints(routes))}
    if not of_queue:
        return []
    # Counted by later statements, which see what others have claimed before they let the lock go.
    locked = map(queue_row, session.fetch("lock_queues", bigints(list(of_queue))))
    return _counted(session, [(row, of_queue[row.queue_key]) for row in locked], worker_key, now)


def _counted(
    session: Session, queues: Sequence[tuple[QueueRow, tuple[int, ...]]], worker_key: int, now: int
) -> list[Gated]:
    if not queues:
        return []
    held = held_by_queue(session.fetch("held_of_queues", bigints([row.queue_key for row, _ in queues])))
    return [
        Gated(Gate(row, worker_key, held.get(row.queue_key, ()), _begun(session, row, now)), of_queue)
        for row, of_queue in queues
    ]


def _begun(session: Session, row: QueueRow, now: int) -> int:
    if row.limits.starts is None or row.limits.period is None:
        return 0
    begun: int = session.fetch_value("count_starts", row.queue_key, now - row.limits.period)
    return begun


def candidates(session: Session, gated: Gated, worker_key: int, refusals: Sequence[int], limit: int) -> list[Ready]:
    """Lock what is claimable of a queue, as much of it as could be let through; suspects are not among it."""
    gate, room, routes = gated.gate, min(gated.gate.room, limit), bigints(gated.routes)
    found: list[Row] = []

    def look(query: str, many: int, *more: Any) -> None:
        found.extend(session.fetch(query, routes, many, FORMAT, worker_key, *more))

    if gate.row.limits.per_partition is not None:
        many, full = min(gate.row.limits.per_partition, room), texts(gate.full)
        wanted = room + len(gate.full)
        look("gated_parts", many, gate.row.turn, wanted, full)
        if gate.row.turn and len({row[17] for row in found}) < wanted:
            look("gated_parts", many, "", wanted, full)
        look("gated_whole", room)
    elif gate.fresh >= room:
        look("gated_ready", room)
    else:
        look("gated_new", gate.fresh)
    if gate.fresh < room:
        look("gated_begun", room + len(gate.full))
    if refusals:
        look("claim_refused", room, bigints(refusals))
    return [candidate(row) for row in found]


def candidate(row: Row) -> Ready:
    """A run as claims find it, followed by its rank and whether it is new."""
    found = run_row(row)
    return Ready(row[26], found.run_key, found.partition, bool(row[27]), found)


def any_claimable(session: Session, gated: Gated, now: int) -> bool:
    """Whether a claim may find anything in a queue with limits."""
    gate, routes = gated.gate, bigints(gated.routes)
    if gate.room < 1:
        return False
    if gate.fresh < 1 and (latest := _latest(session, gate.row)) and latest[0] > now:
        return True  # there is a clock to be made up for
    if session.fetch_value("any_due", routes, now):
        return True
    any_ready, any_begun = session.fetch("any_gated", routes)[0]
    return bool(any_begun or (any_ready and gate.fresh > 0))


def note_claimed(session: Session, gate: Gate, claimed: Sequence[Ready], now: int) -> None:
    """Count what has been claimed of a queue."""
    row = gate.row
    if (turn := next_turn(row, claimed)) != row.turn:
        session.change("turn_queue", row.queue_key, turn)
    if row.limits.starts is not None and row.limits.period is not None:
        begun = [one.run_key for one in claimed if one.is_new]
        if begun:
            session.change("note_starts", row.queue_key, now, bigints(begun))
        session.change("forget_starts", row.queue_key, now - row.limits.period)
        session.change("set_back_starts", row.queue_key, now)


def outlook(session: Session, gated: Sequence[Gated], now: int) -> tuple[set[int], int | None]:
    """The routes of queues that are full, and when the first of those whose rate is used up lets the next run begin."""
    full: set[int] = set()
    opens: list[int] = []
    for gate, routes in gated:
        if gate.room < 1:
            full.update(routes)
        elif gate.fresh < 1 and (at := _opens_at(session, gate.row, now)) is not None:
            opens.append(at)
    return full, min(opens, default=None)


def _opens_at(session: Session, row: QueueRow, now: int) -> int | None:
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


def pause_queue(session: Session, name: str, namespace: str, *, paused: bool) -> bool:
    """Claim nothing more from a queue, or claim from it again; whether that is a change."""
    found = session.fetch("find_queue", namespace, name)
    if (queue_row(found[0]).paused if found else False) == paused:
        return False
    session.change("pause_queue", namespace, name, int(paused))
    return True


def list_queues(session: Session, namespace: str, now: int) -> list[QueueUsage]:
    """The queues of a namespace by name, and how much of each is in use."""
    found: list[QueueUsage] = []
    for row in map(queue_row, session.fetch("list_queues", namespace)):
        held, waiting = session.fetch("queue_counts", namespace, row.name, COUNTED)[0]
        found.append(QueueUsage(row, held, waiting, _begun(session, row, now), _opens_at(session, row, now)))
    return found
