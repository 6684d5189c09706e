"""Run a workflow to its end in a test, however long it sleeps."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.context import refuse_on_loop
from perdure.engine import Engine
from perdure.errors import PerdureError, RunNotFound
from perdure.model import ids
from perdure.model.durations import to_datetime
from perdure.model.records import Status
from perdure.testing.clock import ManualClock, RealTimeouts
from perdure.testing.family import family
from perdure.testing.process import let_time_pass
from perdure.testing.script import Script

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perdure.handle import Handle
    from perdure.model.history import RunView
    from perdure.model.records import RunRow
    from perdure.store.protocol import Store
    from perdure.testing.script import Cue, Scripts
    from perdure.workflow import Workflow

InputT = TypeVar("InputT")
R = TypeVar("R")


class RunNotFinished(PerdureError, AssertionError):
    """A run does not end: what it waits for never comes; fields: run_id, status, awaits (names of signals)."""

    code = "run_not_finished"


def run_to_completion(
    workflow: Workflow[InputT, R],
    value: InputT = None,  # type: ignore[assignment]
    /,
    *,
    store: str | Path | Store,
    clock: ManualClock | None = None,
    run_id: str | None = None,
    tools: Any = None,
    signals: Sequence[Cue] = (),
    workflows: Sequence[Workflow[Any, Any]] = (),
) -> R:
    """Run a workflow and return its result, in no time.

    Whenever nothing else happens, the clock goes on to the next timer or retry. A step's body takes real time, and so
    does its timeout. The same call resumes the run.

    Args:
        workflow: what to run.
        value: its input.
        store: where the run lives; ``tmp_path`` will do.
        clock: the clock to move; by default a new one.
        run_id: as for ``perdure.run``.
        tools: what steps find as ``ctx.tools``.
        signals: what is sent, as pairs of a signal (or its name) and a message: each when the run, or a child of it,
            waits for that signal, and before time goes on.
        workflows: children that the code does not call by their names; those are found.

    Raises:
        RunNotFinished: it is paused, or waits for what never comes: a signal that nobody sends, say.
        ColourError: called where an event loop runs.
        Exception: what the workflow failed with, as ``Engine.run`` raises it.
    """
    refuse_on_loop(
        "run_to_completion would block the event loop it is called in",
        advice="call it in a plain def test; in an async one, use an Engine, a ManualClock and its pass_time(…)",
    )
    clock = clock or ManualClock()
    run_id = run_id or ids.run_id(clock.now(), os.urandom)
    script = Script(signals, run_id)
    return asyncio.run(_run(workflow, value, store, clock, run_id, tools, family(workflow, workflows), script))


async def _run(
    workflow: Workflow[InputT, R],
    value: InputT,
    store: str | Path | Store,
    clock: ManualClock,
    run_id: str,
    tools: Any,
    workflows: list[Workflow[Any, Any]],
    script: Script,
) -> R:
    async with Engine(
        store, workflows=workflows, tools=tools, clock=RealTimeouts(clock), durability="process"
    ) as engine:
        return await complete(engine, workflow, value, run_id, clock, script)


async def complete(
    engine: Engine,
    workflow: Workflow[InputT, R],
    value: InputT,
    run_id: str,
    clock: ManualClock,
    script: Script | Scripts,
    turn: asyncio.Lock | None = None,
) -> R:
    """Run a workflow in an engine whose clock is moved on whenever nothing else happens; see ``run_to_completion``."""
    running = asyncio.ensure_future(engine.run(workflow, value, run_id=run_id, retry_failed=True))
    passing = asyncio.ensure_future(let_time_pass(engine, clock, script, partial(_look, engine, run_id), turn))
    try:
        await asyncio.wait({running, passing}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            passing.result()  # raises: it does not end otherwise
        return await running
    finally:
        passing.cancel()
        running.cancel()
        await asyncio.wait({running, passing})


async def _look(engine: Engine, run_id: str) -> None:
    """Nothing happens here, and nothing is due: see whether the run can go on at all."""
    try:
        handle: Handle[Any] = engine.get(run_id)
        row = await handle.row()
    except RunNotFound:  # it is being created
        return
    if row.status not in {Status.WAITING, Status.PAUSED}:
        return
    await engine.idle()
    view = await handle.view()
    if view.seq != (row.seq or 0) or view.status is not row.status:
        return
    has_to_be_sent = view.awaits or view.children
    raise not_finished(
        row,
        view,
        "nothing is going to happen",
        advice="give what is to be sent with signals=[(signal, message), …]" if has_to_be_sent else "resume it",
    )


def not_finished(row: RunRow, view: RunView, why: str, *, advice: str) -> RunNotFinished:
    """Say that a run does not end, and what it waits for."""
    children = [f"child {one.run_id}" for one in view.children.values() if one.status == "running"]
    what = [f"signal {name!r}" for name in view.awaits] + children
    waits = f", for {', '.join(what)}" if what else ""
    if row.wake_at is not None and not row.status.terminal:
        waits += f", until {to_datetime(row.wake_at).isoformat(sep=' ', timespec='seconds')}"
    return RunNotFinished(
        f"run {row.run_id!r} is {row.status.word}{waits}, and {why}",
        advice=advice,
        run_id=row.run_id,
        status=row.status.word,
        awaits=view.awaits,
    )


__all__ = ["RunNotFinished", "complete", "not_finished", "run_to_completion"]
