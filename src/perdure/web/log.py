"""A run's event log, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perdure import describe
from perdure.web.asking import Whole
from perdure.web.logs import run_of
from perdure.web.pages import Page

if TYPE_CHECKING:
    from perdure.web.asking import Asked

PAGE: Final = 200


def read(asked: Asked) -> dict[str, Any]:
    """Return events after a seq, or before one; by default the first."""
    store, query = asked.store, asked.query
    row = run_of(store, asked.about, asked.namespace)
    after, limit = query["after"] or 0, query["limit"]
    if query["before"] is not None:
        after = max(0, query["before"] - 1 - limit)
        limit = min(limit, max(query["before"] - 1, 0))
    events = store.read_events(row.run_key, after, limit + 1) if limit else []
    return {
        "now": describe.instant(store.now()),
        "run": describe.row(row),
        "events": [describe.event(event) for event in events[:limit]],
        "after": after,
        "next": events[limit - 1].seq if len(events) > limit > 0 else None,
    }


LOG = Page(
    "/log",
    "listEvents",
    "Events of a run's log, in order.",
    read,
    "Log",
    "log.html",
    of="run_id",
    parameters=(
        Whole("after"),
        Whole("before", least=1),
        Whole("limit", least=1, most=1000, default=PAGE),
    ),
)

__all__ = ["LOG"]
