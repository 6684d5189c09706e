"""Lists of runs, and their numbers: every index by route and status, and what is found by each put together."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from perdure.model.counting import Counted, Sampled, edges
from perdure.model.records import Status
from perdure.store import listing, sampling
from perdure.store.sqlite.rows import fetch, fetch_value, json_list
from perdure.store.sqlite.runs import get_runs
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

    from perdure.model.records import RunRow
    from perdure.store.listing import Found
    from perdure.store.protocol import Filter


def list_runs(cursor: apsw.Cursor, where: Filter) -> list[RunRow]:
    """A page of runs, newest first or latest ended first."""
    with _one_state(cursor):
        found = _find(cursor, where, list(_routes(cursor, where)), where.limit, listing.place(where))
        rows = get_runs(cursor, [key for _, key, _, _ in found])
    return [rows[key] for _, key, _, _ in found]


def count_runs(cursor: apsw.Cursor, where: Filter) -> list[Counted]:
    """How many runs there are, by workflow and status."""
    with _one_state(cursor):
        workflows = _routes(cursor, where)
        since, until = listing.span(where)
        if listing.is_counted_by_index(where):
            query = QUERIES["count_by_end" if where.by_end else "count_by_creation"]
            numbers = [
                (route, int(status), fetch_value(cursor, query, (route, int(status), since, until)))
                for route in workflows
                for status in listing.statuses(where)
            ]
        else:
            found = _find(cursor, where, list(workflows), -1, (until, 0))
            numbers = [(*kind, number) for kind, number in Counter((one[2], one[3]) for one in found).items()]
    return listing.counted(numbers, workflows)


def traffic(
    cursor: apsw.Cursor, since: int, until: int, buckets: int, workflow: str | None, namespace: str
) -> list[Sampled]:
    """What became of runs over time."""
    bounds = edges(since, until, buckets)
    spans = json.dumps(list(pairwise(bounds)))
    with _one_state(cursor):
        routes = json_list(
            route for route, _ in fetch(cursor, QUERIES["list_routes"], (namespace, workflow, None, None))
        )

        def among(query: str, statuses: tuple[Status, ...]) -> str:
            return json.dumps(fetch(cursor, QUERIES[query], (routes, json_list(map(int, statuses)), since, until)))

        created = fetch(cursor, QUERIES["created_in_buckets"], (among("created_between", tuple(Status)), spans))
        ended = [
            (bucket, route, status, number, waited or 0, taken or 0)
            for bucket, route, status, said in fetch(
                cursor, QUERIES["ended_in_buckets"], (among("ended_between", sampling.ENDED), spans)
            )
            for number, waited, taken in [json.loads(said)]
        ]
        latencies = fetch(cursor, QUERIES["sample_ended"], (json.dumps(sampling.wanted(bounds, ended)),))
    return sampling.sampled(len(bounds) - 1, created, ended, latencies)


@contextmanager
def _one_state(cursor: apsw.Cursor) -> Iterator[None]:
    """Read several times from one state of the database: no run is missed because its status changed in between."""
    cursor.execute(QUERIES["begin_reading"])
    try:
        yield
    finally:
        if not cursor.connection.getautocommit():
            cursor.execute(QUERIES["rollback"])


def _routes(cursor: apsw.Cursor, where: Filter) -> dict[int, str]:
    return dict(fetch(cursor, QUERIES["list_routes"], (where.namespace, where.workflow, where.version, where.queue)))


def _find(cursor: apsw.Cursor, where: Filter, routes: list[int], limit: int, place: tuple[int, int]) -> list[Found]:
    """Runs in their order after a place, up to a limit (-1: all of them)."""
    query, value = listing.way(
        where,
        lambda one: fetch_value(cursor, QUERIES["count_tag"], (*one, listing.FEW)),
        lambda low, high: fetch_value(cursor, QUERIES["count_prefix"], (where.namespace, low, high, listing.FEW)),
    )
    since, _ = listing.span(where)
    among = json_list(map(int, listing.statuses(where)))
    prefix = where.id_prefix
    rest: tuple[Any, ...] = (
        prefix or None, listing.beyond(prefix) if prefix else None, where.error, where.created_after,
        where.created_before, where.ended_after, where.ended_before, where.parent, among,
        json.dumps(where.tags) if where.tags else None,
    )  # fmt: skip
    if query in {"list_by_creation", "list_by_end"}:
        parts = [(route, int(status)) for route in routes for status in listing.statuses(where)]
    elif query == "list_by_error":
        parts = [(route, value) for route in routes]
    else:
        whole = -1 if query.startswith("list_of") else limit
        given = json.dumps(value) if query == "list_of_tag" else value
        more = (int(where.by_end),) if query.startswith("list_of") else ()
        found = fetch(cursor, QUERIES[query], (*place, since, whole, json_list(routes), given, *rest, *more))
        return _first(found, limit)
    text, best = QUERIES[query], list[Any]()
    for route, of in parts:
        found = fetch(cursor, text, (*place, since, limit, route, of, *rest))
        if found:
            best = _first(best + found, limit)
            if len(best) == limit:
                since = best[-1][0]  # what is older comes too late
    return best


def _first(found: list[Any], limit: int) -> list[Any]:
    found.sort(reverse=True)
    return found if limit < 0 else found[:limit]


__all__ = ["count_runs", "list_runs", "traffic"]
