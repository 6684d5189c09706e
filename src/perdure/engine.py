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
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.clock import SystemClock
from perdure.config import default_store
from perdure.errors import DefinitionError, EngineNotOpen, StoreGone, UnknownWorkflow, WrongState
from perdure.handle import Handle
from perdure.model.durations import seconds
from perdure.model.records import Status
from perdure.operations import Operations, Start
from perdure.runtime.journal import Journal
from perdure.runtime.watch import Watch
from perdure.runtime.worker import Limits, Worker
from perdure.store.open import open_store
from perdure.waiting import Waiters
from perdure.workflow import Workflow, collect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
    from typing import Self

    from perdure.model.clock import Clock
    from perdure.model.durations import Duration
    from perdure.model.records import RunRow
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
        self, store: str | Path | Store | None = None, *, workflows: Iterable[Workflow[Any, Any]] = (), tools: Any = None,
        concurrency: int = 100, lease: Duration = "30s", heartbeat: Duration = "10s", threads: int = 32,
        crash_cap: int = 5, name: str = "", namespace: str = "", durability: Durability = "disk",
        clock: Clock | None = None, reached: Callable[[str], None] | None = None,
    ) -> None:
        """Set an engine up; nothing is opened yet.

        Args:
            store: a file, a data directory or a URL; by default see ``perdure.config``. An open ``Store`` is used as it
                is, and left open.
            workflows: what it can execute, and decode the results of.
            tools: what steps find as ``ctx.tools``: an object, or a function (or class) that makes an (async) context
                manager, entered at start and left after the drain. Never stored.
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
        self._limits = _limits(concurrency, lease, heartbeat, threads, crash_cap)
        self._name, self._namespace, self._durability = name, namespace, durability
        self._clock: Clock = clock or SystemClock()
        self._reached = reached
        self._only = False
        self._store: Store | None = None
        self._journal: Journal | None = None
        self._watch: Watch | None = None
        self._worker: Worker | None = None
        self._operations: Operations | None = None
        self._waiters: Waiters | None = None
        self._stack: AsyncExitStack | None = None
        self._fault: StoreGone | None = None
        self._asked = asyncio.Event()

    # -- opening and closing

    async def start(self) -> None:
        """Open the store and execute what can be claimed, until ``stop``. Can be started again after it."""
        await self._start(serve=True)

    async def _start(self, *, serve: bool) -> None:
        if self._worker is not None:
            raise WrongState("the engine is started already", status="started", advice="stop it first")
        opened_here = self._store is None
        try:
            self._open()
            self._stack = AsyncExitStack()
            tools = await self._enter_tools(self._stack)
            assert self._store is not None
            assert self._journal is not None
            assert self._watch is not None
            assert self._waiters is not None
            worker = Worker(
                self._store, self._journal, self._clock, self._definitions, self._watch, limits=self._limits, tools=tools,
                name=self._name, namespace=self._namespace, only=self._only, ended=self._waiters.ended, reached=self._reached,
            )
            await worker.start(serve=serve)
            self._worker = worker
        except BaseException:
            if self._stack is not None:
                await self._stack.aclose()
                self._stack = None
            if opened_here:
                self._close()
            raise

    async def stop(self, drain: Duration = "30s", grace: Duration = "5s") -> list[str]:
        """Stop: claim nothing new, let steps finish for ``drain``, abort the rest, wait ``grace``, release the runs.

        Another engine picks released runs up at once; they stay ``running`` and nothing of them counts as failed.

        Returns:
            Ids of runs whose steps ignore the request to stop; their claims are kept until this process exits.
        """
        worker = self._worker
        if worker is None:
            self._close()
            return []
        left = await worker.stop(seconds(drain), seconds(grace))
        self._worker = None
        if self._stack is not None:
            stack, self._stack = self._stack, None
            await stack.aclose()
        if not left:
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
        self._open()
        try:
            yield self
        finally:
            if self._worker is None:
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
            if self._fault is not None:
                await self.stop(0, 0)
                raise self._fault
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
                print(f"perdure: created the store {opened.path}", file=sys.stderr)  # noqa: T201 - said once, where files are made
            store: Store = opened
        else:
            store = target
        self._store = store
        self._journal = Journal(loop, store, self._clock, reached=self._reached)
        self._operations = Operations(store, self._journal.call, self._clock, self._namespace, reached=self._reached)
        self._fault = None
        self._watch = Watch(loop, store, self._gone)
        self._waiters = Waiters(loop, self._operations, self._watch, self._poke)
        self._watch.start()

    def _close(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        if self._journal is not None:
            self._journal.close()
        if self._waiters is not None:
            self._waiters.close()
        if self._store is not None and self._store is not self._target:
            self._store.close()
        self._store = self._journal = self._watch = self._operations = self._waiters = None

    async def _enter_tools(self, stack: AsyncExitStack) -> Any:  # noqa: ANN401 - the user's own
        tools = self._tools
        if isroutine(tools) or isclass(tools) or isinstance(tools, partial):
            tools = tools()
            if isawaitable(tools):
                tools = await tools
        if hasattr(tools, "__aenter__"):
            return await stack.enter_async_context(tools)
        if hasattr(tools, "__enter__"):
            return stack.enter_context(tools)
        return tools

    @property
    def _ops(self) -> Operations:
        if self._operations is None:
            raise EngineNotOpen(
                "the engine is not open", advice="use `async with engine:` to execute, or `async with engine.client():`"
            )
        if self._fault is not None:
            raise self._fault
        return self._operations

    def _gone(self, error: StoreGone) -> None:
        """Nothing can be done any more: tell whoever waits, and let ``serve`` end."""
        logger.critical("%s", error)
        self._fault = error
        if self._worker is not None:
            self._worker.store_gone()
        if self._waiters is not None:
            self._waiters.fail(error)
        self._asked.set()

    def _poke(self) -> None:
        if self._worker is not None:
            self._worker.poke()

    async def idle(self) -> None:
        """Wait until nothing is executing here, nothing waits to be claimed and nothing is due: only time could go on.

        A step's body counts as executing for as long as it runs. For tests with a clock that they move.
        """
        turns = 0
        while True:
            # Mostly it is a matter of a few turns of the loop; what takes longer waits for a body, which takes its time.
            await asyncio.sleep(0 if turns < TURNS else SHORT)
            if self._worker is None or self._worker.at_rest:
                return
            turns += 1

    def _abandon(self) -> None:
        """End as if the process had died: nothing is released or written, runs stay held by a worker that is no more."""
        worker, watch, journal = self._worker, self._watch, self._journal
        self._worker = self._stack = None
        if watch is not None:
            watch.stop()
        if journal is not None:
            journal.close()
        if worker is not None:
            worker.abandon()

    # -- runs

    async def enqueue(  # noqa: PLR0913 - the options of a run
        self, workflow: Workflow[InputT, R], value: InputT = None, /, *, run_id: str | None = None,  # type: ignore[assignment]
        idempotency_key: str | None = None, delay: Duration | None = None, priority: int = 0,
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
        """
        start = Start(run_id, idempotency_key, delay, priority, None if tags is None else dict(tags))
        operations = self._ops
        created = await operations.create([operations.new_run(workflow, value, start)], workflow)
        self._poke()
        return self._handle(workflow, created[0].row)

    async def enqueue_many(
        self, workflow: Workflow[InputT, R], values: Iterable[InputT], /, *, run_ids: Sequence[str] | None = None,
        delay: Duration | None = None, priority: int = 0,
    ) -> list[Handle[R]]:
        """Create many runs, thousands to a transaction.

        Args:
            workflow: what to run.
            values: their inputs.
            run_ids: their ids, one per input; by default new ones.
            delay: as for ``enqueue``.
            priority: as for ``enqueue``.

        Raises:
            RunConflict: an id is taken by another workflow or another input.
            NotSerializable: an input cannot be stored exactly; then none of its chunk was created.
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
        handles: list[Handle[R]] = []
        for at in range(0, len(new), CHUNK):
            created = await operations.create(new[at : at + CHUNK], workflow)
            handles += [self._handle(workflow, one.row) for one in created]
            self._poke()
        return handles

    async def run(
        self, workflow: Workflow[InputT, R], value: InputT = None, /, *, run_id: str | None = None,  # type: ignore[assignment]
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
        if worker is not None and (workflow.name, workflow.version) not in self._definitions:
            raise UnknownWorkflow(
                f"{workflow!r} is not among this engine's workflows", workflow=workflow.name,
                advice="pass it to Engine(workflows=[…])",
            )
        new = operations.new_run(workflow, value, Start(run_id))
        claim_for = worker.key if worker is not None and worker.free > 0 else None
        assert self._waiters is not None
        created = (await operations.create([new], workflow, claim_for=claim_for,
                                           facts=b"" if worker is None else worker.facts))[0]
        row = created.row
        handle = self._handle(workflow, row)
        if created.claim is not None and worker is not None:
            worker.execute(created.claim)
        elif not created.is_new:
            if row.status is Status.FAILED and retry_failed:
                await operations.resume(row.run_id)
            elif row.status.terminal or row.status is Status.BLOCKED:
                return await operations.result(row, workflow)  # type: ignore[no-any-return]
        if worker is not None and created.claim is None:
            worker.want(row.run_key)
        return await handle.result()

    def get(self, run_id: str, workflow: Workflow[Any, R] | None = None) -> Handle[R]:
        """Return a handle on a run; reads nothing. With ``workflow`` its result has the workflow's type."""
        return self._handle(workflow, None, run_id)

    def runs(
        self, *, status: Iterable[Status | str] | Status | str | None = None, workflow: Workflow[Any, Any] | str | None = None
    ) -> AsyncIterator[RunRow]:
        """Iterate over runs, newest first.

        Args:
            status: only these statuses ("failed", …).
            workflow: only this workflow, or its name.
        """
        name = workflow.name if isinstance(workflow, Workflow) else workflow
        return self._ops.runs(_statuses(status), name)

    def _handle(self, workflow: Workflow[Any, R] | None, row: RunRow | None, run_id: str = "") -> Handle[R]:
        operations = self._ops
        assert self._waiters is not None
        if workflow is None and row is not None:
            workflow = self._definitions.get((row.workflow, row.version))
        return Handle(
            row.run_id if row is not None else run_id, workflow, operations, self._waiters,
            None if row is None else row.run_key,
        )

    async def tick(self) -> int:
        """Make one pass: take back what dead workers left, claim up to ``concurrency`` runs, execute them, wait for them.

        Returns how many runs were executed. For programs that drive the engine themselves; not while it is started.
        """
        if self._worker is None:
            await self._start(serve=False)
        assert self._worker is not None
        return await self._worker.tick()


def _limits(concurrency: object, lease: Duration, heartbeat: Duration, threads: object, crash_cap: object) -> Limits:
    for what, value in (("concurrency", concurrency), ("threads", threads), ("crash_cap", crash_cap)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise DefinitionError(f"{what} is a whole number from 1, not {value!r}")
    assert isinstance(concurrency, int)
    assert isinstance(threads, int)
    assert isinstance(crash_cap, int)
    lease_s = seconds(lease, what="lease", allow_zero=False)
    heartbeat_s = seconds(heartbeat, what="heartbeat", allow_zero=False)
    if heartbeat_s >= lease_s:
        raise DefinitionError(
            f"the heartbeat ({heartbeat_s:g} s) must be shorter than the lease ({lease_s:g} s)",
            advice="a third of the lease is a good heartbeat",
        )
    return Limits(concurrency, lease_s, heartbeat_s, threads, crash_cap)


def _statuses(given: Iterable[Status | str] | Status | str | None) -> list[Status] | None:
    if given is None:
        return None
    several = [given] if isinstance(given, (str, Status)) else list(given)
    try:
        return [Status[one.upper()] if isinstance(one, str) else one for one in several]
    except KeyError as error:
        known = ", ".join(status.word for status in Status)
        raise DefinitionError(f"no status {error.args[0].lower()!r}", advice=f"statuses are {known}") from None




async def arun(  # noqa: PLR0913 - the options of a run
    workflow: Workflow[InputT, R], value: InputT = None, /, *, run_id: str | None = None,  # type: ignore[assignment]
    store: str | Path | None = None, tools: Any = None, retry_failed: bool = True, lease: Duration = "30s",
    heartbeat: Duration = "10s", durability: Durability = "disk", clock: Clock | None = None,
    reached: Callable[[str], None] | None = None,
) -> R:
    """Run a workflow here and now and return its result; the same call resumes it after a crash.

    The run of this id is created, or goes on from what is recorded; a failed one goes on from what failed. Only this run
    is executed. Another process that executes it already is waited for, and taken over from if it dies.

    Args:
        workflow: what to run.
        value: its input.
        run_id: a stable name for this piece of work; without one, every call is a new run.
        store: where runs live; see ``Engine``.
        tools: what steps find as ``ctx.tools``; see ``Engine``.
        retry_failed: with False, the error of a run that failed before is raised again.
        lease: see ``Engine``.
        heartbeat: see ``Engine``.
        durability: see ``Engine``.
        clock: see ``Engine``.
        reached: see ``Engine``.

    Raises:
        RunConflict: the id is taken by another workflow or another input.
        RunCancelled, RunBlocked: the run is in that state; it needs ``resume``.
        DriftError, IntegrityError: what is recorded does not fit the code, or is damaged; nothing was run.
        RunFailed: it failed with an exception that cannot be rebuilt; others are raised as themselves.
    """
    engine = Engine(
        store, workflows=[workflow], tools=tools, concurrency=1, lease=lease, heartbeat=heartbeat, durability=durability,
        clock=clock, reached=reached,
    )
    engine._only = True
    async with engine:
        return await engine.run(workflow, value, run_id=run_id, retry_failed=retry_failed)
