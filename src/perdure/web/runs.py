"""The list of runs, how many of them there are, and what became of them lately."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perdure import describe
from perdure.filtering import filter_of
from perdure.gantt import micros
from perdure.model.counting import counts
from perdure.model.places import cursor_of, place_at
from perdure.model.records import Status
from perdure.operations import codeless
from perdure.operations.holding import live_workers
from perdure.web import plots
from perdure.web.asking import Choices, Moment, Tags, Text, Whole
from perdure.web.lately import WINDOWS
from perdure.web.pages import Page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.store.protocol import Filter
    from perdure.web.asking import Asked, Parameter
    from perdure.web.lately import Lately

PAGE: Final = 50
"""Runs on a page."""
MOST: Final = 500
COUNTED: Final = 10_000
"""Runs that are counted at most where they have to be looked at one by one."""
FILTERS: Final = (
    "workflow", "version", "queue", "id_prefix", "created_after", "created_before", "ended_after", "ended_before",
    "error",
)  # fmt: skip
"""Parameters that are called as the filters of ``Engine.runs`` are."""


CHOSEN: Final[tuple[Parameter, ...]] = (
    Choices("status", tuple(status.word for status in Status)),
    Text("workflow", 200),
    Text("version", 200),
    Text("queue", 200),
    Text("id_prefix"),
    Text("error", 200),
    Tags("tag"),
    Moment("created_after"),
    Moment("created_before"),
    Moment("ended_after"),
    Moment("ended_before"),
)
"""What runs are chosen by."""


def where_of(namespace: str, query: Mapping[str, Any]) -> Filter:
    """Return which runs a page is asked for.

    Raises:
        DefinitionError: that can be true of no run.
    """
    return filter_of(
        namespace,
        status=query["status"] or None,
        tags=query["tag"] or None,
        **{name: query[name] for name in FILTERS},
    )


def asked_of(query: Mapping[str, Any]) -> dict[str, Any]:
    """Return what runs are chosen by as it stands in addresses and forms; instants as short as they can be exact."""
    tags = query["tag"] or {}
    asked: dict[str, Any] = {
        **{name: query[name] for name in FILTERS},
        "status": query["status"] or (),
        "tag": " ".join(f"{name}={value}" for name, value in tags.items()),
    }
    for name in ("created_after", "created_before", "ended_after", "ended_before"):
        if asked[name] is not None:
            is_round = asked[name].second == asked[name].microsecond == 0
            text = asked[name].isoformat(timespec="minutes" if is_round else "microseconds")
            asked[name] = text.replace("+00:00", "Z")
    return asked


def read(asked: Asked, lately: Lately) -> dict[str, Any]:
    """Return a page of runs, newest first; how many there are by status; and what became of runs lately."""
    store, query = asked.store, asked.query
    where = where_of(asked.namespace, query)
    after = None if query["after"] is None else place_at(query["after"], by_end=where.by_end)
    rows = store.list_runs(replace(where, after=after, limit=query["limit"] + 1))
    shown = rows[: query["limit"]]
    without = codeless(store, shown)
    alive = live_workers(store)
    counted = lately.count(store, replace(where, status=None), COUNTED)
    return {
        "now": describe.instant(store.now()),
        "runs": [
            {
                **describe.row(row, codeless=row.run_key in without),
                "abandoned": row.worker_key is not None and row.worker_key not in alive,
            }
            for row in shown
        ],
        "next": cursor_of(where.place(shown[-1]), by_end=where.by_end) if len(rows) > len(shown) else None,
        "counts": describe.counts(counts(counted, exact=sum(one.number for one in counted) < COUNTED)),
        "traffic": lately.of(store, asked.namespace, query["workflow"], (query["window"] or ("1h",))[-1]),
    }


def _draw(data: Mapping[str, Any], query: Mapping[str, Any]) -> dict[str, Any]:
    asked = asked_of(query)
    return {
        "statuses": [one.word for one in Status],
        "runs": [{**run, "took": _took(run)} for run in data["runs"]],
        "asked": asked,
        "filtered": any(asked.values()),
        "more": any(asked[name] for name in FILTERS if name not in {"workflow", "id_prefix", "error"}),
        "window": (query["window"] or ("1h",))[-1],
        "windows": list(WINDOWS),
        "plot": plots.draw(data["traffic"]["buckets"]),
    }


def _took(run: Mapping[str, Any]) -> float | None:
    """Return how long a run took, in seconds; None if it goes on."""
    return None if run["ended_at"] is None else (micros(run["ended_at"]) - micros(run["created_at"])) / 1e6


def runs_page(lately: Lately) -> Page:
    """Make the page."""
    return Page(
        "/runs",
        "listRuns",
        "Runs of one kind, newest first; how many there are; and what became of runs lately.",
        partial(read, lately=lately),
        "Runs",
        "runs.html",
        parameters=(
            *CHOSEN,
            Choices("window", tuple(WINDOWS)),
            Text("after", 60),
            Whole("limit", least=1, most=MOST, default=PAGE),
        ),
        draw=_draw,
    )


__all__ = ["CHOSEN", "COUNTED", "asked_of", "runs_page", "where_of"]
