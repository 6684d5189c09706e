"""The heartbeat: a thread with a connection of its own that renews a worker's lease, whatever the loop is doing.

It also watches the loop: one that has not turned for a while is named in a warning, with what keeps it.
"""

from __future__ import annotations

import sys
import traceback
from threading import Event, Thread
from typing import TYPE_CHECKING

from perdure.errors import StoreError
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.model.clock import Clock
    from perdure.store.protocol import Store

LATE = 1.0
"""Seconds without a turn after which the loop is reported."""

RETRY = 0.2
"""Seconds between tries at a renewal that failed."""

QUIET = 1.0
"""Seconds between warnings of that."""


class Heartbeat:
    """Renews one worker's lease; ``until`` says up to when (on the clock's monotonic time) it surely holds.

    Attributes:
        until: the end of the lease, less a margin, counted from before the last good renewal was sent.
        beat: how many renewals were sent.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        worker_key: int,
        *,
        lease: float,
        interval: float,
        renewed: Callable[[bool], None],
        lost: Callable[[], None],
        name: str = "",
    ) -> None:
        self._name = name
        self._store, self._clock = store, clock
        self._key, self._lease, self._interval = worker_key, lease, interval
        self._doubtful = store.doubtful
        self._renewed, self._lost = renewed, lost
        self._margin = min(lease / 10, 1.0)
        self._stop = Event()
        self._loop_thread: int | None = None
        self._reported = False
        self._quiet_until = 0.0
        self._thread = Thread(target=self._serve, name="perdure-heartbeat", daemon=True)
        self.turned_at = clock.monotonic()
        self.until = clock.monotonic() + lease - self._margin
        self.beat = 0

    def start(self, loop_thread: int) -> None:
        """Begin, watching the loop of the given thread."""
        self._loop_thread = loop_thread
        self._thread.start()

    def stop(self) -> None:
        """End; returns when no renewal is under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def ok(self) -> bool:
        """Whether the worker's runs are surely its own now: its lease holds, and nobody can take it for dead."""
        return self._clock.monotonic() < self.until and not self._doubtful(self._key)

    def holds(self) -> bool:
        """Whether the lease holds: until it ends, what cannot be written is tried again."""
        return self._clock.monotonic() < self.until

    def _serve(self) -> None:
        wait = self._interval
        tick = min(self._interval, LATE / 2)
        since = 0.0
        while not self._stop.wait(min(tick, wait)):
            self._watch_loop()
            since += min(tick, wait)
            if since + 1e-9 < wait:
                continue
            since = 0.0
            wait = self._interval if self._renew() else min(RETRY, self._interval)

    def _renew(self) -> bool:
        before = self._clock.monotonic()
        self.beat += 1
        try:
            held = self._store.renew(self._key, round(self._lease * 1e6), self.beat)
        except StoreError as error:
            if before >= self._quiet_until:
                self._quiet_until = before + QUIET
                say(lines.NOT_RENEWED, error=error, worker=self._name)
            return False
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the renewals for good
            say(lines.HEARTBEAT_FAULT, error=error, fault=True, worker=self._name)
            return False
        if not held:
            self.until = 0.0
            self._stop.set()
            self._lost()
            return True
        # Judged now and not before the renewal was sent: it may have waited long for the database.
        was_over = not self.holds()
        self.until = before + self._lease - self._margin
        self._renewed(was_over)
        return True

    def _watch_loop(self) -> None:
        late = self._clock.monotonic() - self.turned_at
        if late < LATE:
            self._reported = False
            return
        if self._reported:
            return
        self._reported = True
        frame = sys._current_frames().get(self._loop_thread or 0)  # noqa: SLF001 - there is no public spelling
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        say(lines.LOOP_BLOCKED, late=late, stack=stack, worker=self._name)
