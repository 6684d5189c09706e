"""The engine: opens a store, executes what is claimed, and answers for runs. Lives on one event loop."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from inspect import isawaitable, isclass, isroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.client import Client
from perdure.clock import SystemClock
from perdure.codecs import check_codecs
from perdure.config import Settings, default_codecs, default_store, setting
from perdure.dispatch import check_hooks
from perdure.errors import ColourError, StoreGone, WrongState
from perdure.model import ids
from perdure.model.durations import seconds
from perdure.observing import Observers
from perdure.operations import Operations
from perdure.options import check_retention, durable, limits
from perdure.queues import queues_of
from perdure.relaying import Relays
from perdure.runtime.journal import Journal
from perdure.runtime.watch import Watch
from perdure.runtime.worker import Worker
from perdure.store.coded import coded, stored_by
from perdure.store.open import open_store, store_name
from perdure.telemetry import lines
from perdure.telemetry.logs import say
from perdure.waiting import Home, Waiters
from perdure.workflow import collect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Container, Iterable
    from typing import Never, Self

    from perdure.hooks import Hooks
    from perdure.model.clock import Clock
    from perdure.model.coding import Codec
    from perdure.model.durations import Duration
    from perdure.model.retention import Retention
    from perdure.queues import Queue
    from perdure.runtime.host import OnDrift
    from perdure.runtime.run import Run
    from perdure.store.open import Durability
    from perdure.store.protocol import Store
    from perdure.telemetry.exposition import EngineCollector
    from perdure.telemetry.tracing import Given
    from perdure.transactional.source import Source
    from perdure.workflow import Workflow

TURNS, SHORT = 50, 0.0005
"""How often ``idle`` looks: at so many turns of the loop, then every so many seconds."""


class Engine(Client):
    """Executes runs of the given workflows from a store; any number of engines share one store.

    ``async with engine:`` starts it and stops it; ``async with engine.client():`` opens the store without executing.
    """

    def __init__(  # noqa: PLR0913 - the options of an engine
        self,
        store: str | Path | Store | None = None,
        *,
        workflows: Iterable[Workflow[Any, Any]] = (),
        tools: Any = None,
        queues: Iterable[Queue | str] = (),
        only_queues: Iterable[Queue | str] | None = None,
        concurrency: int | None = None,
        lease: Duration | None = None,
        heartbeat: Duration | None = None,
        threads: int | None = None,
        crash_cap: int | None = None,
        on_drift: OnDrift | None = None,
        hooks: Iterable[Hooks] = (),
        retention: Retention | None = None,
        name: str = "",
        namespace: str | None = None,
        outboxes: Iterable[Source[Any]] = (),
        codecs: Iterable[Codec] | None = None,
        metrics: bool | str = False,
        tracing: Given = None,
        durability: Durability | None = None,
        clock: Clock | None = None,
        reached: Callable[[str], None] | None = None,
    ) -> None:
        """Set an engine up; nothing is opened yet. What is not said is looked up by ``perdure.config``.

        Args:
            store: a file, a data directory or a URL. An open ``Store`` is used as it
                is, and left open.
            workflows: what it can execute, and decode the results of.
            tools: what steps find as ``ctx.tools``; never stored. A function or class is called at every start, and an
                (async) context manager that it makes is entered then and left after the drain; any other object is used
                as it is.
            queues: queues that it executes runs of, besides those that its workflows name; and, with their limits, the
                definitions that hold for all processes from when it starts; those of its workflows' queues do likewise.
            only_queues: execute runs of these queues and no others; the empty name is the default queue's.
            concurrency: runs in execution at once; else 100.
            lease: how long a claim holds without a heartbeat; else 30 s.
            heartbeat: how often it is renewed; else 10 s.
            threads: sync steps in execution at once; else 32.
            crash_cap: a run whose workers died so often without progress is blocked; else 5.
            on_drift: what becomes of a run whose code calls a step with other arguments than are recorded, or as if a
                recorded call had moved: "block" it, or "warn" and go on with what is recorded; else it is blocked.
            retention: how long runs are kept once they have ended; by default for ever. One of the started engines of a
                namespace sees to it, by what it was given itself: give all of them the same.
            hooks: who is told of what this engine has committed; see ``perdure.Hooks``.
            name: the worker's name in logs and lists; by default the host's name.
            namespace: runs, schedules and ids of other namespaces are not seen, and their runs not executed. By default
                ``PERDURE_NAMESPACE``, else the one without a name.
            outboxes: sources of ``perdure.transactional``, databases of yours in whose transactions runs are enqueued
                and signals sent (``within=``); once it is started, it relays what they have committed.
            codecs: what stored values go through, in this order, such as ``perdure.codecs.Zstandard()`` and
                ``Encryption(key)``; by default what ``perdure.config`` says. Give all processes the same.
            durability: "disk" (committed means on disk) or "process" (it survives the process only); else "disk".
            metrics: keep metrics, for ``metrics()`` and ``collector()``; with an address ("127.0.0.1:9464", or a port
                of the loopback interface) answer Prometheus's scrapes there while started.
            tracing: spans of OpenTelemetry's. By default they are made if a tracer provider has been set up by the time
                the store is opened; True: by the global provider, whenever that is set up; a provider: by that one;
                False: never.
            clock: where the time comes from; tests give one they can move.
            reached: told of each point of ``perdure.runtime.points`` as it is reached; for crash tests.

        Raises:
            DefinitionError: an option is wrong.
            DuplicateName: two workflows of one name and version.
        """
        self._target = store
        self._definitions = collect(workflows)
        self._tools = tools
        settings = Settings()
        self._limits = limits(
            settings.get("concurrency", concurrency),
            settings.get("lease", lease),
            settings.get("heartbeat", heartbeat),
            settings.get("threads", threads),
            settings.get("crash_cap", crash_cap),
            settings.get("on_drift", on_drift),
        )
        self._queues = queues_of(queues)
        limited = [d.limits for d in self._definitions.values() if d.limits and d.limits.name not in self._queues]
        self._defined = [*self._queues.values(), *queues_of(limited).values()]
        self._only_queues = None if only_queues is None else tuple(queues_of(only_queues))
        self._retention = check_retention(retention)
        self._name = name
        self._namespace = settings.namespace if namespace is None else ids.valid_namespace(namespace)
        self._relays = Relays(outboxes)
        self._codecs = None if codecs is None else check_codecs(codecs)
        self._durability: Durability = durable(settings.get("durability", durability))
        self._clock: Clock = clock or SystemClock()
        self._takes_stores_clock = clock is None
        self._reached = reached
        self._only = False
        self._observers = Observers(check_hooks(hooks), metrics, tracing, self._clock, self._namespace)
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
            self._observers.listen()
            self._open()
            operations = self._ops
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
                queues=tuple(self._queues),
                only_queues=self._only_queues,
                only=self._only,
                retention=self._retention,
                ended=self._home.waiting.ended,
                reached=self._reached,
            )
            self._observers.start(worker, self._store, self._journal, operations, only=self._only)
            await self._define_queues(worker)
            await self._relays.open(operations, sent=self._poke, reached=self._reached)
            await worker.start(serve=serve)
            if serve:
                self._relays.start()
            self._observers.started(worker)
            _ = self._ops  # raises if the store has gone meanwhile, when the worker was not there to be told
            self._worker, self._serves = worker, serve
        except BaseException:
            if worker is not None:
                worker.abandon()
            self._relays.abandon()
            try:
                await self._observers.leave(worker, self._journal, 0)
                await self._leave_tools()
            finally:
                self._close()
            raise

    async def _define_queues(self, worker: Worker) -> None:
        store, journal = self._store, self._journal
        assert store is not None
        assert journal is not None
        since = self._clock.now()
        defined = [queue.row(self._namespace, worker.host.build, since) for queue in self._defined]
        if defined:
            await journal.call(lambda: store.define_queues(defined))

    async def stop(self, drain: Duration | None = None, grace: Duration | None = None) -> list[str]:
        """Stop: claim nothing new, let steps finish for ``drain``, abort the rest, wait ``grace``, release the runs.

        By default, these are 30 s and 5 s, or what ``perdure.config`` says.

        Another engine picks released runs up at once; they stay ``running`` and nothing of them counts as failed.
        Whoever waits for a result here gets ``EngineNotOpen``. An engine that is not started is left as it is.

        Returns:
            Ids of runs whose steps ignore the request to stop; their claims are kept until this process exits.
        """
        drain_s = seconds(setting("drain", drain), what="drain")
        grace_s = seconds(setting("grace", grace), what="grace")
        self._home.check_loop()
        async with self._changing:
            worker = self._worker
            if worker is None:
                return []
            await self._relays.stop(grace_s)
            left = await worker.stop(drain_s, grace_s)
            self._worker = None
            try:
                await self._observers.leave(worker, self._journal, grace_s)
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

    if not TYPE_CHECKING:  # whoever has a type checker is told by it

        def __enter__(self) -> Never:
            raise ColourError(
                "an Engine is opened by `async with`, in an `async def`",
                advice="write `async with`, or take perdure.sync.Engine, which is opened by `with`",
            )

        def __exit__(self, *_exc: object) -> None:
            pass

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Self]:
        """Open the store for the block, without executing anything: for web processes and scripts."""
        self._home.check_loop()
        self._open()
        self._clients += 1
        try:
            await self._relays.open(self._ops, sent=self._poke, reached=self._reached)
            yield self
        finally:
            self._clients -= 1
            if self._worker is None and not self._clients:
                await self._relays.stop(0)
            self._close()

    async def serve(
        self,
        drain: Duration | None = None,
        grace: Duration | None = None,
        *,
        ready: Callable[[], object] | None = None,
    ) -> list[str]:
        """Execute until SIGTERM or SIGINT, then drain; a second signal stops at once. Returns as ``stop`` does.

        Args:
            drain: as for ``stop``.
            grace: as for ``stop``.
            ready: called once the engine has started.

        Raises:
            StoreGone: the store was removed or replaced.
        """
        drain = seconds(setting("drain", drain), what="drain")
        grace = seconds(setting("grace", grace), what="grace")
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
            say(lines.ASKED_TO_STOP, worker=self._worker.name if self._worker is not None else self._name)
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
        try:
            self._store = store = coded(store, default_codecs() if self._codecs is None else self._codecs)
        except BaseException:
            if store is not target:
                store.close()
            raise
        if self._takes_stores_clock:
            # Engines on many machines go by one clock where their store has one.
            self._clock = getattr(store, "clock", self._clock)
        self._journal = Journal(loop, store, self._clock, reached=self._reached)
        operations = Operations(
            store, self._journal.outside.call, self._clock, self._namespace, self._definitions, reached=self._reached
        )
        self._observers.opened(store, operations)
        self._watch = Watch(loop, store, self._gone)
        looks = self._journal.looks
        waiters = Waiters(loop, operations, self._watch, looks, self._poke, self._executing)
        self._home.enter(loop, operations, waiters)
        self._watch.start()

    def _close(self) -> None:
        """Close what nobody uses any more."""
        if self._worker is not None or self._clients:
            return
        self._home.leave()
        store, journal, watch, tail = self._store, self._journal, self._watch, self._tail
        self._store = self._journal = self._watch = self._tail = None
        self._observers.closed()

        def let_go(_done: object = None) -> None:
            if watch is not None:
                watch.stop()
            if journal is not None:
                journal.close()
            if store is not None and stored_by(store) is not self._target:
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

    def _gone(self, error: StoreGone) -> None:
        """Nothing can be done any more: tell whoever waits, and let ``serve`` end."""
        say(lines.STORE_GONE, error=error)
        if self._worker is not None:
            self._worker.store_gone()
        self._home.fail(error)
        self._asked.set()

    async def metrics(self) -> str:
        """Return the engine's metrics in Prometheus's text format, for an app to serve; nobody waits for it.

        What is in the store is read at most every 10 s.

        Raises:
            DefinitionError: the engine keeps no metrics, or prometheus_client is not installed.
        """
        return await asyncio.to_thread(self.collector().text)

    def collector(self) -> EngineCollector:
        """Return what collects the engine's metrics, for a registry of ``prometheus_client``: ``register(…)``.

        Raises:
            DefinitionError: as for ``metrics``.
        """
        return self._observers.collector()

    def expose(self, address: str) -> None:
        """Keep metrics, and answer Prometheus's scrapes at an address whenever the engine is started from now on."""
        self._observers.expose(address)

    @property
    def metrics_at(self) -> str | None:
        """Where scrapes are answered now (``127.0.0.1:9464``), if they are."""
        return self._observers.address

    def _executing(self) -> Collection[int]:
        return () if self._worker is None else self._worker.running

    async def idle(self, held: Container[object] = ()) -> None:
        """Wait until nothing is executing here, nothing waits to be claimed and nothing is due: only time could go on.

        A step's body counts as executing for as long as it runs. For tests with a clock that they move.

        Args:
            held: bodies that whoever calls keeps from ending, and that are not waited for.
        """
        turns = 0
        while True:
            # Mostly it is a matter of a few turns of the loop; what takes longer waits for a body.
            await asyncio.sleep(0 if turns < TURNS else SHORT)
            if self._worker is None or self._worker.at_rest(held):
                return
            turns += 1

    def _abandon(self) -> list[Run]:
        """End as if the process had died: nothing is released or written, runs stay held by a worker that is gone.

        Returns the runs it had in memory.
        """
        worker, watch, journal = self._worker, self._watch, self._journal
        self._observers.abandon()
        self._relays.abandon()
        self._worker = self._stack = None
        if watch is not None:
            watch.stop()
        if journal is not None:
            journal.close()
        return [] if worker is None else worker.abandon()

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
            await self._relays.tick()
            return await self._worker.tick()
        finally:
            self._ticking = False
