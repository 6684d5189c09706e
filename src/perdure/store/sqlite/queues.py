"""Queues: what their limits let through, counted under the write lock, so that they hold together across processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from perdure.model.builds import is_superseded
from perdure.model.deeds import QUEUE
from perdure.model.queues import Gate, QueueRow, QueueUsage, Ready, next_turn, opens_at
from perdure.model.records import FORMAT
from perdure.store.queueing import COLUMNS, COUNTED, Gated, definition, held_by_queue, queue_row
from perdure.store.sqlite.deeds import record_deed
from perdure.store.sqlite.rows import fetch, fetch_value, json_list
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import apsw

    from perdure.model.deeds import Deed
    from perdure.store.sqlite.rows import Row


# -- what is let through


def limiting(cursor: apsw.Cursor, routes: Sequence[int]) -> list[tuple[QueueRow, tuple[int, ...]]]:
    """The queues of these routes that let not everything through, and the routes of each."""
    found = fetch(cursor, QUERIES["limiting_queues"], (json_list(routes),))
    return [(queue_row(row), tuple(json.loads(row[COLUMNS]))) for row in found]


def gates(cursor: apsw.Cursor, routes: Sequence[int], worker_key: int, now: int) -> list[Gated]:
    """What the queues of these routes that have limits let a worker claim now."""
    queues = limiting(cursor, routes)
    if not queues:
        return []
    held = held_by_queue(fetch(cursor, QUERIES["held_of_queues"]))
    return [
        Gated(Gate(row, worker_key, held.get(row.queue_key, ()), _begun(cursor, row, now)), of_queue)
        for row, of_queue in queues
    ]


def _begun(cursor: apsw.Cursor, row: QueueRow, now: int) -> int:
    if row.limits.starts is None or row.limits.period is None:
        return 0
    begun: int = fetch_value(cursor, QUERIES["count_starts"], (row.queue_key, now - row.limits.period))
    return begun


def candidates(cursor: apsw.Cursor, gated: Gated, refusals: Sequence[int], limit: int) -> list[Ready]:
    """What is claimable of a queue, as much of it as could be let through; suspects are not among it."""
    gate, room = gated.gate, min(gated.gate.room, limit)
    found: list[Ready] = []
    if room < 1:
        return found
    for route in gated.routes:
        if gate.row.limits.per_partition is not None:
            found += _parts(cursor, gate, route, room)
        elif gate.fresh >= room:
            found += _rows(cursor, "gated_ready", route, room)
        else:
            found += _rows(cursor, "gated_new", route, gate.fresh)
        if gate.fresh < room:
            found += _rows(cursor, "gated_begun", route, room + len(gate.full))
        for refusal in refusals:
            found += _rows(cursor, "gated_refused", route, room, refusal)
    return found


def _parts(cursor: apsw.Cursor, gate: Gate, route: int, room: int) -> Iterator[Ready]:
    most = gate.row.limits.per_partition
    assert most is not None
    wanted = room + len(gate.full)
    keys = [key for (key,) in fetch(cursor, QUERIES["partitions_after"], (route, gate.row.turn, wanted))]
    if len(keys) < wanted and gate.row.turn:
        keys += (key for (key,) in fetch(cursor, QUERIES["partitions_after"], (route, "", wanted - len(keys))))
    for key in dict.fromkeys(keys).keys() - gate.full:
        yield from _rows(cursor, "gated_part", route, min(most, room), key)
    yield from _rows(cursor, "gated_whole", route, room)


def _rows(cursor: apsw.Cursor, query: str, route: int, limit: int, *more: Any) -> list[Ready]:
    return [candidate(row) for row in fetch(cursor, QUERIES[query], (route, limit, FORMAT, *more))]


def candidate(row: Row) -> Ready:
    """A row that begins with rank and key and ends with the partition key and whether the run is new."""
    return Ready(row[0], row[1], row[-2], bool(row[-1]), row[:5])


def any_claimable(cursor: apsw.Cursor, gated: Gated, refusals: Sequence[int], now: int) -> bool:
    """Whether a claim would find anything in a queue with limits."""
    if gated.gate.room < 1:
        return False
    if gated.gate.fresh < 1 and (latest := _latest(cursor, gated.gate.row)) and latest[0] > now:
        return True  # there is a clock to be made up for
    if fetch_value(cursor, QUERIES["any_due"], (json_list(gated.routes), now)):
        return True
    return any(gated.gate.admits(one) for one in candidates(cursor, gated, refusals, 1))


def note_claimed(cursor: apsw.Cursor, gate: Gate, claimed: Sequence[Ready], now: int) -> None:
    """Count what has been claimed of a queue, if anything."""
    row = gate.row
    if (turn := next_turn(row, claimed)) != row.turn:
        cursor.execute(QUERIES["turn_queue"], (row.queue_key, turn))
    if row.limits.starts is not None and row.limits.period is not None:
        begun = [(row.queue_key, now, one.run_key) for one in claimed if one.is_new]
        cursor.executemany(QUERIES["note_start"], begun)
        cursor.execute(QUERIES["forget_starts"], (row.queue_key, now - row.limits.period))
        cursor.execute(QUERIES["set_back_starts"], (row.queue_key, now))


def rate_opens_at(cursor: apsw.Cursor, row: QueueRow, now: int) -> int | None:
    """When a queue's rate lets the next run begin; None: now, or it has none."""
    if row.limits.starts is None:
        return None
    return opens_at(row.limits, _latest(cursor, row), now)


def _latest(cursor: apsw.Cursor, row: QueueRow) -> list[int]:
    return [at for (at,) in fetch(cursor, QUERIES["latest_starts"], (row.queue_key, row.limits.starts or 0))]


# -- defining and looking


def define_queues(cursor: apsw.Cursor, rows: Sequence[QueueRow]) -> None:
    """Define queues, or define them anew, but for those whose definition is a younger one's."""
    for row in rows:
        found = fetch(cursor, QUERIES["find_queue"], (row.namespace, row.name))
        if not found or not is_superseded(queue_row(found[0]), row):
            cursor.execute(QUERIES["define_queue"], definition(row))


def pause_queue(cursor: apsw.Cursor, name: str, namespace: str, deed: Deed | None, *, paused: bool) -> bool:
    """Claim nothing more from a queue, or claim from it again; whether that is a change."""
    found = fetch(cursor, QUERIES["find_queue"], (namespace, name))
    if (queue_row(found[0]).paused if found else False) == paused:
        return False
    cursor.execute(QUERIES["pause_queue"], (namespace, name, paused))
    if deed is not None:
        record_deed(cursor, QUEUE, name, namespace, deed)
    return True


def list_queues(cursor: apsw.Cursor, namespace: str, now: int) -> list[QueueUsage]:
    """The queues of a namespace by name, and how much of each is in use."""
    held: dict[int, int] = dict(fetch(cursor, QUERIES["held_of_routes"]))
    found: list[QueueUsage] = []
    for row in map(queue_row, fetch(cursor, QUERIES["list_queues"], (namespace,))):
        routes = [route for (route,) in fetch(cursor, QUERIES["routes_of_queue"], (namespace, row.name))]
        waiting = sum(fetch_value(cursor, QUERIES["count_ready"], (route, COUNTED)) for route in routes)
        under_way = sum(held.get(route, 0) for route in routes)
        begun = _begun(cursor, row, now)
        found.append(QueueUsage(row, under_way, min(waiting, COUNTED), begun, rate_opens_at(cursor, row, now)))
    return found
