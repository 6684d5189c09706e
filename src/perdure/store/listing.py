"""How a list of runs is made: which index it follows.

Lists are in the order of an index by route, status and instant, so that none walks through runs of other namespaces,
workflows or statuses than are asked for. Where few runs have a tag, or an id that begins so, these are looked at
instead. What else is asked for is looked at run by run on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perdure.model.counting import Counted
from perdure.model.places import TOP
from perdure.model.records import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from perdure.store.protocol import Filter

FEW: Final = 2000
"""So many runs are all looked at, and put in order, for a page of a list."""
LAST: Final = 2**63 - 1
_LAST_ID: Final = "\U0010ffff" * 4
_LETTERS, _SURROGATES, _BEYOND = 0x10FFFF, 0xD800, 0xE000

Found = tuple[int, int, int, int]
"""The instant a list goes by, and run_key, route and status of a run in it."""


class Way(NamedTuple):
    """How a list is made: by which query, and with what (besides what every one of them has)."""

    query: str
    value: Any = None


def way(where: Filter, count_tag: Callable[[tuple[str, str]], int], count_prefix: Callable[[str, str], int]) -> Way:
    """Return how a list is made.

    Args:
        where: what is asked for.
        count_tag: how many runs have a tag, at most ``FEW``.
        count_prefix: how many runs of the namespace have ids from one to another one, likewise.
    """
    if where.parent is not None and not where.by_end:
        return Way("list_by_parent", where.parent)
    if where.tags:
        counted = {one: count_tag(one) for one in where.tags}
        rarest = min(counted, key=lambda one: counted[one])
        if counted[rarest] < FEW:
            return Way("list_of_tag", rarest)
    if where.id_prefix and count_prefix(where.id_prefix, beyond(where.id_prefix)) < FEW:
        return Way("list_of_prefix", where.namespace)
    if where.by_end:
        return Way("list_by_end")
    if where.error is not None:
        return Way("list_by_error", where.error)
    return Way("list_by_creation")


def statuses(where: Filter) -> list[Status]:
    """The statuses that runs of a list may have."""
    among = dict.fromkeys(Status if where.status is None else where.status)
    return [status for status in among if status.terminal or not where.by_end]


def is_counted_by_index(where: Filter) -> bool:
    """Whether an index has all that is asked for, so that runs need not be looked at to be counted."""
    if where.parent is not None or where.tags or where.id_prefix or where.error is not None:
        return False
    return not where.by_end or (where.created_after is None and where.created_before is None)


def span(where: Filter) -> tuple[int, int]:
    """From when and until when runs are asked for, by what their list goes by."""
    if where.by_end:
        since, until = where.ended_after, where.ended_before
    else:
        since, until = where.created_after, where.created_before
    return 0 if since is None else max(since, 0), LAST if until is None else until


def place(where: Filter) -> tuple[int, int]:
    """After what place a list begins."""
    _, until = span(where)
    return min(where.after or TOP, (until, 0))


def beyond(prefix: str) -> str:
    """The least text that is greater than all that begin so, by code points."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return prefix + _LAST_ID
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_BEYOND if following == _SURROGATES else following)


def counted(found: Iterable[tuple[int, int, int]], workflows: Mapping[int, str]) -> list[Counted]:
    """Numbers by workflow and status, of such by route and status."""
    numbers: dict[tuple[str, int], int] = {}
    for route, status, number in found:
        key = workflows[route], status
        numbers[key] = numbers.get(key, 0) + number
    return [Counted(workflow, Status(status), number) for (workflow, status), number in numbers.items() if number]


__all__ = [
    "FEW", "LAST", "Found", "Way", "beyond", "counted", "is_counted_by_index", "place", "span", "statuses", "way",
]  # fmt: skip
