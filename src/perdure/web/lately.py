"""What became of runs lately, bucket by bucket: of a bucket that is over for a while the store is asked once.

What is purged meanwhile stays in the buckets that were told of it, until they are out of sight. Where there are very
many runs, what is still open, and how many runs there are, is asked for every few seconds, however many look.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from perdure import describe
from perdure.clock import SystemClock
from perdure.model.counting import edges, traffic_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from perdure.model.clock import Clock
    from perdure.model.counting import Counted
    from perdure.store.protocol import Filter, Store

BUCKETS: Final = 60
WINDOWS: Final = {"1h": 3600, "6h": 6 * 3600, "24h": 86400, "7d": 7 * 86400}
"""How far back one may look, in seconds."""
SETTLED: Final = 15_000_000
"""µs after its end in which a bucket may still change: ends are written a little after their instants."""
KEPT: Final = 64
"""Kinds of runs, by namespace, workflow and window, whose buckets are kept."""

MANY: Final = 100_000
"""Runs from which on it takes its time to count them."""
FRESH: Final = 5.0
"""Seconds for which so many are counted once."""

_Known = dict[int, tuple[dict[str, Any], bool]]
"""Buckets as they are described, by their beginning (µs), and whether they are exact."""


class Lately:
    """The buckets of a store that were looked at, and numbers of runs where these are many.

    Args:
        clock: tells how old a number is.
        many: see ``MANY``.
    """

    def __init__(self, clock: Clock | None = None, many: int = MANY) -> None:
        self._known: OrderedDict[tuple[str, str | None, str], _Known] = OrderedDict()
        self._guard = threading.Lock()
        self._clock = SystemClock() if clock is None else clock
        self._many = many
        self._told: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()

    def count(self, store: Store, where: Filter, most: int | None) -> list[Counted]:
        """Return how many runs there are of a kind, as ``Store.count_runs`` does."""

        def count() -> tuple[list[Counted], int]:
            found = store.count_runs(where, most)
            return found, sum(one.number for one in found)

        found: list[Counted] = self._once((where, most), count)
        return found

    def _once(self, what: Hashable, ask: Callable[[], tuple[Any, int]]) -> Any:
        """Return what is told when asked; what is of many runs is asked for every few seconds alone."""
        with self._guard:
            at, told = self._told.get(what, (None, None))
        if at is not None and self._clock.monotonic() - at < FRESH:
            return told
        told, number = ask()
        with self._guard:
            if number >= self._many:
                self._told[what] = self._clock.monotonic(), told
                self._told.move_to_end(what)
                if len(self._told) > KEPT:
                    self._told.popitem(last=False)
            else:
                self._told.pop(what, None)
        return told

    def of(self, store: Store, namespace: str, workflow: str | None, window: str) -> dict[str, Any]:
        """Return what became of runs; buckets end at round instants, so that they stay what they are."""

        def ask() -> tuple[dict[str, Any], int]:
            return self._ask(store, namespace, workflow, window)

        told: dict[str, Any] = self._once((namespace, workflow, window), ask)
        return told

    def _ask(self, store: Store, namespace: str, workflow: str | None, window: str) -> tuple[dict[str, Any], int]:
        """Return what became of runs, and how many of them were looked at for it."""
        now, looked = store.now(), 0
        width = WINDOWS[window] * 1_000_000 // BUCKETS
        until = -(-now // width) * width
        since = until - BUCKETS * width
        known = self._get((namespace, workflow, window), since)
        found = dict(known)
        first = next((at for at in range(since, until, width) if at not in found), until)
        if first < until:
            bounds = edges(first, until, (until - first) // width)
            told = store.traffic(first, until, len(bounds) - 1, workflow=workflow, namespace=namespace)
            for at, end, one in zip(bounds, bounds[1:], told, strict=False):
                looked += one.created + sum(one.ended.values())
                made = describe.traffic(traffic_of((at, end), [one]))
                found[at] = made["buckets"][0], made["exact"]
                if end + SETTLED <= now:
                    known[at] = found[at]
        shown = [found[at] for at in range(since, until, width)]
        return {"exact": all(exact for _, exact in shown), "buckets": [bucket for bucket, _ in shown]}, looked

    def forget(self) -> None:
        """Know nothing any more: the store may be another one."""
        with self._guard:
            self._known.clear()
            self._told.clear()

    def _get(self, key: tuple[str, str | None, str], since: int) -> _Known:
        """Return the buckets that are known of runs of a kind, without those that are out of sight."""
        with self._guard:
            known = {at: one for at, one in list(self._known.get(key, {}).items()) if at >= since}
            self._known[key] = known
            self._known.move_to_end(key)
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return known


__all__ = ["BUCKETS", "WINDOWS", "Lately"]
