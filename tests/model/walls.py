"""An oracle for cron: walks through time instant by instant and looks at the clocks on the wall.

It knows nothing of how the product finds an occurrence. It reads an expression by itself, asks ``zoneinfo`` what the
walls show at each second (or minute) of a stretch, and applies the rule that the documentation states:

- an expression that names hours means times of day: one that the clocks leave out occurs at the first instant after the
  gap, once however many are left out; one that comes twice occurs the first time;
- one for every hour means time as it passes: it occurs whenever the walls match.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def micros(at: datetime) -> int:
    """An instant as the product counts it."""
    return (at - EPOCH) // timedelta(microseconds=1)


class Expression:
    """A cron expression, read with no help."""

    def __init__(self, text: str) -> None:
        fields = NICKNAMES.get(text.lower(), text).lower().split()
        second, minute, hour, self._dom, month, self._dow = fields if len(fields) == 6 else ["0", *fields]
        self.seconds, self.minutes = _numbers(second, 0, 59), _numbers(minute, 0, 59)
        self.hours = _numbers(hour, 0, 23)
        self.months = _numbers(month, 1, 12, dict(zip(MONTHS, range(1, 13), strict=True)))
        self.is_hourly = self.hours == set(range(24))
        self._needs_both = self._dom.startswith("*") or self._dow.startswith("*")
        self.is_day = lru_cache(maxsize=None)(self._is_day)

    def matches(self, wall: datetime) -> bool:
        """Whether the walls, showing this, match."""
        return (
            wall.second in self.seconds
            and wall.minute in self.minutes
            and wall.hour in self.hours
            and self.is_day(wall.date())
        )

    def _is_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        dom = any(_is_day_of_month(term, day) for term in self._dom.split(","))
        dow = any(_is_day_of_week(term, day) for term in self._dow.split(","))
        return dom and dow if self._needs_both else dom or dow


def _numbers(text: str, low: int, high: int, names: dict[str, int] | None = None) -> set[int]:
    found: set[int] = set()

    def number(word: str) -> int:
        return names[word] if names and word in names else int(word)

    for term in text.split(","):
        span, _, step = term.partition("/")
        if span == "*":
            first, last = low, high
        elif "-" in span:
            first, last = map(number, span.split("-"))
        else:
            first = number(span)
            last = high if step else first
        found |= set(range(first, last + 1, int(step or 1)))
    return found


def _is_day_of_month(term: str, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    if term == "l":
        return day.day == last
    if term == "lw":  # the last one of the month that is from Monday to Friday
        return day == max(
            one for one in (day.replace(day=number) for number in range(1, last + 1)) if one.isoweekday() < 6
        )
    return day.day in _numbers(term, 1, 31)


def _is_day_of_week(term: str, day: date) -> bool:
    names = dict(zip(DAYS, range(7), strict=True))
    is_last = (day + 7 * DAY).month != day.month
    if term.endswith("l"):
        return is_last and day.isoweekday() % 7 == int(term[:-1]) % 7
    if "#" in term:
        name, _, nth = term.partition("#")
        wanted = names[name] if name in names else int(name) % 7
        same = [number for number in range(1, day.day + 1) if day.replace(day=number).isoweekday() % 7 == wanted]
        return day.isoweekday() % 7 == wanted and len(same) == int(nth)
    return day.isoweekday() % 7 in {number % 7 for number in _numbers(term, 0, 7, names)}


@dataclass(frozen=True)
class Walls:
    """What the walls of a zone show at each instant of a stretch.

    Attributes:
        shown: instants and wall times, ``step`` apart; the first is no later than any that the walls repeat.
        step: a second, or a minute if changes and expressions are on the minute.
    """

    shown: list[tuple[datetime, datetime]]
    step: timedelta

    @property
    def first(self) -> datetime:
        return self.shown[0][0]

    @property
    def last(self) -> datetime:
        return self.shown[-1][0]

    def occurrences(self, text: str) -> list[int]:
        """All occurrences of an expression in the stretch, in µs."""
        expression = Expression(text)
        if expression.is_hourly:
            return [micros(at) for at, wall in self.shown if expression.matches(wall)]
        hits: list[int] = []
        furthest = self.shown[0][1] - self.step
        for at, wall in self.shown:
            # Whatever the walls have passed since they last were as far; nothing while they repeat themselves.
            while furthest < wall:
                furthest += self.step
                if expression.matches(furthest):
                    hits.append(micros(at))
        return sorted(set(hits))


@lru_cache(maxsize=64)
def walls(tz: str, first: datetime, last: datetime, step: timedelta) -> Walls:
    """The walls of a zone from one instant to another."""
    zone, at, shown = ZoneInfo(tz), first, []
    while at <= last:
        shown.append((at, at.astimezone(zone).replace(tzinfo=None)))
        at += step
    return Walls(shown, step)


@lru_cache(maxsize=256)
def changes(tz: str, first: int, last: int) -> list[datetime]:
    """The instants from the beginning of one year to the end of another at which a zone's clocks are changed."""
    zone, found = ZoneInfo(tz), []
    low, end = datetime(first, 1, 2, tzinfo=UTC), datetime(last, 12, 30, tzinfo=UTC)
    while low < end:
        high = low + 6 * HOUR
        if high.astimezone(zone).utcoffset() != low.astimezone(zone).utcoffset():
            early, late = low, high
            while late - early > SECOND:
                middle = early + (late - early) // 2 // SECOND * SECOND
                if middle.astimezone(zone).utcoffset() == low.astimezone(zone).utcoffset():
                    early = middle
                else:
                    late = middle
            found.append(late)
        low = high
    return found


def shift(tz: str, change: datetime) -> timedelta:
    """By how much a change puts the clocks forward."""
    before, after = ((change - back).astimezone(ZoneInfo(tz)).utcoffset() for back in (SECOND, 0 * SECOND))
    assert before is not None
    assert after is not None
    return after - before
