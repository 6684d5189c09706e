"""Fill a store in seconds with runs as the store itself writes them: copies of runs that were really executed.

A copy has its own key, id, uid and instants, and its own hash chain; every other column is the model's. Rows go around
the store's verbs, in batches, with syncing off; afterwards everything is on disk and the planner knows the tables.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from typing import Any, Protocol

import perdure
from benchmarks import workloads
from perdure.model import chain, ids
from perdure.model.records import Event, Kind
from perdure.store.open import is_postgres, store_path
from perdure.workflow import Workflow

BATCH = 5000
"""Runs in one transaction."""
FOREIGN_ROUTES = 40
APART = 1000
"""Microseconds between the starts of two copies."""

Row = tuple[Any, ...]

_INSTANTS = ("created_at", "ended_at", "wake_at", "rank")
_TOLD = ("run_id", "wake_at")
"""Columns that the log tells as well."""


@dataclass(frozen=True)
class Model:
    """A run to copy: its row by column, and its whole log."""

    row: dict[str, Any]
    log: list[Event]

    def copy(self, key: int, at: int, chance: random.Random) -> tuple[Row, list[Event]]:
        """Another run with the same history, begun at ``at`` (µs)."""
        row, shift = dict(self.row), at - self.row["created_at"]
        row |= {"run_key": key, "run_id": ids.run_id(at, chance.randbytes), "uid": chance.randbytes(ids.UID_SIZE)}
        row |= {name: row[name] + shift for name in _INSTANTS if row[name] is not None}
        link, log = chain.genesis(row["uid"]), []
        for seq, instant, epoch, kind, place, attempt, took, codec, payload, args, tells in self._events:
            if tells:
                for name in _TOLD:
                    old, new = str(self.row[name]).encode(), str(row[name]).encode()
                    payload, args = payload and payload.replace(old, new), args and args.replace(old, new)  # noqa: PLW2901
            made = chain.seal(link, key, seq, instant + shift, epoch, kind, place, attempt, took, codec, payload, args)
            link = made.hash
            log.append(made)
        row["hash"] = log[row["seq"] - 1].hash
        return tuple(row.values()), log

    @cached_property
    def _events(self) -> list[Row]:
        """Events without key and hash, and whether they tell what is another copy's own."""
        told = [str(self.row[name]).encode() for name in _TOLD]
        said = [(event.payload or b"") + (event.args or b"") for event in self.log]
        tells = [any(text in one for text in told) for one in said]
        return [(*event[1:-1], one) for event, one in zip(self.log, tells, strict=True)]


@dataclass(frozen=True)
class Models:
    """One run of each sort."""

    finished: Model
    """Five steps, eight events."""
    cancelled: Model
    """Before it began: two events."""
    sleeping: Model
    """For years."""
    foreign: Sequence[Model]
    """Pending, of workflows and versions that no worker has."""


class Database(Protocol):
    """A database with a store's tables in it."""

    def model(self, run_id: str) -> Model:
        """A run that is there."""
        ...

    def last_key(self) -> int:
        """The highest key of a run."""
        ...

    def insert(self, columns: Sequence[str], rows: Sequence[Row], events: Sequence[Event]) -> None:
        """Add runs with their events."""
        ...

    def settle(self) -> None:
        """Have everything in its place and known to the planner, as it soon is in service."""
        ...


def database(target: str) -> AbstractContextManager[Database]:
    """The database in which the store of this address is."""
    if is_postgres(target):
        from benchmarks.filling_postgres import Postgres

        return closing(Postgres(target))
    from benchmarks.filling_sqlite import Sqlite

    return closing(Sqlite(store_path(target)))


def make_models(target: str) -> Models:
    """Execute one run of each sort; the store is made if it is not there."""
    finished, cancelled, sleeping, *foreign = asyncio.run(_execute(target))
    with database(target) as tables:
        return Models(
            tables.model(finished), tables.model(cancelled), tables.model(sleeping), [*map(tables.model, foreign)]
        )


async def _execute(target: str) -> list[str]:
    order = workloads.Order(id="order-1", amount=1)
    strange: list[Workflow[Any, Any]] = [
        perdure.workflow(name=f"{name}", version=f"foreign-{number}")(_strange)
        for number, name in zip(range(FOREIGN_ROUTES), cycle(["five_steps", "elsewhere"]), strict=False)
    ]
    engine = perdure.Engine(target, workflows=[workloads.five_steps, workloads.asleep])
    async with engine.client() as client:
        cancelled = await client.enqueue(workloads.five_steps, order)
        await cancelled.cancel()
        foreign = [await client.enqueue(workflow, order) for workflow in strange]
    async with engine:
        finished = await engine.enqueue(workloads.five_steps, order)
        assert await finished.result() == order
        sleeping = await engine.enqueue(workloads.asleep, order)
        async for event in sleeping.events(follow=True):
            if event.kind == Kind.RUN_SUSPENDED:
                break
    return [handle.run_id for handle in (finished, cancelled, sleeping, *foreign)]


async def _strange(order: workloads.Order) -> workloads.Order:
    return order


def fill(target: str, models: Sequence[Model], count: int) -> int:
    """Copy the models, in turn, into the store at ``target``, which nobody else writes; how many events that were."""
    if count <= 0:
        return 0
    events = 0
    with database(target) as tables, _without_collector():
        columns, first = list(models[0].row), tables.last_key() + 1
        copies = _copies(models, first, count)
        while batch := list(islice(copies, BATCH)):
            logs = [event for _, log in batch for event in log]
            events += len(logs)
            tables.insert(columns, [row for row, _ in batch], logs)
    return events


def settle(target: str) -> None:
    """Let a store that was filled come to rest, so that nothing measured next waits for what is still to be written."""
    with database(target) as tables:
        tables.settle()
    os.sync()


@contextmanager
def _without_collector() -> Iterator[None]:
    """Copies hold nothing that holds them, but the collector would walk through them again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _copies(models: Sequence[Model], first: int, count: int) -> Iterator[tuple[Row, list[Event]]]:
    chance = random.Random(first)  # noqa: S311 - not for secrets
    # They end where the model began: the past, in the order of the keys.
    began = models[0].row["created_at"] - count * APART
    for number, model in zip(range(count), cycle(models), strict=False):
        if number % 100_000 == 0 and number:
            print(f"\r  filling: {number:,} runs", end="", file=sys.stderr)
        yield model.copy(first + number, began + number * APART, chance)
    print("\r\033[K", end="", file=sys.stderr)
