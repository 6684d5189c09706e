"""The death of an engine in a process, and on an event loop, that live on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from perdure.testing.process import PATIENCE

if TYPE_CHECKING:
    from perdure.store.protocol import Store
    from perdure.testing.process import Mortal


async def kill(engine: Mortal, store: Store, *, cap: int) -> None:
    """End an engine as if its process had died, and do to its runs what another one does that sees that.

    Whoever waits for a run in it gets ``EngineNotOpen``. Returns when its bodies have ended, or after ``PATIENCE``.

    Args:
        engine: a started engine.
        store: where its runs are.
        cap: as ``crash_cap`` of ``Engine``.
    """
    worker = engine.worker
    if worker is None:
        return
    runs = engine.die()
    tasks = [body.task for run in runs for body in run.in_flight.values() if body.task is not None]
    for run in runs:
        run.drop(None)
    # At once: what the dead one had not yet written comes too late.
    store.reclaim(0, [worker.key], cap=cap)
    store.retire_worker(worker.key)
    engine.home.leave()
    if tasks:
        await asyncio.wait(tasks, timeout=PATIENCE)
    await asyncio.to_thread(worker.host.threads.wait, PATIENCE)


__all__ = ["kill"]
