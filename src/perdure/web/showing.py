"""What pages show of JSON: events in a line, values indented and coloured, keys in their parts. Texts only."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from perdure import telling

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT: Final = 4000
"""Characters of a value that a page shows at most, unless it is about nothing else."""
_PIECE = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)')


def pretty(value: Any, limit: int = LIMIT) -> str:
    """Return a value as indented JSON, cut."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= limit else text[:limit] + "\n…"


def pieces(value: Any, limit: int = LIMIT) -> Iterator[tuple[str, str]]:
    """Iterate over a value as indented JSON: what kind of thing a piece is, and its text."""
    text = pretty(value, limit)
    at = 0
    for found in _PIECE.finditer(text):
        if found.start() > at:
            yield "", text[at : found.start()]
        quoted, colon, word, _ = found.groups()
        kind = ("key" if colon else "text") if quoted else "word" if word else "number"
        yield kind, found.group()
        at = found.end()
    if at < len(text):
        yield "", text[at:]


def key_parts(key: str) -> tuple[str, str, str]:
    """Return the parts of a key: its scope, its name, and which one it is of that name.

    >>> key_parts("fulfil.branch#2/charge#1"), key_parts("charge[a/b]"), key_parts("@signal.approved#1")
    (('fulfil.branch#2/', 'charge', ''), ('', 'charge', '[a/b]'), ('', 'signal approved', ''))
    """
    head, bracket, rest = key.partition("[")
    scope, slash, last = head.rpartition("/")
    name, hash_, number = last.partition("#")
    if name.startswith("@"):
        name = name[1:].replace("signal.", "signal ", 1).replace("emit:", "emit ", 1)
    which = bracket + rest if bracket else hash_ + number if number not in {"", "1"} else ""
    return scope + slash, name, which


def event_line(event: dict[str, Any]) -> str:
    """Return in a line what an event says besides its kind and key."""
    return telling.event_line(event, _at)


def _at(instant: str) -> str:
    return instant[:19].replace("T", " ") + " UTC"


__all__ = ["LIMIT", "event_line", "key_parts", "pieces", "pretty"]
