"""Tags: what runs are found by besides status and workflow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perdure.model.payloads import tags_of
from perdure.store.rarity import ENOUGH, rarest
from perdure.store.sqlite.rows import fetch, fetch_value, json_list
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import apsw

    from perdure.store.protocol import Filter
    from perdure.store.rows import Row


def tag(cursor: apsw.Cursor, runs: Iterable[tuple[int, bytes | None]]) -> None:
    """Note the tags of new runs, given by their keys and metas."""
    values = [(name, value, key) for key, meta in runs if meta for name, value in tags_of(meta).items()]
    if values:
        cursor.executemany(QUERIES["tag_run"], values)


def list_tagged(cursor: apsw.Cursor, where: Filter, below: int, routes: Sequence[int] | None) -> list[Row]:
    """Rows of runs that have all tags asked for, newest first, below a key; by the index that has the least of them."""
    among = None if routes is None else json_list(routes)
    common = (below, where.namespace, where.limit, json.dumps(where.tags))
    (name, value), by_status = rarest(
        where,
        lambda one: fetch_value(cursor, QUERIES["count_tag"], (*one, ENOUGH)),
        lambda status: fetch_value(cursor, QUERIES["count_status"], (int(status), ENOUGH)),
    )
    if by_status:
        query = QUERIES["list_tagged_runs_of_status"]
        return [
            row
            for status in dict.fromkeys(where.status or ())
            for row in fetch(cursor, query, (*common, int(status), among, where.parent))
        ]
    statuses = None if where.status is None else json_list(map(int, where.status))
    return fetch(cursor, QUERIES["list_runs_of_tag"], (*common, name, value, statuses, among, where.parent))
