"""How runs ended: compared, and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model import payloads
from perdure.model.failures import decode_failure, failure_text
from perdure.model.records import Kind
from perdure.model.secrecy import concealed

if TYPE_CHECKING:
    from perdure.model.records import Event

ENDS = frozenset({Kind.RUN_COMPLETED, Kind.RUN_CONTINUED, Kind.RUN_FAILED, Kind.RUN_CANCELLED, Kind.RUN_BLOCKED})


def same_end(one: Event, other: Event) -> bool:
    """Whether two runs ended alike: with the same result, or a failure that reads the same."""
    if one.kind != other.kind:
        return False
    if one.kind == Kind.RUN_COMPLETED:
        return (one.codec, one.payload) == (other.codec, other.payload)
    return ending(one) == ending(other)


def ending(event: Event) -> str:
    """How a run ended, for people."""
    if event.kind == Kind.RUN_COMPLETED:
        return f"the result {_short(event.payload or b'')}"
    failure = payloads.failure_of(event.payload)
    if event.kind == Kind.RUN_BLOCKED:
        return f"the run blocked ({payloads.fields(event.payload).get('reason', '')})"
    word = event.word.removeprefix("run_")
    return f"{word}: {failure_text(failure)}" if failure else word


def failure(event: Event) -> BaseException | None:
    """What a run failed with, if it failed."""
    data = payloads.failure_of(event.payload) if event.kind == Kind.RUN_FAILED else None
    return None if data is None else decode_failure(data)


def _short(data: bytes, limit: int = 200) -> str:
    text = concealed(data).decode("utf-8", "backslashreplace")
    return text if len(text) <= limit else f"{text[:limit]}…"


__all__ = ["ENDS", "ending", "failure", "same_end"]
