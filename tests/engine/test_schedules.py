"""Schedules on an engine: they fire, once each, whoever fires them, and are what was last said of them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from perdure import INJECTED, RunContext, sleep, sync, workflow
from perdure.errors import DefinitionError, InvalidValue, ScheduleNotFound
from perdure.model.records import Status
from perdure.testing import ManualClock
from tests.engine.desk import chore, engine_at, in_loop, job, until, work

HOUR = timedelta(hours=1)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@workflow
async def stamp(*, ctx: RunContext = INJECTED) -> str:
    return "" if ctx.scheduled_at is None else ctx.scheduled_at.isoformat()


@workflow
async def nap() -> None:
    await sleep("90m")


@pytest.fixture
def clock():
    return ManualClock()


def at(hours):
    return NOON + hours * HOUR


async def ids(engine):
    return sorted([row.run_id async for row in engine.runs()])


async def outcomes(handle):
    return [(one.outcome, one.at, one.times) for one in reversed(await handle.history())]


@in_loop
async def test_an_interval_fires_once_each_time_and_the_run_knows_its_occurrence(path, clock):
    async with engine_at(path, stamp, clock=clock) as engine:
        schedule = await engine.schedule(stamp, every="1h", key="hourly")
        assert await schedule.next(2) == [at(1), at(2)]
        await clock.pass_time("150m", engine)
        assert await ids(engine) == ["hourly@2030-01-01T13:00:00Z", "hourly@2030-01-01T14:00:00Z"]
        run = engine.get("hourly@2030-01-01T14:00:00Z", stamp)
        assert await run.result() == "2030-01-01T14:00:00+00:00"
        assert await outcomes(schedule) == [("started", at(1), 1), ("started", at(2), 1)]
        last = await schedule.last()
        assert (last.run_id, last.reason, last.decided_at) == (run.run_id, None, at(2))
        assert (await engine.run(stamp)) == ""


@in_loop
async def test_cron_fires_by_the_clocks_of_its_zone(path):
    clock = ManualClock(datetime(2026, 3, 27, 12, tzinfo=UTC))
    async with engine_at(path, stamp, clock=clock) as engine:
        await engine.schedule(stamp, cron="30 2 * * *", tz="Europe/Berlin", key="c")
        await clock.pass_time("3d", engine)
        assert await ids(engine) == ["c@2026-03-28T01:30:00Z", "c@2026-03-29T01:00:00Z", "c@2026-03-30T00:30:00Z"]


@in_loop
async def test_what_is_registered_again_unchanged_goes_on_as_it_was(path, clock):
    async with engine_at(path, stamp, clock=clock) as engine:
        first = await engine.schedule(stamp, every="1h")
        await clock.pass_time("30m", engine)
        again = await engine.schedule(stamp, every="60m")
        assert again.key == first.key
        assert (await again.view()).next_at == at(1)
        # By default another cadence or another input is another schedule.
        assert (await engine.schedule(stamp, every="2h")).key != first.key
        assert (await engine.schedule(stamp, cron="@hourly")).key != first.key
        assert len([view async for view in engine.schedules()]) == 3


@in_loop
async def test_a_schedule_outlives_its_engine_and_another_one_fires_it(path, clock, desk):
    async with engine_at(path, stamp, clock=clock) as engine:
        await engine.schedule(stamp, every="1h", key="s")
    async with engine_at(path, chore, desk=desk, clock=clock) as engine:
        await clock.pass_time("70m", engine)
        assert await ids(engine) == []  # who does not have its workflow leaves it alone
    async with engine_at(path, stamp, clock=clock) as engine:
        await until(engine._worker.at_rest)
        await engine.idle()
        assert await ids(engine) == ["s@2030-01-01T13:00:00Z"]


@in_loop
async def test_a_schedule_of_another_process_is_noticed(path):
    async with engine_at(path, stamp) as engine, engine_at(path, stamp).client() as other:
        schedule = await other.schedule(stamp, every="10ms", key="quick")
        while not [row async for row in engine.runs(status="completed")]:
            await asyncio.sleep(0.01)
        assert (await schedule.last()).outcome in {"started", "skipped"}


@in_loop
async def test_it_fires_although_no_slot_is_free(path, clock, desk):
    gate = desk.hold("1")
    async with engine_at(path, job, stamp, desk=desk, clock=clock, concurrency=1) as engine:
        busy = await engine.enqueue(job, 1)
        await gate.arrival()
        schedule = await engine.schedule(stamp, every="1h", key="s", overlap="allow")
        for hours in (1, 2):
            clock.set(at(hours))
            while len(await schedule.history()) < hours:
                await asyncio.sleep(0)
        assert [row.status async for row in engine.runs(workflow=stamp)] == [Status.PENDING, Status.PENDING]
        gate.open()
        assert await busy.result() == 2


@in_loop
async def test_a_tick_fires_what_is_due_first(path, clock):
    engine = engine_at(path, stamp, clock=clock)
    async with engine.client():
        await engine.schedule(stamp, every="1h", key="s")
    assert await engine.tick() == 0
    clock.advance("1h")
    assert await engine.tick() == 1
    assert await engine.tick() == 0
    await engine.stop()
    async with engine.client():
        assert [row.status async for row in engine.runs()] == [Status.COMPLETED]


@in_loop
async def test_many_at_one_instant_all_fire(path, clock):
    async with engine_at(path, stamp, clock=clock) as engine:
        for number in range(150):
            await engine.schedule(stamp, every="1h", key=f"s{number:03}")
        clock.advance("1h")
        await engine.idle()
        assert await ids(engine) == [f"s{number:03}@2030-01-01T13:00:00Z" for number in range(150)]


@in_loop
async def test_engines_side_by_side_fire_each_occurrence_once(path, clock):
    async with engine_at(path, stamp, clock=clock) as one, engine_at(path, stamp, clock=clock) as two:
        for key in "abc":
            await one.schedule(stamp, every="1h", key=key, overlap="allow")
        await asyncio.sleep(0.2)  # the other is to have heard of them, though nothing depends on it
        for _ in range(5):
            clock.advance("1h")
            await asyncio.gather(one.idle(), two.idle())
        expected = [f"{key}@2030-01-01T{13 + hours}:00:00Z" for key in "abc" for hours in range(5)]
        assert await ids(one) == expected


# -- being late


@in_loop
async def test_what_was_missed_is_caught_up_with_inside_the_window_and_recorded_beyond(path, clock):
    async with engine_at(path, stamp, clock=clock).client() as client:
        schedule = await client.schedule(stamp, every="1h", key="s", overlap="allow", catch_up="2h")
    clock.advance("10h")
    async with engine_at(path, stamp, clock=clock) as engine:
        await engine.idle()
        schedule = engine.get_schedule("s")
        assert await outcomes(schedule) == [
            ("skipped", at(1), 7), ("started", at(8), 1), ("started", at(9), 1), ("started", at(10), 1),
        ]  # fmt: skip
        assert (await schedule.view()).next_at == at(11)


@in_loop
async def test_a_clock_that_goes_back_fires_nothing_twice(path, clock):
    async with engine_at(path, stamp, clock=clock) as engine:
        await engine.schedule(stamp, every="1h", key="s")
        await clock.pass_time("2h", engine)
        before = await ids(engine)
        clock.set(NOON)
        await clock.pass_time("150m", engine)
        assert await ids(engine) == before
        await clock.pass_time("30m", engine)
        assert await ids(engine) == [*before, "s@2030-01-01T15:00:00Z"]


@in_loop
async def test_what_is_removed_and_registered_again_fires_no_occurrence_twice(path, clock):
    async with engine_at(path, stamp, clock=clock) as engine:
        await engine.schedule(stamp, cron="@hourly", key="s")
        await clock.pass_time("1h", engine)
        assert await engine.unschedule("s") is True
        assert await engine.unschedule("s") is False
        await clock.pass_time("1h", engine)
        assert await ids(engine) == ["s@2030-01-01T13:00:00Z"]
        clock.set(NOON)
        again = await engine.schedule(stamp, cron="@hourly", key="s")
        assert await again.next() == [at(2)]


# -- overlap


@in_loop
async def test_skip_skips_what_is_due_while_a_run_goes_on(path, clock):
    async with engine_at(path, nap, clock=clock) as engine:
        schedule = await engine.schedule(nap, every="1h", key="s")
        await clock.pass_time("4h", engine)
        assert await outcomes(schedule) == [
            ("started", at(1), 1), ("skipped", at(2), 1), ("started", at(3), 1), ("skipped", at(4), 1),
        ]  # fmt: skip
        assert "not ended" in (await schedule.last()).reason
        assert (await schedule.view()).running == ("s@2030-01-01T15:00:00Z",)


@in_loop
async def test_allow_lets_runs_overlap(path, clock):
    async with engine_at(path, nap, clock=clock) as engine:
        await engine.schedule(nap, every="1h", key="s", overlap="allow")
        await clock.pass_time("2h", engine)
        assert [row.status async for row in engine.runs()] == [Status.SLEEPING, Status.SLEEPING]


@in_loop
async def test_queue_starts_the_next_when_the_one_before_has_ended(path, clock):
    async with engine_at(path, nap, clock=clock) as engine:
        schedule = await engine.schedule(nap, every="1h", key="s", overlap="queue")
        await clock.pass_time("2h", engine)
        assert (await schedule.view()).waiting == (at(2),)
        await clock.pass_time("30m", engine)
        assert [(row.run_id, row.status.word) async for row in engine.runs()] == [
            ("s@2030-01-01T14:00:00Z", "sleeping"), ("s@2030-01-01T13:00:00Z", "completed"),
        ]  # fmt: skip
        assert (await schedule.view()).waiting == ()


@in_loop
async def test_what_waits_is_started_when_the_run_ends_in_another_process(path, clock):
    async with engine_at(path, nap, clock=clock) as engine, engine_at(path, nap, clock=clock).client() as client:
        schedule = await engine.schedule(nap, every="1h", key="s", overlap="queue")
        await clock.pass_time("2h", engine)
        await client.get("s@2030-01-01T13:00:00Z").cancel()
        while "s@2030-01-01T14:00:00Z" not in await ids(engine):
            await asyncio.sleep(0.01)
        assert [one.at for one in await schedule.history()] == [at(2), at(1)]


@in_loop
async def test_cancel_ends_the_run_that_goes_on_and_then_starts_the_next(path, clock, desk):
    async with engine_at(path, nap, clock=clock, desk=desk) as engine:
        schedule = await engine.schedule(nap, every="1h", key="s", overlap="cancel")
        await clock.pass_time("3h", engine)
        await engine.idle()
        while len(await ids(engine)) < 3:
            await asyncio.sleep(0.01)
        found = {row.run_id[-9:-7]: row async for row in engine.runs()}
        assert (found["13"].status, found["14"].status) == (Status.CANCELLED, Status.CANCELLED)
        assert "next run" in found["13"].reason
        assert [one[0] for one in await outcomes(schedule)] == ["started"] * 3


@in_loop
async def test_cancel_waits_until_the_run_has_cleaned_up(path, clock, desk):
    async with engine_at(path, tidy, clock=clock, desk=desk) as engine:
        gate = desk.hold("tidied")
        schedule = await engine.schedule(tidy, every="1h", key="s", overlap="cancel")
        clock.advance("1h")
        await until(lambda: desk.begun)
        clock.advance("1h")
        await gate.arrival()
        assert await ids(engine) == ["s@2030-01-01T13:00:00Z"]
        assert (await schedule.view()).waiting == (at(2),)
        gate.open()
        while len(await ids(engine)) < 2:
            await asyncio.sleep(0.01)
        assert (await engine.get("s@2030-01-01T13:00:00Z").row()).status is Status.CANCELLED


@workflow
async def tidy() -> None:
    try:
        await work("doing")
        await sleep("1d")
    finally:
        await work("tidied")


# -- control


@in_loop
async def test_a_paused_schedule_fires_nothing_until_it_is_resumed(path, clock):
    async with engine_at(path, stamp, clock=clock) as engine:
        schedule = await engine.schedule(stamp, every="1h", key="s")
        await schedule.pause()
        await schedule.pause()
        assert (await schedule.view()).status == "paused"
        assert await schedule.next() == []
        await clock.pass_time("2h", engine)
        await engine.schedule(stamp, every="1h", key="s")  # a start of the program does not resume it
        assert await ids(engine) == []
        await schedule.resume()
        await clock.pass_time("1h", engine)
        assert await ids(engine) == ["s@2030-01-01T15:00:00Z"]
        assert await outcomes(schedule) == [("skipped", at(1), 2), ("started", at(3), 1)]


@in_loop
async def test_a_trigger_starts_a_run_at_once(path, clock):
    async with engine_at(path, stamp, clock=clock) as engine:
        schedule = await engine.schedule(stamp, every="1h", key="s")
        await schedule.pause()
        one, two = await schedule.trigger(), await schedule.trigger()
        assert one.run_id.startswith("s@trigger-")
        assert one.run_id != two.run_id
        assert await one.result() == await two.result() == NOON.isoformat()
        assert await outcomes(schedule) == [("triggered", NOON, 1)] * 2
        assert (await schedule.view()).status == "paused"


@in_loop
async def test_a_triggered_run_counts_for_the_overlap(path, clock):
    async with engine_at(path, nap, clock=clock) as engine:
        schedule = await engine.schedule(nap, every="1h", key="s")
        await schedule.trigger()
        await clock.pass_time("1h", engine)
        assert [one[0] for one in await outcomes(schedule)] == ["triggered", "skipped"]


@in_loop
async def test_a_schedule_ends_and_stays_to_be_seen(path, clock):
    async with engine_at(path, stamp, clock=clock) as engine:
        schedule = await engine.schedule(stamp, every="1h", key="s", start=at(2), end=at(3))
        assert await schedule.next(9) == [at(2), at(3)]
        await clock.pass_time("9h", engine)
        assert [one[1] for one in await outcomes(schedule)] == [at(2), at(3)]
        view = await schedule.view()
        assert (view.status, view.next_at, view.start, view.end) == ("ended", None, at(2), at(3))
        # A program that starts again with it is not troubled.
        assert (await engine.schedule(stamp, every="1h", key="s", start=at(2), end=at(3))).key == "s"


@in_loop
async def test_what_is_not_there_says_so(path, clock):
    async with engine_at(path, stamp, clock=clock) as engine:
        ghost = engine.get_schedule("ghost")
        for act in (ghost.view, ghost.next, ghost.last, ghost.history, ghost.pause, ghost.resume, ghost.trigger):
            with pytest.raises(ScheduleNotFound, match="ghost") as raised:
                await act()
            assert raised.value.key == "ghost"
        assert await ghost.remove() is False


# -- definitions


@in_loop
async def test_another_input_takes_the_place_of_the_one_before(path, clock, desk):
    async with engine_at(path, job, desk=desk, clock=clock) as engine:
        await engine.schedule(job, 1, every="1h", key="s")
        await engine.schedule(job, 22, every="1h", key="s")
        await clock.pass_time("1h", engine)
        assert await engine.get("s@2030-01-01T13:00:00Z", job).result() == 24


@in_loop
async def test_another_cadence_begins_anew(path, clock):
    async with engine_at(path, stamp, clock=clock) as engine:
        await engine.schedule(stamp, every="1h", key="s")
        await clock.pass_time("30m", engine)
        schedule = await engine.schedule(stamp, every="2h", key="s")
        assert await schedule.next() == [at(2.5)]
        await clock.pass_time("3h", engine)
        assert await ids(engine) == ["s@2030-01-01T14:30:00Z"]


@in_loop
async def test_a_lower_revision_does_not_replace_a_higher_one(path, clock, caplog):
    async with engine_at(path, stamp, clock=clock) as engine:
        await engine.schedule(stamp, every="2h", key="s", revision=2)
        left = await engine.schedule(stamp, every="1h", key="s", revision=1)
        assert (await left.view()).cadence == "every 2h"
        assert "revision 2" in caplog.text
        assert (await (await engine.schedule(stamp, every="3h", key="s", revision=2)).view()).cadence == "every 3h"


def builds():
    @workflow(name="built")
    async def old() -> str:
        return "old"

    @workflow(name="built")
    async def new() -> str:
        return "new"

    return old, new


@in_loop
async def test_an_older_build_that_speaks_again_does_not_replace_a_newer_one(path, clock):
    old, new = builds()
    async with engine_at(path, old, clock=clock).client() as before:
        await before.schedule(old, every="1h", key="s")
        clock.advance("1m")
        async with engine_at(path, new, clock=clock).client() as after:
            await after.schedule(new, every="2h", key="s")
            left = await before.schedule(old, every="1h", key="s")
            assert (await left.view()).cadence == "every 2h"
        clock.advance("1m")
        # Who starts later has the last word: that is how one goes back to an older build.
        async with engine_at(path, old, clock=clock).client() as back:
            assert (await (await back.schedule(old, every="1h", key="s")).view()).cadence == "every 1h"


@in_loop
async def test_of_one_build_whoever_speaks_last_is_heard(path, clock):
    async with engine_at(path, stamp, clock=clock).client() as one:
        clock.advance("1m")
        async with engine_at(path, stamp, clock=clock).client() as two:
            await two.schedule(stamp, every="1h", key="s")
            assert (await (await one.schedule(stamp, every="2h", key="s")).view()).cadence == "every 2h"


BAD = [
    {}, {"every": "1h", "cron": "@daily"}, {"every": 0}, {"every": "-1h"}, {"every": "a bit"}, {"every": float("inf")},
    {"every": "99999999w"}, {"cron": "bad"}, {"cron": "0 0 30 2 *"}, {"cron": "0 0 31 4 *"}, {"cron": 5},
    {"cron": "@daily", "tz": "Mars/Olympus"}, {"every": "1h", "tz": "Europe/Berlin"}, {"every": "1h", "key": ""},
    {"every": "1h", "key": "a\0"}, {"every": "1h", "key": "x" * 401}, {"every": "1h", "overlap": "never"},
    {"every": "1h", "overlap": None}, {"every": "1h", "catch_up": "10ms"}, {"every": "1h", "catch_up": None},
    {"every": "1h", "jitter": "2h"}, {"every": "1h", "jitter": "-1s"}, {"every": "1h", "start": datetime(2030, 1, 1)},  # noqa: DTZ001
    {"every": "1h", "end": datetime(2030, 1, 1)}, {"every": "1h", "start": at(2), "end": at(1)},  # noqa: DTZ001
    {"every": "1h", "priority": 5000}, {"every": "1h", "tags": {"a": 1}}, {"every": "1h", "revision": -1},
    {"every": "1h", "revision": True}, {"every": "1h", "revision": "2"},
]  # fmt: skip


@in_loop
async def test_what_is_wrong_is_said_at_once_and_nothing_is_written(path, clock):
    async with engine_at(path, stamp, job, clock=clock).client() as client:
        for options in BAD:
            with pytest.raises(DefinitionError):
                await client.schedule(stamp, **options)
        with pytest.raises(DefinitionError):
            await client.schedule(stamp, "input", every="1h")
        with pytest.raises(DefinitionError):
            await client.schedule(stamp.fn, every="1h")
        with pytest.raises(InvalidValue):
            await client.schedule(job, object(), every="1h")
        assert [view async for view in client.schedules()] == []


@in_loop
async def test_a_large_input_goes_to_every_run(path, clock):
    async with engine_at(path, length, clock=clock) as engine:
        await engine.schedule(length, "x" * 200_000, every="1h", key="s")
        await clock.pass_time("2h", engine)
        assert await engine.get("s@2030-01-01T14:00:00Z", length).result() == 200_000
        handle = await engine.get_schedule("s", length).trigger()
        assert await handle.result() == 200_000


@workflow
async def length(text: str) -> int:
    return len(text)


# -- faults


@in_loop
async def test_one_bad_schedule_stops_no_other_and_says_what_is_wrong(path, clock, caplog):
    async with engine_at(path, stamp, clock=clock) as engine:
        for key in ("a", "bad", "c"):
            await engine.schedule(stamp, every="1h", key=key)
        bad = engine._store.get_schedule("bad")
        broken = bad._replace(cadence=b'{"cron":"* * * * *","tz":"No/Where","start":null,"end":null}')
        replace_row(engine, broken)
        for hours in (1, 2):
            clock.set(at(hours))
            while len([one async for one in engine.runs(status=Status.COMPLETED)]) < 2 * hours:
                await asyncio.sleep(0.01)
        assert [run_id[0] for run_id in await ids(engine)] == ["a", "a", "c", "c"]
        view = await engine.get_schedule("bad").view()
        assert "No/Where" in view.fault
        assert "No/Where" in caplog.text
        assert caplog.text.count("schedule bad could not be fired") == 1
        assert len([one async for one in engine.schedules()]) == 3
        await engine.schedule(stamp, every="1h", key="bad")
        assert (await engine.get_schedule("bad").view()).fault is None


def replace_row(engine, row):
    from perdure.model.schedules import ScheduleChange

    change = ScheduleChange(row._replace(change=row.change + 1, token=b"damage"))
    assert engine._store.change_schedules([change])[0] == 1


@in_loop
async def test_a_runs_id_that_is_taken_costs_that_occurrence_only(path, clock, desk):
    async with engine_at(path, job, desk=desk, clock=clock) as engine:
        await engine.enqueue(job, 5, run_id="s@2030-01-01T13:00:00Z")
        schedule = await engine.schedule(job, 1, every="1h", key="s")
        await clock.pass_time("2h", engine)
        assert [one[0] for one in await outcomes(schedule)] == ["skipped", "started"]


@in_loop
async def test_the_schedules_of_another_namespace_are_not_seen(path, clock):
    async with engine_at(path, stamp, clock=clock) as here, engine_at(path, stamp, clock=clock, namespace="n") as there:
        await there.schedule(stamp, every="1h", key="s")
        await clock.pass_time("1h", there)
        assert [view async for view in here.schedules()] == []
        assert await ids(here) == []
        assert await ids(there) == ["s@2030-01-01T13:00:00Z"]


@in_loop
async def test_schedules_are_listed_by_key_page_by_page(path, clock):
    async with engine_at(path, stamp, clock=clock).client() as client:
        for key in ("c", "a", "b"):
            await client.schedule(stamp, every="1h", key=key, tags={"k": key})
        views, cursor = await client.schedules().page(limit=2)
        assert [view.key for view in views] == ["a", "b"]
        views, cursor = await client.schedules().page(cursor, limit=2)
        assert ([view.key for view in views], cursor) == (["c"], None)
        assert views[0].tags == {"k": "c"}


def test_code_without_async_has_the_same(path, clock):
    engine = sync.Engine(path, workflows=[stamp], clock=clock, durability="process")
    with engine.client():
        schedule = engine.schedule(stamp, every="1h", key="s")
        assert (schedule.key, schedule.next(2)) == ("s", [at(1), at(2)])
        assert schedule.last() is None
        schedule.pause()
        assert [view.status for view in engine.schedules()] == ["paused"]
        engine.get_schedule("s").resume()
        assert schedule.view().status == "active"
        run = schedule.trigger()
        assert [one.run_id for one in schedule.history()] == [run.run_id]
        assert engine.unschedule("s") is True
        assert schedule.remove() is False
        with pytest.raises(ScheduleNotFound):
            schedule.view()
    clock.advance("1h")
    assert engine.tick() == 1
    assert engine.get(run.run_id, stamp).result() == NOON.isoformat()
    engine.stop()
