"""Workers: who lives, what each serves, and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perdure import describe
from perdure.web.pages import Page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.web.asking import Asked
    from perdure.web.reading import Reader

SHOWN: Final = 20
"""Runs of a worker that are named."""
MOST: Final = 500
"""Workers that are shown, the latest."""


def workers_page(reader: Reader) -> Page:
    """Make the page. Where one namespace alone is shown, so are those that serve it or hold runs of it."""

    def read(asked: Asked) -> dict[str, Any]:
        store = asked.store
        now, signs, serving = store.now(), store.signs_of_life(), store.serving()
        rows = sorted(store.list_workers(), key=lambda one: -one.started_at)
        found = []
        for row in rows[:MOST]:
            keys = list(store.held(row.worker_key))
            held = store.get_runs(keys)
            routes = serving.get(row.worker_key, [])
            if reader.is_fixed:
                held = [one for one in held if one.namespace == asked.namespace]
                routes = [one for one in routes if one.namespace == asked.namespace]
                if not held and not routes:
                    continue
            sign = signs.get(row.worker_key)
            routes.sort(key=lambda one: (one.namespace, one.workflow, one.version, one.queue))
            found.append(describe.serving(row, sign, now, routes, held[:SHOWN], len(held)))
        return {"now": describe.instant(now), "workers": found, "more": max(0, len(rows) - MOST)}

    return Page(
        "/workers",
        "listWorkers",
        "The workers: who lives, what each serves, and what it holds.",
        read,
        "Workers",
        "workers.html",
        draw=_draw,
    )


def _draw(data: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    """Return workers with what they serve in few words: each serves every workflow of its from every queue of its."""
    return {
        "workers": [
            {
                **one,
                "workflows": sorted({(route["workflow"], route["version"]) for route in one["serves"]}),
                "queues": sorted({route["queue"] for route in one["serves"]}),
                "namespaces": sorted({route["namespace"] for route in one["serves"]}),
            }
            for one in data["workers"]
        ]
    }


__all__ = ["workers_page"]
