"""A life of the machine: everything executed in one store, on a recorded disk or on what a power cut left of one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from perdure import Engine
from perdure.model.durations import to_datetime
from perdure.model.records import CommitItem, Verdict
from perdure.store.protocol import Durability, Filter
from perdure.store.sqlite.connection import LogSize
from perdure.store.sqlite.store import SqliteStore
from perdure.testing import ManualClock
from perdure.testing.clock import BEGINNING
from tests.power.life import WORKFLOWS, Began, Say, World, live
from tests.power.record import Cut, Record
from tests.power.vfs import recording

STORE = "data/orders/perdure.db"
"""Where the store is on the disk; its directories are made with it."""
SMALL = LogSize(extend_at=20, extend_to=400_000, checkpoint_at=80)
"""A log that is extended, checkpointed and begun anew again and again."""
EVERYTHING = Filter(limit=1000)


class Written(NamedTuple):
    """The store has answered that an event is committed."""

    hash: bytes


class Time(NamedTuple):
    """What the clock showed, in µs."""

    now: int


class TellingStore(SqliteStore):
    """Says what it acknowledges."""

    def __init__(self, path: Path, *, say: Say, **options: Any) -> None:
        super().__init__(path, **options)
        self._say = say

    def commit(self, items: Sequence[CommitItem], *, wait: bool = True) -> list[Verdict]:
        verdicts = super().commit(items, wait=wait)
        self._say(Time(self.now()))
        for item, verdict in zip(items, verdicts, strict=True):
            if verdict is Verdict.APPLIED:
                for event in item.events:
                    self._say(Written(event.hash))
        return verdicts


@dataclass
class Life:
    """How it went.

    Attributes:
        results: of the runs that were called for.
        runs: the ids of all there are in the end.
        bodies: steps' bodies, as they began.
        record: what the disk was told, and what was said outside.
    """

    results: dict[str, Any]
    runs: list[str]
    bodies: list[Began]
    record: Record


def lead(folder: Path, *, durability: Durability = "disk", deaf_to: int = 0, said: Iterable[object] = ()) -> Life:
    """Have everything executed on a disk of which a record is kept.

    Args:
        folder: the disk, whatever is on it already.
        durability: what "committed" means.
        deaf_to: as for ``recording``.
        said: what has been said in an earlier life.
    """
    with recording(folder, deaf_to=deaf_to) as recorder:
        for what in said:
            recorder.record.say(what)
        clock = ManualClock(time_of(recorder.record))
        return go_on(folder, recorder.record, clock, vfs=recorder.vfs, durability=durability)


def time_of(record: Record, cut: Cut | None = None) -> datetime:
    """What the clock showed when the last thing (before a cut) was said."""
    said = [what for at, what in record.said if cut is None or at <= cut.at]
    return max((to_datetime(what.now) for what in said if isinstance(what, Time)), default=BEGINNING)


def go_on(
    folder: Path, record: Record, clock: ManualClock, *, vfs: str | None = None, durability: Durability = "process"
) -> Life:
    """Have everything executed; what is said outside goes to the record."""
    world = World(record.say)
    path = folder / STORE
    with TellingStore(path, say=record.say, vfs=vfs, durability=durability, clock=clock, log_size=SMALL) as store:
        with store._writer as cursor:
            cursor.execute("UPDATE workers SET boot = 'another'")  # the machine has been started since

        async def main() -> dict[str, Any]:
            async with Engine(store, workflows=WORKFLOWS, tools=world, clock=clock) as engine:
                return await live(engine, clock, world)

        results = asyncio.run(main())
        runs = sorted(row.run_id for row in store.list_runs(EVERYTHING))
    return Life(results, runs, world.bodies, record)


__all__ = ["EVERYTHING", "SMALL", "STORE", "Life", "TellingStore", "Time", "Written", "go_on", "lead", "time_of"]
