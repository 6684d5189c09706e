"""One run: where it is and why, what happened when, what it was given and what came of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perdure import describe, diagnosis, gantt
from perdure.gantt import micros
from perdure.operations import codeless
from perdure.operations.forking import family, list_forks
from perdure.operations.holding import live_workers
from perdure.store.protocol import Filter
from perdure.web.actions import possible
from perdure.web.asking import Whole
from perdure.web.logs import run_of
from perdure.web.pages import Page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.model.history import RunView
    from perdure.model.records import Event, RunRow
    from perdure.store.protocol import Store
    from perdure.web.asking import Asked
    from perdure.web.logs import Logs

STEPS: Final = 100
"""Steps that are shown, the latest."""
EVENTS: Final = 100
"""Events that are shown, the latest."""
CHILDREN: Final = 100
FORKS: Final = 20
"""Children that are shown, the latest."""


def run_page(logs: Logs) -> Page:
    """Make the page."""

    def read(asked: Asked) -> dict[str, Any]:
        store = asked.store
        row = run_of(store, asked.about, asked.namespace)
        log = logs.of(store, row)
        workers = live_workers(store)
        holder = None if row.worker_key is None else workers.get(row.worker_key)
        with log.guard:
            view = window(log.view, asked.query["steps"])
            told = describe.run(
                row,
                log.told,
                view=view,
                holder=None if holder is None else describe.worker(holder, alive=True),
                codeless=row.run_key in codeless(store, [row]),
                forks=list_forks(store, row, FORKS),
            )
            found: dict[str, Any] = {
                "now": describe.instant(store.now()),
                "run": told,
                "counts": {
                    "steps": len(log.view.steps),
                    "children": len(log.view.children),
                    "claims": log.view.claims,
                    "crashes": log.view.crashes,
                    "events": log.view.seq,
                },
                "is_readable": log.is_readable,
                "is_held": holder is not None,
                "timeline": describe.timeline(log.timeline, set(view.steps)),
            }
        events = latest(store, row, log.view.seq, EVENTS)
        found["events"] = [describe.event(event) for event in events]
        found["why"] = describe.explanation(diagnosis.why(store, row.run_id, asked.namespace, read=logs.told))
        found["parent"] = _row(store, row.parent_key)
        found["family"] = _family(store, row, is_fork=told["forked_from"] is not None, has_forks=bool(told["forks"]))
        found["children"] = [
            describe.row(one)
            for one in store.list_runs(Filter(namespace=asked.namespace, limit=CHILDREN, parent=row.run_key))
        ]
        return found

    return Page(
        "/runs",
        "getRun",
        "A run: its status and why, steps, timeline, the end of its log, children and parent.",
        read,
        "RunPage",
        "run.html",
        of="run_id",
        parameters=(Whole("steps", least=1, most=10_000, default=STEPS),),
        draw=_draw,
    )


def _family(store: Store, row: RunRow, *, is_fork: bool, has_forks: bool) -> dict[str, Any] | None:
    """Return the tree of forks that a run is in; None if it is in none."""
    if not is_fork and not has_forks:
        return None
    kin, is_whole = family(store, row)
    return {
        "whole": is_whole,
        "runs": [
            {
                "run_id": one.row.run_id,
                "status": one.row.status.word,
                "created_at": describe.instant(one.row.created_at),
                "depth": one.depth,
                "step": one.step,
            }
            for one in kin
        ],
    }


def window(view: RunView, steps: int) -> RunView:
    """Return what a log says with the latest steps and children alone."""
    kept = list(view.steps.items())[-steps:]
    children = list(view.children.items())[-CHILDREN:]
    return replace(view, steps=dict(kept), children=dict(children))


def latest(store: Store, row: RunRow, seq: int, number: int) -> list[Event]:
    """Return the last events of a log."""
    return store.read_events(row.run_key, max(0, seq - number), number)


def _row(store: Store, run_key: int | None) -> dict[str, Any] | None:
    rows = [] if run_key is None else store.get_runs([run_key])
    return describe.row(rows[0]) if rows else None


def _draw(data: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    run = data["run"]
    end = run["ended_at"] or data["now"]
    return {
        "drawn": gantt.draw(data["timeline"], data["now"]),
        "took": (micros(end) - micros(run["created_at"])) / 1e6,
        "possible": possible(run["status"]),
        "rows": _rows(data),
    }


def _rows(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what is shown of the timeline: a row for each step, child, timer and signal."""
    steps = {one["key"]: one for one in data["run"]["steps"]}
    children = {one["key"]: one for one in data["run"]["children"]}
    keys = [lane["key"] for lane in data["timeline"]["lanes"]]
    kinds = {lane["key"]: lane["kind"] for lane in data["timeline"]["lanes"]}
    keys += [key for key in [*steps, *children] if key not in kinds]
    spans = {lane["key"]: lane["spans"] for lane in data["timeline"]["lanes"]}
    rows = []
    for key in keys:
        step, child = steps.get(key), children.get(key)
        kind = "step" if step is not None else "child" if child is not None else kinds[key]
        status = step["status"] if step is not None else child["status"] if child is not None else "completed"
        if status == "running" and step is not None and not data["is_held"]:
            status = "interrupted"
        last = spans.get(key, [])[-1:]
        took = step["took"] if step is not None else None
        if took is None and last and last[0]["end"] is not None and last[0]["kind"] != "backoff":
            took = (micros(last[0]["end"]) - micros(last[0]["start"])) / 1e6
        rows.append({"key": key, "kind": kind, "status": status, "step": step, "child": child, "took": took})
    return rows


__all__ = ["latest", "run_page", "window"]
