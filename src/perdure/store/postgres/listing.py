"""Lists of runs, and their numbers: each is one statement, which sees one state of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.model.counting import Counted, Sampled, edges
from perdure.model.records import Status
from perdure.store import listing, rows, sampling
from perdure.store.postgres.arrays import bigints, texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.model.records import RunRow
    from perdure.store.postgres.arrays import Bigints
    from perdure.store.postgres.session import Session
    from perdure.store.protocol import Filter

_ORDERED = frozenset({"list_by_creation", "list_by_end", "list_by_error", "list_by_parent"})


def list_runs(session: Session, where: Filter) -> list[RunRow]:
    """A page of runs, newest first or latest ended first."""
    query, values = _way(session, where, list(_routes(session, where)), where.limit, listing.place(where))
    return [rows.run_row(row) for row in session.fetch(query, *values)]


def count_runs(session: Session, where: Filter, most: int | None) -> list[Counted]:
    """How many runs there are, by workflow and status; of those that must be looked at, up to ``most``."""
    workflows = _routes(session, where)
    since, until = listing.span(where)
    if listing.is_counted_by_index(where):
        query = "count_by_end" if where.by_end else "count_by_creation"
        found = session.fetch(query, bigints(list(workflows)), _numbers(listing.statuses(where)), since, until)
    else:
        query, values = _way(session, where, list(workflows), most, (until, 0))
        found = session.fetch(f"count_{query}", *values)
    return listing.counted(found, workflows)


def traffic(
    session: Session, since: int, until: int, buckets: int, workflow: str | None, namespace: str
) -> list[Sampled]:
    """What became of runs over time."""
    bounds = edges(since, until, buckets)
    routes = bigints([route for route, _ in session.fetch("list_routes", namespace, workflow, None, None)])
    spans = (bigints(bounds[:-1]), bigints(bounds[1:]), since, until)
    created = session.fetch("created_in_buckets", routes, _numbers(Status), *spans)
    ended: list[Any] = session.fetch("ended_in_buckets", routes, _numbers(sampling.ENDED), *spans)
    wanted = sampling.wanted(bounds, ended)
    columns = [bigints(column) for column in zip(*wanted, strict=True)] if wanted else [bigints([])] * 6
    latencies = session.fetch("sample_ended", *columns)
    return sampling.sampled(len(bounds) - 1, created, ended, latencies)


def _routes(session: Session, where: Filter) -> dict[int, str]:
    return dict(session.fetch("list_routes", where.namespace, where.workflow, where.version, where.queue))


def _way(
    session: Session, where: Filter, routes: list[int], limit: int | None, place: tuple[int, int]
) -> tuple[str, tuple[Any, ...]]:
    """The query that finds runs in their order after a place, and its values."""
    query, value = listing.way(
        where,
        lambda one: session.fetch_value("count_tag", *one, listing.FEW),
        lambda low, high: session.fetch_value("count_prefix", where.namespace, low, high, listing.FEW),
    )
    since, _ = listing.span(where)
    prefix = where.id_prefix
    names, values = zip(*where.tags, strict=True) if where.tags else (None, None)
    common = (
        *place, since, limit, bigints(routes), _numbers(listing.statuses(where)), prefix or None,
        listing.beyond(prefix) if prefix else None, where.error, where.created_after, where.created_before,
        where.ended_after, where.ended_before, where.parent,
        None if names is None else texts(names), None if values is None else texts(values),
    )  # fmt: skip
    if query in _ORDERED:
        return query, common
    return query, (*common, int(where.by_end), *(value if query == "list_of_tag" else (value,)))


def _numbers(statuses: Iterable[Status]) -> Bigints:
    return bigints([int(status) for status in statuses])


__all__ = ["count_runs", "list_runs", "traffic"]
