"""The demonstration's workflow: two candidates are scored side by side, then the ranking is published."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel

from perdure import INJECTED, StepContext, parallel, step, workflow
from perdure.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

RUN_ID = "review-demo"


class Candidate(BaseModel):
    """Someone to score: the score that will be found, and for how many seconds the tool works on it."""

    id: str
    score: int
    takes: float


class Review(BaseModel):
    """The workflow's input."""

    candidates: list[Candidate]


class Heartbeat(NamedTuple):
    """What a tool leaves behind when it is called: a line in a file, outside of everything the engine knows."""

    at: int
    pid: int
    step: str
    attempt: int
    key: str

    @classmethod
    def read(cls, path: Path) -> list[Heartbeat]:
        """Return the complete lines of a file, if there is one."""
        lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
        found = [line.split() for line in lines if line.endswith("\n")]
        return [cls(int(at), int(pid), step, int(attempt), key) for at, pid, step, attempt, key in found]


class Tools:
    """What the steps work with. Every call leaves a heartbeat first.

    Args:
        heartbeats: the file they are appended to.
    """

    def __init__(self, heartbeats: Path) -> None:
        self._file = heartbeats
        self._clock = SystemClock()

    def _beat(self, ctx: StepContext[Tools]) -> None:
        beat = Heartbeat(self._clock.now(), os.getpid(), ctx.key, ctx.attempt, ctx.idempotency_key)
        file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, (" ".join(map(str, beat)) + "\n").encode())
        finally:
            os.close(file)

    async def score(self, candidate: Candidate, ctx: StepContext[Tools]) -> int:
        """Find a candidate's score; takes its time."""
        self._beat(ctx)
        await asyncio.sleep(candidate.takes)
        return candidate.score

    async def publish(self, ctx: StepContext[Tools]) -> None:
        """Tell the world."""
        self._beat(ctx)


@step
async def score(candidate: Candidate, *, ctx: StepContext[Tools] = INJECTED) -> int:
    """Score one candidate."""
    return await ctx.tools.score(candidate, ctx)


@step
async def publish(ranking: list[str], *, ctx: StepContext[Tools] = INJECTED) -> str:
    """Publish a ranking."""
    await ctx.tools.publish(ctx)
    return " before ".join(ranking)


@workflow
async def review(task: Review) -> str:
    """Score all candidates in parallel branches and publish who is best."""
    candidates = task.candidates
    scores = await parallel(*[score.with_options(key=one.id)(one) for one in candidates])
    ranking = sorted(zip(scores, candidates, strict=True), key=lambda pair: -pair[0])
    return await publish([one.id for _, one in ranking])
