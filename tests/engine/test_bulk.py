"""Doing one thing with all runs of a kind: each alone, whatever becomes of the others."""

from __future__ import annotations

from collections import Counter

import pytest

from perdure import sync, workflow
from perdure.errors import DefinitionError, StepNotFound, StoreFull
from perdure.model.payloads import note
from perdure.model.records import Status
from tests.engine.desk import Refused, chore, engine_at, in_loop, job, work
from tests.wrapper import Wrapper


@workflow
async def two() -> str:
    return await work("first") + await work("second")


class Troubled(Wrapper):
    """A store in which something goes wrong with some verbs."""

    def __init__(self, inner, **verbs):
        super().__init__(inner)
        self._verbs = verbs

    def __getattr__(self, name):
        verb, trouble = super().__getattr__(name), self._verbs.get(name)
        if trouble is None:
            return verb

        def troubled(*args, **options):
            trouble(*args)
            return verb(*args, **options)

        return troubled


async def statuses(engine):
    return Counter([row.status.word async for row in engine.runs()])


@in_loop
async def test_what_has_not_ended_is_cancelled_page_by_page(path, desk):
    async with engine_at(path, job, chore, desk=desk) as engine:
        await engine.run(chore, run_id="done")
        await engine.enqueue_many(job, range(250), delay="1h")
        await engine.enqueue(chore, run_id="other", delay="1h")
        tally = await engine.runs(workflow=job).cancel("enough")
        assert (tally.done, tally.unchanged, tally.failures) == (250, 0, {})
        assert await statuses(engine) == {"completed": 1, "cancelled": 250, "pending": 1}
        assert (await engine.runs(workflow=job).cancel()).done == 0
        assert {row.reason async for row in engine.runs(status="cancelled")} == {"enough"}


@in_loop
async def test_what_has_failed_is_resumed_and_goes_on_at_once(path, desk):
    desk.fails = {str(number): [Refused()] for number in range(20)}
    async with engine_at(path, job, desk=desk) as engine:
        handles = await engine.enqueue_many(job, range(30))
        for number, handle in enumerate(handles):
            if number < 20:
                with pytest.raises(Refused):
                    await handle.result()
            else:
                await handle.result()
        tally = await engine.runs(status="failed").resume()
        assert (tally.done, tally.unchanged) == (20, 0)
        for handle in handles:
            await handle.result()
        assert (await engine.runs().resume()).done == 0


@in_loop
async def test_one_that_fails_stops_no_other(path):
    async with engine_at(path).client() as client:
        handles = await client.enqueue_many(job, range(40), run_ids=[f"r{n}" for n in range(40)])
        bad = (await handles[7].row()).run_key

        def trouble(run_key, *_):
            if run_key == bad:
                raise ValueError("this one is broken")

        client._home.operations.store = Troubled(client._store, request_cancel=trouble)
        tally = await client.runs().cancel()
        assert tally.done == 39
        assert {run_id: str(error) for run_id, error in tally.failures.items()} == {"r7": "this one is broken"}
        assert await statuses(client) == {"cancelled": 39, "pending": 1}
        client._home.operations.store = client._home.operations.store.inner
        assert (await client.runs().cancel()).done == 1


@in_loop
async def test_a_store_that_fails_ends_it_and_what_was_done_stays(path):
    async with engine_at(path).client() as client:
        await client.enqueue_many(job, range(40))
        count = 0

        def trouble(*_):
            nonlocal count
            count += 1
            if count > 20:
                raise StoreFull("the disk is full")

        client._home.operations.store = Troubled(client._store, request_cancel=trouble)
        with pytest.raises(StoreFull):
            await client.runs().cancel()
        client._home.operations.store = client._home.operations.store.inner
        assert (await statuses(client))["cancelled"] == 20
        assert (await client.runs().cancel()).done == 20


@in_loop
async def test_one_that_has_got_on_meanwhile_is_left_at_that(path):
    async with engine_at(path).client() as client:
        handles = await client.enqueue_many(job, range(3))
        rows = [await handle.row() for handle in handles]
        store = client._store
        for row in rows:
            assert store.block_run(row.run_key, row.epoch, note(reason="look"), "look")

        def meanwhile(run_key, *_):
            if run_key == rows[1].run_key:
                row = store.get_runs([run_key])[0]
                if row.status is Status.BLOCKED:
                    store.resume_run(run_key, row.epoch, b"{}")

        client._home.operations.store = Troubled(store, resume_run=meanwhile)
        tally = await client.runs(status="blocked").resume()
        assert (tally.done, tally.unchanged, tally.failures) == (2, 1, {})


@in_loop
async def test_runs_are_forked_once_however_often_it_is_asked_for(path, desk):
    async with engine_at(path, two, chore, desk=desk) as engine:
        for number in range(3):
            await engine.run(two, run_id=f"r{number}")
        await engine.run(chore, run_id="chore")
        runs = engine.runs(workflow=two)
        assert (await runs.fork("work#2")).done == 3
        again = await runs.fork("work#2")
        assert (again.done, again.unchanged, again.failures) == (0, 6, {})
        ids = [row.run_id async for row in runs]
        assert sorted(ids) == sorted([*(f"r{n}" for n in range(3)), *(f"r{n}-from-work#2" for n in range(3))])
        for run_id in ids:
            assert await engine.get(run_id).result() == "firstsecond"
        assert Counter(desk.keys())["work#2"] == 6
        named = await engine.runs(workflow=chore).fork("work", suffix="-again", keep_keys=True)
        assert named.done == 1
        assert await engine.get("chore-again").result() == "chore"


@in_loop
async def test_what_cannot_be_forked_is_told_by_run(path, desk):
    async with engine_at(path, two, chore, desk=desk) as engine:
        await engine.run(two, run_id="two")
        await engine.run(chore, run_id="chore")
        tally = await engine.runs().fork("work#2")
        assert tally.done == 1
        assert {run_id: type(error) for run_id, error in tally.failures.items()} == {"chore": StepNotFound}


@in_loop
async def test_runs_are_found_by_their_tags(path, desk):
    async with engine_at(path, two, chore, desk=desk, name="x") as engine:
        for number in range(6):
            await engine.enqueue(
                chore, run_id=f"r{number}", delay="1h", tags={"customer": str(number % 2), "city": str(number % 3)}
            )
        await engine.enqueue(two, run_id="other", delay="1h", tags={"customer": "1"})

        async def found(**where):
            return [row.run_id async for row in engine.runs(**where)]

        assert await found(tags={"customer": "1"}) == ["other", "r5", "r3", "r1"]
        assert await found(tags={"customer": "1", "city": "0"}) == ["r3"]
        assert await found(tags={"customer": "1"}, workflow=chore, status="pending") == ["r5", "r3", "r1"]
        assert await found(tags={"customer": "7"}) == []
        assert await found(tags={}) == ["other", *(f"r{n}" for n in range(5, -1, -1))]
        assert (await engine.runs(tags={"customer": "1"}).cancel()).done == 4
        assert await found(tags={"customer": "1"}, status="pending") == []


@pytest.mark.parametrize(
    "tags", [{"a=b": "c"}, {"": "c"}, {"a": ""}, {"a": "x" * 501}, {"a": "nul\0"}, {"a": 1}, {1: "a"}, "a", ["a"]]
)
@in_loop
async def test_tags_that_are_none_are_refused(path, tags):
    async with engine_at(path).client() as client:
        with pytest.raises(DefinitionError):
            await client.enqueue(chore, tags=tags)
        with pytest.raises(DefinitionError):
            client.runs(tags=tags)
        assert [row async for row in client.runs()] == []


def test_the_blocking_engine_does_it_too(path, desk):
    with sync.Engine(path, workflows=[chore], tools=desk, durability="process") as engine:
        desk.fails["chore"] = [Refused()]
        with pytest.raises(Refused):
            engine.run(chore, run_id="r")
        engine.enqueue(chore, run_id="late", delay="1h", tags={"customer": "42"})
        assert engine.runs(status="failed").resume().done == 1
        assert engine.get("r").result() == "chore"
        assert engine.runs(tags={"customer": "42"}).cancel("no").done == 1
        assert [row.run_id for row in engine.runs(status="cancelled")] == ["late"]
