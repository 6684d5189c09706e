from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import DefinitionError
from perdure.model.durations import FOREVER, instant, later, micros, seconds, to_datetime
from tests.model.values import numbered


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("30s", 30.0),
        ("200ms", 0.2),
        ("1.5h", 5400.0),
        ("14d", 1_209_600.0),
        (" 2h ", 7200.0),
        (".5m", 30.0),
        ("1 w", 604_800.0),
        ("0s", 0.0),
        (0, 0.0),
        (5, 5.0),
        (2.5, 2.5),
        (10**9, 1e9),
        (timedelta(days=1, milliseconds=1), 86400.001),
        (timedelta.max, timedelta.max.total_seconds()),
    ],
)
def test_a_duration_in_any_spelling_is_seconds(value, expected):
    assert seconds(value) == pytest.approx(expected)


NONSENSE = [
    "30",
    "",
    " ",
    "s",
    "-1s",
    "1h30m",
    "1.s",
    "1e3s",
    "nan",
    "inf",
    "\u0661s",
    "1S",
    "1 M",
    "30s\x00",
    -1,
    -0.5,
    float("nan"),
    float("inf"),
    10**400,
    "9" * 400 + "w",
    True,
    False,
    None,
    b"1s",
    timedelta(-1),
    [1],
    1j,
    datetime(2026, 1, 1, tzinfo=UTC),
]


@pytest.mark.parametrize("value", NONSENSE, ids=numbered(NONSENSE))
def test_what_is_no_duration_is_refused_with_advice(value):
    with pytest.raises(DefinitionError, match="delay") as caught:
        seconds(value, what="delay")
    assert "timedelta" in caught.value.advice


@pytest.mark.parametrize("nought", [0, "0ms", 0.0, timedelta(0)])
def test_nought_is_refused_where_it_means_nothing(nought):
    assert seconds(nought) == 0
    with pytest.raises(DefinitionError, match="longer than nought"):
        seconds(nought, allow_zero=False)


@given(st.timedeltas(timedelta(0), timedelta(days=100_000)))
def test_micros_of_a_timedelta_are_exact(value):
    assert micros(value) * timedelta(microseconds=1) == value


@given(st.integers(0, 10**12) | st.floats(0, 1e300) | st.timedeltas(timedelta(0)) | st.just("99999999999999999w"))
def test_every_duration_has_an_end_that_a_datetime_can_hold(value):
    end = later(1_700_000_000_000_000, value)
    assert 1_700_000_000_000_000 <= end <= FOREVER < 2**63
    assert math.isfinite(seconds(value))
    assert instant(to_datetime(end)) == end


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.timezones()))  # noqa: DTZ001 - hypothesis adds the zone
def test_an_instant_is_the_same_in_every_zone_and_comes_back(value):
    at = instant(value)
    assert to_datetime(at) == value.astimezone(UTC)
    assert instant(value.replace(tzinfo=timezone(value.utcoffset()))) == at


def test_the_fold_tells_two_instants_apart():
    first = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert instant(first.replace(fold=1)) - instant(first) == 3_600_000_000


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), date(2026, 1, 1), "2026-01-01T00:00:00Z", 0, None])  # noqa: DTZ001
def test_what_is_no_instant_is_refused_with_advice(value):
    with pytest.raises(DefinitionError) as caught:
        instant(value)
    assert caught.value.advice


@pytest.mark.parametrize("at", [-(10**30), 10**30])
def test_instants_beyond_the_calendar_become_its_ends(at):
    assert to_datetime(at).year in {1, 9999}
