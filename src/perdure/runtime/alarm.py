"""An alarm: one callback, at the earliest of the instants that were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.runtime.host import Host


class Alarm:
    """Rings once, when its instant has come on the host's clock.

    Attributes:
        due: when it rings (µs UTC), or None if it is not set.
    """

    __slots__ = ("_handle", "_host", "_ring", "due")

    def __init__(self, host: Host, ring: Callable[[], object]) -> None:
        self._host = host
        self._ring = ring
        self._handle: Any = None
        self.due: int | None = None

    def set(self, due: int) -> None:
        """Ring at ``due``, unless it rings sooner anyway."""
        if self.due is not None:
            if self.due <= due:
                return
            self._handle.cancel()
        self.due = due
        self._handle = self._host.call_at(due, self._came)

    def cancel(self) -> None:
        """Do not ring."""
        if self.due is not None:
            self._handle.cancel()
            self.due = self._handle = None

    def _came(self) -> None:
        due = self.due
        if due is not None and due > self._host.clock.now():  # no wait is long, since clocks jump
            self._handle = self._host.call_at(due, self._came)
            return
        self.due = self._handle = None
        self._ring()
