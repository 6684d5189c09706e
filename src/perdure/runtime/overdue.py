"""Runs past their deadline that nobody executes: cancelled by whichever worker sees them first.

A run that waits is claimed when its deadline comes, and sees to it itself. This is for those that are not: they wait
for a free slot, for a worker with their code, or are paused.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from perdure.model.durations import to_datetime
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from perdure.runtime.host import Host
    from perdure.runtime.journal import Journal
    from perdure.store.protocol import Store

BATCH: Final = 100
"""Runs that are cancelled in one pass."""


class Overdue:
    """Looks for overdue runs every so often; lives on a worker's loop.

    Args:
        store: where the runs are.
        journal: what writes.
        host: the process.
        every: seconds between looks.
        asked: told when runs have been cancelled, or wait to be claimed for that.
    """

    def __init__(
        self, store: Store, journal: Journal, host: Host, *, every: float, asked: Callable[[], object]
    ) -> None:
        self._store, self._journal, self._host = store, journal, host
        self._every = every
        self._asked = asked
        self._next = host.clock.monotonic() + every
        self._looking = False

    def look(self) -> None:
        """Cancel what is overdue, if the last look was some time ago."""
        now = self._host.clock.monotonic()
        if self._looking or now < self._next:
            return
        self._next = now + self._every
        self._looking = True
        self.cancel().add_done_callback(self._looked)

    def cancel(self) -> asyncio.Future[int]:
        """Cancel what is overdue; gives how many runs that were."""
        now = self._host.given_time()
        # Off the loop: each is a transaction of its own.
        return self._journal.call(partial(_cancel, self._store, now), background=True)

    def _looked(self, done: asyncio.Future[int]) -> None:
        self._looking = False
        if (error := done.exception()) is not None:
            say(lines.OVERDUE_UNKNOWN, error=error, worker=self._host.worker)
        elif done.result():
            self._asked()
            if done.result() == BATCH:
                self._next = 0.0  # there may be more


def _cancel(store: Store, now: int | None) -> int:
    found = store.overdue(BATCH, now=now)
    for run_key, deadline in found:
        store.request_cancel(run_key, reason(deadline))
    return len(found)


def reason(deadline: int) -> str:
    """Why a run is cancelled whose deadline (µs) has passed."""
    return f"its deadline has passed: {to_datetime(deadline):%Y-%m-%d %H:%M:%S} UTC"


__all__ = ["Overdue", "reason"]
