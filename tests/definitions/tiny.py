"""The least that is a run: enough to see what calls of steps and workflows ask of one."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from perdure.context import RunContext, RunLoopBase, entered
from perdure.protocols import StepLike, WorkflowLike

T = TypeVar("T")
NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)


class TinyRun:
    """A run that notes what it is asked for and calls the function at once."""

    run_id = "r1"
    workflow = "w"
    version = "1"
    scheduled_at = None
    about = {"run_id": "r1", "workflow": "w"}  # noqa: RUF012 - nobody changes it

    def __init__(self) -> None:
        self.replaying = False
        self.asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def call_step(
        self, step: StepLike, args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Coroutine[object, None, Any]:
        self.asked.append((step.name if step.key is None else f"{step.name}[{step.key}]", args, kwargs))

        async def outcome() -> Any:
            result = step.invoke(args, kwargs, None)
            return await result if step.is_async else result

        return outcome()

    async def call_workflow(self, workflow: WorkflowLike, args: tuple[Any, ...], /) -> Any:
        self.asked.append((workflow.name, args, {}))

    def now(self) -> dt.datetime:
        return NOON

    def random(self) -> random.Random:
        return random.Random(7)  # noqa: S311 - no secret

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=7)

    def context(self) -> RunContext:
        return RunContext(self)


class TinyLoop(asyncio.SelectorEventLoop, RunLoopBase):
    """An ordinary event loop that is a run's."""


def in_run(body: Callable[[], Coroutine[Any, Any, T]], run: TinyRun | None = None) -> T:
    """Execute ``body`` as an async workflow."""
    loop = TinyLoop()
    loop.run = run or TinyRun()
    try:
        return loop.run_until_complete(body())
    finally:
        loop.close()


class TinyFiber:
    """A sync workflow's thread that waits by running a loop of its own."""

    def __init__(self, run: TinyRun) -> None:
        self.run = run

    def wait(self, make: Callable[[], Coroutine[object, None, T]], /) -> T:
        with entered(None):
            return asyncio.run(make())


def in_sync_run(body: Callable[[], T], run: TinyRun | None = None) -> T:
    """Execute ``body`` as a sync workflow."""
    with entered(TinyFiber(run or TinyRun())):
        return body()
