"""The runs of a store and their events as plain text, for whoever reads a failing test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure import describe
from perdure.model import payloads
from perdure.model.durations import to_datetime
from perdure.model.history import fold
from perdure.model.records import Kind
from perdure.store.protocol import Filter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.model.records import Event, RunRow
    from perdure.store.protocol import Store

RUNS, EVENTS = 10, 60
"""How much people read: so many runs, the oldest ones, and of each so many events, the last ones."""


def tell(store: Store) -> str:
    """Return the runs, oldest first, with their events."""
    found = (store.list_runs(Filter(namespace=name, limit=1000)) for name in store.list_namespaces())
    rows = sorted((row for page in found for row in page), key=lambda row: row.run_key)
    lines = [line for row in rows[:RUNS] for line in _run(store, row)]
    if len(rows) > RUNS:
        lines.append(f"and {len(rows) - RUNS} more runs")
    return "\n".join(lines)


def _run(store: Store, row: RunRow) -> Iterator[str]:
    events: list[Event] = []
    while page := store.read_events(row.run_key, events[-1].seq if events else 0):
        events += page
    awaits = ", ".join(fold(events).awaits) if events else ""
    yield f"{row.workflow} {row.run_id}: {row.status.word}{' for ' + awaits if awaits else ''}"
    for event in events[-EVENTS:]:
        attempt = f" attempt {event.attempt}" if (event.attempt or 0) > 1 else ""
        at = to_datetime(event.at).isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
        yield f"{event.seq:5}  {at}  {event.word:15} {event.key or ''}{attempt}{_failure(event)}".rstrip()


def _failure(event: Event) -> str:
    if event.kind not in {Kind.STEP_FAILED, Kind.RUN_FAILED}:
        return ""
    failure = describe.failure(payloads.failure_of(event.payload))
    return "" if failure is None else f"  {failure['line']}"


__all__ = ["tell"]
