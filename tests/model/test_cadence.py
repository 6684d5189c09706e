"""When schedules fire, against an oracle that looks at every single minute of the clocks on the wall (``walls.py``)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.errors import DefinitionError
from perdure.model import cadence
from perdure.model.durations import FOREVER, instant, to_datetime
from tests.model.walls import walls

MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000
YEAR = 365 * DAY

# A zone, and a day on which its clocks are put forward or back.
CHANGES = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("Australia/Lord_Howe", "2026-10-04"),  # by half an hour
    ("Australia/Lord_Howe", "2026-04-05"),
    ("America/Havana", "2026-03-08"),  # at midnight
    ("America/Havana", "2026-11-01"),
    ("Africa/Casablanca", "2026-02-15"),  # for Ramadan
    ("Africa/Casablanca", "2026-03-22"),
    ("Pacific/Apia", "2011-12-30"),  # a day that was not
    ("Asia/Kathmandu", "2026-06-01"),  # never
]


def numbers(low, high):
    number = st.integers(low, high)
    term = st.one_of(
        number.map(str),
        st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}"),
        st.integers(1, high).map(lambda step: f"*/{step}"),
        st.tuples(number, st.integers(1, high)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    )
    return st.one_of(st.just("*"), st.lists(term, min_size=1, max_size=3).map(",".join))


expressions = st.tuples(
    st.one_of(st.just("30"), st.just("0"), numbers(0, 59)),
    st.one_of(st.sampled_from(["*", "2", "1-3", "0", "0-23"]), numbers(0, 23)),
    st.one_of(st.just("*"), numbers(1, 31)),
    st.one_of(st.just("*"), numbers(1, 12)),
    st.one_of(st.just("*"), numbers(0, 7)),
).map(" ".join)


def known(expression, tz):
    try:
        return cadence.cron(expression, tz, start=None, end=None)
    except DefinitionError as error:
        if "never occurs" in str(error):  # 31 February
            return None
        raise


@given(expressions, st.sampled_from(CHANGES), st.integers(0, 8639 * MINUTE))
@example("30 2 * * *", CHANGES[0], 0)
@example("*/10 2 * * *", CHANGES[0], 0)
@example("*/10 2 * * *", CHANGES[1], 4 * DAY)
@example("* * * * *", CHANGES[1], 0)
@example("0 0 */2 * 1", CHANGES[1], 0)
def test_cron_occurs_when_the_walls_say_so(expression, change, begin):
    tz, day = change
    cron = known(expression, tz)
    if cron is None:
        return
    noon = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=UTC)
    shown = walls(tz, noon - timedelta(days=3), noon + timedelta(days=3), timedelta(minutes=1))
    occurrences = shown.occurrences(expression)
    at = instant(shown.first) + begin
    until = min(at + DAY + HOUR, instant(shown.last))
    expected = [one for one in occurrences if at < one <= until]
    found, after = [], at
    while (one := cron.next(after)) is not None and one <= until:
        found.append(one)
        after = one
    assert list(map(to_datetime, found)) == list(map(to_datetime, expected))
    before = [one for one in occurrences if one <= at]
    latest = cron.latest(at)
    if before:
        assert latest == before[-1]
    else:
        assert latest is None or latest < instant(shown.first)
    assert cron.count(at + 1, until, 10_000) == len(expected)


@given(
    st.sampled_from(
        ["* * * * * *", "*/7 * * * * *", "59 59 23 * * *", "0 30 2 * * *", "1,2 */29 1-3 * * *", "5 4 3 2 1 *"]
    ),
    st.sampled_from(CHANGES),
    st.integers(-3 * DAY, 3 * DAY),
)
def test_with_seconds_what_comes_next_was_the_latest_before_what_comes_after(expression, change, begin):
    tz, day = change
    cron = cadence.cron(expression, tz, start=None, end=None)
    at = instant(datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=UTC)) + begin
    following = cron.next(at)
    assert following > at
    assert cron.latest(following) == following
    latest = cron.latest(following - 1)
    assert latest is None or latest <= at
    assert latest is None or cron.next(latest) == following


def told(expression, tz, after, count=4):
    cron = cadence.cron(expression, tz, start=None, end=None)
    at, zone, found = instant(datetime.fromisoformat(after)), ZoneInfo(tz), []
    for _ in range(count):
        at = cron.next(at)
        found.append(f"{to_datetime(at).astimezone(zone):%d %H:%M%z}")
    return found


def test_a_time_of_day_that_is_left_out_comes_at_the_end_of_the_gap():
    assert told("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", 2) == ["29 03:00+0200", "30 02:30+0200"]
    assert told("*/20 2 * * *", "Europe/Berlin", "2026-03-29T00:00Z", 2) == ["29 03:00+0200", "30 02:00+0200"]
    assert told("0 0 * * *", "America/Havana", "2026-03-07T12:00Z", 2) == ["08 01:00-0400", "09 00:00-0400"]
    assert told("0 9 30 12 *", "Pacific/Apia", "2011-12-29T12:00Z", 1) == ["31 00:00+1400"]


def test_a_time_of_day_that_comes_twice_counts_once():
    assert told("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", 2) == ["25 02:30+0200", "26 02:30+0100"]
    # Also when asked between the two, before or after the clocks are put back.
    assert told("30 2 * * *", "Europe/Berlin", "2026-10-25T00:45Z", 1) == ["26 02:30+0100"]
    assert told("30 2 * * *", "Europe/Berlin", "2026-10-25T01:15Z", 1) == ["26 02:30+0100"]


def test_what_is_for_every_hour_goes_on_through_a_change():
    assert told("30 * * * *", "Europe/Berlin", "2026-10-24T23:45Z", 3) == [
        "25 02:30+0200", "25 02:30+0100", "25 03:30+0100",
    ]  # fmt: skip
    assert told("30 * * * *", "Europe/Berlin", "2026-03-29T00:00Z", 2) == ["29 01:30+0100", "29 03:30+0200"]


@pytest.mark.parametrize(
    "expression",
    [
        "", "   ", "*", "* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *",
        "* * * * 8", "5-1 * * * *", "*/0 * * * *", "*/-1 * * * *", "1//2 * * * *", "1,,2 * * * *", "0x10 * * * *",
        "1e1 * * * *", "\u0661 * * * *", "a * * * *", "@reboot", "@", "bad", "* * * FOO *", "* * * * MON-SUN",
        "\0 * * * *", "0," * 500 + "0 * * * *", None, 5, b"* * * * *",
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_an_expression_that_cannot_be_read_is_refused(expression):
    with pytest.raises(DefinitionError) as raised:
        cadence.cron(expression, "UTC", start=None, end=None)
    assert "never" not in str(raised.value)
    assert raised.value.advice


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6,9,11 *", "0 0 */31 2 MON#5"])
def test_an_expression_that_never_occurs_is_refused(expression):
    with pytest.raises(DefinitionError, match="never occurs"):
        cadence.cron(expression, "Europe/Berlin", start=None, end=None)


@pytest.mark.parametrize(
    "tz", ["Mars/Olympus", "", "Europe", "../etc/passwd", "/etc/passwd", "CEST", "\0", "x" * 5000, None, 5, UTC]
)
def test_a_zone_that_is_none_is_refused(tz):
    with pytest.raises(DefinitionError) as raised:
        cadence.cron("* * * * *", tz, start=None, end=None)
    assert "zone" in str(raised.value)


def test_a_zone_may_be_given_as_it_is():
    assert cadence.cron("* * * * *", ZoneInfo("Europe/Berlin"), start=None, end=None).tz == "Europe/Berlin"


def test_months_and_days_of_the_week_have_names():
    at = instant(datetime(2026, 1, 1, tzinfo=UTC))
    named, numbered = (
        cadence.cron(expression, "UTC", start=None, end=None)
        for expression in ("0 9 * jan,MAR-May Mon-fri,sun", "0 9 * 1,3-5 1-5,7")
    )
    for _ in range(120):
        following = named.next(at)
        assert following == numbered.next(at)
        at = following


@pytest.mark.parametrize(
    ("stepped", "plain"),
    [
        ("5-5/10 * * * *", "5 * * * *"),
        ("0 3-03/2,7 * * *", "0 3,7 * * *"),
        ("0 0 * * MON-mon/2", "0 0 * * MON"),
        ("0 0 * feb-2/3 *", "0 0 * 2 *"),
        ("5-15/10 * * * *", "5,15 * * * *"),
    ],
)
def test_a_step_does_not_lead_out_of_its_range(stepped, plain):
    at = instant(datetime(2026, 1, 1, tzinfo=UTC))
    for _ in range(20):
        one, other = (cadence.cron(text, "UTC", start=None, end=None).next(at) for text in (stepped, plain))
        assert one == other
        at = one
    with pytest.raises(DefinitionError):
        cadence.cron("5-5/0 * * * *", "UTC", start=None, end=None)


@pytest.mark.parametrize("nickname", ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"])
def test_nicknames_mean_what_they_say(nickname):
    cron = cadence.cron(nickname, "UTC", start=None, end=None)
    first = cron.next(instant(datetime(2026, 1, 1, 0, 30, tzinfo=UTC)))
    at = to_datetime(first)
    assert (at.minute, at.second) == (0, 0)
    assert at.hour == (1 if nickname == "@hourly" else 0)
    assert {"@weekly": at.isoweekday() == 7, "@monthly": at.day == 1}.get(nickname, True)


def test_leap_days_are_found_over_any_distance():
    cron = cadence.cron("0 9 29 2 *", "UTC", start=None, end=None)
    assert to_datetime(cron.next(instant(datetime(2024, 2, 29, 9, tzinfo=UTC)))).year == 2028
    assert to_datetime(cron.next(instant(datetime(2097, 1, 1, tzinfo=UTC)))).year == 2104
    minutely = cadence.cron("* * * * *", "UTC", start=None, end=None)
    at = datetime(2028, 2, 29, 23, 59, 30, tzinfo=UTC)
    assert to_datetime(minutely.next(instant(at))) == datetime(2028, 3, 1, tzinfo=UTC)


def test_the_end_of_time_is_no_occurrence():
    for expression in ("* * * * *", "0 0 1 1 *", "* * * * * *"):
        cron = cadence.cron(expression, "Pacific/Kiritimati", start=None, end=None)
        for at in (FOREVER, FOREVER - 1, FOREVER - DAY, 2**63):
            assert cron.next(at) is None
        assert cron.latest(FOREVER) is not None
        assert cron.latest(-(2**62)) is None
        assert cron.next(-(2**62)) is not None


@given(st.integers(10_000, 10 * YEAR), st.integers(0, YEAR), st.integers(0, 300 * YEAR), st.integers(0, 10**6))
def test_an_interval_keeps_its_phase_over_any_distance(every, first, at, limit):
    made = cadence.Interval(every, first)
    following = made.next(at)
    assert following > at
    assert (following - first) % every == 0
    assert following == first or following - every <= at
    assert made.latest(following) == following
    assert made.latest(following - 1) == (following - every if following > first else None)
    assert made.count(first, following, limit) == min(limit, (following - first) // every + 1)
    ending = cadence.Interval(every, first, end=at)
    assert ending.next(at) is None
    assert ending.latest(FOREVER) == made.latest(at)


def test_an_interval_begins_after_its_length_or_at_its_start():
    now = instant(datetime(2026, 1, 1, tzinfo=UTC))
    start = datetime(2026, 1, 1, 6, tzinfo=UTC)
    assert cadence.interval("1h", now, start=None, end=None).next(now) == now + HOUR
    assert cadence.interval("1h", now, start=start, end=None).next(now) == instant(start)
    assert cadence.interval("1h", now, start=start, end=start).next(now) == instant(start)


def test_nothing_occurs_before_the_start_or_after_the_end():
    start, end = datetime(2026, 1, 1, 6, tzinfo=UTC), datetime(2026, 1, 1, 8, tzinfo=UTC)
    cron = cadence.cron("0 * * * *", "UTC", start=start, end=end)
    assert cron.next(0) == instant(start)
    assert cron.latest(FOREVER) == instant(end)
    assert cron.next(instant(end)) is None
    assert cron.latest(instant(start) - 1) is None
    assert cron.count(0, FOREVER, 100) == 3


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
        (datetime(2026, 1, 1, 0, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 2, tzinfo=UTC)),
    ],
)
def test_a_schedule_with_nothing_between_start_and_end_is_refused(start, end):
    with pytest.raises(DefinitionError, match="between start and end"):
        cadence.cron("@daily", "UTC", start=start, end=end)
    if start > end:
        with pytest.raises(DefinitionError, match="between start and end"):
            cadence.interval("1s", 0, start=start, end=end)


@pytest.mark.parametrize("bad", [datetime(2026, 1, 1), "2026-01-01", 5])  # noqa: DTZ001 - that is the point
def test_bounds_without_a_zone_are_refused(bad):
    for bounds in ({"start": bad, "end": None}, {"start": None, "end": bad}):
        with pytest.raises(DefinitionError):
            cadence.cron("@daily", "UTC", **bounds)
        with pytest.raises(DefinitionError):
            cadence.interval("1h", 0, **bounds)


@pytest.mark.parametrize(
    "every", [0, -1, "0s", 0.001, float("nan"), float("inf"), "1 fortnight", "9999999999w", True, None]
)
def test_an_absurd_interval_is_refused(every):
    with pytest.raises(DefinitionError):
        cadence.interval(every, instant(datetime(2026, 1, 1, tzinfo=UTC)), start=None, end=None)


@given(st.text(min_size=1), st.integers(0, 300 * YEAR), st.integers(1, YEAR))
def test_jitter_is_bounded_and_always_the_same(key, occurrence, jitter):
    due = cadence.jittered(key, occurrence, jitter)
    assert occurrence <= due < occurrence + jitter
    assert cadence.jittered(key, occurrence, jitter) == due
    assert cadence.jittered(key, occurrence, 0) == occurrence


def test_jitter_spreads_schedules():
    dues = {cadence.jittered(f"key-{number}", 0, HOUR) for number in range(100)}
    assert len(dues) == 100
    assert min(dues) < HOUR // 4
    assert max(dues) > 3 * HOUR // 4


def test_what_is_encoded_is_decoded():
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    for made in (
        cadence.interval("90s", 5, start=None, end=None),
        cadence.interval("1h", 5, start=start, end=end),
        cadence.cron("@daily", "UTC", start=None, end=None),
        cadence.cron("0 9 * * MON#1", "Europe/Berlin", start=start, end=end),
    ):
        assert cadence.decode(made.encode()) == made
    assert cadence.interval("90s", 5, start=None, end=None).describe() == "every 90s"
    assert cadence.interval("120s", 5, start=None, end=None).describe() == "every 2m"
    assert cadence.interval("250ms", 5, start=None, end=None).describe() == "every 250ms"


def test_the_same_recurrence_is_recognised_whenever_it_was_begun():
    early, late = (cadence.interval("1h", now, start=None, end=None) for now in (5, 6))
    assert early.same_recurrence(late)
    assert not early.same_recurrence(cadence.interval("2h", 5, start=None, end=None))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert not early.same_recurrence(cadence.interval("1h", 5, start=start, end=None))
    cron = cadence.cron("@daily", "UTC", start=None, end=None)
    assert cron.same_recurrence(cadence.cron("@daily", "UTC", start=None, end=None))
    assert not cron.same_recurrence(cadence.cron("@daily", "Europe/Berlin", start=None, end=None))
    assert not cron.same_recurrence(early)
