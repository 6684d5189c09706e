"""A laboratory for the run loop: real engine, real store, time that passes when nobody has anything else to do.

A scenario runs live once. Its history is then cut at random places; each cut is put into the store by the store's own
verbs and resumed by the engine with other step durations; and the whole history that comes of it is replayed with
bodies that are not allowed to run. Results and traces must be the same, and no committed step's body may run again.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
import random
import sys
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

import perdure
from perdure import Engine, run_context, step_context
from perdure.clock import SystemClock
from perdure.errors import PerdureError
from perdure.model.ids import worker_key
from perdure.model.records import Kind, WorkerRow
from tests.runtime import histories
from tests.runtime.histories import ENDS, History

CUTS = int(os.environ.get("PERDURE_CUTS", "6"))
SEED = int(os.environ.get("PERDURE_SEED", "1"))
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

SYSTEM = SystemClock()


class IdleClock:
    """The system's clock, put forward to the next due instant whenever the loop has nothing else to do."""

    def __init__(self, loop):
        self._loop = loop
        self._ahead = 0
        self._due = []
        self._tie = itertools.count()
        self._more = asyncio.Event()
        self.idle = lambda: True
        self.waiting = 0

    def now(self):
        return SYSTEM.now() + self._ahead

    def monotonic(self):
        return SYSTEM.monotonic()

    def call_at(self, due, loop, callback):
        assert loop is self._loop
        entry = _Due(callback)
        heapq.heappush(self._due, (due, next(self._tie), entry))
        self._more.set()
        return entry

    async def nap(self, ms):
        """Wait in a step's body."""
        future = self._loop.create_future()
        self.call_at(self.now() + round(ms * 1000), self._loop, lambda: future.done() or future.set_result(None))
        with self.let_pass():
            await future

    def put_forward(self, seconds):
        self._ahead += round(seconds * 1e6)

    @contextmanager
    def let_pass(self):
        """Around what a body waits in: time may pass meanwhile."""
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    async def pump(self):
        while True:
            while not self._due:
                self._more.clear()
                await self._more.wait()
            for _ in range(4):
                await asyncio.sleep(0)
            if not self._due or not self.idle():
                continue
            due, _, entry = heapq.heappop(self._due)
            if entry.callback is not None:
                self._ahead += max(0, due - self.now())
                entry.callback()


class _Due:
    def __init__(self, callback):
        self.callback = callback

    def cancel(self):
        self.callback = None


@dataclass
class Seen:
    """How an execution of a run went: its outcome, what the workflow noted, and how often each body began."""

    outcome: object
    trace: list
    bodies: Counter
    history: History


class Lab:
    """One engine on one store. Steps find it as ``ctx.tools``."""

    def __init__(self, engine, clock, seed):
        self.engine, self.clock = engine, clock
        self.rng = random.Random(seed)
        self.bodies = {}
        self.frozen = set()
        self.trespasses = []
        self.worker = worker_key(os.urandom)
        self._count = itertools.count(1)

    # -- what steps call

    def began(self):
        """A body has begun."""
        ctx = step_context()
        if ctx.run_id in self.frozen:
            self.trespasses.append((ctx.run_id, ctx.key))
            raise AssertionError(f"{ctx.key} of {ctx.run_id} is recorded, and its body ran")
        self.bodies.setdefault(ctx.run_id, Counter())[ctx.key] += 1

    async def nap(self, ms=None):
        """Take a while: some turns of the loop, or some milliseconds, as chance has it."""
        if ms is not None:
            await self.clock.nap(ms)
            return
        kind = self.rng.randrange(4)
        if kind == 1:
            for _ in range(self.rng.randrange(6)):
                await asyncio.sleep(0)
        elif kind > 1:
            await self.clock.nap(self.rng.uniform(0, 12 if kind == 2 else 60))

    async def cancel(self, run_id):
        await self.engine.get(run_id).cancel("enough")
        if self.rng.random() < 0.7:  # the news is heard soon, or when the next look comes, or when the run wants to end
            self.engine._worker._vigil.read_inbox()

    # -- what tests call

    async def live(self, workflow, value=None, run_id=None):
        """Run a workflow from its beginning."""
        run_id = run_id or f"live-{next(self._count)}"
        await self.engine.enqueue(workflow, value, run_id=run_id)
        return await self.seen(workflow, run_id)

    async def seen(self, workflow, run_id):
        """Wait for a run and say how it went."""
        outcome = await outcome_of(self.engine.get(run_id, workflow).result())
        row = await self.engine.get(run_id).row()
        history = histories.read(self.engine._store, row)
        return Seen(outcome, TRACES.pop(run_id, []), self.bodies.get(run_id, Counter()), history)

    def put(self, history, run_id, *, cancel=False):
        """Put a history into the store, as a run nobody holds; ``cancel``: with a cancel on its way."""
        key = histories.put(self.engine._store, self.worker, history, run_id, cancel="enough" if cancel else None)
        if owed := histories.on_its_way(history, key):
            self.engine._store.deliver(owed)
        self.engine._poke()

    async def resume(self, workflow, history, count, *, cancel=False):
        """Go on from the first ``count`` events of a history."""
        run_id = f"cut-{count}-{next(self._count)}"
        self.put(history.upto(count), run_id, cancel=cancel)
        return await self.seen(workflow, run_id)

    async def replay(self, workflow, history):
        """Execute a whole history again; no body may run and nothing new may be recorded."""
        run_id = f"replay-{next(self._count)}"
        self.frozen.add(run_id)
        whole = history.open_end()
        self.put(whole, run_id)
        seen = await self.seen(workflow, run_id)
        assert not self.trespasses, self.trespasses
        new = {e.word for e in seen.history.events[len(whole.events) :]}
        allowed = {"run_released", "run_claimed", *(kind.word for kind in ENDS)}
        assert new <= allowed, (new - allowed, seen.outcome)
        return seen


async def outcome_of(awaitable):
    """What something returns or raises, comparable."""
    try:
        return ("returned", await awaitable)
    except Exception as error:
        said = error.args if not isinstance(error, PerdureError) else ()
        return ("raised", type(error).__name__, said)


@asynccontextmanager
async def lab(path, workflows, *, seed=SEED, suspended=None, threads=32, patient=False):
    """Open a laboratory.

    Args:
        path: a directory.
        workflows: what can be run in it.
        seed: for how long bodies take.
        suspended: how many waiting runs stay in memory; 0 for none.
        threads: sync steps at once.
        patient: time stands still while anything moves, so that what takes no time is never overtaken by a timer.
    """
    clock = IdleClock(asyncio.get_running_loop())
    engine = Engine(path / "runs.db", workflows=workflows, clock=clock, durability="process", threads=threads)
    here = Lab(engine, clock, seed)
    engine._tools = here
    if suspended is not None:
        engine._limits = replace(engine._limits, suspended=suspended)
    pump = asyncio.create_task(clock.pump())
    async with engine:
        engine._store.register_worker(
            WorkerRow(
                worker_key=here.worker,
                name="before",
                host="",
                pid=os.getpid(),
                pid_started=0,
                boot="",
                build="",
                sidecar="",
                started_at=SYSTEM.now(),
                lease_until=600_000_000,
                beat=0,
            )
        )
        if patient:
            journal, worker = engine._journal, engine._worker
            clock.idle = lambda: (
                not (
                    not journal.at_rest
                    or any(run.busy for run in worker.running.values())
                    or sum(len(run.in_flight) for run in worker.running.values()) > clock.waiting
                )
            )
        yield here
        if engine._store is not None:
            engine._store.retire_worker(here.worker)
    pump.cancel()


# -- what scenarios use


class Scenarios(list):
    """The workflows of one file, in their order."""

    def add(self, function):
        """Make a workflow of a function, and one more scenario of the file."""
        made = perdure.workflow(function)
        self.append(made)
        return made


TRACES = {}


def trace():
    """A fresh list of this run's, in which the workflow notes what it sees; each execution has its own."""
    TRACES[run_context().run_id] = noted = []
    return noted


@perdure.step
async def plain(n: int) -> int:
    """Add one; in any engine, not only in a laboratory."""
    return n + 1


@perdure.step
async def work(tag: str, ms: float | None = None) -> str:
    """Take a while and return the tag."""
    here = step_context().tools
    here.began()
    await here.nap(ms)
    return tag


@perdure.step
async def fail(tag: str, ms: float | None = None) -> str:
    """Take a while and fail."""
    here = step_context().tools
    here.began()
    await here.nap(ms)
    raise ValueError(tag)


@perdure.step
async def cancel_me() -> None:
    """Ask for the cancellation of the run."""
    ctx = step_context()
    ctx.tools.began()
    await ctx.tools.cancel(ctx.run_id)


@perdure.step
def blocking(tag: str) -> str:
    """Do something on a thread."""
    step_context().tools.began()
    return tag


# -- the attack


def check_resumed(first, count, resumed):
    """A resumed run must have kept what was committed, and run none of it again."""
    kept = first.history.events[:count]
    now = resumed.history.events
    assert [(e.seq, e.kind, e.key, e.payload, e.args) for e in kept] == [
        (e.seq, e.kind, e.key, e.payload, e.args) for e in now[:count]
    ]
    committed = first.history.upto(count).outcomes()
    again = sorted(committed.keys() & resumed.bodies.keys())
    assert not again, f"committed and run again: {again}"
    resumed.history.outcomes()


def cancel_due(history, count):
    """Whether the cancel was asked for and not delivered when the history was cut."""
    cut = history.upto(count)
    asked = any(e.kind == Kind.STEP_COMPLETED and e.key.rpartition("/")[2].startswith("cancel_me") for e in cut.events)
    return asked and not any(e.kind == Kind.CANCEL_DELIVERED for e in cut.events)


async def attack(here, workflow, value=None, *, cuts=CUTS, seed=SEED):
    """Run a workflow, cut its history at random places, resume each, and replay what comes of it."""
    first = await here.live(workflow, value)
    again = await here.replay(workflow, first.history)
    assert (again.outcome, again.trace) == (first.outcome, first.trace)
    places = range(2, len(first.history.open_end().events) + 1)
    chosen = random.Random(f"{workflow.name} {seed}").sample(places, min(cuts, len(places)))

    async def one(count):
        resumed = await here.resume(workflow, first.history, count, cancel=cancel_due(first.history, count))
        check_resumed(first, count, resumed)
        replayed = await here.replay(workflow, resumed.history)
        assert (replayed.outcome, replayed.trace) == (resumed.outcome, resumed.trace), f"cut after {count} events"
        return resumed

    resumed = await asyncio.gather(*[one(count) for count in chosen])
    return first, resumed
