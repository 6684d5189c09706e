"""Listing runs, following logs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from perdure import Counts, Retry, step, workflow
from perdure.errors import DefinitionError
from perdure.model.durations import to_datetime
from perdure.model.records import Kind, Status
from tests.engine.desk import ORDER, chore, engine_at, errand, in_loop, job, log_of


@in_loop
async def test_more_runs_than_a_page_are_listed_once_each_newest_first(path):
    async with engine_at(path).client() as client:
        ids = [f"r{n}" for n in range(250)]
        await client.enqueue_many(job, range(250), run_ids=ids)
        assert [row.run_id async for row in client.runs()] == ids[::-1]


@in_loop
async def test_pages_go_on_from_their_cursor_also_when_runs_come_in_between(path):
    async with engine_at(path).client() as client:
        await client.enqueue_many(job, range(25), run_ids=[f"r{n}" for n in range(25)])
        runs, seen, cursor = client.runs(workflow=job), [], None
        while True:
            rows, cursor = await runs.page(cursor, limit=10)
            seen.append([row.run_id for row in rows])
            if cursor is None:
                break
            await client.enqueue(job, 1)
        assert [len(page) for page in seen] == [10, 10, 5]
        assert [run_id for page in seen for run_id in page] == [f"r{n}" for n in range(24, -1, -1)]


@in_loop
async def test_runs_are_found_by_status_and_workflow(path, desk, clock):
    async with engine_at(path, job, chore, desk=desk, clock=clock) as engine:
        await engine.enqueue_many(job, range(3), delay="1h")
        await engine.run(chore, run_id="done")
        await engine.enqueue(chore, run_id="late", delay="1h")

        async def found(**where):
            return sorted(row.workflow for row in [row async for row in engine.runs(**where)])

        assert await found(status="completed") == ["chore"]
        assert await found(status=Status.PENDING) == ["chore", "job", "job", "job"]
        assert await found(status=["COMPLETED", Status.PENDING]) == ["chore", "chore", "job", "job", "job"]
        assert await found(workflow=chore) == await found(workflow="chore") == ["chore", "chore"]
        assert await found(status="pending", workflow=job) == ["job"] * 3
        assert await found(status=[]) == await found(workflow="nobody") == await found(status="blocked") == []


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MEANINGLESS = [
    {"status": "lost"}, {"status": 8}, {"status": ["pending", None]}, {"workflow": 3}, {"version": 1}, {"queue": 3},
    {"id_prefix": 3}, {"error": ""}, {"error": "Rejected: no"}, {"error": 3}, {"error": "orders."},
    {"created_after": "2h"}, {"created_after": NOON.replace(tzinfo=None)}, {"ended_before": NOON.replace(tzinfo=None)},
    {"created_after": NOON, "created_before": NOON}, {"ended_after": NOON, "ended_before": NOON - HOUR},
]  # fmt: skip


@pytest.mark.parametrize("where", MEANINGLESS, ids=str)
@in_loop
async def test_a_filter_that_means_nothing_is_refused(path, where):
    async with engine_at(path).client() as client:
        with pytest.raises(DefinitionError):
            client.runs(**where)
        with pytest.raises(DefinitionError):
            await client.counts(**where)


@pytest.mark.parametrize(
    "window",
    [
        {"since": NOON, "until": NOON}, {"since": NOON.replace(tzinfo=None)}, {"since": NOON, "buckets": 0},
        {"since": NOON, "buckets": 1001}, {"since": NOON, "buckets": True}, {"since": NOON, "workflow": 3},
    ],
    ids=str,
)  # fmt: skip
@in_loop
async def test_a_look_at_the_traffic_that_means_nothing_is_refused(path, window):
    async with engine_at(path).client() as client:
        with pytest.raises(DefinitionError):
            await client.traffic(**window)


@in_loop
async def test_cursors_of_other_lists_and_pages_of_nothing_are_refused(path):
    async with engine_at(path).client() as client:
        await client.enqueue_many(job, range(3))
        _, cursor = await client.runs().page(limit=2)
        assert cursor is not None
        for wrong in ("", "1", 1, cursor + "0x", "e" + cursor[1:]):
            with pytest.raises(DefinitionError):
                await client.runs().page(wrong)
        with pytest.raises(DefinitionError):
            await client.runs(ended_after=NOON).page(cursor)
        for limit in (0, -1, True, "2"):
            with pytest.raises(DefinitionError):
                await client.runs().page(limit=limit)


class Rejected(Exception):
    """Of no kind that anybody else raises."""


@step(retry=Retry(max_attempts=2, initial_delay="1h", max_delay="1h"))
async def refuse(text):
    raise Rejected(text)


@workflow(version="7", queue="slow")
async def refusing(text: str) -> None:
    await refuse(text)


@in_loop
async def test_runs_are_found_by_what_stopped_them_and_by_when_and_counted(path, desk, clock):
    async with engine_at(path, refusing, chore, desk=desk, clock=clock) as engine:
        began = to_datetime(clock.now())
        await engine.enqueue_many(refusing, ["a", "b"], run_ids=["order-1", "order-2"])
        await engine.run(chore, run_id="done")
        while await engine.runs(status="pending").count() or [row async for row in engine.runs(status="running")]:
            await asyncio.sleep(0)  # until both wait for their second attempt
        assert await engine.counts() == Counts(
            {Status.RETRYING: 2, Status.COMPLETED: 1},
            {"chore": {Status.COMPLETED: 1}, "refusing": {Status.RETRYING: 2}},
        )

        async def found(**where):
            return sorted([row.run_id async for row in engine.runs(**where)])

        assert (await engine.get("order-1").view()).reason == (await engine.get("order-1").row()).reason
        assert await found(error=Rejected, status="retrying") == ["order-1", "order-2"]
        clock.advance("1h")
        for run_id in ("order-1", "order-2"):
            with pytest.raises(Rejected):
                await engine.get(run_id, refusing).result()
        both = ["order-1", "order-2"]
        assert await found(error="tests.engine.test_listing.Rejected") == await found(error="Rejected") == both
        assert await found(error="KeyError") == await found(error=Rejected, status="completed") == []
        assert await found(version="7", queue="slow", id_prefix="order-", status="failed") == both
        assert await found(queue="") == await found(id_prefix="do") == ["done"]
        later = began + HOUR / 2
        assert await found(created_after=later) == []
        assert await found(created_before=later, ended_after=later) == both
        assert [row.run_id async for row in engine.runs(ended_after=began)][-1] == "done"
        assert await engine.runs(error=Rejected).count() == 2
        assert not (await engine.runs(error=Rejected).counts(most=1)).exact
        assert (await engine.runs().counts(most=1)).exact
        told = await engine.traffic(since=began - HOUR, until=began + 2 * HOUR, buckets=3)
        assert [one.created for one in told.buckets] == [0, 3, 0]
        assert [(one.completed, one.failed) for one in told.buckets] == [(0, 0), (1, 0), (0, 2)]
        assert told.buckets[2].latency.p50 == told.buckets[2].latency.max >= 3600


@in_loop
async def test_whoever_follows_from_another_engine_sees_each_event_once_in_order_until_the_end(path, desk, clock):
    gate = desk.hold("first")
    async with (
        engine_at(path, errand, desk=desk, clock=clock) as engine,
        engine_at(path, clock=clock).client() as client,
    ):
        await engine.enqueue(errand, ORDER, run_id="r")
        await gate.arrival()

        async def follow(one, after=0):
            return [event async for event in one.get("r").events(follow=True, after=after)]

        following = [asyncio.create_task(follow(client)), asyncio.create_task(follow(engine))]
        later = asyncio.create_task(follow(client, after=2))
        gate.open()
        whole = await following[0]
        assert [event.seq for event in whole] == list(range(1, len(whole) + 1))
        assert whole[-1].kind == Kind.RUN_COMPLETED
        assert whole == await following[1] == await log_of(client, "r")
        assert await later == whole[2:]
        assert await follow(client) == whole


@in_loop
async def test_whoever_does_not_follow_sees_what_is_there(path, desk):
    gate = desk.hold("chore")
    async with engine_at(path, chore, desk=desk) as engine:
        handle = await engine.enqueue(chore)
        await gate.arrival()
        kinds = [event.kind async for event in handle.events()]
        assert kinds[:2] == [Kind.RUN_CREATED, Kind.RUN_CLAIMED]
        assert Kind.RUN_COMPLETED not in kinds
        gate.open()


@in_loop
async def test_a_blocked_run_is_followed_on_as_it_may_be_resumed(path, desk):
    async with engine_at(path, chore, desk=desk).client() as client:
        handle = await client.enqueue(chore, run_id="r")
        row = await handle.row()
        assert client._store.block_run(row.run_key, row.epoch, b'{"reason":"look at it"}', "look at it")
        kinds = []
        async for event in handle.events(follow=True):
            kinds.append(event.kind)
            if event.kind == Kind.RUN_BLOCKED:
                await handle.resume()
            elif event.kind == Kind.RUN_RESUMED:
                await handle.cancel()
        assert kinds == [Kind.RUN_CREATED, Kind.RUN_BLOCKED, Kind.RUN_RESUMED, Kind.RUN_CANCELLED]
