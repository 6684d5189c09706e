"""Why nobody claims a run that could go on: no worker, no code, a queue that lets nothing through, or others first."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from perdure.diagnosis.situations import cause
from perdure.model.records import FORMAT
from perdure.store.protocol import Route
from perdure.store.queueing import COUNTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perdure.diagnosis.situations import Cause, Situation
    from perdure.model.records import RunRow

_SUSPECT = 2
"""Crashes in a row from which a run is a suspect."""
_NAMED = 3


def unclaimed(of: Situation, *, taking_over: bool = False) -> Iterator[Cause]:
    """Say why nobody claims a run: what rules it out first, what merely makes it wait last.

    Args:
        of: the run and what is around it.
        taking_over: it is still with a holder that is gone.
    """
    row, since = of.row, of.view.updated_at
    if row.wake_at is not None and row.wake_at <= of.now:
        since = max(since, row.wake_at)
    living = [one for one in of.workers if one.life == "alive" and one.serves]
    if not living or not of.served:
        found = "no worker is running on this store" if not living else "all workers are about to stop"
        yield cause(of, 0, "no-worker", found, since=since)
        return
    route = Route(row.workflow, row.version, row.queue, row.namespace)
    if route not in of.served:
        found = f"{_count(len(living), 'worker')} running, none with its code ({_route(row)}){_nearest(row, of.served)}"
        names: dict[str, str | int] = {"workflow": row.workflow, "version": row.version, "queue": row.queue or "''"}
        yield cause(of, 0, "no-code", found, since=since, names=names)
        return
    gates = list(_gates(of, len(living)))
    yield from gates
    if row.format > FORMAT:
        yield cause(of, 0, "newer-format", f"it is of format {row.format}; this Perdure executes {FORMAT}")
    refused = set(of.standing.refused)
    if refused and all(one.build in refused for one in living):
        found = f"every build that is running has refused it: {', '.join(sorted(refused)[:_NAMED])}"
        yield cause(of, 0, "refused-by-all", found, since=since)
        return
    if row.crashes >= _SUSPECT:
        found = f"its workers died {row.crashes} times in a row without progress"
        yield cause(of, 0, "suspect", found)
    if not gates and not taking_over:
        yield cause(of, 0, "in-line", _line(of, len(living)), since=since)


def _gates(of: Situation, workers: int) -> Iterator[Cause]:
    """What its queue does not let through."""
    usage = of.queue
    if usage is None:
        return
    limits, name = usage.row.limits, usage.row.name
    queue = f"queue {name}" if name else "the default queue"
    names: dict[str, str | int] = {"queue": name or "''"}
    if usage.row.paused:
        yield cause(of, 0, "queue-paused", f"{queue} is paused", names=names)
    if limits.concurrency is not None and usage.held >= limits.concurrency:
        found = f"{queue} is full: {usage.held} of {limits.concurrency} runs under way"
        yield cause(of, 0, "queue-full", found + _ahead(of), names=names)
    elif limits.per_worker is not None and usage.held >= limits.per_worker * workers:
        found = f"{queue} lets a worker have {limits.per_worker} runs, and each has as many"
        yield cause(of, 0, "queue-workers-full", found + _ahead(of), names=names)
    if of.standing.new and usage.opens_at is not None:
        found = f"{queue} lets {limits.starts} runs begin in {(limits.period or 0) / 1e6:g} s, and {usage.begun} have"
        yield cause(of, 0, "queue-rate", found + _ahead(of), until=usage.opens_at, names=names)
    most = limits.per_partition
    if most is not None and of.row.partition is not None and of.standing.partition_held >= most:
        found = f"{queue} lets {most} runs with partition key {of.row.partition} go on at once, and as many do"
        yield cause(of, 0, "partition-full", found, names=names)


def _line(of: Situation, workers: int) -> str:
    held = sum(one.holds for one in of.workers if one.life == "alive")
    found = f"{_count(workers, 'worker')} running with its code or others', executing {_count(held, 'run')}"
    return found + (_ahead(of) or ", and none has taken it yet")


def _ahead(of: Situation) -> str:
    ahead = of.standing.ahead
    return f"; {ahead:,}{'+' if ahead >= COUNTED else ''} come before it" if ahead else ""


def _route(row: RunRow) -> str:
    parts = [row.workflow, f"version {row.version}"]
    if row.queue:
        parts.append(f"queue {row.queue}")
    if row.namespace:
        parts.append(f"namespace {row.namespace}")
    return ", ".join(parts)


def _nearest(row: RunRow, served: Iterable[Route]) -> str:
    """What is served that comes nearest to a run's route."""
    same = [one for one in served if one.workflow == row.workflow]
    here = [one for one in same if one.namespace == row.namespace]
    if others := sorted({one.version for one in here if one.queue == row.queue}):
        return f"; served: version {', '.join(others[:_NAMED])}"
    if others := sorted({one.queue or "(default)" for one in here if one.version == row.version}):
        return f"; served: from queue {', '.join(others[:_NAMED])}"
    if here:
        return f"; served: version {here[0].version} from queue {here[0].queue or '(default)'}"
    if same:
        return f"; served: in namespace {', '.join(sorted({one.namespace or '(default)' for one in same})[:_NAMED])}"
    near = get_close_matches(row.workflow, sorted({one.workflow for one in served}), n=_NAMED)
    return f"; served: {', '.join(near)}" if near else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


__all__ = ["unclaimed"]
