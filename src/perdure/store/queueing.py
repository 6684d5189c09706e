"""Queues as rows: the one place that knows the order of their columns, which every store's queries keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from perdure.model.queues import Gate, Held, Limits, QueueRow, Ready, admitted, merged
from perdure.store.protocol import Outlook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Row = tuple[Any, ...]

COLUMNS: Final = 12
COUNTED: Final = 1000
"""Up to here the claimable runs of a queue are counted."""


class Gated(NamedTuple):
    """A queue that does not let everything through, and the routes of a worker that lead to it."""

    gate: Gate
    routes: tuple[int, ...]


def queue_row(row: Row) -> QueueRow:
    """The first columns of ``find_queue``, ``list_queues`` and ``limiting_queues``."""
    return QueueRow._make((*row[:3], Limits._make(row[3:8]), bool(row[8]), *row[9:COLUMNS]))


def definition(row: QueueRow) -> Row:
    """The values of ``define_queue``."""
    return (row.namespace, row.name, *row.limits, row.build, row.since)


def held_by_queue(rows: Iterable[Row]) -> dict[int, list[Held]]:
    """Rows of ``held_of_queues``, by queue."""
    held: dict[int, list[Held]] = {}
    for queue_key, *rest in rows:
        held.setdefault(queue_key, []).append(Held(*rest))
    return held


def choose(
    ungated: Iterable[Ready], through: Iterable[tuple[Gate, Sequence[Ready]]], limit: int
) -> tuple[list[Ready], list[tuple[Gate, list[Ready]]]]:
    """Return what is to be claimed: of all that is ready, and of each queue with limits, in the order of claiming."""
    groups = {-1: list(ungated)}
    gates = {gate.row.queue_key: gate for gate, _ in through}
    for gate, candidates in through:
        groups[gate.row.queue_key] = admitted(gate, candidates)
    chosen = merged(groups, limit)
    keys = {one.run_key for one in chosen}
    return chosen, [(gate, [one for one in groups[key] if one.run_key in keys]) for key, gate in gates.items()]


class Limited(Protocol):
    """A queue with limits, and the routes that lead to it."""

    @property
    def gate(self) -> Gate:
        """What it lets through."""
        ...

    @property
    def routes(self) -> tuple[int, ...]:
        """Its routes."""
        ...


def outlook(
    limited: Sequence[Limited],
    waiting: Callable[[set[int]], tuple[int | None, bool]],
    opens: Callable[[QueueRow], int | None],
) -> Outlook:
    """Return when there is something to claim next, as far as time decides it.

    Args:
        limited: the queues with limits.
        waiting: when the earliest run is due and whether a suspect is claimable, but for those of some routes.
        opens: when a queue's rate lets the next run begin.
    """
    full: set[int] = set()
    instants: list[int | None] = []
    for one in limited:
        if one.gate.room < 1:
            full.update(one.routes)
        elif one.gate.fresh < 1:
            instants.append(opens(one.gate.row))
    due, suspect = waiting(full)
    known = [at for at in (due, *instants) if at is not None]
    return Outlook(min(known, default=None), is_limited=bool(limited) or suspect)


def without(routes: Iterable[int], gated: Iterable[Limited]) -> list[int]:
    """The routes to queues without limits."""
    limited = {route for one in gated for route in one.routes}
    return [route for route in routes if route not in limited]


__all__ = [
    "COLUMNS",
    "COUNTED",
    "Gated",
    "Limited",
    "choose",
    "definition",
    "held_by_queue",
    "outlook",
    "queue_row",
    "without",
]
