"""Measure what a store of millions of rows costs beside a store that holds next to nothing; see README.md."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
from contextlib import closing

from benchmarks import growth
from benchmarks.filling import Models, fill, make_models, settle
from benchmarks.lists import measure_lists
from benchmarks.places import DATABASES, NewStore, place
from benchmarks.verbs import Side, measure
from perdure.store.open import is_postgres

SIZES = (100_000, 1_000_000, 5_000_000)
SMALL = 10_000


def by_events(new: NewStore, target: str, models: Models, sizes: list[int], rounds: int) -> int:
    """Measure steps while the store grows; how many finished runs it holds then."""
    runs = 0
    for size in sizes:
        fill(target, [models.finished], size // growth.EVENTS - runs)
        settle(target)
        measured = growth.pairs(lambda: growth.filled(new(), SMALL), target, rounds)
        print(f"  W2 with {size:>9,} events {measured} with {SMALL:,}   [aim flat]", flush=True)
        runs = size // growth.EVENTS + rounds * (growth.RUNS + growth.WARM)
    return runs


def by_runs(new: NewStore, target: str, models: Models, options: argparse.Namespace, finished: int) -> None:
    """Measure the verbs of a worker behind many runs of every other sort."""
    fill(target, [models.cancelled], options.finished - finished)
    fill(target, [models.sleeping], options.sleeping)
    fill(target, models.foreign, options.foreign)
    print(
        f"  {max(options.finished, finished):,} finished, {options.sleeping:,} asleep, {options.foreign:,} that nobody "
        "can execute, beside none of these"
    )
    tell_walks(target, "before the planner knows them")
    settle(target)
    tell_walks(target, "once the planner knows them")
    measure_lists(target)
    empty = new()
    make_models(empty)
    with closing(Side(empty)) as small, closing(Side(target)) as large:
        measure([small, large], options.rounds)
        report(small.taken, large.taken)


def tell_walks(target: str, when: str) -> None:
    """Say which queries of a PostgreSQL store would walk through a big table."""
    if not is_postgres(target):
        return
    from benchmarks.plans import walks

    print(f"  queries that walk through a whole table {when}: {', '.join(walks(target)) or 'none'}")


def report(small: dict[str, list[float]], large: dict[str, list[float]]) -> None:
    """Print each verb's p50 and p99 on both stores, in ms, and their ratios."""
    print(f"  {'ms':26}{'calls':>6}{'p50':>9}{'large':>9}{'ratio':>7}{'p99':>11}{'large':>9}{'ratio':>7}")
    for name, taken in small.items():
        cells = ""
        for percent, width in ((50, 9), (99, 11)):
            one, other = (statistics.quantiles(side, n=100)[percent - 1] for side in (taken, large[name]))
            cells += f"{one:>{width}.3f}{other:>9.3f}{other / one:>7.2f}"
        aim = "   [aim 1.5]" if name.startswith("claim_runs") else ""
        print(f"  {name:26}{len(taken):>6}{cells}{aim}", flush=True)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("databases", nargs="*", choices=[*DATABASES, []], help="which databases; by default all")
    parser.add_argument("--events", type=int, default=SIZES[-1], help="up to how many events W2 is measured with")
    parser.add_argument("--finished", type=int, default=1_000_000)
    parser.add_argument("--sleeping", type=int, default=200_000)
    parser.add_argument("--foreign", type=int, default=200_000, help="runs of workflows and versions no worker has")
    parser.add_argument("--rounds", type=int, default=50, help="of the verbs")
    parser.add_argument("--pairs", type=int, default=9, help="of W2 on a small and a large store")
    parser.add_argument("--folder", help="where the stores are made; it decides which disk is measured")
    options = parser.parse_args()
    sizes = [size for size in SIZES if size < options.events] + [options.events]
    for database in options.databases or DATABASES:
        print(f"{database} on Python {platform.python_version()}, {os.cpu_count()} cores, fsync per commit", flush=True)
        with place(database, options.folder) as new:
            target = new()
            models = make_models(target)
            finished = by_events(new, target, models, sizes, options.pairs) if options.events else 0
            by_runs(new, target, models, options, finished)


if __name__ == "__main__":
    main()
