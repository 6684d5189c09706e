"""Waiting for runs to end, wherever they are executed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from perdure.errors import EngineNotOpen
from perdure.model.records import Kind, Status
from perdure.runtime.watch import TICK

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.handle import Handle
    from perdure.model.records import Event, RunRow
    from perdure.operations import Operations
    from perdure.runtime.run import Run
    from perdure.runtime.watch import Watch
    from perdure.workflow import Workflow

RECENT = 5000
"""Completed runs whose results are kept at hand."""
SMALL = 4096
"""Bytes of a result up to which it is."""


class Waiters:
    """Who waits for which run. A run that ends here says so at once; one that ends elsewhere is seen at the next look."""

    def __init__(self, loop: asyncio.AbstractEventLoop, operations: Operations, watch: Watch, poke: Callable[[], None]) -> None:
        self._loop = loop
        self._operations = operations
        self._waiting: dict[int, list[asyncio.Future[Run | None]]] = {}
        self._changes: list[asyncio.Future[None]] = []
        self._forget = watch.listen(self._look)
        self._checking = False
        self._fault: Exception | None = None
        self._recent: OrderedDict[int, tuple[RunRow, Event]] = OrderedDict()
        self.poke = poke

    async def result(self, handle: Handle[Any], workflow: Workflow[Any, Any] | None, timeout: float | None) -> Any:  # noqa: ANN401, ASYNC109
        """Wait for a handle's run and return or raise how it ended."""
        if timeout is not None:
            async with asyncio.timeout(timeout):
                return await self._result(handle, workflow)
        return await self._result(handle, workflow)

    async def _result(self, handle: Handle[Any], workflow: Workflow[Any, Any] | None) -> Any:  # noqa: ANN401
        operations = self._operations
        if handle.run_key is None:
            row = await operations.row(handle.run_id)
            handle.run_key = row.run_key
        run_key = handle.run_key
        recent = self._recent.get(run_key)
        if recent is not None:
            return operations.outcome(*recent, workflow)
        future: asyncio.Future[Run | None] = self._loop.create_future()
        self._waiting.setdefault(run_key, []).append(future)
        try:
            if self._fault is not None:
                raise self._fault
            row = (await operations.call(lambda: operations.store.get_runs([run_key])))[0]
            if not future.done() and (row.status.terminal or row.status is Status.BLOCKED):
                return await operations.result(row, workflow)
            run = await future
        finally:
            self._drop(run_key, future)
        if run is not None:
            assert run.leaving is not None
            return operations.outcome(run.row, run.leaving, workflow)
        return await operations.result(await operations.row(handle.run_id), workflow)

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

    async def change(self) -> None:
        """Wait until something may have changed."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._changes.append(future)
        await asyncio.wait([future], timeout=20 * TICK)

    def close(self) -> None:
        """Nobody can be told any more."""
        self._forget()
        self.fail(
            EngineNotOpen("the engine was stopped while a result was waited for; the run goes on", advice="wait again")
        )

    def fail(self, error: Exception) -> None:
        """Raise an error to everybody who waits, and who will."""
        self._fault = error
        for futures in self._waiting.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)
        self._changed()

    def _drop(self, run_key: int, future: asyncio.Future[Run | None]) -> None:
        futures = self._waiting.get(run_key)
        if futures is not None and future in futures:
            futures.remove(future)
            if not futures:
                del self._waiting[run_key]

    def _changed(self) -> None:
        changes, self._changes = self._changes, []
        for future in changes:
            if not future.done():
                future.set_result(None)

    def _look(self, changed: bool) -> None:  # noqa: FBT001 - a listener
        if not changed:
            return
        self._changed()
        if self._waiting and not self._checking:
            self._checking = True
            keys = list(self._waiting)
            future = self._operations.call(lambda: self._operations.store.get_runs(keys))
            future.add_done_callback(self._checked)

    def _checked(self, done: asyncio.Future[list[RunRow]]) -> None:
        self._checking = False
        if done.cancelled() or done.exception() is not None:
            return
        for row in done.result():
            if row.status.terminal or row.status is Status.BLOCKED:
                for future in self._waiting.get(row.run_key, ()):
                    if not future.done():
                        future.set_result(None)
