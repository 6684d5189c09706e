"""How long people wait for lists, numbers and traffic of runs in a large store; see README.md."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from benchmarks.workloads import five_steps
from perdure.model.records import Status
from perdure.store.open import open_store
from perdure.store.protocol import Filter, Store

SECOND = 1_000_000
AIM = 200.0
"""Milliseconds in which a page and the numbers beside it are read."""


def looks(store: Store) -> list[tuple[str, Callable[[], Any]]]:
    """What people look at, by name: as ``perdure runs``, an API or a dashboard asks for it."""
    name = five_steps.name
    ended = (Status.COMPLETED, Status.CANCELLED)
    newest = store.list_runs(Filter(workflow=name, status=ended, limit=1))[0]
    oldest = _oldest(store, Filter(workflow=name, status=ended), newest.created_at)
    middle = (oldest + newest.created_at) // 2
    half = Filter(workflow=name, status=ended, created_after=oldest, created_before=middle)
    deep = Filter(workflow=name, status=ended, after=Filter().place(newest)._replace(at=middle))

    def page() -> None:
        assert len(store.list_runs(half)) == half.limit
        assert store.count_runs(half)

    return [
        ("a page by status, workflow and time, with counts", page),
        ("a page by status, workflow and time", partial(store.list_runs, half)),
        ("a page of all", partial(store.list_runs, Filter())),
        ("a page from the middle on", partial(store.list_runs, deep)),
        ("a page by end", partial(store.list_runs, Filter(ended_before=middle))),
        ("a page by the beginning of an id", partial(store.list_runs, Filter(id_prefix=newest.run_id[:12]))),
        (
            "nothing, by the beginning of all ids",
            partial(store.list_runs, Filter(id_prefix=newest.run_id[:2], error="x")),
        ),
        ("counts of all", partial(store.count_runs, Filter())),
        ("counts of those that ended in a time", partial(store.count_runs, Filter(ended_before=middle))),
        ("counts by the beginning of an id", partial(store.count_runs, Filter(id_prefix=newest.run_id[:4]))),
        ("traffic in 60 buckets", partial(store.traffic, oldest, newest.created_at + 1, 60)),
    ]


def _oldest(store: Store, where: Filter, until: int) -> int:
    """When about the oldest run was created: looked for in ever shorter times."""
    low, high = 0, until
    while high - low > SECOND:
        at = (low + high) // 2
        some = store.list_runs(Filter(workflow=where.workflow, status=where.status, created_before=at, limit=1))
        low, high = (low, at) if some else (at, high)
    return low


def measure_lists(target: str, rounds: int = 7) -> None:
    """Print how long each look takes: the median, and the longest."""
    with closing(open_store(target)) as store:
        everything = sum(one.number for one in store.count_runs(Filter()))
        print(f"  lists of {everything:,} runs, ms{'p50':>31}{'max':>9}")
        for name, look in looks(store):
            taken = []
            for _ in range(rounds):
                began = time.perf_counter()
                look()
                taken.append((time.perf_counter() - began) * 1000)
            aim = f"   [aim < {AIM:g}]" if name.endswith("with counts") else ""
            print(f"    {name:50}{statistics.median(taken):>9.1f}{max(taken):>9.1f}{aim}", flush=True)


__all__ = ["measure_lists"]
