"""One life of a process that executes a run, on a loop of its own; time passes when nothing else happens."""

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, NoReturn

from perdure.context import step_context
from perdure.engine import Engine
from perdure.runtime import points
from perdure.runtime.bodies import Abort
from perdure.testing.clock import RealTimeouts
from perdure.testing.mortal import Began, Death, Doom, MortalStore, Plan
from perdure.testing.order import Order

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AsyncExitStack

    from perdure.runtime.run import Run
    from perdure.runtime.worker import Worker
    from perdure.store.protocol import Store
    from perdure.testing.clock import ManualClock
    from perdure.testing.mortal import Witness
    from perdure.testing.script import Script, Scripts
    from perdure.waiting import Home
    from perdure.workflow import Workflow

PATIENCE = 2.0
"""Real seconds that bodies on threads get to end once their process is gone: threads cannot be killed."""
NAP = 0.0005
EAGER = sys.version_info >= (3, 12)
"""Whether a body's task begins at once (``perdure.runtime.bodies``), not at the loop's next turn."""


@dataclass(slots=True)
class Setting:
    """What the lives of one run have in common."""

    store: Store
    clock: ManualClock
    workflow: Workflow[Any, Any]
    value: Any
    tools: Any
    run_id: str
    namespace: str
    witness: Witness
    timeout: float
    family: list[Workflow[Any, Any]]
    script: Script
    forked: tuple[str, str] | None = None
    """The run that it is forked from, and the step; None if it is a run of its own."""


class Mortal(Engine):
    """An engine whose process may die."""

    @property
    def worker(self) -> Worker | None:
        """What executes its runs, while it is started."""
        return self._worker

    def die(self) -> list[Run]:
        """End without a word; returns the runs that are left in memory."""
        return self._abandon()

    @property
    def home(self) -> Home:
        """What it has open at the moment."""
        return self._home

    @property
    def is_busy(self) -> bool:
        """Whether a body is under way."""
        return self._worker is not None and any(run.in_flight for run in self._worker.running.values())

    @property
    def tools(self) -> AsyncExitStack | None:
        """What leaves the tools; nobody does when it dies."""
        return self._stack


@dataclass(slots=True)
class Process:
    """One process, from its start to its stop or death."""

    setting: Setting
    plan: Plan | None = None
    order: Order = field(default_factory=Order)
    """In which order what goes on side by side ends."""
    died: str | None = None
    """What it was doing when it died."""
    stuck: bool = False
    """Whether it was ended because it took too long."""
    error: BaseException | None = None
    """What whoever waited for the run was told, unless it was the result."""
    bodies: int = 0
    worker: int = 0
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _store: MortalStore = field(init=False)
    _engine: Mortal = field(init=False)
    _thread: int = 0
    _runs: list[Run] = field(default_factory=list)
    _tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    @property
    def writes(self) -> int:
        """How many writes of the run it has begun."""
        return self._store.writes

    def live(self) -> None:
        """Execute the run, to its end or to the death that is planned."""
        setting = self.setting
        setting.witness.new_process()
        self._thread = get_ident()
        self._store = MortalStore(setting.store, setting.witness, self.plan, self._die)
        store: Any = self._store
        self._engine = Mortal(
            store,
            workflows=setting.family,
            tools=setting.tools,
            clock=RealTimeouts(setting.clock),
            namespace=setting.namespace,
            reached=self._reached,
        )
        self._loop = loop = asyncio.new_event_loop()
        late = loop.call_later(setting.timeout, self._too_late)
        try:
            loop.run_until_complete(self._main())
            late.cancel()
        except Death:
            self._perish()
        finally:
            loop.close()

    async def _main(self) -> None:
        setting, engine = self.setting, self._engine
        await engine.start()
        assert engine.worker is not None
        self.worker = engine.worker.key
        passing = asyncio.ensure_future(let_time_pass(engine, setting.clock, setting.script, order=self.order))
        try:
            if setting.forked is None:
                await engine.run(setting.workflow, setting.value, run_id=setting.run_id)
            else:
                origin, step = setting.forked
                await (await engine.get(origin).fork(step, run_id=setting.run_id)).result()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the run's own end, whatever it is
            self.error = error
        passing.cancel()
        self.order.release_all()
        await engine.stop()
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()

    @property
    def claims(self) -> set[int]:
        """Which of its writes were claims: before one, all is as it was after the write before it."""
        return self._store.claims

    # -- dying

    def _reached(self, name: str) -> None:
        if name == points.BODY:
            self._body_begins()
        elif name == points.BODY_ENDED and (doomed := self._store.doomed) is not None:
            ctx = step_context()
            if (ctx.run_id, ctx.key) == doomed.step:
                self._die(doomed.what)

    def _body_begins(self) -> None:
        self.bodies += 1
        ctx = step_context()
        worker = self._engine.worker
        assert worker is not None
        run = next(run for run in worker.running.values() if run.run_id == ctx.run_id)
        step = run.in_flight[ctx.key].call.step
        began = Began(ctx.key, ctx.attempt, ctx.idempotency_key)
        self.setting.witness.began(began, run.run_key, at_most_once=step.at_most_once)
        self.order.hold()
        if self.plan != Plan("inside", self.bodies):
            return
        whose = "" if ctx.run_id == self.setting.run_id else f" of {ctx.run_id}"
        doomed = f"the body of {ctx.key}{whose}, attempt {ctx.attempt}"
        self._store.doomed = Doom((ctx.run_id, ctx.key), doomed)
        if step.is_async:
            # When the body has come as far as its first wait, or to its end: eager tasks have, by the loop's next turn.
            die = partial(self._die, doomed)
            self._loop.call_soon(die if EAGER else partial(self._loop.call_soon, die))

    def _die(self, what: str) -> NoReturn:
        self._store.alive = False
        if self.died is None:
            self.died = what
        # Wherever it is raised: on a thread nobody would hear, and the future of a verb would keep it for later.
        if get_ident() == self._thread:
            self._loop.call_soon(self._fall)
        else:
            self._loop.call_soon_threadsafe(self._fall)
        raise Death

    def _fall(self) -> NoReturn:
        raise Death

    def _too_late(self) -> NoReturn:
        self.stuck = True
        self._die("")

    def _perish(self) -> None:
        """Leave nothing running, and run nothing: a killed process executes no ``finally``."""
        loop = self._loop
        self.order.release_all()
        loop.set_exception_handler(lambda _loop, _context: None)
        self._tasks = list(asyncio.all_tasks(loop))
        worker = self._engine.worker
        self._runs = self._engine.die()
        for run in self._runs:
            for body in run.in_flight.values():
                body.perish()
        if worker is None:
            return
        pool = worker.host.threads
        if not pool.wait(PATIENCE):
            for run in self._runs:
                for body in run.in_flight.values():
                    body.abort = Abort.LOST  # what a patient body asks for with ctx.cancelled
            pool.wait(PATIENCE)

    def bury(self) -> None:
        """Let go of what the dead process held in memory. ``finally`` blocks run now: whatever they do is nobody's."""
        for run in self._runs:
            run.host.fibers.unwind(run)
            run.loop.tear()
        task: Any
        for task in self._tasks:
            task._log_destroy_pending = False
            task._log_traceback = False
            _close(task.get_coro())
        self._runs, self._tasks = [], []


async def let_time_pass(
    engine: Engine,
    clock: ManualClock,
    script: Script | Scripts,
    stalled: Callable[[], Awaitable[object]] | None = None,
    turn: asyncio.Lock | None = None,
    order: Order | None = None,
) -> None:
    """Whenever the engine is idle, send what is waited for, or go on to the next instant at which something is due.

    Where bodies are kept, one of them may be let end instead.

    Args:
        engine: what executes the runs.
        clock: its clock.
        script: what may be sent.
        stalled: called when there is neither.
        turn: of several who let time pass for one engine, one at a time decides.
        order: keeps bodies; by default none is kept.
    """
    order = Order() if order is None else order
    while True:
        async with turn or nullcontext():
            await engine.idle(order)
            may_pass = order.lets_time_pass(is_due=clock.next_due() is not None)
            if (may_pass and (await script.prompt(engine) or clock.skip())) or order.release():
                continue
            if stalled is not None:
                await stalled()
        await asyncio.sleep(NAP)


def _close(coro: Any) -> None:
    for _ in range(50):  # it may await in its finally blocks
        try:
            coro.close()
        except BaseException:  # noqa: BLE001, S112 - dropped, as is all that the dead do
            continue
        return


__all__ = ["Process", "Setting", "let_time_pass"]
