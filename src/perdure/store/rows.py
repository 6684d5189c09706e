"""Rows as records: the one place that knows the order of columns, which every store's queries keep."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from perdure.model.records import Event, InboxRow, RunRow, Status, WorkerRow
from perdure.store.protocol import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Row = tuple[Any, ...]

_run_row: Callable[[Row], RunRow] = partial(tuple.__new__, RunRow)

event_of: Callable[[Row], Event] = partial(tuple.__new__, Event)
"""A row of a log; a named tuple's own constructor is a Python function."""

_STATUS = {int(status): status for status in Status}


def run_row(row: Row) -> RunRow:
    """A row of the ``run_rows`` view."""
    return _run_row((*row[:7], _STATUS[row[7]], *row[8:26]))


def events(rows: Iterable[Row]) -> list[Event]:
    """Rows of ``read_events``."""
    return list(map(event_of, rows))


def inbox_row(row: Row) -> InboxRow:
    """A row of ``unread`` without its counter."""
    return InboxRow(*row)


def worker_row(row: Row) -> WorkerRow:
    """A row of ``list_workers``."""
    return WorkerRow(*row[:12], row[12] == 1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def by_worker(rows: Iterable[Row]) -> dict[int, list[Route]]:
    """Rows of ``served``: the routes that each worker serves."""
    found: dict[int, list[Route]] = {}
    for key, namespace, queue, workflow, version in rows:
        found.setdefault(key, []).append(Route(workflow, version, queue, namespace))
    return found
