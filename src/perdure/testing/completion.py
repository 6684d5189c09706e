"""Run a workflow to its end in a test, however long it sleeps."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.engine import Engine
from perdure.errors import ColourError
from perdure.testing.clock import ManualClock, RealTimeouts
from perdure.testing.process import let_time_pass

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.store.protocol import Store
    from perdure.workflow import Workflow

InputT = TypeVar("InputT")
R = TypeVar("R")


def run_to_completion(
    workflow: Workflow[InputT, R],
    value: InputT = None,  # type: ignore[assignment]
    /,
    *,
    store: str | Path | Store,
    clock: ManualClock | None = None,
    run_id: str | None = None,
    tools: Any = None,
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

    Raises:
        ColourError: called where an event loop runs.
        Exception: what the workflow failed with, as ``Engine.run`` raises it.
    """
    if asyncio._get_running_loop() is not None:
        raise ColourError(
            "run_to_completion would block the event loop it is called in",
            advice="call it in a plain def test; in an async one, use an Engine, a ManualClock and its pass_time(…)",
        )
    return asyncio.run(_run(workflow, value, store, clock or ManualClock(), run_id, tools))


async def _run(
    workflow: Workflow[InputT, R],
    value: InputT,
    store: str | Path | Store,
    clock: ManualClock,
    run_id: str | None,
    tools: Any,
) -> R:
    timed = RealTimeouts(clock)
    async with Engine(store, workflows=[workflow], tools=tools, clock=timed, durability="process") as engine:
        passing = asyncio.ensure_future(let_time_pass(engine, clock))
        try:
            return await engine.run(workflow, value, run_id=run_id, retry_failed=True)
        finally:
            passing.cancel()


__all__ = ["run_to_completion"]
