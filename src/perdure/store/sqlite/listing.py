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
    from collections.abc import Generator, Iterable

    import apsw

    from perdure.model.records import RunRow
    from perdure.store.listing import Found
    from perdure.store.protocol import Filter

_BY_STATUS = frozenset({"list_by_creation", "list_by_end"})
_WHOLE = frozenset({"list_of_tag", "list_of_prefix"})
"""Ways that give all runs at once, in no order."""
_HEADS = {False: "heads_by_creation", True: "heads_by_end"}


def list_runs(cursor: apsw.Cursor, where: Filter) -> list[RunRow]:
    """A page of runs, newest first or latest ended first."""
    with _one_state(cursor):
        found = _find(cursor, where, list(_routes(cursor, where)), where.limit, listing.place(where))
        rows = get_runs(cursor, [key for _, key, _, _ in found])
    return [rows[key] for _, key, _, _ in found]


def count_runs(cursor: apsw.Cursor, where: Filter, most: int | None) -> list[Counted]:
    """How many runs there are, by workflow and status; of those that must be looked at, up to ``most``."""
    with _one_state(cursor):
        workflows = _routes(cursor, where)
        since, until = listing.span(where)
        if listing.is_counted_by_index(where):
            query = QUERIES["count_by_end" if where.by_end else "count_by_creation"]
            heads = _heads(cursor, _HEADS[where.by_end], list(workflows), listing.statuses(where), until - 1)
            numbers = [
                (route, status, fetch_value(cursor, query, (route, status, since, until)))
                for route, status, head in heads
                if head >= since
            ]
        else:
            numbers = _count(cursor, where, list(workflows), most)
    return listing.counted(numbers, workflows)


def traffic(
    cursor: apsw.Cursor, since: int, until: int, buckets: int, workflow: str | None, namespace: str
) -> list[Sampled]:
    """What became of runs over time."""
    bounds = edges(since, until, buckets)
    spans = json.dumps(list(pairwise(bounds)))
    with _one_state(cursor):
        routes = [route for route, _ in fetch(cursor, QUERIES["list_routes"], (namespace, workflow, None, None))]

        def among(heads: str, statuses: Iterable[Status]) -> str:
            found = _heads(cursor, heads, routes, statuses, until - 1)
            return json.dumps([(route, status) for route, status, head in found if head >= since])

        created = fetch(cursor, QUERIES["created_in_buckets"], (among("heads_by_creation", Status), spans))
        ended = [
            (bucket, route, status, number, waited or 0, taken or 0)
            for bucket, route, status, said in fetch(
                cursor, QUERIES["ended_in_buckets"], (among("heads_by_end", sampling.ENDED), spans)
            )
            for number, waited, taken in [json.loads(said)]
        ]
        latencies = fetch(cursor, QUERIES["sample_ended"], (json.dumps(sampling.wanted(bounds, ended)),))
    return sampling.sampled(len(bounds) - 1, created, ended, latencies)


@contextmanager
def _one_state(cursor: apsw.Cursor) -> Generator[None, None, None]:
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
    """Runs in their order after a place, up to a limit."""
    query, parts, since, rest = _way(cursor, where, routes, place)
    if query in _WHOLE:
        return _first(fetch(cursor, QUERIES[query], (*place, since, -1, *parts[0][:2], *rest)), limit)
    best: list[Found] = []
    for route, of, head in parts:
        if head >= since:
            found = fetch(cursor, QUERIES[query], (*place, since, limit, route, of, *rest))
            best = _first(best + found, limit) if best else found
            if len(best) == limit:
                since = best[-1][0]  # what is older comes too late
    return best


def _count(cursor: apsw.Cursor, where: Filter, routes: list[int], most: int | None) -> list[tuple[int, int, int]]:
    """How many runs there are, by route and status, of those that must be looked at."""
    place = listing.span(where)[1], 0
    if most is None:
        query, parts, since, rest = _way(cursor, where, routes, place)
        if query in _BY_STATUS:
            text = QUERIES[f"count_{query}"]
            return [
                (route, of, fetch_value(cursor, text, (*place, since, 1, route, of, *rest))) for route, of, _ in parts
            ]
    found = _find(cursor, where, routes, listing.LAST if most is None else most, place)
    return [(route, status, number) for (route, status), number in Counter(one[2:] for one in found).items()]


def _way(
    cursor: apsw.Cursor, where: Filter, routes: list[int], place: tuple[int, int]
) -> tuple[str, list[tuple[Any, Any, int]], int, tuple[Any, ...]]:
    """By which query runs are found, with what and how new at most: its parts; since when; and its other values."""
    query, value = listing.way(
        where,
        lambda one: fetch_value(cursor, QUERIES["count_tag"], (*one, listing.FEW)),
        lambda low, high: fetch_value(cursor, QUERIES["count_prefix"], (where.namespace, low, high, listing.FEW)),
    )
    statuses = listing.statuses(where)
    if query in _BY_STATUS:
        parts: list[tuple[Any, Any, int]] = list(_heads(cursor, _HEADS[where.by_end], routes, statuses, place[0]))
        parts.sort(key=lambda part: part[2], reverse=True)
    elif query == "list_by_error":
        parts = [(route, value, listing.LAST) for route in routes]
    else:
        parts = [(json_list(routes), json.dumps(value) if query == "list_of_tag" else value, listing.LAST)]
    prefix = where.id_prefix
    rest = (
        prefix or None, listing.beyond(prefix) if prefix else None, where.error, where.created_after,
        where.created_before, where.ended_after, where.ended_before, where.parent, json_list(map(int, statuses)),
        json.dumps(where.tags) if where.tags else None,
    )  # fmt: skip
    return query, parts, listing.span(where)[0], (*rest, int(where.by_end)) if query in _WHOLE else rest


def _heads(
    cursor: apsw.Cursor, query: str, routes: list[int], statuses: Iterable[Status], at: int
) -> list[tuple[int, int, int]]:
    """Which of these routes and statuses have runs that are no later than an instant; the latest's."""
    return fetch(cursor, QUERIES[query], (json_list(routes), json_list(map(int, statuses)), at))


def _first(found: list[Found], limit: int) -> list[Found]:
    found.sort(reverse=True)
    return found[:limit]


__all__ = ["count_runs", "list_runs", "traffic"]
