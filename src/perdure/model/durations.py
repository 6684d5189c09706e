"""Durations and instants as users write them, turned into numbers.

A duration is a ``timedelta``, text with a unit (``"30s"``) or a number of seconds. An instant is an aware
``datetime``. Inside, durations are float seconds and instants integer microseconds since the epoch, UTC.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from perdure.errors import DefinitionError

Duration = timedelta | str | int | float
"""What users may give as a duration."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(ms|[smhdw])\s*", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ADVICE = 'write a timedelta, text with a unit (ms, s, m, h, d, w) such as "30s" or "1.5h", or a number of seconds'

FOREVER = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""The last instant there is, in µs: the end of the year 9999. Later ones are clamped to it."""

_DAWN = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def seconds(value: Duration, *, what: str = "duration", allow_zero: bool = True) -> float:
    """Return a duration in seconds.

    Args:
        value: a ``timedelta``, text with a unit, or a number of seconds.
        what: what the duration is for, named in the error.
        allow_zero: whether nought is a duration here.

    Raises:
        DefinitionError: not a duration, negative, not finite, or nought where that means nothing.
    """
    result = _number(value, what)
    if not math.isfinite(result):
        raise _wrong(value, what, "is not finite")
    if result < 0:
        raise _wrong(value, what, "is negative")
    if result == 0 and not allow_zero:
        raise _wrong(value, what, "must be longer than nought")
    return result


def micros(value: Duration, *, what: str = "duration", allow_zero: bool = True) -> int:
    """Return a duration in whole microseconds, at most ``FOREVER``; see ``seconds``."""
    result = seconds(value, what=what, allow_zero=allow_zero)
    if isinstance(value, timedelta):
        return min(value // _MICROSECOND, FOREVER)  # exact, where the float is not
    return FOREVER if result >= FOREVER / 1_000_000 else round(result * 1_000_000)


def later(now: int, value: Duration) -> int:
    """Return the instant (µs) a duration after ``now`` (µs), at most ``FOREVER``."""
    return min(now + micros(value), FOREVER)


def instant(value: datetime, *, what: str = "instant") -> int:
    """Return an aware ``datetime`` as microseconds since the epoch, UTC.

    Raises:
        DefinitionError: not a ``datetime``, or one without a zone, which would mean another instant elsewhere.
    """
    if not isinstance(value, datetime):
        raise DefinitionError(
            f"{what} must be a datetime, not {type(value).__name__}",
            advice="write an aware datetime such as datetime.now(UTC) + timedelta(hours=1)",
            value=value,
        )
    if value.utcoffset() is None:
        raise DefinitionError(
            f"{what} {value.isoformat()} has no zone",
            advice="give it one: value.replace(tzinfo=ZoneInfo(...)), or value.astimezone() for the local zone",
            value=value,
        )
    return (value - _EPOCH) // _MICROSECOND


def to_datetime(at: int) -> datetime:
    """Return an instant (µs) as a ``datetime`` in UTC; what no ``datetime`` can hold becomes the nearest one."""
    return _EPOCH + timedelta(microseconds=min(max(at, _DAWN), FOREVER))


def _number(value: Duration, what: str) -> float:
    """Return seconds, not yet judged."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        match = _TEXT.fullmatch(value)
        if match is None:
            raise _wrong(value, what, "is not a duration")
        return float(match[1]) * _UNITS[match[2]]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(value, what, f"is not a duration but {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _wrong(value: object, what: str, why: str) -> DefinitionError:
    # No more than a glimpse: an int of 5000 digits has no repr at all.
    shown = repr(value)[:80] if isinstance(value, (str, float, timedelta, bool)) else f"of type {type(value).__name__}"
    return DefinitionError(f"{what} {shown} {why}", advice=_ADVICE, value=value)
