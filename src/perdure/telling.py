"""What events say, in a line each: for the command line and for pages, of what ``perdure.describe`` makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from perdure.model.deeds import Author
from perdure.words import compact, count, departure, resumption, span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Said: TypeAlias = Mapping[str, Any]
    When: TypeAlias = Callable[[str], str]


def event_line(event: Said, when: When) -> str:
    """Return what an event says besides its kind and key.

    Args:
        event: as ``describe.event`` returns it.
        when: tells an instant, which it is given as there.
    """
    tell = _LINES.get(event["kind"])
    if tell is not None:
        return tell(event, event["details"] if isinstance(event["details"], dict) else {}, when)
    return _plain(event)


def _plain(event: Said, *before: str) -> str:
    parts = list(before)
    if event["attempt"] is not None and event["attempt"] > 1:
        parts.append(f"attempt {event['attempt']}")
    if event["took"] is not None:
        parts.append(span(round(event["took"] * 1e6)))
    said = event["details"] if event["value"] is None else event["value"]
    if said is not None:
        parts.append(compact(said))
    return "  ".join(part for part in parts if part)


def _beside(event: Said) -> dict[str, Any]:
    """Return what is beside the payload, if that is a note of ours."""
    args = event["args"]
    return args if isinstance(args, dict) else {}


def by(event: Said) -> str:
    """Return who has done what an event tells of, if it was done by hand and is said beside its payload."""
    author = _beside(event).get("by")
    return Author(**author).words if isinstance(author, dict) else ""


def _by_hand(event: Said, _said: Said, _when: When) -> str:
    return _plain(event, by(event))


def _failed(event: Said, said: Said, when: When) -> str:
    line = (said.get("failure") or {}).get("line", "")
    if event["kind"] == "run_failed":
        return str(line)
    again = f", again at {when(said['next_at'])}" if said.get("next_at") else ""
    return f"attempt {event['attempt']}: {line}{again}"


def _claimed(_event: Said, said: Said, _when: When) -> str:
    return f"by {said.get('worker') or 'a worker'}, pid {said.get('pid')}"


def _suspended(_: Said, said: Said, when: When) -> str:
    names = ", ".join(said.get("awaits") or ())
    wake = said.get("wake_at")
    return str(said.get("status")) + (f" for {names}" if names else "") + (f" until {when(wake)}" if wake else "")


def _reason(_event: Said, said: Said, _when: When) -> str:
    return str(said.get("reason") or "")


def _resumed(_event: Said, said: Said, _when: When) -> str:
    return resumption(said, str(said.get("reason") or ""))


def _drift(_event: Said, said: Said, _when: When) -> str:
    return departure(said)


def _artifact(_event: Said, said: Said, _when: When) -> str:
    return f"{said.get('name')}, {count(int(said.get('size') or 0), 'byte')}"


def _child(_event: Said, said: Said, _when: When) -> str:
    return f"{said.get('run_id')} of {said.get('workflow')}"


def _emitted(event: Said, _said: Said, _when: When) -> str:
    return f"{_beside(event).get('stream', '')}: {compact(event['value'])}"


_LINES: Final[dict[str, Callable[[Said, Said, When], str]]] = {
    "run_created": _by_hand,
    "signal_received": _by_hand,
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
    "step_started": lambda event, _, __: f"attempt {event['attempt']}",
    "undo_begun": lambda _, said, __: ", ".join(said.get("undo") or ()),
    "run_reclaimed": lambda _, __, ___: "its worker died",
    "run_released": lambda _, __, ___: "its worker gave it back",
}

__all__ = ["by", "event_line"]
