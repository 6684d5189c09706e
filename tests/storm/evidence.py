"""The evidence of a storm, gathered when it is over: what was said outside the engine, and all that it has recorded."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from perdure.model import payloads
from perdure.model.coding import NONE
from perdure.model.forking import uids
from perdure.model.ids import idempotency_key
from perdure.model.records import Event, Kind, RunRow
from perdure.model.schedules import Occurrence, ScheduleRow
from perdure.store.open import is_postgres, open_store
from perdure.store.protocol import PAGE, Filter, Store
from perdure.verifying import verify_run
from tests.crash.chaos import overlapping
from tests.crash.ledger import Entry
from tests.crash.procs import SLACK, Crew
from tests.servers.behind import rows_of
from tests.storm.plan import TICK, Plan

HOLDERS = frozenset({
    Kind.STEP_STARTED, Kind.STEP_COMPLETED, Kind.STEP_FAILED, Kind.STEP_CANCELLED, Kind.TIMER_FIRED,
    Kind.SIGNAL_RECEIVED, Kind.CHILD_STARTED, Kind.CHILD_ENDED, Kind.EMITTED, Kind.PROGRESS, Kind.RUN_COMPLETED,
    Kind.UNDO_BEGUN, Kind.PATCH_MARKED, Kind.MESSAGE_SENT,
})  # fmt: skip
"""What nobody but a run's holder writes."""


@dataclass
class Case:
    """One run: its row, its log, what it came to, and what its bodies said."""

    row: RunRow
    log: list[Event]
    output: Any = None
    begins: list[Entry] = field(default_factory=list)
    ends: list[Entry] = field(default_factory=list)

    @cached_property
    def name(self) -> str:
        """The id that it had while it was executed: one that goes on as a new run has another later."""
        return str(payloads.fields(self.log[0].args)["run_id"])

    @cached_property
    def input(self) -> Any:
        """What it was started with."""
        return json.loads(self.log[0].payload or b"null")

    @property
    def workflow(self) -> str:
        """What it executes."""
        return self.row.workflow

    def of(self, *kinds: Kind) -> Iterator[Event]:
        """Its events of these kinds."""
        return (event for event in self.log if event.kind in kinds)

    @property
    def forked_at(self) -> int:
        """The seq up to which its log is a copy of another's; 0 if it is not."""
        return next((event.seq for event in self.of(Kind.RUN_FORKED)), 0)


@dataclass
class Evidence:
    """Everything that there is to judge by."""

    plan: Plan
    entries: list[Entry]
    cases: list[Case]
    schedule: ScheduleRow | None
    occurrences: list[Occurrence]
    inbox: list[tuple[Any, ...]]
    """Messages that were never taken: the run's key, and the message's kind."""
    damage: list[str]
    trouble: list[str]
    """What went wrong while the storm abated."""
    strange: list[Entry] = field(default_factory=list)
    """Bodies that no run of this store can have had."""

    def __post_init__(self) -> None:
        named: defaultdict[str, list[Case]] = defaultdict(list)
        for case in self.cases:
            named[case.name].append(case)
        keys: dict[tuple[str, str, str], Case] = {}
        for entry in self.entries:
            if entry.what not in {"begin", "end"}:
                continue
            whose = (entry.run, entry.key, entry.idem)
            if whose not in keys:
                found = [case for case in named[entry.run] if key_in(case, entry.key) == entry.idem]
                if len(found) != 1:
                    self.strange.append(entry)
                    continue
                keys[whose] = found[0]
            (keys[whose].begins if entry.what == "begin" else keys[whose].ends).append(entry)

    @cached_property
    def by_id(self) -> dict[str, Case]:
        """Runs by the ids that they have now."""
        return {case.row.run_id: case for case in self.cases}

    @cached_property
    def by_key(self) -> dict[int, Case]:
        """Runs by their keys."""
        return {case.row.run_key: case for case in self.cases}

    @cached_property
    def overlapping(self) -> set[Entry]:
        """Bodies that were about to begin when their process was stopped."""
        return overlapping(self.entries)

    @cached_property
    def slack(self) -> int:
        """µs by which instants of the ledger and of logs may differ."""
        return SLACK + int(self.plan.astray * 1_000_000)

    @cached_property
    def _astray(self) -> dict[int, int]:
        if self.plan.database == "postgres":
            return {}
        return {entry.pid: int(entry.key) for entry in self.entries if entry.what == "place"}

    def true(self, case: Case) -> list[Event]:
        """A run's log with the instants at which things happened, whatever the clock of its holder said."""
        found, off = [], 0
        for event in case.log:
            if event.kind == Kind.RUN_CLAIMED:
                off = self._astray.get(payloads.fields(event.payload).get("pid", 0), 0)
            found.append(event._replace(at=event.at - off))
        return found


def key_in(case: Case, key: str) -> str:
    """The idempotency key of a step in a run."""
    return idempotency_key(uids(case.row.uid, case.log[0])[1], key)


def claims(log: list[Event]) -> list[tuple[int, Event]]:
    """Who has claimed a run, and when."""
    return [(payloads.fields(event.payload)["pid"], event) for event in log if event.kind == Kind.RUN_CLAIMED]


def gather(plan: Plan, crew: Crew, trouble: list[str]) -> Evidence:
    """Read everything, now that nobody writes any more."""
    damage: list[str] = []
    cases: list[Case] = []
    with open_store(crew.store) as store:
        for row in _all_runs(store):
            log = store.read_events(row.run_key, 0, 1_000_000)
            damage += [str(one) for one in verify_run(store, row).damage]
            cases.append(Case(row, log, _output(store, log)))
        schedule = store.get_schedule(TICK)
        occurrences = [] if schedule is None else store.list_occurrences(schedule.schedule_key)
    inbox = rows_of(crew.store, "SELECT run_key, kind FROM inbox")
    if not is_postgres(crew.store):
        damage += [str(what) for (what,) in rows_of(crew.store, "PRAGMA integrity_check") if what != "ok"]
    return Evidence(plan, crew.ledger.entries(), cases, schedule, occurrences, inbox, damage, trouble)


def _all_runs(store: Store) -> Iterator[RunRow]:
    where = Filter(limit=PAGE)
    while page := store.list_runs(where):
        yield from page
        where = replace(where, after=where.place(page[-1]))


def _output(store: Store, log: list[Event]) -> Any:
    last = log[-1] if log else None
    if last is None or last.kind != Kind.RUN_COMPLETED:
        return None
    return json.loads(NONE.unpack(last, store.get_artifact))
