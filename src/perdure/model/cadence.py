"""When a schedule fires: every so often, or by a cron expression in a time zone.

An *occurrence* is an instant, in microseconds since the epoch, UTC. Nothing here walks from one occurrence to the next
over a stretch of time that may be long.

What a cron expression means where clocks are changed:

- If it names hours (``30 2 * * *``), it means times of day. One that the clocks leave out occurs at the first instant
  after the gap, once, however many of its times are left out; one that comes twice occurs the first time.
- If it is for every hour (``*/5 * * * *``), it means time as it passes: it occurs whenever the clocks match, so that
  neither does an hour that comes twice pass without an occurrence, nor is anything made up for one that is left out.
"""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol

from cronsim import CronSim, CronSimError

from perdure.errors import DefinitionError
from perdure.model.durations import FOREVER, instant, micros
from perdure.model.zones import FIRST, LAST, wall_micros, wall_time, zone

if TYPE_CHECKING:
    from datetime import datetime

    from perdure.model.durations import Duration
    from perdure.model.zones import Zone

SHORTEST: Final = 10_000
"""µs between occurrences at least."""
LONGEST_CRON: Final = 300
"""Characters in a cron expression."""

_NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_NUMBERS: Final = {name: str(number) for number, name in [*enumerate(_DAYS), *enumerate(_MONTHS, 1)]}
_ADVICE: Final = (
    'write "minute hour day-of-month month day-of-week", such as "30 9 * * MON-FRI", with seconds in front of it if'
    " needed, or @hourly, @daily, @weekly, @monthly, @yearly"
)


class Cadence(Protocol):
    """When a schedule fires."""

    @property
    def start(self) -> int | None:
        """The bound before which there is no occurrence, if one was asked for."""
        ...

    @property
    def end(self) -> int | None:
        """The bound after which there is no occurrence, if one was asked for."""
        ...

    def next(self, after: int) -> int | None:
        """Return the first occurrence after an instant; None if there is none."""
        ...

    def latest(self, until: int) -> int | None:
        """Return the last occurrence at or before an instant; None if there is none."""
        ...

    def count(self, first: int, last: int, limit: int) -> int:
        """Count the occurrences from ``first`` to ``last``, both included, up to ``limit``."""
        ...

    def encode(self) -> bytes:
        """Return what ``decode`` makes the same cadence of."""
        ...

    def describe(self) -> str:
        """Return it in words: ``every 90s``, ``cron 0 9 * * * Europe/Berlin``."""
        ...

    def same_recurrence(self, other: Cadence) -> bool:
        """Return whether both say the same, wherever an interval was begun to be counted."""
        ...


@dataclass(frozen=True, slots=True)
class Interval:
    """Every so often.

    Attributes:
        every: the time between occurrences in µs.
        first: the first occurrence.
        end: none is later; None: they go on for ever.
        is_pinned: whether ``first`` was asked for, rather than counted from the registration.
    """

    every: int
    first: int
    end: int | None = None
    is_pinned: bool = False

    @property
    def start(self) -> int | None:
        """The bound before which there is no occurrence, if one was asked for."""
        return self.first if self.is_pinned else None

    def next(self, after: int) -> int | None:
        """Return the first occurrence after an instant; None if there is none."""
        steps = max(0, (after - self.first) // self.every + 1)
        found = self.first + steps * self.every
        return None if found > min(FOREVER, FOREVER if self.end is None else self.end) else found

    def latest(self, until: int) -> int | None:
        """Return the last occurrence at or before an instant; None if there is none."""
        if self.end is not None:
            until = min(until, self.end)
        return None if until < self.first else self.first + (until - self.first) // self.every * self.every

    def count(self, first: int, last: int, limit: int) -> int:
        """Count the occurrences from ``first`` to ``last``, both included, up to ``limit``."""
        low, high = self.next(first - 1), self.latest(last)
        return 0 if low is None or high is None or high < low else min(limit, (high - low) // self.every + 1)

    def encode(self) -> bytes:
        """Return what ``decode`` makes the same cadence of."""
        said = {"every": self.every, "first": self.first, "end": self.end, "pinned": self.is_pinned}
        return json.dumps(said, separators=(",", ":")).encode()

    def describe(self) -> str:
        """Return it in words."""
        return f"every {_span(self.every)}"

    def same_recurrence(self, other: Cadence) -> bool:
        """Return whether both say the same, wherever the interval was begun to be counted."""
        return (
            isinstance(other, Interval)
            and (self.every, self.end, self.is_pinned) == (other.every, other.end, other.is_pinned)
            and (self.first == other.first or not self.is_pinned)
        )


@dataclass(frozen=True, slots=True)
class Cron:
    """By a cron expression of five fields, or six with seconds in front, in a zone.

    Attributes:
        expression: as it was given.
        tz: the zone's IANA name.
        start: no occurrence is earlier; None: there is no such bound.
        end: no occurrence is later; None: there is no such bound.
    """

    expression: str
    tz: str
    start: int | None = None
    end: int | None = None

    def next(self, after: int) -> int | None:
        """Return the first occurrence after an instant; None if there is none."""
        after = max(after, FIRST, FIRST if self.start is None else self.start - 1)
        found = self._next(after) if after < LAST else None
        return None if found is None or found > min(LAST, LAST if self.end is None else self.end) else found

    def latest(self, until: int) -> int | None:
        """Return the last occurrence at or before an instant; None if there is none."""
        until = min(until, LAST, LAST if self.end is None else self.end)
        found = self._latest(until) if until > FIRST else None
        return None if found is None or found < max(FIRST, FIRST if self.start is None else self.start) else found

    def count(self, first: int, last: int, limit: int) -> int:
        """Count the occurrences from ``first`` to ``last``, both included, up to ``limit``."""
        found, at = 0, self.next(first - 1)
        while at is not None and at <= last and found < limit:
            found, at = found + 1, self.next(at)
        return found

    def encode(self) -> bytes:
        """Return what ``decode`` makes the same cadence of."""
        said = {"cron": self.expression, "tz": self.tz, "start": self.start, "end": self.end}
        return json.dumps(said, separators=(",", ":")).encode()

    def describe(self) -> str:
        """Return it in words."""
        return f"cron {self.expression} {self.tz}"

    def same_recurrence(self, other: Cadence) -> bool:
        """Return whether both say the same."""
        return self == other

    def _next(self, after: int) -> int | None:
        where, template = zone(self.tz), _parse(self.expression)
        if len(template.hours) == 24:  # noqa: PLR2004 - every hour there is
            return _next_as_it_passes(where, template, after)
        wall: int | None = after + where.offset(after)
        while wall is not None:
            wall = _wall_after(template, wall)
            if wall is not None and (found := where.instant(wall)) > after:
                return found
        return None

    def _latest(self, until: int) -> int | None:
        where, template = zone(self.tz), _parse(self.expression)
        if len(template.hours) == 24:  # noqa: PLR2004 - every hour there is
            return _latest_as_it_passes(where, template, until)
        # What the walls have shown up to now; the second time they show it, they have been further on already.
        wall = until + where.offset(until)
        wall += max(until - where.instant(wall), 0)
        while (before := _wall_until(template, wall)) is not None:
            found = where.instant(before)
            if found <= until:
                return found
            wall = before - 1
        return None


def interval(every: Duration, now: int, *, start: datetime | None, end: datetime | None) -> Interval:
    """Return the cadence of ``every``: from ``start``, or for the first time when ``every`` has passed from ``now``.

    Raises:
        DefinitionError: the interval is too short or never comes round, or there is nothing between start and end.
    """
    length = micros(every, what="every", allow_zero=False)
    if length < SHORTEST:
        raise DefinitionError(f"every={every!r} is too short", advice=f"{SHORTEST // 1000} ms is the least")
    first = now + length if start is None else instant(start, what="start")
    made = Interval(length, first, None if end is None else instant(end, what="end"), start is not None)
    if now + length > FOREVER:
        raise DefinitionError(f"every={every!r} is so long that it never comes round", advice="give a shorter time")
    if start is not None and made.end is not None and made.end < first:
        raise _empty()
    return made


def cron(expression: object, tz: object, *, start: datetime | None, end: datetime | None) -> Cron:
    """Return the cadence of a cron expression in a zone, given by its IANA name or as a ``ZoneInfo``.

    Raises:
        DefinitionError: the expression or the zone cannot be read, or there is never an occurrence.
    """
    if not isinstance(expression, str):
        raise DefinitionError(f"cron must be a str, not {type(expression).__name__}", advice=_ADVICE)
    text = " ".join(expression.split())
    if len(text) > LONGEST_CRON:
        raise DefinitionError(f"a cron expression of {len(text)} characters is too long", advice=_ADVICE)
    name = getattr(tz, "key", tz)
    if not isinstance(name, str):
        raise DefinitionError(f"tz must be the name of a zone, not {tz!r:.80}", advice='such as "Europe/Berlin"')
    zone(name)
    _parse(text)
    made = Cron(
        text, name,
        None if start is None else instant(start, what="start"), None if end is None else instant(end, what="end"),
    )  # fmt: skip
    if Cron(text, name).next(0) is None:
        raise _never(text)
    if (start is not None and made.next(FIRST) is None) or (end is not None and made.latest(LAST) is None):
        raise _empty()
    return made


def decode(data: bytes) -> Cadence:
    """Return the cadence that was encoded.

    Raises:
        DefinitionError: its expression or its zone cannot be read here.
        ValueError, LookupError, TypeError: it is none.
    """
    said: dict[str, Any] = json.loads(data)
    if "every" in said:
        return Interval(said["every"], said["first"], said["end"], said["pinned"])
    made = Cron(said["cron"], said["tz"], said["start"], said["end"])
    zone(made.tz)
    _parse(made.expression)
    return made


def jittered(key: str, occurrence: int, jitter: int) -> int:
    """Return when an occurrence is due: up to ``jitter`` µs (not included) later, always the same for the same key."""
    if jitter <= 0:
        return occurrence
    digest = sha256(b"perdure jitter %d " % occurrence + key.encode("utf-8", "surrogatepass")).digest()
    return occurrence + int.from_bytes(digest[:8], "big") % jitter


@lru_cache(maxsize=512)
def _parse(expression: str) -> CronSim:
    """The expression's fields, as a simulation to be copied and set to a time."""
    text = _stepless(_NICKNAMES.get(expression.lower(), expression))
    try:
        made = CronSim(text, wall_time(0))
    except (CronSimError, ValueError, AssertionError) as error:
        # What it says of a day that no month has is the same as of one that no calendar has.
        if str(error) == "Bad day-of-month" and _has_days(text):
            raise _never(expression) from error
        raise DefinitionError(
            f"the cron expression {expression!r} cannot be read: {_lower(error)}", advice=_ADVICE, cron=expression
        ) from error
    return made


def _stepless(text: str) -> str:
    """The expression without steps in ranges of one number: ``CronSim`` takes ``5-5/10`` for ``5/10``."""

    def one(found: re.Match[str]) -> str:
        first, last = (_NUMBERS.get(word, word).lstrip("0") for word in found.groups())
        return found[1] if first == last else found[0]

    return re.sub(r"\b(\w+)-(\w+)/0*[1-9][0-9]*(?![^,\s])", one, text.upper(), flags=re.ASCII)


def _has_days(text: str) -> bool:
    """Whether the expression can be read with other months."""
    fields = text.split()
    fields[-2] = "*"
    try:
        CronSim(" ".join(fields), wall_time(0))
    except (CronSimError, ValueError, AssertionError):
        return False
    return True


def _lower(error: Exception) -> str:
    text = str(error) or "it is malformed"
    return text[:1].lower() + text[1:]


def _never(expression: str) -> DefinitionError:
    return DefinitionError(
        f"the cron expression {expression!r} never occurs", advice="no month has such a day", cron=expression
    )


def _empty() -> DefinitionError:
    return DefinitionError("the schedule has no occurrence between start and end", advice="let it end later")


def _wall_after(template: CronSim, wall: int) -> int | None:
    """The first matching wall time after one; None if there is none for half a century."""
    sim = copy.copy(template)
    sim.dt = wall_time(wall).replace(microsecond=0)
    return _go(sim)


def _wall_until(template: CronSim, wall: int) -> int | None:
    """The last matching wall time at or before one."""
    sim = copy.copy(template)
    sim.tick_direction = -1
    sim.dt = wall_time(wall).replace(microsecond=0) + timedelta(seconds=1)
    return _go(sim)


def _go(sim: CronSim) -> int | None:
    try:
        return wall_micros(next(sim))
    except (StopIteration, OverflowError, ValueError):  # or beyond the calendar
        return None


def _next_as_it_passes(where: Zone, template: CronSim, after: int) -> int | None:
    """The first instant after one at which the walls match; the offset is the same up to each change."""
    offset = where.offset(after)
    while True:
        wall = _wall_after(template, after + offset)
        if wall is None:
            return None
        at = wall - offset
        # Where the search goes on behind a change, `after` still counts as before it.
        changed = where.change(after + 1 if where.offset(after) != offset else after, at)
        if changed is None:
            return at
        after, offset = changed - 1, where.offset(changed)


def _latest_as_it_passes(where: Zone, template: CronSim, until: int) -> int | None:
    while True:
        offset = where.offset(until)
        wall = _wall_until(template, until + offset)
        if wall is None:
            return None
        at = wall - offset
        changed = where.last_change(at, until)
        if changed is None:
            return at
        until = changed - 1


def _span(length: int) -> str:
    for unit, size in (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000)):
        if length % size == 0:
            return f"{length // size}{unit}"
    return f"{length / 1000:g}ms"


__all__ = ["Cadence", "Cron", "Interval", "cron", "decode", "interval", "jittered"]
