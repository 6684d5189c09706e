"""Retention: what is old enough is purged, and a purged run is refused at every door, never begun anew."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import perdure
from perdure import Retention, Signal, sync, workflow
from perdure.errors import DefinitionError, RunConflict, RunNotFound, RunPurged
from perdure.model.durations import to_datetime
from perdure.model.purging import Purgeable
from perdure.store.open import open_store
from perdure.testing import ManualClock
from tests.engine.desk import chore, engine_at, in_loop, in_status, job, log_of, until, work

word = Signal[str]("word")


@workflow
async def parent(child: str) -> str:
    try:
        return await chore.with_options(run_id=child)()
    except RunPurged as error:
        return f"{error.fields['run_id']} was {error.fields['status']}"


@workflow
async def stubborn(child: str) -> str:
    return await chore.with_options(run_id=child)()


@workflow
async def listens() -> str:
    return await word.wait()


@workflow
async def family(n: int) -> str:
    done = await chore()
    if n:
        await work("later")
    return done


ALL = (chore, job, parent, stubborn, listens, family)


async def ids(engine):
    return sorted([row.run_id async for row in engine.runs()])


@in_loop
async def test_a_purged_run_is_refused_at_every_door(path, desk):
    clock = ManualClock()
    async with engine_at(path, *ALL, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(chore, run_id="old", idempotency_key="key")
        other = await engine.enqueue(chore, run_id="other")
        assert [await handle.result(), await other.result()] == ["chore"] * 2
        begun, ended_at = len(desk.begun), (await handle.row()).ended_at
        await clock.pass_time("1d", engine)
        assert (await engine.prune(older_than="1d", workflow="chore", limit=1)).runs == 1
        doors = (
            engine.enqueue(chore, run_id="old"), engine.enqueue(chore, idempotency_key="key"),
            engine.enqueue(chore, run_id="new", idempotency_key="key"), engine.run(chore, run_id="old"),
            engine.enqueue_many(job, [1, 2], run_ids=["fresh", "old"]), other.fork("work", run_id="old"),
            handle.view(), handle.row(), handle.cancel(), handle.pause(), handle.resume(), handle.fork("work"),
            handle.signal(word, "x"), log_of(engine, "old"), engine.get("old").result(),
            perdure.arun(chore, run_id="old", store=path, clock=clock),
        )  # fmt: skip
        for door in doors:
            with pytest.raises(RunPurged) as caught:
                await door
            said = caught.value.fields
            assert (said["run_id"], said["status"]) == ("old", "completed")
            assert (said["ended_at"], said["purged_at"]) == (to_datetime(ended_at), to_datetime(clock.now()))
        assert await engine.get("fresh", job).result() == 2
        assert await engine.run(parent, "old") == "old was completed"
        with pytest.raises(RunPurged, match="'old' completed"):
            await engine.run(stubborn, "old", run_id="stubborn")
        with pytest.raises(RunPurged, match="'old' completed"):  # once more, from what is recorded
            await engine.get("stubborn", stubborn).result()
        with pytest.raises(RunNotFound) as caught:
            await engine.get("never").row()
        assert not isinstance(caught.value, RunPurged)
        assert [one.key for one in desk.begun[begun:]] == ["work#1"]


@in_loop
async def test_an_occurrence_of_a_purged_run_is_never_fired_again(path, desk):
    clock = ManualClock()
    async with engine_at(path, *ALL, desk=desk, clock=clock) as engine:
        schedule = await engine.schedule(chore, every="1h", key="hourly", overlap="queue")
        for _ in range(3):
            await clock.pass_time("1h", engine)
            assert (await engine.prune(older_than=0)).runs == 1
        # Defined anew, by a clock that was set back: what has had its run has none again.
        await engine.unschedule("hourly")
        clock.set(to_datetime(clock.now()) - timedelta(hours=2))
        await engine.schedule(chore, every="1h", key="hourly", overlap="queue")
        await clock.pass_time("2h", engine)
        assert len(desk.begun) == 3
        await clock.pass_time("1h", engine)
        assert len(desk.begun) == 4
        assert [one.outcome for one in await schedule.history()] == ["started"] * 4


@in_loop
async def test_what_is_kept_goes_by_how_a_run_ended_and_by_its_workflow(path, desk):
    clock = ManualClock()
    retention = Retention(
        completed="1h", cancelled="2h", workflows={"job": Retention(failed="30m"), "listens": Retention.same("3h")}
    )
    desk.fails["chore"] = desk.fails["7"] = ValueError("no")
    async with engine_at(path, *ALL, desk=desk, clock=clock, retention=retention) as engine:
        for run_id, flow, value in (("job-good", job, 1), ("job-bad", job, 7), ("chore-bad", chore, None)):
            await engine.enqueue(flow, *([] if value is None else [value]), run_id=run_id)
        for run_id in ("gone", "stays", "heard"):
            await engine.enqueue(listens, run_id=run_id)
        await engine.enqueue(parent, "chore-bad", run_id="parent-bad")
        await in_status(engine, "gone", perdure.Status.WAITING)
        await engine.get("heard").signal(word, "x")
        await engine.get("gone").cancel()
        await asyncio.gather(
            *(engine.get(one).result() for one in ("gone", "heard", "job-bad")), return_exceptions=True
        )
        left = {"job-good", "job-bad", "chore-bad", "gone", "stays", "heard", "parent-bad"}
        for passes, purged in (("29m", ()), ("2m", {"job-bad"}), ("2h", ()), ("30m", {"gone", "heard"}), ("999d", ())):
            await clock.pass_time(passes, engine)
            found = await engine.prune(dry_run=True)
            assert await engine.prune() == found if not purged else found.runs == len(purged)
            await engine.prune()
            left -= set(purged)
            assert await ids(engine) == sorted(left)


@in_loop
async def test_a_parent_that_may_go_on_keeps_its_children(path, desk):
    desk.fails["later"] = [ValueError("no")]
    async with engine_at(path, *ALL, desk=desk) as engine:
        with pytest.raises(ValueError, match="no"):
            await engine.run(family, 1, run_id="family")
        assert (await engine.prune(older_than=0, status="completed")).runs == 0
        await engine.get("family").resume()
        assert await engine.get("family").result() == "chore"
        assert desk.keys() == ["work#1", "work#1", "work#1"]
        assert (await engine.prune(older_than=0)).runs == 2
        assert await ids(engine) == []


@in_loop
async def test_who_waits_is_told_also_if_the_run_is_purged_as_it_ends(path, desk):
    waiter = engine_at(path, *ALL, desk=desk)
    async with engine_at(path, *ALL, desk=desk) as engine, waiter.client():
        handles = [await engine.enqueue(listens, run_id=f"r{n}") for n in range(20)]
        waits = [asyncio.ensure_future(waiter.get(handle.run_id, listens).result()) for handle in handles]
        for handle in handles:
            await in_status(engine, handle.run_id, perdure.Status.WAITING)
            await handle.signal(word, "x")
        left = len(handles)
        while left:
            left -= (await engine.prune(older_than=0)).runs
        for outcome in await asyncio.gather(*waits, return_exceptions=True):
            assert outcome == "x" or isinstance(outcome, RunPurged)


@in_loop
async def test_who_waits_is_told_also_if_the_run_is_purged_before_anybody_looks(path, desk):
    async with engine_at(path, *ALL, desk=desk).client() as client:
        handle = await client.enqueue(chore, run_id="r")
        waits = asyncio.ensure_future(handle.result())
        with open_store(path, durability="process") as store:  # all at once, between two looks
            run_key = (await handle.row()).run_key
            waiting, looks = client._home.waiting, client._journal.looks
            await until(
                lambda: (
                    waits._fut_waiter in waiting._waiting.get(run_key, ())
                    and looks.at_rest
                    and not waiting._lookout._is_asking
                )
            )
            store.request_cancel(run_key, "enough")
            what = Purgeable(tuple(perdure.Status), 1 << 60)
            assert store.purge_runs([run_key], what) == [run_key]
        with pytest.raises(RunPurged):
            await waits


@in_loop
async def test_who_reads_a_run_while_it_is_purged_is_told_so_and_sees_no_half_of_it(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        await engine.run(chore, run_id="r")
        operations = engine._ops
        row = await operations.row("r")
        await engine.prune(older_than=0)
        for reading in (operations.events(row), operations.last_event(row)):
            with pytest.raises(RunPurged):
                await reading


@in_loop
async def test_started_engines_purge_by_themselves_one_at_a_time(path, desk):
    retention = Retention(completed=0, tombstones="1h", every="5ms")
    clock = ManualClock()
    one, two = (engine_at(path, *ALL, desk=desk, clock=clock, retention=retention) for _ in range(2))
    await one.start()
    async with two:
        for turn in range(2):
            handle = await two.enqueue(chore, run_id=f"r{turn}")
            assert await handle.result() == "chore"
            await clock.pass_time("1s", two)
            while True:
                try:
                    await handle.row()
                except RunPurged:
                    break
                await asyncio.sleep(0.001)
            elected = [engine for engine in (one, two) if engine._worker and engine._worker._keeper._elected_until]
            assert len(elected) == 1
            await elected[0].stop(0, 0)  # the other one follows
            if elected[0] is two:
                await two.start()
                await one.stop(0, 0)


@in_loop
async def test_tombstones_are_forgotten_when_the_retention_says_so(path, desk):
    clock = ManualClock()
    async with engine_at(
        path, *ALL, desk=desk, clock=clock, retention=Retention(completed=0, tombstones="1h")
    ) as engine:
        await engine.run(chore, run_id="r")
        await clock.pass_time("1s", engine)
        assert (await engine.prune()).runs == 1
        await clock.pass_time("59m", engine)
        assert (await engine.prune()).forgotten == 0
        with pytest.raises(RunPurged):
            await engine.run(chore, run_id="r")
        await clock.pass_time("2m", engine)
        assert (await engine.prune()).forgotten == 1
        assert await engine.run(chore, run_id="r") == "chore"
        assert len({begun.idem for begun in desk.begun}) == 2
        with pytest.raises(RunConflict):
            await engine.enqueue(job, 1, run_id="r")


def test_pruning_is_there_for_code_without_async(path, desk):
    with sync.Engine(path, workflows=ALL, tools=desk) as engine:
        assert engine.run(chore, run_id="r") == "chore"
        found = engine.prune(older_than=0, status="completed", workflow=chore, dry_run=True)
        assert (found.runs, found.kinds) == (1, {("chore", "completed"): 1})
        done = engine.prune(older_than=0)
        assert (done.runs, done.rows) == (1, 4)
    with open_store(path) as store:
        assert store.get_tombstone("r").workflow == "chore"


@in_loop
async def test_what_makes_no_retention_is_refused(path):
    with pytest.raises(DefinitionError):
        Retention(completed="long")
    with pytest.raises(DefinitionError):
        Retention(workflows={"chore": Retention(every="1s")})
    with pytest.raises(DefinitionError):
        Retention(workflows={"chore": "30d"})
    with pytest.raises(DefinitionError):
        engine_at(path, retention="30d")
    async with engine_at(path).client() as client:
        for wrong in (
            {},
            {"status": "completed"},
            {"older_than": "1d", "status": "running"},
            {"older_than": "1d", "limit": 0},
        ):
            with pytest.raises(DefinitionError):
                await client.prune(**wrong)
