"""What is in a store, for metrics: counted up to a bound, so that a look at it costs little however large it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.model.condition import Backlog
    from perdure.model.records import Status

BOUND = 10_000
"""Up to here runs of one status, and claimable runs of one route, are counted."""


class Gauge(NamedTuple):
    """What is in a store at one moment.

    Attributes:
        counts: runs by status, in all namespaces, each up to ``BOUND``; statuses without any are missing.
        backlogs: what could be claimed, by route; whether a route is served is not looked for.
        now: when it was looked, by the store's clock (µs).
        log_bytes: size of the write-ahead log, if the store has one of its own.
        reconnects: connections that had to be opened again since the store was opened.
    """

    counts: Mapping[Status, int]
    backlogs: tuple[Backlog, ...]
    now: int
    log_bytes: int | None
    reconnects: int
