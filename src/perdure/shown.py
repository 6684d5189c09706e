"""Stored values and failures as plain data, without what must not be shown."""

from __future__ import annotations

import json
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from perdure.errors import Undecodable
from perdure.model import payloads
from perdure.model.coding import codec_name, is_coded
from perdure.model.durations import to_datetime
from perdure.model.failures import failure_text
from perdure.model.redaction import HIDDEN, NOTHING, Redaction
from perdure.model.secrecy import concealed

if TYPE_CHECKING:
    from collections.abc import Generator

_redaction: ContextVar[Redaction] = ContextVar("perdure.redaction", default=NOTHING)


def redaction() -> Redaction:
    """Return what is left out at the moment."""
    return _redaction.get()


@contextmanager
def redacting(patterns: Redaction) -> Generator[None]:
    """Leave out of what is described here what must not be shown."""
    token = _redaction.set(patterns)
    try:
        yield
    finally:
        _redaction.reset(token)


def instant(at: int | None) -> str | None:
    """Return an instant (µs) as ISO 8601: ``2026-11-29T18:40:01.123456Z``."""
    return None if at is None else to_datetime(at).isoformat(timespec="microseconds").replace("+00:00", "Z")


def value(payload: bytes | None, codec: int = payloads.PLAIN, *at: str) -> Any:
    """Return a stored value as data.

    What is marked as secret is left out. What is no JSON becomes ``{"bytes": n}``; what is kept elsewhere
    ``{"artifact": hash}``; what went through a codec that is not here ``{"coded": its name}``.

    Args:
        payload: the value as stored.
        codec: how it is stored.
        at: where it stands, for what is left out: ``"steps", "charge", "result"``.
    """
    if payload is None:
        return None
    if codec & payloads.REFERENCE:
        return {"artifact": payload.hex()}
    if is_coded(payload):
        return {"coded": codec_name(payload)}
    try:
        return _redaction.get().shown(json.loads(concealed(payload)), *at)
    except ValueError:
        return {"bytes": len(payload)}


def failure(data: bytes | None) -> dict[str, Any] | None:
    """Return a stored failure as data: its type, its text, both in one line, and the traceback."""
    if data is None:
        return None
    try:
        line = failure_text(data)
        node = json.loads(data)
    except (Undecodable, ValueError):
        return {"type": None, "text": None, "line": "a failure that cannot be read", "traceback": None}
    shown, kind, trace = _redaction.get(), node.get("type"), _traceback(node)
    if shown.hides("failure", "text"):
        return {"type": kind, "text": HIDDEN, "line": f"{kind}: {HIDDEN}", "traceback": HIDDEN}
    if shown.hides("failure", "traceback"):
        trace = HIDDEN
    return {"type": kind, "text": node.get("text"), "line": line, "traceback": trace}


def _traceback(node: dict[str, Any]) -> str:
    """Return the traceback of a failure, after those of what it came from."""
    trace = str(node.get("traceback") or "")
    cause, context = node.get("cause"), node.get("context")
    if isinstance(cause, dict):
        return f"{_traceback(cause)}\n\nThe above exception was the direct cause of the following:\n\n{trace}"
    if isinstance(context, dict) and not node.get("suppress"):
        return f"{_traceback(context)}\n\nDuring handling of the above exception, another one occurred:\n\n{trace}"
    return trace


__all__ = ["failure", "instant", "redacting", "redaction", "value"]
