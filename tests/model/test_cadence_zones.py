"""Schedules where clocks are changed, against an oracle that looks at the walls second by second (``walls.py``)."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from perdure.errors import DefinitionError
from perdure.model import cadence, firing
from perdure.model.cadence import Cron
from perdure.model.durations import to_datetime
from perdure.model.schedules import OccurrenceKind, Policy
from perdure.model.zones import zone
from tests.model.test_firing import row
from tests.model.walls import DAY, DAYS, HOUR, MINUTE, MONTHS, SECOND, Expression, changes, micros, shift, walls

STORM = bool(os.environ.get("PERDURE_STORM"))

MICROSECOND = timedelta(microseconds=1)

pytestmark = pytest.mark.timeout(600 if STORM else 60)

# A zone and the years between which it changed its clocks in a way of its own.
ZONES = [
    ("Europe/Berlin", 2025, 2026),
    ("Europe/London", 1967, 1972),  # summer time for three years, then none of it
    ("Europe/Dublin", 2025, 2026),  # winter is what is put back from the standard
    ("Europe/Lisbon", 1991, 1997),  # from one standard to another, and back
    ("Europe/Moscow", 2010, 2015),
    ("Europe/Istanbul", 2015, 2017),
    ("Europe/Chisinau", 2025, 2026),
    ("Africa/Casablanca", 2025, 2026),  # back for Ramadan
    ("Africa/El_Aaiun", 2012, 2013),  # four changes a year
    ("Africa/Cairo", 2010, 2010),
    ("Africa/Monrovia", 1971, 1973),  # from an offset with seconds
    ("America/New_York", 2025, 2026),
    ("America/St_Johns", 2006, 2007),  # a minute past midnight
    ("America/Havana", 2025, 2026),  # at midnight
    ("America/Sao_Paulo", 2017, 2019),
    ("America/Caracas", 2007, 2016),  # by half an hour
    ("America/Godthab", 2022, 2024),
    ("America/Scoresbysund", 2023, 2025),
    ("Antarctica/Troll", 2025, 2026),  # by two hours
    ("Antarctica/Casey", 2018, 2023),  # by three
    ("Asia/Gaza", 2024, 2026),
    ("Asia/Pyongyang", 2015, 2018),
    ("Asia/Kathmandu", 1985, 1987),  # by a quarter of an hour
    ("Asia/Tehran", 2021, 2023),
    ("Australia/Lord_Howe", 2025, 2026),  # by half an hour
    ("Pacific/Apia", 2010, 2012),  # a day that was not
    ("Pacific/Kwajalein", 1993, 1993),  # likewise
    ("Pacific/Fiji", 2019, 2021),
    ("Pacific/Auckland", 2025, 2026),
]


@st.composite
def changed(draw):
    """A zone, an instant at which its clocks are changed, and by how much."""
    if STORM and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(available_timezones())))
        year = draw(st.integers(1900, 2037))
        found = changes(name, year, year + 1)
        assume(found)
    else:
        name, first, last = draw(st.sampled_from(ZONES))
        found = changes(name, first, last)
    at = draw(st.sampled_from(found))
    return name, at, shift(name, at)


def stretch(tz, change, by):
    """The walls around a change, every second: what is left out or comes twice, and some time on both sides."""
    around = abs(by) + HOUR / 2
    return walls(tz, change - around, change + around, SECOND)


# -- expressions


def listed(low, high, names=()):
    word = st.integers(low, high).map(lambda number: dict(enumerate(names, low)).get(number, str(number)))
    ends = st.tuples(st.integers(low, high), st.integers(low, high)).map(sorted)
    step = st.integers(1, high + 2)
    term = st.one_of(
        word,
        ends.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(ends, step).map(lambda pair: f"{pair[0][0]}-{pair[0][1]}/{pair[1]}"),
        step.map(lambda every: f"*/{every}"),
        st.tuples(st.integers(low, high), step).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    )
    return st.lists(term, min_size=1, max_size=3).map(",".join)


days_of_month = st.one_of(
    st.just("*"),
    st.sampled_from(["L", "LW", "1,L", "lw,15", "*/2", "29-31", "30"]),
    listed(1, 31),
)
days_of_week = st.one_of(
    st.just("*"),
    st.tuples(st.integers(0, 7), st.integers(1, 5)).map(lambda pair: f"{pair[0]}#{pair[1]}"),
    st.tuples(st.sampled_from(DAYS), st.integers(1, 5)).map(lambda pair: f"{pair[0].upper()}#{pair[1]}"),
    st.integers(0, 7).map(lambda day: f"{day}L"),
    st.sampled_from(["0L,3", "mon#1,FRI#3", "7", "5-7", "SUN", "0,7"]),
    listed(0, 7, DAYS),
)
months = st.one_of(st.just("*"), st.just("*"), listed(1, 12, MONTHS))


def expressions(tz, change):
    """Expressions that have occurrences near a change, of five fields or six."""
    wall = (change - MINUTE).astimezone(ZoneInfo(tz))
    hours = st.one_of(
        st.sampled_from(["*", "0-23", "*/2", "1-3", "0", "22-23,0-1", "*/1"]),
        st.integers(-2, 3).map(lambda more: str((wall.hour + more) % 24)),
        listed(0, 23),
    )
    seconds = st.one_of(st.none(), st.sampled_from(["0", "*", "59", "*/7", "30"]), listed(0, 59))
    minutes = st.one_of(st.sampled_from(["0", "30", "*/10", "59", "45"]), listed(0, 59))
    any_day = st.tuples(st.just("*"), st.just("*"), st.just("*"))
    days = st.one_of(any_day, any_day, st.tuples(days_of_month, months, days_of_week))
    return st.one_of(
        st.sampled_from(["@hourly", "@daily", "@MIDNIGHT", "@weekly", "@monthly"]),
        st.tuples(seconds, minutes, hours, days).map(
            lambda parts: " ".join([*parts[:3], *parts[3]] if parts[0] is not None else [*parts[1:3], *parts[3]])
        ),
    )


def known(text, tz):
    """The cadence of an expression; None if it never occurs."""
    try:
        return cadence.cron(text, tz, start=None, end=None)
    except DefinitionError as error:
        if "never occurs" in str(error):
            return None
        raise


def all_after(cron, at, until):
    found = []
    while (at := cron.next(at)) is not None and at <= until:
        found.append(at)
    return found


# -- the laws


@settings(max_examples=2500 if STORM else 80)
@given(changed(), st.data())
def test_cron_occurs_around_every_change_of_the_clocks_as_the_walls_say(change, data):
    tz, at, by = change
    text = data.draw(expressions(tz, at))
    cron = known(text, tz)
    if cron is None:
        return
    around = stretch(tz, at, by)
    occurrences = around.occurrences(text)
    first, last = micros(around.first), micros(around.last)
    middle = micros(at)
    begins = [middle - 1, middle, middle + abs(by) // MINUTE // 2 * MINUTE // MICROSECOND]
    for begin in [*begins, data.draw(st.integers(first, last))]:
        expected = [one for one in occurrences if one > begin][:30]  # some of many: there may be one every second
        until = expected[-1] if len(expected) == 30 else last
        assert list(map(to_datetime, all_after(cron, begin, until))) == list(map(to_datetime, expected)), text
        assert cron.count(begin + 1, until, 1000) == len(expected)
        before = [one for one in occurrences if one <= begin]
        latest = cron.latest(begin)
        if before:
            assert to_datetime(latest) == to_datetime(before[-1]), text
        else:
            assert latest is None or latest < first


@settings(max_examples=600 if STORM else 40)
@given(st.one_of(changed(), st.just(("UTC", datetime(2026, 6, 1, tzinfo=UTC), timedelta()))), st.data())
def test_every_occurrence_is_started_once_when_it_is_due_through_a_change_of_the_clocks(change, data):
    """A schedule that is looked at now and then, also by a clock that goes back."""
    tz, at, by = change
    text = data.draw(expressions(tz, at))
    when = known(text, tz)
    if when is None:
        return
    around = stretch(tz, at, by)
    occurrences, last = around.occurrences(text), micros(around.last)
    begin = data.draw(st.integers(micros(around.first), last))
    end = min([last, *[one for one in occurrences if one > begin][150:151]])
    policy = Policy(overlap="allow", catch_up=micros(around.last))
    made = row(when, policy, watermark=begin, created_at=begin, since=begin)
    looks = data.draw(st.lists(st.integers(begin, end), max_size=5))
    started: list[int] = []
    for now in [*looks, end]:
        while made.next_at is not None and made.next_at <= now:
            fired = firing.fire(made, now, os.urandom, ())
            made, records = fired.row, fired.occurrences
            assert all(record.kind == OccurrenceKind.STARTED for record in records)
            assert all(record.first <= now for record in records)
            started += [record.first for record in records]
    assert started == [one for one in occurrences if begin < one <= end]
    assert len({firing.run_id("k", one) for one in started}) == len(started)


@settings(max_examples=1500 if STORM else 40)
@given(changed(), st.integers(-(10**12), 10**12))
@example(("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC), DAY), 0)
def test_a_zone_knows_when_its_walls_show_a_time_and_when_they_are_changed(change, further):
    tz, at, by = change
    where = zone(tz)
    assert where.change(micros(at) - 1, micros(at)) == micros(at)
    assert where.last_change(micros(at) - 1, micros(at)) == micros(at)
    assert where.change(micros(at), micros(at) + 10**6) is None
    far = micros(at) + abs(further)
    assert where.last_change(micros(at) - 1, far) == max(
        micros(one) for one in [at, *changes(tz, at.year, at.year + 1)] if micros(one) <= far
    )
    around = stretch(tz, at, by)
    first_shown: dict[datetime, datetime] = {}
    for instant, wall in around.shown:
        first_shown.setdefault(wall, instant)
    for wall in (around.shown[len(around.shown) // 2 + offset][1] for offset in (-1799, -1, 0, 1, 1799)):
        assert to_datetime(where.instant(micros(wall.replace(tzinfo=UTC)))) == first_shown[wall]
    left_out = around.shown[len(around.shown) // 2][1] - SECOND
    if by > SECOND:
        assert left_out not in first_shown
        assert to_datetime(where.instant(micros(left_out.replace(tzinfo=UTC)))) == at


@settings(max_examples=2000 if STORM else 100)
@given(
    st.tuples(days_of_month, months, days_of_week).map(" ".join),
    st.dates(date(1971, 1, 1), date(2090, 1, 1)),
    st.sampled_from(["UTC", "Asia/Kathmandu", "Asia/Tokyo"]),
)
@example("29 2 MON#5", date(2026, 1, 1), "UTC")
@example("LW 2 *", date(2026, 1, 1), "UTC")
@example("13 * FRI", date(2026, 1, 1), "UTC")
@example("*/13 * 5L", date(2026, 1, 1), "UTC")
def test_the_next_and_the_last_day_that_match_are_found_however_far_they_are(days, begin, tz):
    cron = known(f"0 12 {days}", tz)
    expression = Expression(f"0 12 {days}")
    matching = (begin + number * DAY for number in range(1, 366 * (9 if cron else 41)))
    following = next((day for day in matching if expression.is_day(day)), None)
    if cron is None:
        assert following is None
        return
    noon = datetime(begin.year, begin.month, begin.day, 12, tzinfo=ZoneInfo(tz))
    found = cron.next(micros(noon.astimezone(UTC)))
    if following is None:
        assert found is None or to_datetime(found) > noon + 365 * 8 * DAY
        return
    assert to_datetime(found).astimezone(ZoneInfo(tz)).date() == following
    before = next((one for number in range(366 * 9) if expression.is_day(one := begin - number * DAY)), None)
    latest = cron.latest(micros(noon.astimezone(UTC)))
    assert before is None or to_datetime(latest).astimezone(ZoneInfo(tz)).date() == before


@settings(max_examples=300 if STORM else 25)
@given(
    st.sampled_from(sorted(available_timezones()) if STORM else [name for name, *_ in ZONES]),
    st.integers(micros(datetime(1900, 1, 1, tzinfo=UTC)), micros(datetime(2037, 1, 1, tzinfo=UTC))),
    st.sampled_from(["30 2 * * *", "0 0 * * *", "0 */3 * * *", "15 1 * * SUN", "* * * * *", "59 23 31 12 *"]),
)
def test_what_comes_next_was_the_latest_before_what_comes_after_in_any_year(tz, begin, text):
    cron = Cron(text, tz)
    at = begin
    for _ in range(8):
        following = cron.next(at)
        assert following > at
        assert cron.latest(following) == following
        latest = cron.latest(following - 1)
        assert latest <= at
        assert cron.next(latest) == following
        at = following


@pytest.mark.parametrize("name", [name for name, *_ in ZONES])
def test_every_zone_of_these_tests_changes_its_clocks(name):
    first, last = next((first, last) for other, first, last in ZONES if other == name)
    assert changes(name, first, last)
