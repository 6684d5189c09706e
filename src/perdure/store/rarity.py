"""By which index runs with tags are looked for: the one that has the least of them to go through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.model.records import Status
    from perdure.store.protocol import Filter

ENOUGH: Final = 1000
"""More runs than this are not counted: many is many."""


def rarest(
    where: Filter, count_tag: Callable[[tuple[str, str]], int], count_status: Callable[[Status], int]
) -> tuple[tuple[str, str], bool]:
    """Return the tag that the fewest runs have, and whether fewer have one of the statuses asked for.

    Args:
        where: what is asked for; it has tags.
        count_tag: how many runs have a tag, at most ``ENOUGH``.
        count_status: how many runs have a status, likewise.
    """
    if len(where.tags) == 1 and where.status is None:
        return where.tags[0], False
    counts = {one: count_tag(one) for one in where.tags}
    tag = min(counts, key=lambda one: counts[one])
    statuses = dict.fromkeys(where.status or ())
    by_status = where.status is not None and counts[tag] >= ENOUGH and sum(map(count_status, statuses)) < ENOUGH
    return tag, by_status


__all__ = ["ENOUGH", "rarest"]
