"""Tags: what runs are found by besides status and workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.payloads import tags_of
from perdure.store.postgres.arrays import bigints, texts
from perdure.store.rarity import ENOUGH, rarest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perdure.store.postgres.session import Session
    from perdure.store.protocol import Filter
    from perdure.store.rows import Row


def tag(session: Session, runs: Iterable[tuple[int, bytes | None]]) -> None:
    """Note the tags of new runs, given by their keys and metas."""
    found = [(name, value, key) for key, meta in runs if meta for name, value in tags_of(meta).items()]
    if found:
        names, values, keys = zip(*found, strict=True)
        session.change("tag_runs", texts(names), texts(values), bigints(keys))


def list_tagged(session: Session, where: Filter, below: int, routes: Sequence[int] | None) -> list[Row]:
    """Rows of runs that have all tags asked for, newest first, below a key; by the index that has the least of them."""
    among = None if routes is None else bigints(routes)
    names, values = zip(*where.tags, strict=True)
    common = (below, where.namespace, where.limit, texts(names), texts(values))
    rare, by_status = rarest(
        where,
        lambda one: session.fetch_value("count_tag", *one, ENOUGH),
        lambda status: session.fetch_value("count_status", int(status), ENOUGH),
    )
    if by_status:
        return [
            row
            for status in dict.fromkeys(where.status or ())
            for row in session.fetch("list_tagged_runs_of_status", *common, int(status), among, where.parent)
        ]
    statuses = None if where.status is None else bigints(list(map(int, where.status)))
    return session.fetch("list_runs_of_tag", *common, *rare, statuses, among, where.parent)
