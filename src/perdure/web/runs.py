"""The list of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perdure import describe
from perdure.model.records import Status
from perdure.operations import codeless
from perdure.operations.holding import live_workers
from perdure.store.protocol import Filter
from perdure.web.asking import Choices, Tags, Text, Whole
from perdure.web.pages import Page
from perdure.web.rendering import micros

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.web.asking import Asked

PAGE: Final = 50
"""Runs on a page."""
MOST: Final = 500


def read(asked: Asked) -> dict[str, Any]:
    """Return a page of runs, newest first."""
    store, query = asked.store, asked.query
    where = Filter(
        tuple(Status[word.upper()] for word in query["status"] or ()) or None,
        query["workflow"],
        asked.namespace,
        query["after"],
        query["limit"] + 1,
        tags=tuple((query["tag"] or {}).items()),
    )
    rows = store.list_runs(where)
    shown = rows[: query["limit"]]
    without = codeless(store, shown)
    alive = live_workers(store)
    return {
        "now": describe.instant(store.now()),
        "runs": [
            {
                **describe.row(row, codeless=row.run_key in without),
                "abandoned": row.worker_key is not None and row.worker_key not in alive,
            }
            for row in shown
        ],
        "next": shown[-1].run_key if len(rows) > len(shown) else None,
    }


def _draw(data: Mapping[str, Any], query: Mapping[str, Any]) -> dict[str, Any]:
    status, tags = query["status"] or (), query["tag"] or {}
    return {
        "statuses": [one.word for one in Status],
        "runs": [{**run, "took": _took(run)} for run in data["runs"]],
        "asked": {
            "status": status,
            "workflow": query["workflow"],
            "tag": " ".join(f"{name}={value}" for name, value in tags.items()),
            "filtered": bool(status or query["workflow"] or tags),
        },
    }


def _took(run: Mapping[str, Any]) -> float | None:
    """Return how long a run took, in seconds; None if it goes on."""
    return None if run["ended_at"] is None else (micros(run["ended_at"]) - micros(run["created_at"])) / 1e6


RUNS = Page(
    "/runs",
    "listRuns",
    "Runs of one kind, newest first.",
    read,
    "Runs",
    "runs.html",
    parameters=(
        Choices("status", tuple(status.word for status in Status)),
        Text("workflow", 200),
        Tags("tag"),
        Whole("after", least=1),
        Whole("limit", least=1, most=MOST, default=PAGE),
    ),
    draw=_draw,
)

__all__ = ["RUNS"]
