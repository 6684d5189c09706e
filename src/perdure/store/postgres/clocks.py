"""The server's clock as this process can tell it, without asking each time."""

from __future__ import annotations

import threading
from typing import Final

from perdure.clock import SystemClock

_LASTS: Final = 60.0
"""Seconds after which a measurement is replaced by any newer one: clocks drift, and are set."""


class ServerClock:
    """The server's clock, kept between measurements by the time that passes here."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._offset = self._clock.now() - self._micros()
        self._error = float("inf")
        self._measured = float("-inf")

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        return self._micros() + self._offset

    def monotonic(self) -> float:
        """Seconds of this process's own time."""
        return self._clock.monotonic()

    def learn(self, instant: int, before: float) -> None:
        """Take in what the server's clock showed between ``before`` (of ``monotonic``) and now."""
        after = self._clock.monotonic()
        error = after - before
        with self._lock:
            if error <= self._error or after - self._measured > _LASTS:
                self._error, self._measured = error, after
                self._offset = instant - round((before + after) / 2 * 1e6)

    def _micros(self) -> int:
        return round(self._clock.monotonic() * 1e6)
