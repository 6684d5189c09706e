"""How many runs there are, and what became of them over time, as users see it: numbers of runs, and latencies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from perdure.model.durations import to_datetime
from perdure.model.records import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime


class Counted(NamedTuple):
    """How many runs of one workflow have one status."""

    workflow: str
    status: Status
    number: int


class Sampled(NamedTuple):
    """What became of runs in one bucket of time, as a store tells it.

    Attributes:
        created: how many were created.
        ended: how many ended so, by status.
        latencies: of runs that completed or failed, by pairs of µs: from creation, and from the first claim, to the
            end. All of them, or an even sample.
        longest: the longest of each, of all of them.
    """

    created: int
    ended: Mapping[Status, int]
    latencies: Sequence[tuple[int, int]]
    longest: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many runs of a kind there are.

    Attributes:
        by_status: how many have each status; statuses that none has are not there.
        by_workflow: the same for each workflow, by its name.
        exact: whether these are all; else there are at least so many.
    """

    by_status: Mapping[Status, int]
    by_workflow: Mapping[str, Mapping[Status, int]]
    exact: bool = True

    @property
    def total(self) -> int:
        """How many there are together."""
        return sum(self.by_status.values())


@dataclass(frozen=True, slots=True)
class Latency:
    """How long runs took, in seconds: half of them no longer than ``p50``, 95 of a hundred no longer than ``p95``."""

    p50: float
    p95: float
    max: float


@dataclass(frozen=True, slots=True)
class Bucket:
    """What became of runs from one instant on, until before another one.

    Attributes:
        since: where it begins.
        until: where it ends.
        created: how many runs were created in it.
        completed: how many runs ended so in it, whenever they were created.
        failed: likewise.
        cancelled: likewise.
        latency: from creation to the end, of those that completed or failed in it; None if there are none.
        execution: the same from their first claim on, without what they waited before.
    """

    since: datetime
    until: datetime
    created: int
    completed: int
    failed: int
    cancelled: int
    latency: Latency | None
    execution: Latency | None


@dataclass(frozen=True, slots=True)
class Traffic:
    """What became of runs over time, in buckets of one length.

    Attributes:
        buckets: earliest first.
        exact: whether ``p50`` and ``p95`` are of all runs, else of an even sample of them. Everything else is exact.
    """

    buckets: tuple[Bucket, ...]
    exact: bool


def counts(found: Iterable[Counted], *, exact: bool = True) -> Counts:
    """Sum up what stores have counted."""
    by_status: Counter[Status] = Counter()
    by_workflow: dict[str, Counter[Status]] = {}
    for workflow, status, number in found:
        if number:
            by_status[status] += number
            by_workflow.setdefault(workflow, Counter())[status] += number
    return Counts(
        dict(sorted(by_status.items())),
        {name: dict(sorted(of.items())) for name, of in sorted(by_workflow.items())},
        exact,
    )


def edges(since: int, until: int, buckets: int) -> list[int]:
    """Return where buckets begin (µs), and where the last one ends: of one length in whole µs, the last may be shorter.

    There are fewer of them than asked for where a range is shorter than so many µs.
    """
    width = -(-(until - since) // buckets)
    return [*range(since, until, width), until]


def traffic_of(bounds: Sequence[int], found: Sequence[Sampled]) -> Traffic:
    """Sum up what a store says of buckets with these bounds."""
    exact = True
    buckets: list[Bucket] = []
    for (since, until), one in zip(pairwise(bounds), found, strict=True):
        completed, failed, cancelled = (
            one.ended.get(status, 0) for status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED)
        )
        exact = exact and len(one.latencies) == completed + failed
        waits, takes = zip(*one.latencies, strict=True) if one.latencies else ((), ())
        buckets.append(
            Bucket(
                to_datetime(since), to_datetime(until), one.created, completed, failed, cancelled,
                latency(waits, one.longest[0]), latency(takes, one.longest[1]),
            )
        )  # fmt: skip
    return Traffic(tuple(buckets), exact)


def latency(taken: Sequence[int], longest: int) -> Latency | None:
    """Return how long runs took, by what a sample of them took (µs, in any order), and the longest of all of them.

    A percentile is the least value that so many do not exceed (the nearest rank).
    """
    if not taken:
        return None
    ordered = sorted(taken)
    p50, p95 = (ordered[-(-percent * len(ordered) // 100) - 1] for percent in (50, 95))
    return Latency(p50 / 1e6, p95 / 1e6, longest / 1e6)


__all__ = ["Bucket", "Counted", "Counts", "Latency", "Sampled", "Traffic", "counts", "edges", "latency", "traffic_of"]
