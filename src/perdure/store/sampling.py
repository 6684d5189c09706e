"""What became of runs over time: which of them are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.model.counting import Sampled
from perdure.model.records import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SAMPLE: Final = 20_000
"""Runs whose latencies are read in one look at the traffic, and how many a bucket has at least."""
LEAST_SAMPLE: Final = 100

ENDED: Final = tuple(status for status in Status if status.terminal)
_TIMED: Final = frozenset({Status.COMPLETED, Status.FAILED})
"""Of these latencies are told: what was cancelled may have waited for ever."""

Ended = tuple[int, int, int, int, int, int]
"""Bucket, route, status, how many ended in it, and the longest that one took from creation and from first claim on."""
Wanted = tuple[int, int, int, int, int, int]
"""Bucket, route, status, from when, until when, and one in how many."""


def wanted(bounds: Sequence[int], ended: Iterable[Ended]) -> list[Wanted]:
    """What is to be sampled: all runs of a bucket if they are few, else an even part of them."""
    timed = [one for one in ended if one[3] and one[2] in _TIMED]
    sizes: dict[int, int] = {}
    for bucket, _, _, number, *_ in timed:
        sizes[bucket] = sizes.get(bucket, 0) + number
    share = max(LEAST_SAMPLE, SAMPLE // max(1, len(sizes)))
    return [
        (bucket, route, status, bounds[bucket], bounds[bucket + 1], -(-sizes[bucket] // share))
        for bucket, route, status, *_ in timed
    ]


def sampled(
    buckets: int, created: Iterable[tuple[int, int]], ended: Iterable[Ended], latencies: Iterable[tuple[int, int, int]]
) -> list[Sampled]:
    """Put together what was found of each bucket."""
    made = [0] * buckets
    ends: list[dict[Status, int]] = [{} for _ in range(buckets)]
    longest = [(0, 0)] * buckets
    took: list[list[tuple[int, int]]] = [[] for _ in range(buckets)]
    for bucket, number in created:
        made[bucket] += number
    for bucket, _, status, number, waited, taken in ended:
        if number:
            ends[bucket][Status(status)] = ends[bucket].get(Status(status), 0) + number
            if status in _TIMED:
                longest[bucket] = max(longest[bucket][0], waited), max(longest[bucket][1], taken)
    for bucket, waited, taken in latencies:
        took[bucket].append((waited, taken))
    return [Sampled(*one) for one in zip(made, ends, took, longest, strict=True)]


__all__ = ["ENDED", "SAMPLE", "Ended", "Wanted", "sampled", "wanted"]
