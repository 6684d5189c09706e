"""What became of runs lately, bucket by bucket: of a bucket that is over for a while the store is asked once.

What is purged meanwhile stays in the buckets that were told of it, until they are out of sight.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from perdure import describe
from perdure.model.counting import edges, traffic_of

if TYPE_CHECKING:
    from perdure.store.protocol import Store

BUCKETS: Final = 60
WINDOWS: Final = {"1h": 3600, "6h": 6 * 3600, "24h": 86400, "7d": 7 * 86400}
"""How far back one may look, in seconds."""
SETTLED: Final = 15_000_000
"""µs after its end in which a bucket may still change: ends are written a little after their instants."""
KEPT: Final = 64
"""Kinds of runs, by namespace, workflow and window, whose buckets are kept."""

_Known = dict[int, tuple[dict[str, Any], bool]]
"""Buckets as they are described, by their beginning (µs), and whether they are exact."""


class Lately:
    """The buckets of a store that were looked at."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str | None, str], _Known] = OrderedDict()
        self._guard = threading.Lock()

    def of(self, store: Store, namespace: str, workflow: str | None, window: str) -> dict[str, Any]:
        """Return what became of runs; buckets end at round instants, so that they stay what they are."""
        now = store.now()
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
                made = describe.traffic(traffic_of((at, end), [one]))
                found[at] = made["buckets"][0], made["exact"]
                if end + SETTLED <= now:
                    known[at] = found[at]
        shown = [found[at] for at in range(since, until, width)]
        return {"exact": all(exact for _, exact in shown), "buckets": [bucket for bucket, _ in shown]}

    def forget(self) -> None:
        """Know nothing any more: the store may be another one."""
        with self._guard:
            self._known.clear()

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
