"""What lists and numbers of runs are to be, by their rows alone: how ``Filter`` is meant, without any index."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from perdure.model.payloads import tags_of
from perdure.model.records import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.model.records import RunRow
    from perdure.store.protocol import Filter, Store

_STOPPED = frozenset({Status.RETRYING, Status.BLOCKED, Status.FAILED})


def error_of(row: RunRow) -> str | None:
    """Return the first word of what stopped a run."""
    return re.split("[: ]", row.reason[:200])[0] if row.status in _STOPPED and row.reason is not None else None


def is_meant(row: RunRow, where: Filter) -> bool:
    """Whether all that is asked for is true of a run."""
    tags = tags_of(row.meta) if row.meta else {}
    return (
        row.namespace == where.namespace
        and (where.status is None or row.status in where.status)
        and all(
            wanted is None or wanted == found
            for wanted, found in (
                (where.workflow, row.workflow),
                (where.version, row.version),
                (where.queue, row.queue),
                (where.parent, row.parent_key),
                (where.error, error_of(row)),
            )
        )
        and all(tags.get(name) == value for name, value in where.tags)
        and row.run_id.startswith(where.id_prefix)
        and _within(row.created_at, where.created_after, where.created_before)
        and (not where.by_end or _within(row.ended_at, where.ended_after, where.ended_before))
    )


def meant(rows: Iterable[RunRow], where: Filter) -> list[RunRow]:
    """Return those runs that are meant, in the order of their list."""
    found = [row for row in rows if is_meant(row, where)]
    return sorted(found, key=lambda row: (row.ended_at if where.by_end else row.created_at, row.run_key), reverse=True)


def check_list(store: Store, rows: Iterable[RunRow], where: Filter) -> int:
    """Compare a store's list, page by page, and its numbers with those that are meant; return how many there are."""
    expected = meant(rows, where)
    found: list[RunRow] = []
    after = None
    while page := store.list_runs(replace(where, after=after)):
        assert len(page) <= where.limit, where
        found += page
        after = where.place(page[-1])
    assert found == expected, (where, [row.run_id for row in found], [row.run_id for row in expected])
    numbers = {(one.workflow, one.status): one.number for one in store.count_runs(where)}
    assert numbers == Counter((row.workflow, row.status) for row in expected), where
    return len(expected)


def _within(at: int | None, since: int | None, until: int | None) -> bool:
    return at is not None and (since is None or at >= since) and (until is None or at < until)


__all__ = ["check_list", "error_of", "is_meant", "meant"]
