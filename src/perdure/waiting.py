"""Waiting for runs to end, wherever they are executed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure.errors import EngineNotOpen, RunNotFound, WrongState
from perdure.lookout import Lookout
from perdure.model.durations import seconds
from perdure.model.records import Kind, RunRow
from perdure.operations import Continued, WentOn
from perdure.runtime.watch import TICK

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from perdure.errors import StoreGone
    from perdure.handle import Handle
    from perdure.model.durations import Duration
    from perdure.model.records import Event
    from perdure.operations import Operations
    from perdure.runtime.aside import Aside
    from perdure.runtime.run import Run
    from perdure.runtime.watch import Watch
    from perdure.workflow import Workflow

    _End: TypeAlias = Run | RunRow | None
    """How whoever waits is told of an end: the run that was executed here, the row of another, or nothing is there."""

RECENT = 5000
"""Completed runs whose results are kept at hand."""
SMALL = 4096
"""Bytes of a result up to which it is."""

_STOPPED = "the engine was stopped while a result was waited for; the run goes on"


class Home:
    """What an engine has open at the moment, for itself and its handles: they outlive a stop and a start.

    Attributes:
        loop: the loop that everything lives on while it is open.
        fault: why nothing can be done any more, if so.
        since: when it was opened for the first time, µs.
    """

    def __init__(self) -> None:
        self._operations: Operations | None = None
        self._waiters: Waiters | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.fault: StoreGone | None = None
        self.since = 0

    def enter(self, loop: asyncio.AbstractEventLoop, operations: Operations, waiters: Waiters) -> None:
        """Be open."""
        self.loop, self._operations, self._waiters, self.fault = loop, operations, waiters, None
        self.since = self.since or operations.store.now()

    def leave(self) -> None:
        """Be open no more, and tell whoever waits."""
        if self._waiters is not None:
            self._waiters.close()
        self.loop = self._operations = self._waiters = None

    def fail(self, fault: StoreGone) -> None:
        """Have nothing to offer any more, and tell whoever waits."""
        self.fault = fault
        if self._waiters is not None:
            self._waiters.fail(fault)

    def check_loop(self) -> None:
        """Refuse every loop but the one that all this lives on.

        Raises:
            WrongState: it is open on another one.
        """
        if self.loop is None or asyncio._get_running_loop() is self.loop:
            return
        if self.loop.is_closed():
            raise WrongState(
                "the engine was opened on an event loop that has been closed since",
                status="open",
                advice="stop an engine on its own loop (`async with engine:` does); its runs go on with a new one",
            )
        raise WrongState(
            "the engine is open on another event loop",
            status="open",
            advice="await it on that loop; for threads and code without async there is perdure.sync.Engine",
        )

    @property
    def operations(self) -> Operations:
        """What can be done with runs.

        Raises:
            EngineNotOpen: the engine is not open.
            WrongState: it is open on another loop.
            StoreGone: its store is gone.
        """
        operations = self.anywhere
        self.check_loop()
        return operations

    @property
    def anywhere(self) -> Operations:
        """The same for what is done on another loop, or on none.

        Raises:
            EngineNotOpen, StoreGone: likewise.
        """
        if self._operations is None:
            raise EngineNotOpen(
                "the engine is not open", advice="use `async with engine:` to execute, or `async with engine.client():`"
            )
        if self.fault is not None:
            raise self.fault
        return self._operations

    @property
    def waiting(self) -> Waiters:
        """Who waits for what.

        Raises:
            EngineNotOpen: the engine is not open.
        """
        if self._waiters is None:
            raise EngineNotOpen(_STOPPED, advice="wait again")
        return self._waiters


class Waiters:
    """Who waits for which run. One that ends here says so at once; one that ends elsewhere is seen at the next look."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        operations: Operations,
        watch: Watch,
        looks: Aside,
        poke: Callable[[], None],
        executing: Callable[[], Collection[int]],
    ) -> None:
        self._loop = loop
        self._operations = operations
        self._waiting: dict[int, list[asyncio.Future[_End]]] = {}
        self._changes: list[asyncio.Future[None]] = []
        self._forget = watch.listen(self._look)
        self._lookout = Lookout(loop, looks, operations.store, self._waiting, executing, self._over)
        self._count = 0
        self._fault: Exception | None = None
        self._recent: OrderedDict[int, tuple[RunRow, Event]] = OrderedDict()
        self.poke = poke

    async def result(self, handle: Handle[Any], workflow: Workflow[Any, Any] | None, timeout: Duration | None) -> Any:
        """Wait for a handle's run and return or raise how it ended."""
        if timeout is None:
            return await self._result(handle, workflow)
        limit = seconds(timeout, what="timeout")
        bound = asyncio.timeout(limit)
        try:
            async with bound:
                return await self._result(handle, workflow)
        except TimeoutError:
            if not bound.expired():  # the run's own
                raise
            raise TimeoutError(f"run {handle.run_id!r} has not ended within {limit:g} s; it goes on") from None

    async def _result(self, handle: Handle[Any], workflow: Workflow[Any, Any] | None) -> Any:
        operations = self._operations
        while True:
            try:
                return await self._next_end(handle, workflow, operations)
            except Continued:
                ended, row = handle.run_key, await operations.row(handle.run_id)
                if row.run_key == ended:  # the id is that of a former life, <id>~<number>
                    row = await operations.row(handle.run_id.rpartition("~")[0])
                handle.run_key = row.run_key
            except WentOn:
                continue  # resumed, between its end and the look at it

    async def _next_end(self, handle: Handle[Any], workflow: Workflow[Any, Any] | None, operations: Operations) -> Any:
        if handle.run_key is None:
            handle.run_key = await self._appear(handle, operations)
        run_key = handle.run_key
        recent = self._recent.get(run_key)
        if recent is not None:
            return operations.outcome(*recent, workflow)
        future: asyncio.Future[_End] = self._loop.create_future()
        self._waiting.setdefault(run_key, []).append(future)
        try:
            if self._fault is not None:
                raise self._fault
            self._lookout.add(run_key, future)
            end = await future
        finally:
            self._drop(run_key, future)
        if isinstance(end, RunRow):
            try:
                last = await operations.last_event(end)
            except RunNotFound:
                raise WentOn from None  # purged since, or not there where it is read: whoever looks again is told
            return await operations.result(end, last, workflow)
        if end is None:
            await operations.row_of(run_key, handle.run_id)  # or it raises that it was purged
            raise WentOn
        assert end.leaving is not None
        return operations.outcome(end.row, end.leaving, workflow)

    async def _appear(self, handle: Handle[Any], operations: Operations) -> int:
        """Return the key of a handle's run, and if it is yet to come, wait for that."""
        while True:
            seen = self._count
            try:
                return (await operations.row(handle.run_id)).run_key
            except RunNotFound:
                if not handle.is_expected or self._fault is not None:
                    raise
            await self.change(seen)

    def ended(self, run: Run) -> None:
        """A run ended in this process."""
        assert run.leaving is not None
        if run.leaving.kind == Kind.RUN_COMPLETED and len(run.leaving.payload or b"") <= SMALL:
            # Completed is for good, so the store need not be asked again; what failed may have been resumed since.
            self._recent[run.run_key] = run.row, run.leaving
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        for future in self._waiting.get(run.run_key, ()):
            if not future.done():
                future.set_result(run)
        self._changed()

    @property
    def changes(self) -> int:
        """How often something has changed so far, for ``change``."""
        return self._count

    async def change(self, since: int) -> None:
        """Wait until something may have changed since ``changes`` was ``since``."""
        if self._count != since:
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._changes.append(future)
        await asyncio.wait([future], timeout=20 * TICK)

    def close(self) -> None:
        """Nobody can be told any more."""
        self._forget()
        self._lookout.close()
        self.fail(EngineNotOpen(_STOPPED, advice="wait again"))

    def fail(self, error: Exception) -> None:
        """Raise an error to everybody who waits, and who will."""
        self._fault = error
        for futures in self._waiting.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)
        self._changed()

    def _drop(self, run_key: int, future: asyncio.Future[_End]) -> None:
        futures = self._waiting.get(run_key)
        if futures is not None and future in futures:
            futures.remove(future)
            if not futures:
                del self._waiting[run_key]

    def _changed(self) -> None:
        self._count += 1
        changes, self._changes = self._changes, []
        for future in changes:
            if not future.done():
                future.set_result(None)

    def _look(self, changed: bool) -> None:  # noqa: FBT001 - a listener
        if changed:
            self._changed()
        self._lookout.tick(changed=changed)

    def _over(self, run_key: int, row: RunRow | None) -> None:
        """A run has ended elsewhere, or was even purged."""
        for future in self._waiting.get(run_key, ()):
            if not future.done():
                future.set_result(row)
