"""The worker: its slots, and what becomes of the runs it executes."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from perdure.errors import PerdureError, StoreError
from perdure.model.builds import build_of_all
from perdure.model.ids import worker_key
from perdure.model.payloads import note
from perdure.model.records import Kind, Status, WorkerRow
from perdure.runtime import asyncgens
from perdure.runtime.about import about
from perdure.runtime.bodies import Abort
from perdure.runtime.claiming import PAUSE, Claiming
from perdure.runtime.fibers import Fibers
from perdure.runtime.heartbeat import Heartbeat
from perdure.runtime.host import Host
from perdure.runtime.keeper import Keeper
from perdure.runtime.kin import Kin
from perdure.runtime.overdue import Overdue
from perdure.runtime.reading_on import read_on
from perdure.runtime.refusing import Refusing
from perdure.runtime.reviving import revive
from perdure.runtime.run import Run
from perdure.runtime.scheduler import Scheduler
from perdure.runtime.slots import Slots
from perdure.runtime.threads import Threads
from perdure.runtime.vigil import Vigil
from perdure.store.coded import codecs_of
from perdure.store.protocol import Route
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from perdure.model.clock import Clock
    from perdure.model.records import Claim, Event, RunRow
    from perdure.model.retention import Retention
    from perdure.runtime.journal import Journal
    from perdure.runtime.limits import Limits
    from perdure.runtime.watch import Watch
    from perdure.store.protocol import Store
    from perdure.workflow import Workflow

LONGEST_PAUSE = 60.0
HURRY = 0.2
"""Seconds that aborted steps get once a second signal has asked to stop at once."""


class Worker:
    """Executes runs of the workflows it was given; lives on one event loop."""

    def __init__(  # noqa: PLR0913 - what an engine is made of
        self,
        store: Store,
        journal: Journal,
        clock: Clock,
        definitions: Mapping[tuple[str, str], Workflow[Any, Any]],
        watch: Watch,
        *,
        limits: Limits,
        tools: Any = None,
        name: str = "",
        namespace: str = "",
        queues: Sequence[str] = (),
        only_queues: Sequence[str] | None = None,
        only: bool = False,
        retention: Retention | None = None,
        ended: Callable[[Run], None],
        reached: Callable[[str], None] | None = None,
    ) -> None:
        self._store, self._journal, self._clock = store, journal, clock
        self._definitions = dict(definitions)
        self._limits = limits
        self._name = name or socket.gethostname()
        self._namespace = namespace
        self._only = only
        self._watch = watch
        self._unwatch: Callable[[], None] | None = None
        self._told = ended
        self._loop = asyncio.get_running_loop()
        self._routes = [
            Route(name, version, queue, namespace)
            for (name, version), definition in definitions.items()
            for queue in dict.fromkeys((definition.queue, *queues) if only_queues is None else only_queues)
        ]
        self._threads = Threads(self._loop, limits.threads)
        self._fiber_threads = Threads(self._loop, 1 << 30, "perdure-workflow")
        self.host = Host(
            self._loop,
            clock,
            store,
            journal,
            self._threads,
            Fibers(self._fiber_threads),
            self,
            tools,
            reached,
            build=build_of_all((name, version, d.build) for (name, version), d in definitions.items()),
            worker=self._name,
            on_drift=limits.on_drift,
            codecs=codecs_of(store),
        )
        self.key = 0
        self._slots = Slots(limits.concurrency, self._loop.call_soon)
        self.running = self._slots.running
        self._refusing = Refusing(
            store, journal, self.host, every=limits.heartbeat, holds=self._still_holds, done=self._refused
        )
        self._overdue = Overdue(store, journal, self.host, every=limits.heartbeat, asked=self.poke)
        self._vigil = Vigil(self, self.host, store, journal, heartbeat=limits.heartbeat, cap=limits.crash_cap)
        self._suspended: OrderedDict[int, Run] = OrderedDict()
        self._heartbeat: Heartbeat | None = None
        self._retention = retention
        self._keeper: Keeper | None = None
        self._stopping = False
        self._registering: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._lost = False
        self._retired = False
        self._claiming = Claiming(self, self.host, store, journal, self._routes, only=only)
        self._kin = Kin(self._claiming, store, journal, self._definitions, self._routes)
        self.scheduler = Scheduler(self.host, store, journal, self._routes, fired=self._claiming.poke)
        self._idle = asyncio.Event()
        self._idle.set()
        self._hurried = asyncio.Event()
        self._restore_hooks: Callable[[], None] | None = None
        self._facts = b""
        self._faults: dict[int, int] = {}
        """By run key: how often in a row its execution here has ended in a fault."""
        self._reached = reached

    # -- starting

    async def start(self, *, serve: bool = True) -> None:
        """Register and start the heartbeat; with ``serve`` claim from now on."""
        self._restore_hooks = asyncgens.install()
        await self._register()
        self._unwatch = self._watch.listen(self._look)
        self._vigil.look_for_dead()
        if serve:
            self._claiming.serve()
            if not self._only:
                self.scheduler.serve()
                if self._retention is not None:
                    self._keeper = Keeper(
                        self._store, self._retention, self._namespace, self.key, self._reached, name=self._name
                    )
                    self._keeper.start()

    async def _register(self) -> None:
        limits = self._limits
        self.key = worker_key(os.urandom)
        self._lost = False
        row = WorkerRow(
            worker_key=self.key,
            name=self._name,
            host=socket.gethostname(),
            pid=os.getpid(),
            pid_started=0,
            boot="",
            build=self.host.build,
            sidecar="",
            started_at=self._clock.now(),
            lease_until=round(limits.lease * 1e6),
            beat=0,
        )
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        self._facts = note(worker=self._name, pid=os.getpid(), python=python, build=self.host.build)
        # One that executes a single run serves nobody else.
        served = () if self._only else self._routes
        await self._journal.call(lambda: self._store.register_worker(row, served))
        self._heartbeat = Heartbeat(
            self._store,
            self._clock,
            self.key,
            lease=limits.lease,
            interval=limits.heartbeat,
            renewed=lambda late: self._threads.call(lambda: self._renewed(late=late)),
            lost=lambda: self._threads.call(self._lease_lost),
            name=self._name,
        )
        self.host.lease_ok = self._heartbeat.ok
        self._heartbeat.start(get_ident())

    # -- claiming

    def poke(self) -> None:
        """There may be something to claim."""
        self._claiming.poke()

    def want(self, row: RunRow) -> None:
        """Claim this run as soon as it can be, before any other."""
        self._claiming.want(row.run_key)
        if self._only and row.status is Status.WAITING:
            self._kin.want_children(row, self._loop)

    @property
    def name(self) -> str:
        """What it is called in logs and lists."""
        return self._name

    @property
    def queues(self) -> set[str]:
        """The queues it claims from."""
        return {route.queue for route in self._routes}

    @property
    def slots(self) -> int:
        """Runs in execution at once."""
        return self._limits.concurrency

    @property
    def free(self) -> int:
        """Slots that are free, or about to be."""
        return self._slots.free

    async def tick(self) -> int:
        """Make one pass and wait for what it claimed; returns how many runs that were."""
        if not self._only:
            await self.scheduler.fire()
            await self._overdue.cancel()
        key, cap, grace = self.key, self._limits.crash_cap, round(self._limits.heartbeat * 1e6)
        dead = await self._journal.call(lambda: self._store.dead_workers(key, grace=grace))
        if dead:
            await self._journal.call(lambda: self._store.reclaim(key, dead, cap=cap))
        count = await self._claiming.tick()
        await self._idle.wait()
        return count

    @property
    def facts(self) -> bytes:
        """What ``run_claimed`` says of this worker."""
        return self._facts

    def execute(self, claim: Claim, *, at_once: bool = False) -> None:
        """Begin (or go on with) a claimed run, soon; ``at_once``: although no slot is free."""
        row = claim.row
        if self._lost or self._retired or row.worker_key != self.key:
            return
        self._claiming.wanted.discard(row.run_key)
        cached = self._suspended.pop(row.run_key, None)
        if cached is not None and (cached.epoch + 1 != row.epoch or cached.seq + 1 != row.seq):
            cached.drop(None)
            cached = None
        definition = self._definitions[row.workflow, row.version]
        run = cached or Run(self.host, claim, definition)
        run.stopping = self._stopping
        begin = run.begin if claim.complete else partial(read_on, run, self._store, self._journal)
        self._slots.take(run, begin if cached is None else cached.go_on, at_once=at_once)
        self._journal.active = len(self.running)
        self._idle.clear()
        if self.host.hooks is not None:
            self.host.hooks.claimed(run, claim)
        if cached is not None:
            cached.rejoin(claim)
        if row.inbox:
            run.deaf = self._vigil.read_inbox()

    # -- what becomes of runs (perdure.runtime.host.Owner)

    def lease_ok(self) -> bool:
        """Whether this worker still surely holds its runs."""
        heartbeat = self._heartbeat
        return heartbeat is not None and heartbeat.holds()

    def run_ended(self, run: Run) -> None:
        """A run's end is on disk."""
        self._faults.pop(run.run_key, None)
        self._free(run)
        self._told(run)
        self.scheduler.run_ended()
        if self._only and run.leaving is not None and run.leaving.kind == Kind.RUN_CONTINUED:
            self._kin.want_successor(run.row, self._loop)

    def learn(self, workflow: Workflow[Any, Any]) -> None:
        """A run starts this as a child: who executes a single run executes what it waits for too."""
        if self._only:
            self._kin.learn(
                workflow, workflow.queue if workflow.options.queue is None else workflow.options.queue, self._namespace
            )

    def run_suspended(self, run: Run) -> None:
        """A run is written as waiting."""
        self._faults.pop(run.run_key, None)
        if self.running.get(run.run_key) is not run:
            run.drop(None)  # it has been woken and claimed anew before this was told
            self.host.left(run)
            return
        self._free(run)
        if self._only:
            self._claiming.wanted.add(run.run_key)
            if run.waits is not None and run.waits.children:
                self._kin.want_children(run.row, self._loop)
        paused = run.pausing is not None
        if run.definition.is_async and self._limits.suspended > 0 and not self._stopping and not paused:
            self._suspended[run.run_key] = run
            if len(self._suspended) > self._limits.suspended:
                self._suspended.popitem(last=False)[1].drop(None)
        else:
            run.drop(None)
        if run.wake_at is not None:
            self._claiming.due.set(run.wake_at)

    def run_leaves(self, run: Run) -> None:
        """A run's last event is being written."""
        if not self._store.inline:  # else it is written before anything could be claimed
            self._slots.leaves(run)
            self._claiming.freed()

    def run_stale(self, run: Run) -> None:
        """A run must hear its news before it decides."""
        surplus = self._slots.stays(run)
        if surplus is not None:
            surplus.drop(None)
            self._release(surplus, None)
        run.deaf = self._vigil.read_inbox()

    def run_sent(self, _run: Run) -> None:
        """A run has started or told others."""
        self.poke()
        self._vigil.read_inbox()

    def run_revives(self, run: Run, child: str) -> None:
        """A run waits anew for a child that has failed."""
        namespace = run.row.namespace
        revived = self._journal.call(lambda: revive(self._store, child, namespace))
        revived.add_done_callback(partial(self._revived, run, child))

    def _revived(self, run: Run, child: str, done: asyncio.Future[None]) -> None:
        if (error := done.exception()) is None:
            self.poke()
        elif not (run.gone or run.ended or self._ending.is_set()):
            say(lines.CHILD_NOT_RESUMED, error=error, child=child, **about(run))
            self._loop.call_later(PAUSE, self.run_revives, run, child)

    def run_refused(self, run: Run) -> None:
        """This build cannot go on with a run."""
        self._refusing.refuse(run)

    def _refused(self, run: Run, events: list[Event]) -> None:
        """A refused run's hold has ended."""
        left = bool(events) and events[-1].kind == Kind.RUN_RELEASED
        self._free(run)
        # Where it is left to other builds, only who has no engine besides this one is told; the others go on waiting.
        if events and (self._only or not left):
            run.leaving = events[0] if left else events[-1]
            self._told(run)

    def _still_holds(self, run: Run) -> bool:
        return self.running.get(run.run_key) is run and not self._ending.is_set()

    def run_lost(self, run: Run, error: BaseException | None) -> None:
        """A run ended in memory only."""
        if error is not None:
            say(lines.RUN_LET_GO, error=error, **about(run))
            run.fault = error
        if not run.in_flight:
            self._free(run)

    def run_settled(self, run: Run) -> None:
        """A stopping (or lost) run has nothing in flight any more."""
        if run.gone:
            self._free(run)
            return
        run.drop(None)
        if self.running.get(run.run_key) is run:
            self._release(run, None)

    def _release(self, run: Run, blocked: str | None) -> None:
        """Give a run back; with ``blocked``, a reason, block it. Tried until it is taken, or the claim is lost."""
        key = self.key

        def release() -> None:
            self._store.release(key, [run.run_key])
            if blocked is not None:
                row = self._store.get_runs([run.run_key])[0]
                self._store.block_run(row.run_key, row.epoch, note(code="internal", reason=blocked), blocked)

        def released(done: asyncio.Future[None]) -> None:
            if (error := done.exception()) is None or key != self.key or self._ending.is_set():
                if blocked is not None and error is None and self.host.hooks is not None:
                    self.host.hooks.blocked(run, blocked)
                self._free(run)
            else:
                say(lines.RUN_NOT_RELEASED, error=error, pause=PAUSE, **about(run))
                self._loop.call_later(PAUSE, self._release, run, blocked)

        self._journal.call(release).add_done_callback(released)

    def _give_back(self, run: Run, fault: BaseException) -> None:
        """Release a run whose execution here ended in a fault, after a pause; if it is at fault, block it at last."""
        faults = self._faults[run.run_key] = self._faults.get(run.run_key, 0) + 1
        its_own = not isinstance(fault, StoreError) or "run_id" in fault.fields
        blocked = None
        if its_own and faults >= self._limits.crash_cap:
            blocked = f"it ended {faults} times in a row in a fault: {type(fault).__name__}: {fault}"
        self._loop.call_later(min(PAUSE * 2.0 ** (faults - 1), LONGEST_PAUSE), self._release, run, blocked)

    def _free(self, run: Run) -> None:
        self.host.left(run)  # also if it has been claimed anew meanwhile, as another execution
        if self._slots.left(run):
            if run.fault is not None:
                self._give_back(run, run.fault)
            self._journal.active = len(self.running)
            self._claiming.freed()
            if not self.running:
                self._idle.set()

    # -- watching

    def _look(self, changed: bool) -> None:  # noqa: FBT001 - a listener of the watch
        if self._heartbeat is not None:
            self._heartbeat.turned_at = self._clock.monotonic()
        self._vigil.look(changed=changed)
        if changed:
            self.scheduler.heard()
        if not self._stopping:
            self._refusing.look()
            if not self._only:
                self._overdue.look()

    # -- the lease

    def _renewed(self, *, late: bool) -> None:
        if self.host.measuring is not None:
            self.host.measuring.renewed(late=late)
        if not late:
            return
        say(lines.LEASE_LATE, worker=self._name)
        self._vigil.check_held()

    def _lease_lost(self) -> None:
        """Others took this worker for dead: everything it held is theirs; go on as a new worker."""
        if self._retired:
            return
        say(lines.LEASE_LOST, worker=self._name, runs=len(self.running))
        if self.host.measuring is not None:
            self.host.measuring.lease_lost()
        self._lost = True
        for run in list(self.running.values()):
            run.drop(None)
            self.run_lost(run, None)
        if not self._stopping:
            self._registering = self._loop.create_task(self._register_again())

    def store_gone(self) -> None:
        """The store is gone: stop everything, and write nothing."""
        self._stopping = self._retired = True
        self._ending.set()
        self._claiming.end()
        self.scheduler.end()
        if self._keeper is not None:
            self._keeper.ask_to_stop()
        for run in list(self.running.values()):
            run.drop(None)
            self.run_lost(run, None)

    async def _register_again(self) -> None:
        while not self._stopping:
            try:
                await self._register()
            except PerdureError as error:
                say(lines.NOT_REGISTERED, error=error, worker=self._name)
                await asyncio.sleep(1)
            else:
                self.poke()
                return

    # -- stopping

    async def stop(self, drain: float, grace: float) -> list[Run]:
        """Claim nothing new, let steps finish for ``drain`` s, abort the rest, wait ``grace`` s, release what settled.

        Returns the runs whose steps ignore the abort: they keep their claim, renewed, until they settle.
        """
        self._stopping = self._vigil.closing = True
        self._begin_no_more()  # from now on, however long it takes to say so
        self._ending.set()
        self._claiming.end()
        self.scheduler.end()
        if self._keeper is not None:
            self._keeper.ask_to_stop()
        await self._claiming.ended()
        await self.scheduler.ended()
        if self.running:
            await self._leave()
        self._slots.begin_all()
        for run in list(self.running.values()):
            self._loop.call_soon(run.advance)
        if await self._settled(drain):
            return await self.close()
        self._begin_no_more()  # also those that were cancelled meanwhile: their cleaning up goes on elsewhere
        for run in list(self.running.values()):
            for body in list(run.in_flight.values()):
                if not body.call.step.at_most_once:
                    self._loop.call_soon(body.request_abort, Abort.STOP)
        if await self._settled(grace):
            return await self.close()
        if self._hurried.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(HURRY):
                    await self._idle.wait()
            if not self.running:
                return await self.close()
        left = list(self.running.values())
        for run in left:
            say(lines.RUN_KEPT, what=", ".join(run.in_flight) or "its code", **about(run))
        return left

    async def _leave(self) -> None:
        # Whoever is killed while it drains was not killed by its runs.
        key = self.key
        try:
            await self._journal.call(lambda: self._store.leave_worker(key))
        except StoreError as error:
            say(lines.NOT_LEAVING, error=error, worker=self._name)

    async def outlive(self) -> None:
        """After ``stop``: wait for the runs that did not heed it, then retire."""
        await self._idle.wait()
        await self.close()

    def hurry(self) -> None:
        """Stop waiting for steps: what is still draining is aborted now, and an interrupt in a body is no outcome."""
        self._hurried.set()
        self._begin_no_more()

    def _begin_no_more(self) -> None:
        for run in self.running.values():
            run.stopping = True

    async def _settled(self, seconds: float) -> bool:
        if self.running and seconds > 0:
            waits = [self._loop.create_task(event.wait()) for event in (self._idle, self._hurried)]
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        return not self.running

    def at_rest(self, held: Container[object] = ()) -> bool:
        """Whether nothing will happen before time passes, a ``held`` body ends or another process does something."""
        now = self._clock.now()
        if not self._claiming.at_rest(now) or not self.scheduler.at_rest(now) or not self._journal.at_rest:
            return False
        return all(run.at_rest(now, held) for run in self.running.values())

    def abandon(self) -> list[Run]:
        """End without a word, as a killed process does; returns the runs it has in memory, which are not touched."""
        self._stopping = self._vigil.closing = True
        self._claiming.end()
        self.scheduler.end()
        self._watch_no_more()
        self._end_threads()
        return [*self.running.values(), *self._suspended.values()]

    async def close(self) -> list[Run]:
        """Retire; the heartbeat ends last."""
        for run in self._suspended.values():
            run.drop(None)
        self._suspended.clear()
        self._claiming.due.cancel()
        self._watch_no_more()
        key = self.key
        self._retired = True
        try:
            await self._journal.call(lambda: self._store.retire_worker(key))
        except StoreError as error:
            say(lines.NOT_RETIRED, error=error, worker=self._name)
        self._end_threads()
        return []

    def _watch_no_more(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def _end_threads(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self._vigil.close()
        self._threads.close()
        self._fiber_threads.close()
        if self._restore_hooks is not None:
            self._restore_hooks()
