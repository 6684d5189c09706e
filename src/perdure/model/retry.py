"""When a failed attempt is followed by another, and after how long: a pure function of policy, attempt and error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeAlias

from perdure.errors import DefinitionError, OutcomeUnknown, RetryAfter, StepInterrupted, TransactionEnded
from perdure.model.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.model.durations import Duration

Selector: TypeAlias = "type[Exception] | Callable[[Exception], bool]"
"""Chooses errors: an exception class, or a function that says yes or no."""

Backoff: TypeAlias = Literal["exponential", "linear", "constant"]

_BACKOFFS = ("exponential", "linear", "constant")
_EXPONENT_LIMIT = 1 << 20
"""No delay changes any more beyond this attempt; keeps powers cheap and ints within floats."""
_DEFAULT_JITTER = 0.5
_ASKED_LIMIT = 10 * 365 * 86_400.0
"""Seconds: the longest wait a ``RetryAfter`` can ask for."""
_NEVER_AGAIN = (StepInterrupted, StopIteration, StopAsyncIteration, TransactionEnded)


@dataclass(frozen=True)
class Retry:
    """How often a step is tried, and how long to wait between attempts.

    Durations may be given as ``timedelta``, ``"200ms"`` or seconds; they are kept as seconds.

    Attributes:
        max_attempts: attempts in all, the first included.
        backoff: how the delay grows: ``initial·factor^(n-1)``, ``initial·n`` or always ``initial``.
        initial_delay: wait after the first failed attempt, in seconds.
        max_delay: no computed wait is longer, in seconds.
        factor: base of the exponential backoff.
        jitter: which part of a delay is left to chance, 0 to 1: a wait lies between ``(1 - jitter)·delay`` and
            ``delay``. ``True`` means one half, ``False`` none.
        retry_on: classes of errors, or functions of the error, of which one must agree to another attempt.
        give_up_on: the same, of which none may agree.

    Raises:
        DefinitionError: a value that makes no sense, at construction.
    """

    max_attempts: int = 3
    backoff: Backoff = "exponential"
    initial_delay: Duration = 1.0
    max_delay: Duration = 300.0
    factor: float = 2.0
    jitter: bool | float = True
    retry_on: Selector | tuple[Selector, ...] = (Exception,)
    give_up_on: Selector | tuple[Selector, ...] = ()

    def __post_init__(self) -> None:
        """Check every value and bring it to its plain form."""
        if isinstance(self.max_attempts, bool) or not isinstance(self.max_attempts, int) or self.max_attempts < 1:
            raise _wrong("max_attempts", self.max_attempts, "give a whole number from 1; 1 means no retry")
        if self.backoff not in _BACKOFFS:
            raise _wrong("backoff", self.backoff, "use one of " + ", ".join(_BACKOFFS))
        if not _is_number(self.factor) or not 0 <= self.factor < math.inf:
            raise _wrong("factor", self.factor, "give a finite number from 0")
        if isinstance(self.jitter, bool):
            jitter = _DEFAULT_JITTER if self.jitter else 0.0
        elif _is_number(self.jitter) and 0 <= self.jitter <= 1:
            jitter = float(self.jitter)
        else:
            raise _wrong("jitter", self.jitter, "give True, False or a part between 0 and 1")
        initial = seconds(self.initial_delay, what="initial_delay")
        longest = seconds(self.max_delay, what="max_delay")
        if initial > longest:
            raise _wrong(
                "initial_delay", self.initial_delay, f"it is longer than max_delay ({longest:g} s): raise that"
            )
        plain = {
            "initial_delay": initial,
            "max_delay": longest,
            "factor": float(self.factor),
            "jitter": jitter,
            "retry_on": _selectors("retry_on", self.retry_on),
            "give_up_on": _selectors("give_up_on", self.give_up_on),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)


def next_delay(policy: Retry, attempt: int, error: BaseException, *, unit: float) -> float | None:
    """Return how long to wait before the next attempt, or None to give up.

    Never raises. ``RetryAfter`` is waited for as long as it asks, also beyond ``max_delay`` (at most ten years) and
    whatever ``retry_on`` says, as long as attempts are left.

    Args:
        policy: the step's policy.
        attempt: number of the attempt that failed, from 1.
        error: what it failed with. What is no ``Exception`` is never tried again, nor ``StepInterrupted``.
        unit: what chance says, in [0, 1); see ``jitter_unit``.

    Returns:
        Seconds, from 0 to ``max_delay``.
    """
    if attempt >= policy.max_attempts or not isinstance(error, Exception) or isinstance(error, _NEVER_AGAIN):
        return None
    if isinstance(error, OutcomeUnknown) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # which the policy is about
    if isinstance(error, RetryAfter):
        asked = _asked(error)
        if asked is not None:
            return asked
    elif not _wanted(policy, error):
        return None
    jitter = float(policy.jitter)
    return delay_before_jitter(policy, attempt) * (1.0 - jitter * unit)


def delay_before_jitter(policy: Retry, attempt: int) -> float:
    """Return the longest wait after attempt ``attempt`` (from 1) failed, in seconds."""
    initial, longest = seconds(policy.initial_delay), seconds(policy.max_delay)
    steps = min(max(attempt, 1), _EXPONENT_LIMIT)
    if policy.backoff == "constant" or initial == 0:
        return initial
    if policy.backoff == "linear":
        return min(initial * steps, longest)
    try:
        growth = policy.factor ** (steps - 1)
    except OverflowError:  # far beyond any cap
        return longest
    return min(initial * growth, longest)


def jitter_unit(uid: bytes, key: str, attempt: int) -> float:
    """Return what chance says for an attempt, in [0, 1): the same whenever asked, unlike for any other attempt."""
    digest = sha256(b"perdure jitter %d " % attempt + uid + key.encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / (1 << 53)


def _asked(error: RetryAfter) -> float | None:
    try:
        return min(seconds(error.delay), _ASKED_LIMIT)
    except DefinitionError:
        return None  # asks for nonsense: the policy's own delay


def _wanted(policy: Retry, error: Exception) -> bool:
    try:
        chosen = any(_agrees(selector, error) for selector in _as_tuple(policy.retry_on))
        return chosen and not any(_agrees(selector, error) for selector in _as_tuple(policy.give_up_on))
    except Exception as broken:  # noqa: BLE001 - a user's predicate; the step's own error must not be lost to it
        error.add_note(f"not retried: a predicate of retry_on or give_up_on raised {type(broken).__name__}")
        return False


def _agrees(selector: Selector, error: Exception) -> bool:
    return isinstance(error, selector) if isinstance(selector, type) else bool(selector(error))


def _as_tuple(given: Selector | tuple[Selector, ...]) -> tuple[Selector, ...]:
    return given if isinstance(given, tuple) else (given,)


def _selectors(what: str, given: Selector | tuple[Selector, ...]) -> tuple[Selector, ...]:
    chosen = tuple(given) if isinstance(given, (tuple, list, set, frozenset)) else (given,)
    for selector in chosen:
        if isinstance(selector, type):
            if not issubclass(selector, Exception):
                raise _wrong(what, selector, "only kinds of Exception can be retried")
        elif not callable(selector):
            raise _wrong(what, selector, "give exception classes, or functions of the error that return a bool")
    return chosen


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _wrong(what: str, value: object, advice: str) -> DefinitionError:
    return DefinitionError(f"{what}={value!r} makes no sense", advice=advice, value=value)


NO_RETRY = Retry(max_attempts=1)
"""What a step has that asks for nothing: one attempt."""
