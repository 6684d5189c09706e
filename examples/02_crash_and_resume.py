"""A workflow whose process kills itself with SIGKILL in three of its steps. Run it four times.

$ python examples/02_crash_and_resume.py

Each time it goes on where the last process died. The step that was running then runs again, under the same key: by
that the world outside can tell that it is the same separation still, and not another one.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import perdure
from perdure import INJECTED, StepContext, step, workflow


@step
async def burn(stage: int, *, ctx: StepContext[None] = INJECTED) -> int:
    print(f"stage {stage} burns, as {ctx.idempotency_key[:8]}", flush=True)
    return stage


@step
def separate(stage: int, *, ctx: StepContext[None] = INJECTED) -> None:
    marker = Path(f"separated-{ctx.idempotency_key}")  # stands for what a payment service, say, remembers
    if marker.exists():
        print(f"stage {stage} has separated already", flush=True)
        return
    marker.touch()
    print(f"stage {stage} separates, and the process dies of it", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


@workflow
async def launch() -> str:
    for stage in (1, 2, 3):
        await burn(stage)
        await separate.aio(stage)
    return "in orbit"


if __name__ == "__main__":
    print(perdure.run(launch, run_id="launch", store="launch.db"))
