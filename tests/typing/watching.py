"""What streams, progress and hooks infer."""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_type

from perdure import (
    INJECTED,
    Emitted,
    Engine,
    Handle,
    Hooks,
    Notice,
    StepContext,
    Stream,
    WorkerNotice,
    emit,
    step,
    sync,
)

tokens = Stream[str]("tokens")


@step
async def writes(*, ctx: StepContext[None] = INJECTED) -> None:
    ctx.progress({"half": True})
    begin: int = ctx.last_progress or 0
    ctx.emit(begin)
    ctx.emit("a", "tokens")
    ctx.emit("a", tokens)
    ctx.emit("a", stream=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tokens.emit("a")
    tokens.emit(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    emit(object(), tokens)


async def reads(handle: Handle[int]) -> None:
    async for item in handle.stream(tokens, after=3):
        assert_type(item, Emitted[str])
        assert_type(item.value, str)
        assert_type(item.attempt, int | None)
        assert_type(item.at, datetime)
    async for other in handle.stream("tokens", follow=False):
        assert_type(other, Emitted[Any])
    async for default in handle.stream():
        assert_type(default, Emitted[Any])


def reads_blocking(handle: sync.Handle[int]) -> None:
    for item in handle.stream(tokens):
        assert_type(item, Emitted[str])


class Alerts(Hooks):
    """Some hooks, async and not."""

    async def run_failed(self, notice: Notice) -> None:
        assert_type(notice.error, BaseException | None)

    def step_completed(self, notice: Notice) -> None:
        assert_type(notice.took, float | None)

    def worker_started(self, worker: WorkerNotice) -> None:
        assert_type(worker.at, datetime)


class Wrong(Hooks):
    """What is not what a hook is given."""

    def run_failed(self, notice: WorkerNotice) -> None: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]


Engine("x.db", hooks=[Alerts()])
sync.Engine("x.db", hooks=[Alerts()])
Engine("x.db", hooks=[print])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
