"""The system's clock: the only place that reads the time."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


_elapsed: Callable[[], float] = time.monotonic
if hasattr(time, "CLOCK_BOOTTIME"):
    _elapsed = partial(time.clock_gettime, time.CLOCK_BOOTTIME)


class SystemClock:
    """The clock of this machine."""

    __slots__ = ()

    def now(self) -> int:
        """The wall clock: microseconds since the epoch, UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds since some fixed instant; never goes back, and goes on while the machine sleeps, as leases do."""
        return _elapsed()


__all__ = ["SystemClock"]
