"""What type checkers say of schedules: who takes no input is given none, and runs keep their types."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import assert_type
from zoneinfo import ZoneInfo

from perdure import Engine, Handle, OccurrenceView, ScheduleHandle, ScheduleView, sync, workflow


@workflow
async def fulfil(order: str) -> bytes:
    return order.encode()


@workflow
async def tidy() -> int:
    return 1


async def scheduling(engine: Engine) -> None:
    assert_type(await engine.schedule(tidy, every="1h"), ScheduleHandle[int])
    schedule = await engine.schedule(
        fulfil, "1", cron="@daily", tz=ZoneInfo("Europe/Berlin"), key="k", overlap="queue", catch_up="1d", jitter=5,
        start=datetime(2030, 1, 1, tzinfo=UTC), end=None, priority=1, tags={"a": "b"}, revision=2,
    )  # fmt: skip
    assert_type(schedule, ScheduleHandle[bytes])
    assert_type(await schedule.trigger(), Handle[bytes])
    assert_type(await schedule.view(), ScheduleView)
    assert_type(await schedule.next(3), list[datetime])
    assert_type(await schedule.last(), OccurrenceView | None)
    assert_type(await schedule.remove(), bool)
    assert_type(engine.get_schedule("k", tidy), ScheduleHandle[int])
    assert_type(await engine.unschedule("k"), bool)
    async for view in engine.schedules():
        assert_type(view, ScheduleView)
    await engine.schedule(fulfil, every="1h")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await engine.schedule(tidy, 1, every="1h")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await engine.schedule(tidy, every="1h", overlap="never")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await engine.schedule(tidy, evry="1h")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def blocking(engine: sync.Engine) -> None:
    schedule = engine.schedule(tidy, every="1h", key="k")
    assert_type(schedule, sync.ScheduleHandle[int])
    assert_type(schedule.trigger(), sync.Handle[int])
    assert_type(schedule.view(), ScheduleView)
    assert_type(engine.get_schedule("k", fulfil), sync.ScheduleHandle[bytes])
    for view in engine.schedules():
        assert_type(view, ScheduleView)
