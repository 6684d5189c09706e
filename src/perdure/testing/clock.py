"""A clock that moves only when it is told to."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Final

from perdure.model.durations import instant, micros, seconds, to_datetime

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.engine import Engine
    from perdure.model.durations import Duration

BEGINNING: Final = datetime(2030, 1, 1, 12, tzinfo=UTC)
"""What a new clock shows."""


class Alarm:
    """Something to call back at an instant; can be cancelled."""

    __slots__ = ("_callback", "due", "loop")

    def __init__(self, due: int, loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
        self.due = due
        self.loop = loop
        self._callback: Callable[[], object] | None = callback

    @property
    def pending(self) -> bool:
        """Whether it may still ring: neither rung nor cancelled, and there is a loop to ring on."""
        return self._callback is not None and not self.loop.is_closed()

    def cancel(self) -> None:
        """Take it back; from any thread."""
        self._callback = None

    def ring(self) -> None:
        """Call back, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class ManualClock:
    """A clock for tests: ``Engine(clock=ManualClock())``.

    A workflow that sleeps for a fortnight goes on after ``clock.advance("14d")``, and no test waits. The time of day
    moves with ``advance`` and ``set``, and timeouts of steps come with it: a body may take as long as it likes in real
    time. The time by which leases end stands still meanwhile (a fortnight that passes in an instant is no reason to
    take a worker for dead) and moves with ``lapse``. All methods may be called from any thread.
    """

    def __init__(self, start: datetime = BEGINNING) -> None:
        """Show ``start`` (an aware datetime) until told otherwise."""
        self._now = instant(start)
        self._monotonic = 0.0
        self._alarms: list[tuple[int, int, Alarm]] = []
        self._count = 0
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<ManualClock at {to_datetime(self._now).isoformat()}>"

    # -- what the engine asks

    def now(self) -> int:
        """The time of day: microseconds since the epoch, UTC."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that have lapsed."""
        return self._monotonic

    def call_at(self, due: int, loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> Alarm:
        """Have ``callback`` called on ``loop`` once the clock shows ``due`` (µs): at its next turn if it does."""
        alarm = Alarm(due, loop, callback)
        with self._lock:
            if due > self._now:
                self._count += 1
                heapq.heappush(self._alarms, (due, self._count, alarm))
                return alarm
        _ring([alarm])
        return alarm

    def call_later(self, after: float, loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> Alarm:
        """Have ``callback`` called on ``loop`` once the clock has gone on by ``after`` seconds."""
        return self.call_at(self._now + micros(after), loop, callback)

    # -- moving it

    def advance(self, duration: Duration) -> None:
        """Let time pass at one stroke; what comes due meanwhile is called back in the order of its instants.

        To let a workflow set its next timer in between, as it would, use ``pass_time``.
        """
        self._move(self._now + micros(duration))

    def set(self, when: datetime) -> None:
        """Set the clock, forwards or back, as people and time servers do.

        Args:
            when: what it is to show, an aware datetime.
        """
        self._move(instant(when))

    def lapse(self, duration: Duration) -> None:
        """Let leases grow older: what the time of day does not do."""
        with self._lock:
            self._monotonic += seconds(duration)

    def next_due(self) -> datetime | None:
        """When the earliest pending callback is due, if there is one."""
        due = self._next_due()
        return None if due is None else to_datetime(due)

    def skip(self) -> bool:
        """Go to the next instant at which something is due; returns whether there is one."""
        due = self._next_due()
        if due is None:
            return False
        self._move(due)
        return True

    async def pass_time(self, duration: Duration, engine: Engine) -> None:
        """Let time pass as it would: go from one instant at which something is due to the next.

        At each it waits until the engine is idle, so that whatever is set next is set in time. A step's body in flight
        is waited for; to have it time out, use ``advance``.
        """
        until = self._now + micros(duration)
        await engine.idle()
        while (due := self._next_due()) is not None and due <= until:
            self._move(due)
            await engine.idle()
        self._move(until)
        await engine.idle()

    def _next_due(self) -> int | None:
        with self._lock:
            while self._alarms and not self._alarms[0][2].pending:
                heapq.heappop(self._alarms)
            return self._alarms[0][0] if self._alarms else None

    def _move(self, to: int) -> None:
        with self._lock:
            self._now = to
            due: list[Alarm] = []
            while self._alarms and self._alarms[0][0] <= to:
                due.append(heapq.heappop(self._alarms)[2])
        _ring(due)


class RealTimeouts:
    """A manual clock that somebody moves whenever nothing else happens; steps, which do happen, have real timeouts."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def now(self) -> int:
        """The time of day: microseconds since the epoch, UTC."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Seconds that have lapsed."""
        return self._clock.monotonic()

    def call_at(self, due: int, loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> Alarm:
        """See ``ManualClock``."""
        return self._clock.call_at(due, loop, callback)


class EitherTimeouts(RealTimeouts):
    """A manual clock for tests that move it or have it moved: steps time out when it goes on, or real time does."""

    def call_later(self, after: float, loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> EitherAlarm:
        """See ``ManualClock``; to be called on the loop."""
        return EitherAlarm(self._clock, after, loop, callback)


class EitherAlarm:
    """Something to call back once, when a manual clock or the loop's own has gone on by so many seconds."""

    __slots__ = ("_callback", "_manual", "_real")

    def __init__(
        self, clock: ManualClock, after: float, loop: asyncio.AbstractEventLoop, callback: Callable[[], object]
    ) -> None:
        self._callback = callback
        self._real = loop.call_later(after, self._ring)
        self._manual = clock.call_later(after, loop, self._ring)

    def cancel(self) -> None:
        """Take it back; on the loop."""
        self._real.cancel()
        self._manual.cancel()

    def _ring(self) -> None:
        self.cancel()
        self._callback()


def _ring(alarms: list[Alarm]) -> None:
    here = asyncio._get_running_loop()
    for alarm in alarms:
        if not alarm.pending:
            continue
        if alarm.loop is here:
            alarm.loop.call_soon(alarm.ring)
        else:
            try:
                alarm.loop.call_soon_threadsafe(alarm.ring)
            except RuntimeError:  # closed since: there is nobody to call
                alarm.cancel()


__all__ = ["BEGINNING", "Alarm", "EitherTimeouts", "ManualClock", "RealTimeouts"]
