from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import DefinitionError, RetryAfter, StepInterrupted, StepTimeout
from perdure.model.retry import NO_RETRY, Retry, jitter_unit, next_delay

units = st.floats(0, 1, exclude_max=True)
policies = st.builds(
    lambda initial, more, **options: Retry(initial_delay=initial, max_delay=initial + more, **options),
    initial=st.floats(0, 1e6) | st.sampled_from([5e-324, 0.001]),
    more=st.floats(0, 1e9),
    max_attempts=st.integers(1, 2000),
    backoff=st.sampled_from(["exponential", "linear", "constant"]),
    factor=st.floats(0, 1e308) | st.sampled_from([0.0, 0.5, 1.0, 2.0, 1e308]),
    jitter=st.booleans() | st.floats(0, 1),
)


@given(policies, st.integers(1, 3000), units)
def test_a_delay_lies_between_nought_and_the_cap_and_nothing_is_ever_raised(policy, attempt, unit):
    delay = next_delay(policy, attempt, ValueError(), unit=unit)
    if attempt >= policy.max_attempts:
        assert delay is None
    else:
        assert 0 <= delay <= policy.max_delay
        assert math.isfinite(delay)


@given(policies, units)
def test_jitter_only_shortens(policy, unit):
    longest = next_delay(policy, 1, ValueError(), unit=0.0)
    if longest is not None:
        assert longest * (1 - policy.jitter) <= next_delay(policy, 1, ValueError(), unit=unit) <= longest


@given(policies.filter(lambda policy: policy.factor >= 1))
def test_delays_never_shrink_on_the_way_to_the_cap(policy):
    delays = [next_delay(policy, attempt, ValueError(), unit=0.0) for attempt in range(1, min(policy.max_attempts, 60))]
    assert all(a <= b for a, b in pairwise(delays))


def test_the_three_backoffs():
    def delays(backoff, **options):
        policy = Retry(max_attempts=9, backoff=backoff, initial_delay=1, max_delay=10, jitter=False, **options)
        return [next_delay(policy, attempt, ValueError(), unit=0.9) for attempt in range(1, 7)]

    assert delays("exponential") == [1, 2, 4, 8, 10, 10]
    assert delays("exponential", factor=0.5) == [1, 0.5, 0.25, 0.125, 0.0625, 0.03125]
    assert delays("exponential", factor=0) == [1, 0, 0, 0, 0, 0]
    assert delays("linear") == [1, 2, 3, 4, 5, 6]
    assert delays("constant") == [1] * 6


@pytest.mark.parametrize("factor", [2.0, 1e308, 0, 0.0, 1])
@pytest.mark.parametrize("initial", [0, "1ms", 5e-324])
def test_the_cap_holds_where_the_power_overflows(factor, initial):
    policy = Retry(max_attempts=1200, initial_delay=initial, factor=factor, max_delay="1ms")
    assert all(0 <= next_delay(policy, attempt, ValueError(), unit=0.5) <= 0.001 for attempt in range(1, 1200))
    assert next_delay(policy, 1200, ValueError(), unit=0.5) is None


def test_a_step_that_asks_for_nothing_has_one_attempt():
    assert next_delay(NO_RETRY, 1, ValueError(), unit=0.0) is None
    assert next_delay(Retry(), 2, ValueError(), unit=0.0) is not None


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(0),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        StepInterrupted("x"),
        StopIteration(),
        BaseException(),
    ],
)
def test_what_is_no_failure_of_the_step_is_never_tried_again(error):
    assert next_delay(Retry(max_attempts=5), 1, error, unit=0.0) is None


def test_errors_are_chosen_by_class_or_predicate_and_giving_up_wins():
    policy = Retry(max_attempts=5, retry_on=(OSError, lambda error: "busy" in str(error)), give_up_on=FileNotFoundError)
    assert next_delay(policy, 1, OSError(), unit=0.0) == 1.0
    assert next_delay(policy, 1, StepTimeout("slow"), unit=0.0) == 1.0
    assert next_delay(policy, 1, ValueError("busy"), unit=0.0) == 1.0
    assert next_delay(policy, 1, ValueError("x"), unit=0.0) is None
    assert next_delay(policy, 1, FileNotFoundError("busy"), unit=0.0) is None


def test_a_predicate_that_raises_gives_up_and_says_so():
    error = ValueError("x")
    assert next_delay(Retry(retry_on=lambda error: error.code), 1, error, unit=0.0) is None
    assert "AttributeError" in error.__notes__[0]


def test_a_delay_asked_for_is_waited_for_within_the_attempts():
    policy = Retry(max_attempts=2, max_delay=10, retry_on=OSError)
    assert next_delay(policy, 1, RetryAfter(3600), unit=0.9) == 3600
    assert next_delay(policy, 2, RetryAfter(3600), unit=0.9) is None


@pytest.mark.parametrize("asked", [float("nan"), -1, float("inf"), "soon", None, 10**400])
def test_a_delay_that_makes_no_sense_falls_back_on_the_policy(asked):
    assert next_delay(Retry(jitter=False), 1, RetryAfter(asked), unit=0.0) == 1.0


def test_a_delay_asked_for_has_an_end():
    assert next_delay(Retry(), 1, RetryAfter(1e300), unit=0.0) < 1e9


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": 1.5},
        {"max_attempts": True},
        {"max_attempts": "3"},
        {"backoff": "fibonacci"},
        {"factor": -1},
        {"factor": float("inf")},
        {"factor": float("nan")},
        {"factor": "2"},
        {"jitter": 1.5},
        {"jitter": -0.1},
        {"jitter": float("nan")},
        {"jitter": "yes"},
        {"initial_delay": "1"},
        {"initial_delay": -1},
        {"initial_delay": "10m"},
        {"max_delay": "x"},
        {"retry_on": 1},
        {"retry_on": (ValueError, "x")},
        {"retry_on": BaseException},
        {"give_up_on": KeyboardInterrupt},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused_where_it_is_written(options):
    with pytest.raises(DefinitionError) as caught:
        Retry(**options)
    assert caught.value.advice


def test_durations_of_any_spelling_make_the_same_policy():
    assert Retry(initial_delay="2s", max_delay=timedelta(minutes=1)) == Retry(initial_delay=2, max_delay="60s")


@given(st.binary(min_size=16, max_size=16), st.text(), st.integers(1, 2000))
def test_chance_is_the_same_whenever_asked(uid, key, attempt):
    unit = jitter_unit(uid, key, attempt)
    assert 0 <= unit < 1
    assert unit == jitter_unit(uid, key, attempt)
    assert unit != jitter_unit(uid, key, attempt + 1)
