"""Where a run stands, for whoever asks why it does not go on; and which ids are like one that is not there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perdure.model.standing import Standing, news_of
from perdure.store.queueing import COUNTED
from perdure.store.sqlite.rows import fetch, fetch_value
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw


def standing(cursor: apsw.Cursor, run_key: int) -> Standing | None:
    """Where a run stands; None if it is not there."""
    found = fetch(cursor, QUERIES["standing"], (run_key,))
    if not found:
        return None
    route, rank, new, awaits, partition, refused = found[0]
    ahead = 0
    if rank is not None:
        for (beside,) in fetch(cursor, QUERIES["routes_beside"], (route,)):
            ahead += fetch_value(cursor, QUERIES["count_ahead"], (beside, rank, run_key, COUNTED))
    return Standing(
        claimable=rank is not None,
        new=bool(new),
        ahead=min(ahead, COUNTED),
        refused=tuple(json.loads(refused or "[]")),
        awaits=None if awaits is None else tuple(json.loads(awaits)),
        news=news_of(fetch(cursor, QUERIES["list_news"], (run_key, COUNTED))),
        partition_held=0
        if partition is None
        else fetch_value(cursor, QUERIES["held_of_partition"], (route, partition)),
    )


def near_ids(cursor: apsw.Cursor, run_id: str, limit: int) -> Iterator[tuple[str, str]]:
    """Runs that have the id, or one that begins with it, in every namespace: namespace and id."""
    for (namespace,) in fetch(cursor, QUERIES["namespaces"]):
        for (near,) in fetch(cursor, QUERIES["ids_from"], (namespace, run_id, limit)):
            if near.startswith(run_id):
                yield namespace, near


__all__ = ["near_ids", "standing"]
