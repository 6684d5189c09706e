"""Front door 1: run a workflow here and now; the same line resumes it after a crash."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.context import refuse_on_loop
from perdure.engine import Engine
from perdure.model import ids

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from datetime import datetime
    from pathlib import Path
    from types import FrameType
    from typing import Unpack

    from perdure.hooks import Hooks
    from perdure.model.clock import Clock
    from perdure.model.coding import Codec
    from perdure.model.durations import Duration
    from perdure.options import HereOptions, HowOptions
    from perdure.store.open import Durability
    from perdure.workflow import Workflow

InputT = TypeVar("InputT")
R = TypeVar("R")

DRAIN, GRACE = 5.0, 1.0
"""Seconds that steps in progress get to finish when whoever waits for the run gives up, and then to clean up."""


@overload
async def arun(workflow: Workflow[None, R], /, **options: Unpack[HereOptions]) -> R: ...
@overload
async def arun(workflow: Workflow[InputT, R], value: InputT, /, **options: Unpack[HereOptions]) -> R: ...
async def arun(  # noqa: PLR0913 - the options of a run
    workflow: Workflow[Any, R],
    value: Any = None,
    /,
    *,
    run_id: str | None = None,
    store: str | Path | None = None,
    namespace: str | None = None,
    tools: Any = None,
    deadline: Duration | datetime | None = None,
    retry_failed: bool = True,
    lease: Duration | None = None,
    heartbeat: Duration | None = None,
    codecs: Iterable[Codec] | None = None,
    hooks: Iterable[Hooks] = (),
    durability: Durability | None = None,
    clock: Clock | None = None,
    reached: Callable[[str], None] | None = None,
) -> R:
    """Run a workflow here and now and return its result; the same call resumes it after a crash.

    The run of this id is created, or goes on from what is recorded; a failed one goes on from what failed. Only this
    run is executed. Another process that executes it already is waited for, and taken over from if it dies.

    Cancelling the caller does not touch the run: steps in progress may finish for 5 s (stderr says so), and the same
    call goes on with it.

    Args:
        workflow: what to run.
        value: its input.
        run_id: a stable name for this piece of work; without one, every call is a new run.
        store: where runs live; see ``Engine``.
        namespace: see ``Engine``.
        tools: what steps find as ``ctx.tools``; see ``Engine``.
        deadline: how long the run may take, or an instant, if it is created by this call; see ``Engine.enqueue``.
        retry_failed: with False, the error of a run that failed before is raised again.
        lease: see ``Engine``.
        heartbeat: see ``Engine``.
        codecs: see ``Engine``.
        hooks: see ``Engine``.
        durability: see ``Engine``.
        clock: see ``Engine``.
        reached: see ``Engine``.

    Raises:
        RunConflict: the id is taken by another workflow, another version of it, or another input.
        RunPurged: it was that of a run which has ended and been purged.
        RunCancelled, RunBlocked: the run is in that state; it needs ``resume``.
        DriftError, IntegrityError: what is recorded does not fit the code, or is damaged; nothing was run.
        RunFailed: it failed with an exception that cannot be rebuilt; others are raised as themselves.
    """
    here = Here(
        workflow,
        run_id,
        store,
        namespace=namespace,
        tools=tools,
        lease=lease,
        heartbeat=heartbeat,
        codecs=codecs,
        hooks=hooks,
        durability=durability,
        clock=clock,
        reached=reached,
    )
    result: R = await here.result(value, deadline=deadline, retry_failed=retry_failed)
    return result


@overload
def run(workflow: Workflow[None, R], /, **options: Unpack[HereOptions]) -> R: ...
@overload
def run(workflow: Workflow[InputT, R], value: InputT, /, **options: Unpack[HereOptions]) -> R: ...
def run(  # noqa: PLR0913 - the options of a run
    workflow: Workflow[Any, R],
    value: Any = None,
    /,
    *,
    run_id: str | None = None,
    store: str | Path | None = None,
    namespace: str | None = None,
    tools: Any = None,
    deadline: Duration | datetime | None = None,
    retry_failed: bool = True,
    lease: Duration | None = None,
    heartbeat: Duration | None = None,
    codecs: Iterable[Codec] | None = None,
    hooks: Iterable[Hooks] = (),
    durability: Durability | None = None,
    clock: Clock | None = None,
    reached: Callable[[str], None] | None = None,
) -> R:
    """Run a workflow here and now and return its result; the same call resumes it after a crash.

    Arguments and errors are those of ``perdure.arun``. Ctrl-C does not touch the run: steps in progress may finish for
    5 s (stderr says so), a second Ctrl-C stops at once, and the same call goes on with it.

    Raises:
        ColourError: called where an event loop runs; write ``await perdure.arun(…)``.
        KeyboardInterrupt: stopped by Ctrl-C.
    """
    refuse_on_loop("perdure.run would block the event loop it is called in", advice="write await perdure.arun(…)")
    here = Here(
        workflow,
        run_id,
        store,
        namespace=namespace,
        tools=tools,
        lease=lease,
        heartbeat=heartbeat,
        codecs=codecs,
        hooks=hooks,
        durability=durability,
        clock=clock,
        reached=reached,
    )
    result: R
    with here.heeding_ctrl_c() as interrupted:
        try:
            result = asyncio.run(here.result(value, deadline=deadline, retry_failed=retry_failed))
        except asyncio.CancelledError:
            if interrupted():
                raise KeyboardInterrupt from None
            raise
    return result


class Here(Engine):
    """An engine for one run, and what becomes of that if nobody wants to wait any more."""

    def __init__(
        self, workflow: Workflow[Any, Any], run_id: str | None, store: str | Path | None, **options: Unpack[HowOptions]
    ) -> None:
        super().__init__(store, workflows=[workflow], **options)
        self._only = True
        self._workflow = workflow
        self._is_named = run_id is not None
        # Chosen here, so that even a run without a name can be told how it goes on.
        self._run_id = ids.run_id(self._clock.now(), os.urandom) if run_id is None else run_id
        self._pressed = 0
        self._heard = False
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def result(
        self,
        value: object,
        *,
        deadline: Duration | datetime | None = None,
        retry_failed: bool,
        announced: bool = True,
    ) -> Any:
        """Execute the run and return its result; on cancellation let steps in progress finish, shortly, and say so.

        Args:
            value: the workflow's input.
            deadline: see ``arun``.
            retry_failed: see ``arun``.
            announced: whether stderr is told of a cancellation; not if the caller does that.
        """
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        limits: tuple[float, ...] = ()
        try:
            await self.start()
            return await self.run(
                self._workflow, value, run_id=self._run_id, deadline=deadline, retry_failed=retry_failed
            )
        except asyncio.CancelledError:
            limits = DRAIN, GRACE
            if announced and self._pressed < 2:  # noqa: PLR2004 - whoever has pressed twice is not told to press again
                self._announce()
            raise
        finally:
            await self.stop(*limits)

    def _announce(self) -> None:
        again = "the run goes on when you run this again"
        if not self._is_named:
            again += f" with run_id={self._run_id!r}"
        worker = self._worker
        steps = [] if worker is None else [key for run in worker.running.values() for key in run.in_flight]
        if steps:
            what = f"{', '.join(steps)} may finish for {DRAIN:g} s"
            if self._pressed:
                what += ", Ctrl-C again to stop now"
            print(f"perdure: stopping; {what}; {again}", file=sys.stderr, flush=True)  # noqa: T201 - to the person who waits
        elif self._pressed:
            print(f"perdure: stopped; {again}", file=sys.stderr, flush=True)  # noqa: T201 - as above

    @contextmanager
    def heeding_ctrl_c(self) -> Generator[Callable[[], bool]]:
        """Handle SIGINT for the block, unless the program does itself; gives a function: whether one came."""
        mine = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if mine:
            signal.signal(signal.SIGINT, self._on_ctrl_c)
        try:
            yield lambda: self._pressed > 0
        finally:
            if mine:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def _on_ctrl_c(self, _number: int, _frame: FrameType | None) -> None:
        self._pressed += 1
        loop = self._loop
        if loop is None or loop.is_closed():
            raise KeyboardInterrupt
        if self._pressed == 1:
            loop.call_soon_threadsafe(self._give_up)
        elif self._pressed == 2 and self._heard and self._worker is not None:  # noqa: PLR2004 - the second time
            self._worker.hurry()
            loop.call_soon_threadsafe(lambda: None)  # it may be asleep in its select
        else:
            # Code that blocks the loop hears of nothing but this.
            if self._worker is not None:
                self._worker.hurry()
            raise KeyboardInterrupt

    def _give_up(self) -> None:
        self._heard = True
        if self._task is not None:
            self._task.cancel()


__all__ = ["DRAIN", "GRACE", "Here", "arun", "run"]
