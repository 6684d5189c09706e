"""The engine: opens a store, executes what is claimed, and answers for runs. Lives on one event loop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from inspect import isawaitable, isclass, isroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.clock import SystemClock
from perdure.config import default_store
from perdure.errors import DefinitionError, RunConflict, StoreGone, UnknownWorkflow, WrongState
from perdure.handle import Handle
from perdure.model.durations import seconds
from perdure.model.records import Status
from perdure.operations import Operations, Runs, Start, check_distinct
from perdure.options import limits, statuses
from perdure.runtime.journal import Journal
from perdure.runtime.watch import Watch
from perdure.runtime.worker import Worker
from perdure.store.open import open_store, store_name
from perdure.waiting import Home, Waiters
from perdure.workflow import Workflow, collect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
    from typing import Self, Unpack

    from perdure.model.clock import Clock
    from perdure.model.durations import Duration
    from perdure.model.records import RunRow
    from perdure.options import EnqueueOptions, RunOptions
    from perdure.runtime.run import Run
    from perdure.store.open import Durability
    from perdure.store.protocol import Store

logger = logging.getLogger("perdure.engine")

InputT = TypeVar("InputT")
R = TypeVar("R")

CHUNK = 5000
"""Runs created in one transaction by ``enqueue_many``."""
TURNS, SHORT = 50, 0.0005
"""How often ``idle`` looks: at so many turns of the loop, then every so many seconds."""


class Engine:
    """Executes runs of the given workflows from a store; any number of engines share one store.

    ``async with engine:`` starts it and stops it; ``async with engine.client():`` opens the store without executing.
    """

    def __init__(  # noqa: PLR0913 - the options of an engine
        self,
        store: str | Path | Store | None = None,
        *,
        workflows: Iterable[Workflow[Any, Any]] = (),
        tools: Any = None,
        concurrency: int = 100,
        lease: Duration = "30s",
        heartbeat: Duration = "10s",
        threads: int = 32,
        crash_cap: int = 5,
        name: str = "",
        namespace: str = "",
        durability: Durability = "disk",
        clock: Clock | None = None,
        reached: Callable[[str], None] | None = None,
    ) -> None:
        """Set an engine up; nothing is opened yet.

        Args:
            store: a file, a data directory or a URL; by default see ``perdure.config``. An open ``Store`` is used as it
                is, and left open.
            workflows: what it can execute, and decode the results of.
            tools: what steps find as ``ctx.tools``; never stored. A function or class is called at every start, and an
                (async) context manager that it makes is entered then and left after the drain; any other object is used
                as it is.
            concurrency: runs in execution at once.
            lease: how long a claim holds without a heartbeat.
            heartbeat: how often it is renewed.
            threads: sync steps in execution at once.
            crash_cap: a run whose workers died so often without progress is blocked.
            name: the worker's name in logs and lists; by default the host's name.
            namespace: runs of other namespaces are not seen.
            durability: "disk" (committed means on disk) or "process" (it survives the process only).
            clock: where the time comes from; tests give one they can move.
            reached: told of each point of ``perdure.runtime.points`` as it is reached; for crash tests.

        Raises:
            DefinitionError: an option is wrong.
            DuplicateName: two workflows of one name and version.
        """
        self._target = store
        self._definitions = collect(workflows)
        self._tools = tools
        self._limits = limits(concurrency, lease, heartbeat, threads, crash_cap)
        self._name, self._namespace = name, namespace
        self._durability: Durability = durability
        self._clock: Clock = clock or SystemClock()
        self._takes_stores_clock = clock is None
        self._reached = reached
        self._only = False
        self._store: Store | None = None
        self._journal: Journal | None = None
        self._watch: Watch | None = None
        self._worker: Worker | None = None
        self._home = Home()
        self._clients = 0
        self._stack: AsyncExitStack | None = None
        self._changing = asyncio.Lock()
        self._serves = False
        self._ticking = False
        self._tail: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()

    # -- opening and closing

    async def start(self) -> None:
        """Open the store and execute what can be claimed, until ``stop``. Can be started again after it.

        Raises:
            WrongState: it is started already.
            StoreError: the store cannot be opened.
        """
        await self._start(serve=True)

    async def _start(self, *, serve: bool) -> None:
        self._home.check_loop()
        async with self._changing:
            if self._worker is not None:
                raise WrongState("the engine is started already", status="started", advice="stop it first")
            await self._start_worker(serve=serve)

    async def _start_worker(self, *, serve: bool) -> None:
        worker: Worker | None = None
        try:
            self._open()
            self._stack = AsyncExitStack()
            tools = await self._enter_tools(self._stack)
            assert self._store is not None
            assert self._journal is not None
            assert self._watch is not None
            worker = Worker(
                self._store,
                self._journal,
                self._clock,
                self._definitions,
                self._watch,
                limits=self._limits,
                tools=tools,
                name=self._name,
                namespace=self._namespace,
                only=self._only,
                ended=self._home.waiting.ended,
                reached=self._reached,
            )
            await worker.start(serve=serve)
            _ = self._ops  # raises if the store has gone meanwhile, when the worker was not there to be told
            self._worker, self._serves = worker, serve
        except BaseException:
            if worker is not None:
                worker.abandon()
            try:
                await self._leave_tools()
            finally:
                self._close()
            raise

    async def stop(self, drain: Duration = "30s", grace: Duration = "5s") -> list[str]:
        """Stop: claim nothing new, let steps finish for ``drain``, abort the rest, wait ``grace``, release the runs.

        Another engine picks released runs up at once; they stay ``running`` and nothing of them counts as failed.
        Whoever waits for a result here gets ``EngineNotOpen``. An engine that is not started is left as it is.

        Returns:
            Ids of runs whose steps ignore the request to stop; their claims are kept until this process exits.
        """
        drain_s, grace_s = seconds(drain, what="drain"), seconds(grace, what="grace")
        self._home.check_loop()
        async with self._changing:
            worker = self._worker
            if worker is None:
                return []
            left = await worker.stop(drain_s, grace_s)
            self._worker = None
            try:
                await self._leave_tools()
            finally:
                if left:
                    self._tail = asyncio.get_running_loop().create_task(
                        worker.outlive(), name="perdure worker that stops"
                    )
                self._close()
            return [run.run_id for run in left]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Self]:
        """Open the store for the block, without executing anything: for web processes and scripts."""
        self._home.check_loop()
        self._open()
        self._clients += 1
        try:
            yield self
        finally:
            self._clients -= 1
            self._close()

    async def serve(
        self, drain: Duration = "30s", grace: Duration = "5s", *, ready: Callable[[], object] | None = None
    ) -> list[str]:
        """Execute until SIGTERM or SIGINT, then drain; a second signal stops at once. Returns as ``stop`` does.

        Args:
            drain: as for ``stop``.
            grace: as for ``stop``.
            ready: called once the engine has started.

        Raises:
            StoreGone: the store was removed or replaced.
        """
        drain, grace = seconds(drain, what="drain"), seconds(grace, what="grace")
        loop = asyncio.get_running_loop()
        again = asyncio.Event()
        self._asked = asked = asyncio.Event()

        def on_signal() -> None:
            (again if asked.is_set() else asked).set()

        signals = (signal.SIGTERM, signal.SIGINT)
        for number in signals:
            loop.add_signal_handler(number, on_signal)
        try:
            await self.start()
            if ready is not None:
                ready()
            await asked.wait()
            if self._home.fault is not None:
                fault = self._home.fault
                await self.stop(0, 0)
                raise fault
            logger.warning("asked to stop: draining; a second signal stops at once")
            stopping = asyncio.ensure_future(self.stop(drain, grace))
            hurry = asyncio.ensure_future(again.wait())
            await asyncio.wait({stopping, hurry}, return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done() and self._worker is not None:
                self._worker.hurry()
            hurry.cancel()
            return await stopping
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    def _open(self) -> None:
        if self._store is not None:
            return
        target = default_store() if self._target is None else self._target
        loop = asyncio.get_running_loop()
        if isinstance(target, (str, Path)):
            opened = open_store(target, durability=self._durability, clock=self._clock)
            if opened.created and self._target is None:
                print(f"perdure: created the store {store_name(target)}", file=sys.stderr)  # noqa: T201 - said once, where files are made
            store: Store = opened
        else:
            store = target
        self._store = store
        if self._takes_stores_clock:
            # Engines on many machines go by one clock where their store has one.
            self._clock = getattr(store, "clock", self._clock)
        self._journal = Journal(loop, store, self._clock, reached=self._reached)
        operations = Operations(
            store, self._journal.call, self._clock, self._namespace, self._definitions, reached=self._reached
        )
        self._watch = Watch(loop, store, self._gone)
        self._home.enter(loop, operations, Waiters(loop, operations, self._watch, self._poke, self._executes))
        self._watch.start()

    def _close(self) -> None:
        """Close what nobody uses any more."""
        if self._worker is not None or self._clients:
            return
        self._home.leave()
        store, journal, watch, tail = self._store, self._journal, self._watch, self._tail
        self._store = self._journal = self._watch = self._tail = None

        def let_go(_done: object = None) -> None:
            if watch is not None:
                watch.stop()
            if journal is not None:
                journal.close()
            if store is not None and store is not self._target:
                store.close()

        if tail is None or tail.done():
            let_go()
        else:  # runs that did not heed the stop still need all this, to be given back when they have settled
            tail.add_done_callback(let_go)

    async def _enter_tools(self, stack: AsyncExitStack) -> Any:
        tools = self._tools
        if not (isroutine(tools) or isclass(tools) or isinstance(tools, partial)):
            return tools
        made: Any = tools()
        if isawaitable(made):
            made = await made
        if hasattr(made, "__aenter__"):
            return await stack.enter_async_context(made)
        if hasattr(made, "__enter__"):
            return stack.enter_context(made)
        return made

    async def _leave_tools(self) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            await stack.aclose()

    @property
    def _ops(self) -> Operations:
        return self._home.operations

    def _gone(self, error: StoreGone) -> None:
        """Nothing can be done any more: tell whoever waits, and let ``serve`` end."""
        logger.critical("%s", error)
        if self._worker is not None:
            self._worker.store_gone()
        self._home.fail(error)
        self._asked.set()

    def _executes(self, run_key: int) -> bool:
        return self._worker is not None and run_key in self._worker.running

    def _poke(self) -> None:
        if self._worker is not None:
            self._worker.poke()

    async def idle(self) -> None:
        """Wait until nothing is executing here, nothing waits to be claimed and nothing is due: only time could go on.

        A step's body counts as executing for as long as it runs. For tests with a clock that they move.
        """
        turns = 0
        while True:
            # Mostly it is a matter of a few turns of the loop; what takes longer waits for a body.
            await asyncio.sleep(0 if turns < TURNS else SHORT)
            if self._worker is None or self._worker.at_rest:
                return
            turns += 1

    def _abandon(self) -> list[Run]:
        """End as if the process had died: nothing is released or written, runs stay held by a worker that is gone.

        Returns the runs it had in memory.
        """
        worker, watch, journal = self._worker, self._watch, self._journal
        self._worker = self._stack = None
        if watch is not None:
            watch.stop()
        if journal is not None:
            journal.close()
        return [] if worker is None else worker.abandon()

    # -- runs

    @overload
    async def enqueue(self, workflow: Workflow[None, R], /, **options: Unpack[EnqueueOptions]) -> Handle[R]: ...
    @overload
    async def enqueue(
        self, workflow: Workflow[InputT, R], value: InputT, /, **options: Unpack[EnqueueOptions]
    ) -> Handle[R]: ...
    async def enqueue(
        self,
        workflow: Workflow[Any, R],
        value: Any = None,
        /,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        delay: Duration | None = None,
        priority: int = 0,
        tags: Mapping[str, str] | None = None,
    ) -> Handle[R]:
        """Create a run, or find the one that is there; it is executed by whichever engine claims it.

        Args:
            workflow: what to run.
            value: its input.
            run_id: the run's id; by default a new one.
            idempotency_key: a second enqueue with this key finds the first one's run.
            delay: do not begin before this has passed.
            priority: higher goes first, -1000 to 1000.
            tags: kept with the run and shown.

        Raises:
            RunConflict: the id or key is taken by another workflow or another input.
            NotSerializable: the input cannot be stored exactly.
            DefinitionError: an option is wrong.
        """
        start = Start(run_id, idempotency_key, delay, priority, tags)
        operations = self._ops
        created = await operations.create([operations.new_run(workflow, value, start)], workflow)
        self._poke()
        return self._handle(workflow, created[0].row)

    async def enqueue_many(
        self,
        workflow: Workflow[InputT, R],
        values: Iterable[InputT],
        /,
        *,
        run_ids: Sequence[str] | None = None,
        delay: Duration | None = None,
        priority: int = 0,
    ) -> list[Handle[R]]:
        """Create many runs, or find those that are there, thousands to a transaction.

        Args:
            workflow: what to run.
            values: their inputs.
            run_ids: their ids, one per input; by default new ones.
            delay: as for ``enqueue``.
            priority: as for ``enqueue``.

        Raises:
            RunConflict: an id is taken by another workflow or another input; the others are created all the same.
            NotSerializable: an input cannot be stored exactly; then none was created.
            DefinitionError: an option is wrong, or an id is given twice with different inputs; then none was created.
        """
        operations = self._ops
        values = list(values)
        if run_ids is not None and len(run_ids) != len(values):
            raise DefinitionError(f"{len(values)} inputs, but {len(run_ids)} run ids", advice="give one id per input")
        names: Sequence[str | None] = [None] * len(values) if run_ids is None else run_ids
        new = [
            operations.new_run(workflow, value, Start(run_id, None, delay, priority))
            for value, run_id in zip(values, names, strict=True)
        ]
        check_distinct(new)
        handles: list[Handle[R]] = []
        for at in range(0, len(new), CHUNK):
            created = await operations.create(new[at : at + CHUNK], workflow)
            handles += [self._handle(workflow, one.row) for one in created]
            self._poke()
        return handles

    @overload
    async def run(self, workflow: Workflow[None, R], /, **options: Unpack[RunOptions]) -> R: ...
    @overload
    async def run(self, workflow: Workflow[InputT, R], value: InputT, /, **options: Unpack[RunOptions]) -> R: ...
    async def run(
        self,
        workflow: Workflow[Any, R],
        value: Any = None,
        /,
        *,
        run_id: str | None = None,
        retry_failed: bool = False,
    ) -> R:
        """Run a workflow, or attach to the run that is there, and wait for its result.

        Cancelling the caller does not touch the run.

        Args:
            workflow: what to run.
            value: its input.
            run_id: the run's id; by default a new one.
            retry_failed: let a run that failed before go on from what failed, instead of raising its error.

        Raises:
            RunConflict: the id is taken by another workflow or another input.
            RunCancelled, RunBlocked: the run is in that state; it needs ``resume``.
            DriftError, IntegrityError: what is recorded does not fit the code, or is damaged.
            RunFailed: it failed with an exception that cannot be rebuilt; others are raised as themselves.
        """
        operations, worker = self._ops, self._worker
        new = operations.new_run(workflow, value, Start(run_id))
        if worker is not None and (workflow.name, workflow.version) not in self._definitions:
            raise UnknownWorkflow(
                f"{workflow!r} is not among this engine's workflows",
                workflow=workflow.name,
                advice="pass it to Engine(workflows=[…])",
            )
        if worker is None:
            created = (await operations.create([new], workflow))[0]
        else:
            created = (
                await operations.create(
                    [new],
                    workflow,
                    claim_for=worker.key if worker.free > 0 else None,
                    facts=worker.facts,
                    claimed=worker.execute,
                )
            )[0]
        row = created.row
        if created.claim is None:
            retry = retry_failed and row.status is Status.FAILED
            if retry or not (row.status.terminal or row.status is Status.BLOCKED):
                self._check_version(row, workflow)
                if retry:
                    await operations.resume_failed(row)
                if worker is not None:
                    worker.want(row.run_key)
        return await self._handle(workflow, row).result()

    def _check_version(self, row: RunRow, workflow: Workflow[Any, Any]) -> None:
        if self._only and row.version != workflow.version:
            raise RunConflict(
                f"run {row.run_id!r} began under version {row.version!r} of {row.workflow!r}, not {workflow.version!r}",
                run_id=row.run_id,
                recorded=row.version,
                found=workflow.version,
                advice="a run stays with the version it began under: go on with that one, or choose another run id",
            )

    def get(self, run_id: str, workflow: Workflow[Any, R] | None = None) -> Handle[R]:
        """Return a handle on a run; reads nothing. With ``workflow`` its result has the workflow's type."""
        _ = self._ops
        return self._handle(workflow, None, run_id)

    def runs(
        self,
        *,
        status: Iterable[Status | str] | Status | str | None = None,
        workflow: Workflow[Any, Any] | str | None = None,
        codeless: bool | None = None,
    ) -> Runs:
        """Return the runs, newest first: to iterate over with ``async for``, or to read by ``page``.

        Args:
            status: only these statuses ("failed", …).
            workflow: only this workflow, or its name.
            codeless: only runs that could go on, but no living worker has their code; or only others. (Pages are
                short then.)

        Raises:
            DefinitionError: no such status.
        """
        name = workflow.name if isinstance(workflow, Workflow) else workflow
        if name is not None and not isinstance(name, str):
            raise DefinitionError(f"{name!r} is no workflow and no name of one", advice="give either")
        return Runs(self._ops, statuses(status), name, codeless=codeless)

    def _handle(self, workflow: Workflow[Any, R] | None, row: RunRow | None, run_id: str = "") -> Handle[R]:
        if row is None:
            return Handle(run_id, workflow, self._home)
        return Handle(row.run_id, workflow, self._home, row.run_key)

    async def tick(self) -> int:
        """Make one pass: take back what dead workers left, claim up to ``concurrency`` runs, execute and await them.

        A run that must wait for long, in a sleep or for its next attempt, is let go and found by a later pass.

        Returns how many runs were executed. For programs that drive the engine themselves: the first pass opens the
        store, and ``stop`` closes it.

        Raises:
            WrongState: the engine is started, or another pass is under way.
        """
        self._home.check_loop()
        if self._ticking or (self._worker is not None and self._serves):
            raise WrongState(
                "another pass is under way" if self._ticking else "the engine is started, and claims by itself",
                status="ticking" if self._ticking else "started",
                advice="await one tick after the other, outside of steps"
                if self._ticking
                else "either start it or tick it",
            )
        self._ticking = True
        try:
            if self._worker is None:
                await self._start(serve=False)
            assert self._worker is not None
            return await self._worker.tick()
        finally:
            self._ticking = False
