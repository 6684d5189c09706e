"""The keeper: purges what has been kept for long enough, on a thread of its own, at a gentle pace.

One worker of a namespace does it at a time, the one that the store has elected; it is elected anew before its time is
over, and when it dies another one follows once that time is over. Nothing depends on there being only one: whatever two
of them do at once is done once.
"""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from perdure.clock import SystemClock
from perdure.errors import PerdureError
from perdure.store.pruning import Pruning
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.model.retention import Retention
    from perdure.store.protocol import Store

TERM: Final = 60.0
"""Seconds for which a keeper is elected."""
GENTLE: Final = 9
"""How many times as long as a transaction took the keeper rests before the next one."""
REST: Final = 0.005
"""Seconds that it rests at least."""
PATIENCE: Final = 5.0
"""Seconds that whoever stops it waits for its transaction to end."""


class Keeper:
    """Purges the runs of one namespace as its retention says.

    Args:
        store: where they are.
        retention: how long they are kept.
        namespace: whose.
        key: who asks to be elected: a worker's key.
        reached: told of the points of ``perdure.runtime.points``.
        name: the worker's, for logs.
    """

    def __init__(
        self,
        store: Store,
        retention: Retention,
        namespace: str,
        key: int,
        reached: Callable[[str], object] | None,
        *,
        name: str = "",
    ) -> None:
        self._name = name
        self._store, self._retention, self._namespace = store, retention, namespace
        self._key = key
        self._reached = reached
        self._chore = f"retention of {namespace!r}"
        self._clock = SystemClock()  # its pace is real time's, whatever clock judges the age of runs
        self._stop = Event()
        self._elected_until = 0.0
        self._thread = Thread(target=self._serve, name="perdure-keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Begin nothing more."""
        self._stop.set()

    def stop(self) -> None:
        """End; returns when no transaction is under way, or it takes too long."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)

    def _serve(self) -> None:
        pause = self._retention.pause
        while not self._stop.wait(pause):
            try:
                if self._is_elected():
                    self._make_pass()
            except PerdureError as error:
                if not self._stop.is_set():
                    say(lines.NOT_PURGED, error=error, pause=pause, worker=self._name)
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end it for good
                say(lines.PURGE_FAULT, error=error, fault=True, pause=pause, worker=self._name)
        self._give_back()

    def _make_pass(self) -> None:
        for took in self._steps():
            if self._stop.wait(max(REST, GENTLE * took)) or not self._is_elected():
                return

    def _steps(self) -> Iterator[float]:
        """Do a step, and give how long it took, in seconds."""
        now = self._store.now()
        rules = self._retention.rules(now, self._namespace)
        before = self._retention.forgets_before(now)
        forget = None if before is None else (self._namespace, before)
        pruning = Pruning(self._store, rules, forget=forget, reached=self._reached)
        begun = self._clock.monotonic()
        for _ in pruning.steps():
            yield self._clock.monotonic() - begun
            begun = self._clock.monotonic()
        if pruning.pruned.runs:
            say(lines.PURGED, runs=pruning.pruned.runs, namespace=self._namespace, worker=self._name)

    def _is_elected(self) -> bool:
        now = self._clock.monotonic()
        if now + TERM / 2 >= self._elected_until:
            elected = self._store.elect(self._chore, self._key, round(TERM * 1e6))
            self._elected_until = now + TERM if elected else 0.0
        return self._elected_until > 0

    def _give_back(self) -> None:
        if self._elected_until:
            try:
                self._store.elect(self._chore, self._key, 0)
            except PerdureError as error:
                say(lines.PURGE_KEPT, error=error, pause=TERM, worker=self._name)


__all__ = ["Keeper"]
