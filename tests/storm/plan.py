"""The plan of a storm: who asks for what, and what happens to whom, all of it drawn from one seed.

Time in a plan is the number of acts that have been performed: what is asked at 12 is asked once twelve acts are over.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal

from tests.storm.workflows import HEARD_FROM, LIVES, WORDS

Database = Literal["sqlite", "postgres"]
HOUR = 3600.0
ASTRAY = 0.8
"""Seconds by which clocks are wrong on SQLite, whose instants are those of its workers."""
TICK = "tick"
EVERY = "250ms"


@dataclass(frozen=True)
class Ask:
    """Something that a client asks for, again and again until it is answered.

    Attributes:
        at: the number of acts after which it is asked.
        what: the name of a method of ``tests.storm.clients.Client``.
        run: the id of the run that it is about.
        kind: the workflow to start, or else a detail.
        n: the input, or a number.
    """

    at: int
    what: str
    run: str
    kind: str = ""
    n: int = 0


@dataclass(frozen=True)
class Place:
    """Where a worker works; another takes its place when it dies.

    Attributes:
        astray: seconds by which its wall clock is wrong.
        descriptors: how many it may open beyond those that it has when it is up; None: as many as it likes.
        memory: MiB that it may take beyond what it has when it is up; None: as much as it likes.
    """

    astray: float = 0.0
    descriptors: int | None = None
    memory: int | None = None

    @property
    def is_poor(self) -> bool:
        """Whether it has to do with little."""
        return self.descriptors is not None or self.memory is not None


@dataclass(frozen=True)
class Size:
    """How large a storm is.

    Attributes:
        kills: how many processes are killed.
        crowd: how many of each kind of run, as a multiple of ``KINDS``.
        acts: what else happens, and how often.
        seconds: what the storm lasts at most, and the calm after it.
    """

    kills: int
    crowd: int
    acts: dict[str, int]
    seconds: tuple[float, float]


KINDS = {
    "mixed": 4, "blocking": 3, "listening": 2, "family": 2, "guardian": 2, "relay": 2, "trip": 4, "cancelled": 3,
    "overdue": 1, "stuck": 1, "silent": 1, "long_way": 2, "telling": 2, "heavily": 2, "splitting": 2, "once": 4,
    "tardy": 1, "posting": 2, "narrowly": 6,
}  # fmt: skip
"""How many runs of each kind are asked for, one by one; others are asked for many at a time, or start each other."""
MANY = 6
"""Mixed runs that are asked for in one transaction, for each of ``crowd``."""

SHORT = {
    "sqlite": Size(30, 1, {"stop": 1, "fill_disk": 1, "kill_client": 3}, (60.0, 60.0)),
    "postgres": Size(30, 1, {"stop": 1, "end_sessions": 2, "crash": 1, "kill_client": 3}, (60.0, 60.0)),
}
LONG = {
    "sqlite": Size(312, 6, {"stop": 6, "fill_disk": 6, "kill_client": 12}, (300.0, 200.0)),
    "postgres": Size(312, 6, {"stop": 6, "end_sessions": 10, "crash": 4, "kill_client": 12}, (300.0, 200.0)),
}


@dataclass
class Plan:
    """What is to happen in one storm."""

    seed: int
    database: Database
    size: Size
    places: list[Place] = field(default_factory=list)
    acts: list[str] = field(default_factory=list)
    asks: dict[str, list[Ask]] = field(default_factory=dict)

    @property
    def astray(self) -> float:
        """Seconds by which two clocks may differ, where clocks of workers are what counts."""
        return 0.0 if self.database == "postgres" else 2 * max(abs(place.astray) for place in self.places)

    def started(self) -> dict[str, Ask]:
        """What was asked for, by run id."""
        return {ask.run: ask for asks in self.asks.values() for ask in asks if ask.what == "start"}


def make_plan(seed: int, database: Database, size: Size) -> Plan:
    """Draw a plan; the same seed draws the same one."""
    chance = random.Random(f"{seed} {database}")
    plan = Plan(seed, database, size)
    off = HOUR if database == "postgres" else (ASTRAY if seed % 2 else 0.0)
    plan.places = [Place(), Place(off), Place(-off), Place(descriptors=0), Place(memory=24)]
    plan.acts = ["kill"] * size.kills + [act for act, times in size.acts.items() for _ in range(times)]
    chance.shuffle(plan.acts)
    plan.asks = dict(zip(HEARD_FROM, _asks(chance, size, len(plan.acts)), strict=True))
    return plan


def _asks(chance: random.Random, size: Size, acts: int) -> tuple[list[Ask], list[Ask]]:
    """What the two clients ask for: the first starts most runs, both speak to them."""
    north, south = [Ask(0, "schedule", TICK)], []
    for number in range(size.crowd):
        low, high = acts * number // size.crowd, acts * (number + 1) // size.crowd
        when = [chance.randrange(low, max(low + 1, high - 2)) for _ in range(sum(KINDS.values()) + 2)]
        kinds = [(kind, f"{kind}-{number}-{n}") for kind, times in KINDS.items() for n in range(times)]
        for at, (kind, run) in zip(when, kinds, strict=False):
            north.append(Ask(at, "start", run, kind, chance.randrange(1000)))
            for_north, for_south = _about(chance, at, acts, kind, run)
            north += for_north
            south += for_south
        many = [Ask(when[-1], "start", f"many-{number}-{n}", "mixed", chance.randrange(1000)) for n in range(MANY)]
        north += many
        for n in range(2):  # both ask for it, under one key and no id
            same = Ask(when[-2], "start_once", f"key-{number}-{n}", "errand", chance.randrange(1000))
            north.append(same)
            south.append(same)
        origin = next(run for kind, run in kinds if kind == "mixed")
        south.append(Ask(acts, "fork", origin, "grind#2", number))
    north.append(Ask(acts, "unschedule", TICK))
    # One of each pair begins with the input that the other has, so stable: what is asked at one time stays in order.
    north.sort(key=lambda ask: ask.at)
    south.sort(key=lambda ask: ask.at)
    return north, south


def _about(chance: random.Random, at: int, acts: int, kind: str, run: str) -> tuple[list[Ask], list[Ask]]:
    """What is asked of a run that was started at some time."""

    def later() -> int:
        return min(acts, at + chance.randrange(1, 2 + acts // 4))

    if kind == "listening":
        return tuple([Ask(later(), "say", run, sender, n) for n in range(WORDS)] for sender in HEARD_FROM)  # type: ignore[return-value]
    if kind == "relay":
        return [Ask(later(), "pass_on", run, n=n) for n in range(LIVES)], []
    if kind in {"cancelled", "guardian"}:
        return [Ask(later(), "cancel", run)], []
    if kind == "long_way":
        return [], [Ask(later(), "pause", run), Ask(acts, "let_go", run)]
    return [], []
