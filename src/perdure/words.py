"""How instants, durations and values are said to people, on a terminal as on a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from perdure.model.durations import to_datetime
from perdure.model.records import Status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

    from perdure.model.records import RunRow

MINUTE, HOUR, DAY = 60, 3600, 86400


def span(micros: int) -> str:
    """Return a duration in µs for people, in about three digits: ``0.4 ms``, ``1.25 s``, ``3 h 20 min``."""
    seconds = micros / 1e6
    if seconds < 1:
        return f"{micros / 1000:.1f} ms" if micros < 10_000 else f"{micros / 1000:.0f} ms"  # noqa: PLR2004
    if seconds < MINUTE:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"  # noqa: PLR2004
    for unit, size, smaller, part in (("min", MINUTE, "s", 1), ("h", HOUR, "min", MINUTE), ("d", DAY, "h", HOUR)):
        if seconds < {MINUTE: HOUR, HOUR: DAY, DAY: float("inf")}[size]:
            whole, rest = divmod(int(seconds), size)
            return f"{whole} {unit}" + (f" {rest // part} {smaller}" if rest // part and whole < 10 else "")  # noqa: PLR2004
    raise AssertionError


def ago(at: int, now: int) -> str:
    """Return how long ago an instant was, or in how long it will be, in one unit: ``2 min ago``, ``in 14 d``."""
    seconds = abs(now - at) // 1_000_000
    for unit, size in (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", 1)):
        if seconds >= size * (2 if size > 1 else 1):
            text = f"{seconds // size} {unit}"
            return f"{text} ago" if at <= now else f"in {text}"
    return "now"


def clock(at: int, now: int | None = None, zone: tzinfo | None = None) -> str:
    """Return an instant as time of a zone, by default the local one; with its date unless that is today's."""
    local = to_datetime(at).astimezone(zone)
    time = local.strftime("%H:%M:%S.") + f"{local.microsecond // 1000:03d}"
    if now is not None and to_datetime(now).astimezone(zone).date() == local.date():
        return time
    return f"{local:%Y-%m-%d} {time}"


def day_and_time(at: int) -> str:
    """Return an instant as local date and time, to the second."""
    return f"{to_datetime(at).astimezone():%Y-%m-%d %H:%M:%S}"


def compact(value: object, limit: int = 200) -> str:
    """Return a JSON value on one line, cut."""
    text = (
        value
        if isinstance(value, str) and value.startswith("<")
        else json.dumps(value, ensure_ascii=False, default=str)
    )
    return text if len(text) <= limit else text[: limit - 1] + "…"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 step``, ``2 steps``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def departure(said: Mapping[str, Any]) -> str:
    """Return what a ``drift_found`` says."""
    what = f"{said.get('key')}: recorded {said.get('recorded')}, found {said.get('found')}"
    return f"build {said.get('build')}: {what if said.get('found') else said.get('reason')}"


def resumption(said: Mapping[str, Any], *more: str) -> str:
    """Return what a ``run_resumed`` says, and what there is to say besides."""
    keys = said.get("supersede") or []
    again = f"tries again: {', '.join(keys)}" if keys else ""
    return ", ".join(part for part in (again, "drift accepted" if said.get("accept_drift") else "", *more) if part)


def state_of(row: RunRow, now: int) -> str:
    """Return in a few words why a run is where it is: what it waits for, or why it ended."""
    if row.wake_at is not None and not row.status.terminal:
        what = "starts" if row.status is Status.PENDING else "goes on"
        minute = day_and_time(row.wake_at)[:-3]
        return f"{what} {ago(row.wake_at, now)}, {minute}" if row.wake_at > now else f"due since {minute}"
    return row.reason or ""
