"""Places in a list of runs: where a page ends, and how that is told to whoever asks for the next one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from perdure.errors import DefinitionError

if TYPE_CHECKING:
    from perdure.model.records import RunRow

_CURSOR = re.compile(r"([ce])(0|[1-9a-f][0-9a-f]*)-([1-9a-f][0-9a-f]*)", re.ASCII)
_TOP = 2**63 - 1


class Place(NamedTuple):
    """A run's place in a list: lists are in the order of an instant (µs), and of their keys where that is the same."""

    at: int
    run_key: int


TOP = Place(_TOP, _TOP)
"""Before the first run of every list."""


def place_of(row: RunRow, *, by_end: bool) -> Place:
    """Return where a run is in a list by creation, or by end: of a run that has ended."""
    return Place((row.ended_at or 0) if by_end else row.created_at, row.run_key)


def cursor_of(place: Place, *, by_end: bool) -> str:
    """Return a place as users have it: letters, digits and a hyphen."""
    return f"{'e' if by_end else 'c'}{place.at:x}-{place.run_key:x}"


def place_at(cursor: str, *, by_end: bool) -> Place:
    """Return the place that a cursor stands for.

    Raises:
        DefinitionError: it is none of such a list's.
    """
    match = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
    place = None if match is None else Place(int(match[2], 16), int(match[3], 16))
    if match is None or place is None or max(place) > _TOP or (match[1] == "e") is not by_end:
        raise DefinitionError(
            f"{str(cursor)[:80]!r} is no cursor of this list",
            advice="give the one that came with the page before, of the same filter",
        )
    return place


__all__ = ["TOP", "Place", "cursor_of", "place_at", "place_of"]
