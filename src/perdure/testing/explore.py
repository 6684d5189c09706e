"""Crash a workflow wherever it can crash, resume it each time, and see that nothing is lost, doubled or different."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.context import refuse_on_loop
from perdure.errors import IntegrityError, StepInterrupted
from perdure.finding import Code
from perdure.model.forking import Steps
from perdure.model.records import Kind, Status
from perdure.replaying import Verdict, replay_here
from perdure.store.protocol import PAGE, Filter
from perdure.testing.clock import BEGINNING, ManualClock
from perdure.testing.ends import ENDS, ending, failure, same_end
from perdure.testing.family import family
from perdure.testing.killing import Executioner, Killed, opening_of
from perdure.testing.mortal import Plan, Witness
from perdure.testing.order import Order
from perdure.testing.process import Process, Setting
from perdure.testing.report import Report, Row, unsafe
from perdure.testing.script import Script
from perdure.testing.unrecorded import reads_noted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from perdure.model.records import Event, RunRow
    from perdure.store.protocol import Store
    from perdure.testing.ledger import Entry, Ledger
    from perdure.testing.mortal import Began, Place
    from perdure.testing.script import Cue
    from perdure.workflow import Workflow

RUN_ID = "explored"
DRAWS = 8
"""How many orders are drawn, at most, for each that makes a difference."""
REHEARSALS = 5
"""How often the first log is replayed: what depends on addresses in memory needs several chances to differ."""
CRASH_CAP = 1_000_000
_INTERRUPTED = StepInterrupted.__name__.encode()
_SIDES: tuple[Place, Place] = ("before", "after")
FAULTS = frozenset(
    {
        "colour",
        "deadlock",
        "definition",
        "duplicate_name",
        "not_awaited",
        "not_durable",
        "not_in_run",
        "not_serializable",
    }
)
"""Codes of failures that are no outcome a workflow could be meant to have."""


def explore_crashes(  # noqa: PLR0913 - options
    workflow: Workflow[Any, Any],
    value: Any = None,
    /,
    *,
    tools: Any = None,
    ledger: Ledger | None = None,
    signals: Sequence[Cue] = (),
    workflows: Sequence[Workflow[Any, Any]] = (),
    check: Callable[[Any], object] | None = None,
    limit: int | None = None,
    interleavings: int = 2,
    seed: int = 0,
    kill: bool = False,
    forks: bool = False,
    start: datetime = BEGINNING,
    timeout: float = 10.0,
    store: Callable[[ManualClock], Store] | None = None,
) -> Report:
    """Run a workflow once to learn where it can die; then die at each of these points, resume, and compare.

    The process dies just before and just after each write to the store, and inside each step's body; every time the run
    goes on in a fresh engine on the same store. Checked each time: the run ends as it does undisturbed; no step whose
    outcome was committed began again; what did begin twice had the same attempt and the same idempotency key; and the
    code, run against the final log without executing any step, arrives at the same end.

    Where steps go on side by side, all that is done again for other orders in which they, timers and messages may come
    to the workflow: as if some bodies took longer than others. The orders are drawn by lot from ``seed``, so the same
    call tries the same ones.

    All of it happens in this process, on a clock that jumps to the next timer or retry when nothing else happens, so
    that a sleep of a fortnight costs nothing. Dying in it cannot stop a thread: bodies on threads run to their end, and
    only what they return is lost.

    Args:
        workflow: what to crash.
        value: its input.
        tools: what steps find as ``ctx.tools``. A function (or class) is called anew for each crash, and both processes
            share what it made, as they would share a bank; what makes a context manager is called for each process.
        ledger: where the tools (or steps) note their effects; an effect that happens twice must carry the same key.
        signals: what is sent, as pairs of a signal (or its name) and a message: each when the run, or a child of it,
            waits for that signal, and before time goes on.
        workflows: children that the code does not call by their names; those are found.
        check: called with the tools after each crash, when the run has ended; what it raises is a problem found.
        limit: try at most so many crashes, evenly spread; without it, all.
        interleavings: how many other orders to try, as far as there are any.
        seed: what they are drawn by.
        kill: let each process that dies be one of its own, killed by SIGKILL, instead of dying in this one: slower, and
            nothing is spared, threads neither. It imports the workflow, so that has to be in a module; what tools note
            in memory dies with it, so effects belong in a file (``Ledger(path)``). ``value``, ``tools`` and ``store``
            are pickled.
        forks: also fork the undisturbed run from each of its steps, dying at one place or another, and see that each
            fork ends as the run did. What tools answer must not hang on what they did before: a fork does anew, under
            idempotency keys of its own, what its origin did after that step. ``check`` is not called for forks.
        start: what the clock shows when the run is created.
        timeout: real seconds a run may take before or after its crash.
        store: opens the store to use, given the clock that it is to judge time by; it is closed in the end. Without
            it, a temporary file serves.

    Returns:
        What happened at each point; ``print`` it.

    Raises:
        UnsafeWorkflow: something is wrong; an ``AssertionError`` that says what and where.
        DefinitionError: with ``kill``, something cannot be had in another process.
        ColourError: called where an event loop runs.
    """
    refuse_on_loop(
        "explore_crashes would block the event loop it is called in",
        advice="call it in a plain def test, or write await asyncio.to_thread(explore_crashes, …)",
    )
    clock = ManualClock(start)
    with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
        opening = opening_of(Path(folder) / "explored.db") if store is None else store
        executioner = Executioner(workflow, workflows, opening) if kill else None
        opened = opening(clock)
        explorer = _Explorer(
            workflow, value, opened, clock, start, tools, ledger, check, timeout, family(workflow, workflows), signals,
            executioner,
        )  # fmt: skip
        explorer.report.seed = seed
        with closing(opened), closing(explorer):
            explorer.explore(limit, interleavings)
            if forks:
                explorer.fork()
        report = explorer.report
    if not report.safe:
        raise unsafe(report)
    return report


@dataclass(slots=True)
class _Lived:
    """A run after one or two processes."""

    first: Process | Killed
    second: Process | None
    row: RunRow | None
    events: list[Event]
    witness: Witness
    ran_twice: list[Began]
    problems: list[str]

    @property
    def end(self) -> Event | None:
        """The event with which it ended."""
        return self.events[-1] if self.events and self.events[-1].kind in ENDS else None

    @property
    def here(self) -> Process:
        """Its first process, of a run that was not to be killed."""
        assert isinstance(self.first, Process)
        return self.first

    @property
    def plans(self) -> list[Plan]:
        """Where its first process can die."""
        first = self.here
        writes = [
            Plan(place, number)
            for number in range(1, first.writes + 1)
            for place in _SIDES
            if place == "after" or number not in first.claims
        ]
        return writes + [Plan("inside", number) for number in range(1, first.bodies + 1)]

    @property
    def course(self) -> tuple[tuple[int, str | None], ...]:
        """What happened in the run, in its order."""
        return tuple((event.kind, event.key) for event in self.events)


class _Explorer:
    def __init__(  # noqa: PLR0913, PLR0917 - what it is made of
        self,
        workflow: Workflow[Any, Any],
        value: Any,
        store: Store,
        clock: ManualClock,
        start: datetime,
        tools: Any,
        ledger: Ledger | None,
        check: Callable[[Any], object] | None,
        timeout: float,
        workflows: list[Workflow[Any, Any]],
        signals: Sequence[Cue],
        executioner: Executioner | None,
    ) -> None:
        Script(signals)  # raises if there is anything wrong
        self.report = Report(workflow.name)
        self._workflow, self._value, self._store, self._clock = workflow, value, store, clock
        self._start, self._tools, self._ledger, self._check, self._timeout = start, tools, ledger, check, timeout
        self._workflows, self._signals, self._executioner = workflows, signals, executioner
        self._numbers = itertools.count(1)
        self._runs: int | None = None
        """How many runs there are after an undisturbed one: itself and its children."""
        self._expected: Event | None = None
        self._stage = asyncio.new_event_loop()
        """Where logs are replayed."""

    def close(self) -> None:
        """Let go of what it opened."""
        self._stage.close()

    def explore(self, limit: int | None, interleavings: int) -> None:
        """Fill the report."""
        report = self.report
        undisturbed = self._live(None)
        end = self._expected = undisturbed.end
        report.problems += undisturbed.problems
        if end is None:
            return
        report.result = ending(end)
        report.problems += _code_fault(end)
        report.problems += self._rehearse_often(undisturbed)
        again = self._live(None)
        report.comparable = again.end is not None and same_end(end, again.end)
        if not report.comparable and (report.problems or report.reads):
            other = "not at all" if again.end is None else f"with {ending(again.end)}"
            report.problems.append(f"two undisturbed runs end differently: with {report.result}, then {other}")
        if report.problems:
            return
        plans = [(0, plan) for plan in undisturbed.plans]
        for order, lived in self._other_orders(undisturbed, interleavings):
            plans += [(order, plan) for plan in lived.plans]
        if report.problems:
            return
        if limit is not None and limit < len(plans):
            report.left_out = len(plans) - limit
            plans = [plans[index * len(plans) // limit] for index in range(limit)]
        for order, plan in plans:
            self._crash(plan, order)
        if not report.left_out:
            # Where threads race, one life has more writes than another: go on while there is something to die at.
            for number in range(undisturbed.here.writes + 1, 2 * undisturbed.here.writes):
                died = [self._crash(Plan(place, number)) for place in _SIDES]
                if not any(died):
                    break

    def fork(self) -> None:
        """Fork an undisturbed run from each of its steps, and crash the forks, each somewhere else."""
        report = self.report
        if report.problems:
            return
        origin = self._live(None)
        steps = Steps()
        steps.feed(origin.events)
        wanted = [key for key, seq in steps.first.items() if steps.undone_at is None or seq < steps.undone_at]
        for number, step in enumerate(wanted):
            lived = self._live(None, forked=step)
            report.problems += [f"forked from {step}: {problem}" for problem in lived.problems]
            report.forks.append(step)
            for plan in lived.plans[number :: len(wanted)]:
                self._crash(plan, forked=step)

    def _other_orders(self, undisturbed: _Lived, wanted: int) -> Iterator[tuple[int, _Lived]]:
        """Live undisturbed in other orders, as far as they make a difference."""
        report = self.report
        seen = {undisturbed.course}
        for number in range(1, DRAWS * wanted + 1):
            if len(report.orders) == wanted:
                return
            lived = self._live(None, number)
            assert self._expected is not None
            if lived.end is not None and not same_end(lived.end, self._expected):
                report.comparable = False
            report.problems += [f"{problem} (order {number} of seed {report.seed})" for problem in lived.problems]
            if report.problems or not lived.here.order.chosen:
                return
            if lived.course not in seen:
                seen.add(lived.course)
                report.orders.append(number)
                yield number, lived

    def _crash(self, plan: Plan, order: int = 0, forked: str | None = None) -> bool:
        """Live with one crash; returns whether there was one."""
        lived = self._live(plan, order, forked)
        died = lived.first.died
        if died is None:
            self.report.problems += [problem for problem in lived.problems if problem not in self.report.problems]
        else:
            self.report.rows.append(Row(plan.place, died, tuple(lived.ran_twice), tuple(lived.problems), order, forked))
        return died is not None

    # -- one run

    def _live(self, plan: Plan | None, order: int = 0, forked: str | None = None) -> _Lived:
        witness = Witness()
        self._clock.set(self._start)
        tools, world = self._make_tools()
        setting = Setting(
            self._store,
            self._clock,
            self._workflow,
            self._value,
            tools,
            RUN_ID,
            f"crash-{next(self._numbers)}",
            witness,
            self._timeout,
            self._workflows,
            Script(self._signals),
        )
        if forked is not None:
            setting = self._fork_of(setting, forked)
            witness = setting.witness
        ledger_at = self._noted()
        first: Process | Killed
        if plan is not None and self._executioner is not None:
            first = self._executioner.process(setting, plan, self._lot(order))
        else:
            first = Process(setting, plan, Order(self._lot(order)))
        first.live()
        begun = list(witness.bodies)
        ledger_then = self._noted()
        second = None
        if first.died is not None and not first.stuck:
            # What another engine does that sees a worker dead.
            self._store.reclaim(0, [first.worker], cap=CRASH_CAP)
            self._store.retire_worker(first.worker)
            second = Process(setting, None, Order(self._lot(order, "after")))
            second.live()
        row, events = self._log(setting)
        before = set(begun)
        lived = _Lived(
            first, second, row, events, witness, [b for b in witness.bodies[len(begun) :] if b in before], []
        )
        lived.problems += self._judge(lived, alike=plan is not None or not order)
        lived.problems += self._judge_effects(ledger_at, ledger_then)
        if forked is None:
            lived.problems += self._judge_world(lived, world)
            lived.problems += self._judge_family(setting.namespace)
        first.bury()
        if second is not None:
            second.bury()
        return lived

    def _fork_of(self, origin: Setting, step: str) -> Setting:
        """Live a run undisturbed, and return how a fork of it lives: in the same world, told what is left."""
        first = Process(origin)
        first.live()
        first.bury()
        _, events = self._log(origin)
        steps = Steps()
        steps.feed(events)
        script = Script(self._signals)
        script.heard(events[: steps.first[step] - 1])
        return replace(origin, run_id=f"{RUN_ID} again", forked=(RUN_ID, step), script=script, witness=Witness())

    def _lot(self, order: int, what: str = "") -> str | None:
        return f"{self.report.seed}/{order}/{what}" if order else None

    def _make_tools(self) -> tuple[Any, Any]:
        """What the engines are given, and what ``check`` is: the world outside, which a crash leaves as it is."""
        if not callable(self._tools):
            return self._tools, self._tools
        made: Any = self._tools()
        if hasattr(made, "__aenter__") or hasattr(made, "__enter__") or hasattr(made, "__await__"):
            if hasattr(made, "close"):
                made.close()
            return self._tools, None
        return made, made

    def _log(self, setting: Setting) -> tuple[RunRow | None, list[Event]]:
        row = self._store.get_run(setting.run_id, setting.namespace)
        events: list[Event] = []
        if row is not None:
            while page := self._store.read_events(row.run_key, len(events), PAGE):
                events += page
        return row, events

    # -- judging

    def _judge(self, lived: _Lived, *, alike: bool) -> Iterator[str]:
        yield from lived.witness.broken
        last = lived.second or lived.first
        when = "" if lived.second is None else "after the crash "
        if last.stuck:
            yield f"{when}the run did not end within {self._timeout:g} s (see timeout=)"
            return
        if lived.end is None:
            yield f"{when}the run did not end: {type(last.error).__name__}: {last.error}"
            return
        if lived.end.kind == Kind.RUN_BLOCKED:
            yield f"{when}it ended with {ending(lived.end)}"
            return
        interrupted = any(
            event.kind == Kind.STEP_FAILED and _INTERRUPTED in (event.payload or b"") for event in lived.events
        )
        if (
            self._expected is not None
            and alike
            and self.report.comparable
            and not interrupted  # a step that may not begin again says so to the workflow, which may act on it
            and not same_end(lived.end, self._expected)
        ):
            yield f"it ends with {ending(lived.end)}, but undisturbed with {self.report.result}"
        departure = None if self._expected is None else self._rehearse(lived)
        if departure is not None:
            yield f"replayed from its log without executing any step: {departure}"

    def _judge_world(self, lived: _Lived, world: Any) -> Iterator[str]:
        if self._check is not None and lived.end is not None and lived.end.kind != Kind.RUN_BLOCKED:
            try:
                self._check(world)
            except Exception as error:  # noqa: BLE001 - what a check raises is what it found
                yield f"the check failed: {type(error).__name__}: {error}"

    def _judge_family(self, namespace: str) -> Iterator[str]:
        """No child may come twice, or not at all, nor be blocked."""
        rows = self._store.list_runs(Filter(namespace=namespace, limit=CRASH_CAP))
        for row in rows:
            if row.run_id != RUN_ID and row.status is Status.BLOCKED:
                yield f"its child {row.run_id} is blocked ({row.reason})"
        if self._runs is None:
            self._runs = len(rows)
        elif len(rows) != self._runs and self.report.comparable:
            yield f"in the end there are {len(rows)} runs, but undisturbed {self._runs}"

    def _judge_effects(self, start: int, crash: int) -> Iterator[str]:
        """Effects of one step must carry the same keys whenever they happen again."""
        if self._ledger is None:
            return
        entries = self._ledger.entries()
        groups: dict[tuple[str, str], dict[tuple[bool, int], list[Entry]]] = defaultdict(lambda: defaultdict(list))
        for index, entry in enumerate(entries[start:], start):
            if entry.key and entry.what not in {"begin", "end"}:
                groups[entry.key, entry.what][index >= crash, entry.attempt].append(entry)
        for (key, what), times in groups.items():
            for several in itertools.zip_longest(*times.values()):
                keys = dict.fromkeys(entry.idempotency_key for entry in several if entry is not None)
                if len(keys) > 1:
                    yield (
                        f"{key} did {what!r} more than once, with different keys ({', '.join(keys)}): whoever is asked "
                        "takes them for different requests; give ctx.idempotency_key"
                    )

    def _noted(self) -> int:
        return 0 if self._ledger is None else len(self._ledger)

    # -- replaying

    def _rehearse(self, lived: _Lived) -> str | None:
        assert lived.row is not None
        code = Code(self._workflow, "")
        try:
            found = self._stage.run_until_complete(replay_here(code, lived.row, lived.events, self._store))
        except IntegrityError as error:
            return error.message
        if found.verdict is not Verdict.SAME:
            return found.reason
        if found.unasked:
            return f"the log has {', '.join(found.unasked)}, which it never asks for"
        return None

    def _rehearse_often(self, lived: _Lived) -> list[str]:
        problems: dict[str, None] = {}
        before = self._noted()
        ballast: list[object] = []
        for number in range(REHEARSALS):
            # Memory looks different each time.
            ballast += [bytearray(40 + 24 * (size % 40)) for size in range(37 * number)]
            with reads_noted() as reads:
                departure = self._rehearse(lived)
            self.report.reads += [read for read in reads if read not in self.report.reads]
            if departure is not None:
                problems[f"replayed from its log without executing any step: {departure}"] = None
        problems |= dict.fromkeys(f"outside a step, it {read.what}: {read.where}" for read in self.report.reads)
        if self._ledger is not None:
            problems |= dict.fromkeys(
                f"it did {entry.what!r} again while it was replayed: effects belong in steps"
                for entry in self._ledger.entries()[before:]
            )
        return list(problems)


def _code_fault(end: Event) -> list[str]:
    error = failure(end)
    if getattr(type(error), "code", None) in FAULTS:
        return [f"it fails with {type(error).__name__}: {error}"]
    return []


__all__ = ["explore_crashes"]
