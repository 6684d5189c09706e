"""Slots: how many runs a worker executes at once, and which.

What takes a run's place is claimed while its last event is on the way to the disk, since both take their time. It
begins once that event is there: never is more code under way than there are slots. If the run stays after all (news
came in for it), the other one is given back.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.runtime.run import Run


class Slots:
    """The slots of one worker; lives on its loop.

    Args:
        limit: how many there are.
        soon: has something called on the loop.

    Attributes:
        running: the runs that the worker holds, by key.
    """

    def __init__(self, limit: int, soon: Callable[[Callable[[], object]], object]) -> None:
        self._limit = limit
        self._soon = soon
        self.running: dict[int, Run] = {}
        self._leaving: set[int] = set()
        """Keys of runs whose last event is being written."""
        self._waiting: OrderedDict[Run, Callable[[], object]] = OrderedDict()
        """Runs that were claimed for slots of those, and how they begin."""
        self._beginning: list[Callable[[], object]] = []

    @property
    def free(self) -> int:
        """How many runs may be claimed."""
        return self._limit - len(self.running) + len(self._leaving)

    def take(self, run: Run, begin: Callable[[], object], *, at_once: bool) -> None:
        """Execute a run once there is a slot; ``at_once``: without one."""
        self.running[run.run_key] = run
        self._leaving.discard(run.run_key)  # if it has just been written as waiting, that was another execution
        if at_once or len(self.running) - len(self._waiting) <= self._limit:
            self._begin(begin)
        else:
            self._waiting[run] = begin

    def leaves(self, run: Run) -> None:
        """A run's last event is being written."""
        self._leaving.add(run.run_key)

    def stays(self, run: Run) -> Run | None:
        """It goes on after all; returns the run that was claimed for its slot, which is not to be executed."""
        self._leaving.discard(run.run_key)
        return self._waiting.popitem()[0] if self._waiting and self.free < 0 else None

    def left(self, run: Run) -> bool:
        """A run is not held any more; False if it has been claimed anew meanwhile, as another execution."""
        if self.running.get(run.run_key) is not run:
            return False
        del self.running[run.run_key]
        self._leaving.discard(run.run_key)
        _ = self._waiting.pop(run, None)
        if self._waiting and len(self.running) - len(self._waiting) < self._limit:
            self._begin(self._waiting.popitem(last=False)[1])
        return True

    def begin_all(self) -> None:
        """Wait for no slot: nothing that begins now does anything but settle."""
        while self._waiting:
            self._begin(self._waiting.popitem(last=False)[1])

    def _begin(self, begin: Callable[[], object]) -> None:
        # A turn later than whoever waits for the claim, which may be about to claim more: that goes out first.
        self._beginning.append(begin)
        if len(self._beginning) == 1:
            self._soon(self._begin_soon)

    def _begin_soon(self) -> None:
        beginning, self._beginning = self._beginning, []
        for begin in beginning:
            self._soon(begin)


__all__ = ["Slots"]
