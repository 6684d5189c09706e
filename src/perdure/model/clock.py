"""Where the time comes from, so that nothing but the system's clock reads it and tests can move it."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The time on the wall and the time that only goes forward."""

    def now(self) -> int:
        """The wall clock: microseconds since the epoch, UTC. It may step in either direction."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed instant; never goes back. For intervals inside one process."""
        ...
