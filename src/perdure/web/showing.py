"""What pages show of JSON: events in a line, values indented and coloured, keys in their parts. Texts only."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from perdure.words import compact, count, departure, resumption, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    tell = _LINES.get(event["kind"])
    if tell is not None:
        return tell(event, event["details"] if isinstance(event["details"], dict) else {})
    parts = []
    if event["attempt"] is not None and event["attempt"] > 1:
        parts.append(f"attempt {event['attempt']}")
    if event["took"] is not None:
        parts.append(span(round(event["took"] * 1e6)))
    said = event["details"] if event["value"] is None else event["value"]
    if said is not None:
        parts.append(compact(said))
    return "  ".join(parts)


def _failed(event: dict[str, Any], said: dict[str, Any]) -> str:
    line = (said.get("failure") or {}).get("line", "")
    if event["kind"] == "run_failed":
        return str(line)
    again = f", again at {str(said['next_at'])[11:23]}" if said.get("next_at") else ""
    return f"attempt {event['attempt']}: {line}{again}"


def _claimed(_: dict[str, Any], said: dict[str, Any]) -> str:
    return f"by {said.get('worker') or 'a worker'}, pid {said.get('pid')}"


def _suspended(_: dict[str, Any], said: dict[str, Any]) -> str:
    names = ", ".join(said.get("awaits") or ())
    wake = said.get("wake_at")
    return str(said.get("status")) + (f" for {names}" if names else "") + (f" until {_at(wake)}" if wake else "")


def _at(instant: object) -> str:
    return str(instant)[:19].replace("T", " ") + " UTC"


def _reason(_: dict[str, Any], said: dict[str, Any]) -> str:
    return str(said.get("reason") or "")


def _resumed(_: dict[str, Any], said: dict[str, Any]) -> str:
    return resumption(said, str(said.get("reason") or ""))


def _drift(_: dict[str, Any], said: dict[str, Any]) -> str:
    return departure(said)


def _artifact(_: dict[str, Any], said: dict[str, Any]) -> str:
    return f"{said.get('name')}, {count(int(said.get('size') or 0), 'byte')}"


def _child(_: dict[str, Any], said: dict[str, Any]) -> str:
    return f"{said.get('run_id')} of {said.get('workflow')}"


def _emitted(event: dict[str, Any], _: dict[str, Any]) -> str:
    stream = event["args"].get("stream", "") if isinstance(event["args"], dict) else ""
    return f"{stream}: {compact(event['value'])}"


_LINES: Final[dict[str, Callable[[dict[str, Any], dict[str, Any]], str]]] = {
    "step_failed": _failed,
    "run_failed": _failed,
    "run_claimed": _claimed,
    "run_suspended": _suspended,
    "cancel_delivered": _reason,
    "run_cancelled": _reason,
    "run_paused": _reason,
    "run_blocked": _reason,
    "run_resumed": _resumed,
    "drift_found": _drift,
    "artifact_kept": _artifact,
    "child_started": _child,
    "emitted": _emitted,
    "step_started": lambda event, _: f"attempt {event['attempt']}",
    "undo_begun": lambda _, said: ", ".join(said.get("undo") or ()),
    "run_reclaimed": lambda _, said: f"its worker {said.get('worker') or ''} died",
    "run_released": lambda _, __: "its worker gave it back",
}

__all__ = ["LIMIT", "event_line", "key_parts", "pieces", "pretty"]
