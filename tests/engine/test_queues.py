"""Queues: where runs wait, what limits let through, and what is seen of it."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Queue, Rate, sync, workflow
from perdure.errors import DefinitionError
from perdure.model.durations import to_datetime
from perdure.model.records import Status
from tests.engine.desk import Clock, engine_at, in_loop, job, work

mail = Queue("mail", concurrency=2)


@workflow(queue=mail)
async def letter(tag: str) -> str:
    return await work(tag)


@workflow
async def parent(tag: str) -> str:
    return await letter.with_options(partition="p", priority=3)(tag)


@workflow
async def chooses(tag: str) -> str:
    return await job_of.with_options(queue="other")(tag)


@workflow
async def job_of(tag: str) -> str:
    return await work(tag)


def viewed(views, name):
    (found,) = (view for view in views if view.name == name)
    return found


@in_loop
async def test_a_limit_holds_and_a_run_that_ends_lets_the_next_one_begin(path, desk):
    gates = {tag: desk.hold(tag) for tag in "abc"}
    async with engine_at(path, letter, job, desk=desk, queues=[mail]) as engine:
        handles = await engine.enqueue_many(letter, "abc")
        await gates["a"].arrival()
        await gates["b"].arrival()
        assert await engine.run(job, 1) == 2  # another queue's
        view = viewed(await engine.queues(), "mail")
        assert (view.running, view.ready, view.concurrency, view.paused) == (2, 1, 2, False)
        gates["b"].open()
        await gates["c"].arrival()
        gates["a"].open()
        gates["c"].open()
        assert [await handle.result() for handle in handles] == ["a", "b", "c"]


@in_loop
async def test_the_limits_of_a_workflows_own_queue_hold_unless_the_engine_says_otherwise(path, desk):
    async with engine_at(path, letter, desk=desk) as engine:
        assert viewed(await engine.queues(), "mail").concurrency == 2
    async with engine_at(path, letter, desk=desk, queues=[Queue("mail", concurrency=7)]) as engine:
        assert viewed(await engine.queues(), "mail").concurrency == 7

    @workflow(queue=Queue("mail", concurrency=3))
    async def parcel() -> None:
        pass

    with pytest.raises(DefinitionError, match="two queues 'mail' differ"):
        engine_at(path, letter, parcel)


@in_loop
async def test_a_run_that_is_waited_for_waits_in_its_queue_like_any_other(path, desk):
    gate = desk.hold("a")
    async with engine_at(path, letter, desk=desk, queues=[Queue("mail", concurrency=1)]) as engine:
        await engine.enqueue(letter, "a")
        await gate.arrival()
        waits = asyncio.create_task(engine.run(letter, "b", run_id="b"))
        while viewed(await engine.queues(), "mail").ready != 1:
            await asyncio.sleep(0)
        assert desk.keys() == ["work#1"]
        gate.open()
        assert await waits == "b"


@in_loop
async def test_a_rate_opens_by_itself_when_its_time_has_come(path, desk):
    clock = Clock()
    queue = Queue("mail", rate=Rate(2, "1h"))
    async with engine_at(path, letter, desk=desk, queues=[queue], clock=clock) as engine:
        first = clock.now()
        handles = await engine.enqueue_many(letter, "abc")
        assert [await handle.result() for handle in handles[:2]] == ["a", "b"]
        await clock.armed()
        view = viewed(await engine.queues(), "mail")
        assert (view.begun, view.ready) == (2, 1)
        assert view.opens_at == to_datetime(first + 3_600_000_000)
        clock.advance("1h")
        assert await handles[2].result() == "c"


@in_loop
async def test_a_child_waits_in_its_queue_with_its_own_priority_and_partition(path, desk):
    async with engine_at(path, parent, letter, desk=desk, queues=[mail]) as engine:
        assert await engine.run(parent, "x") == "x"
        (row,) = [row async for row in engine.runs(workflow="letter")]
        assert (row.queue, row.partition, row.priority) == ("mail", "p", 3)
        with pytest.raises(DefinitionError, match="priority"):
            letter.with_options(priority=9999)


@in_loop
async def test_a_workflow_chooses_the_queue_of_a_child_and_the_engine_serves_it(path, desk):
    async with engine_at(path, chooses, job_of, desk=desk, queues=["other"]) as engine:
        assert await engine.run(chooses, "x") == "x"
        (row,) = [row async for row in engine.runs(workflow="job_of")]
        assert row.queue == "other"


@in_loop
async def test_the_runs_of_a_schedule_wait_in_the_queue_that_it_names(path, desk):
    clock = Clock()
    async with engine_at(path, letter, desk=desk, queues=["slow"], clock=clock) as engine:
        await engine.schedule(letter, "a", every="1h", key="k", queue="slow")
        await clock.armed()
        clock.advance("1h")
        while not (found := [row async for row in engine.runs(workflow="letter")]):
            await asyncio.sleep(0)
        assert [row.queue for row in found] == ["slow"]
        assert await engine.get(found[0].run_id, letter).result() == "a"


@in_loop
async def test_an_engine_may_serve_some_queues_only(path, desk):
    async with engine_at(path, letter, job, desk=desk, only_queues=["mail"], queues=[mail]) as engine:
        left = await engine.enqueue(job, 1)
        assert await engine.run(letter, "a") == "a"
        assert await engine.run(letter, "b") == "b"
        assert (await left.row()).status is Status.PENDING
        assert [row.run_id async for row in engine.runs(codeless=True)] == [left.run_id]
    async with engine_at(path, letter, job, desk=desk, only_queues=[""]):
        pass
    async with engine_at(path, job, desk=desk) as engine:
        assert await engine.get(left.run_id, job).result() == 2


@in_loop
async def test_a_paused_queue_stands_still_until_it_is_resumed(path, desk):
    async with engine_at(path, letter, job, desk=desk, queues=[mail]) as engine:
        assert await engine.pause_queue(mail)
        assert not await engine.pause_queue("mail")
        handle = await engine.enqueue(letter, "a")
        assert await engine.run(job, 1) == 2
        assert desk.keys() == ["work#1"]
        assert viewed(await engine.queues(), "mail").paused
        assert await engine.resume_queue("mail")
        assert await handle.result() == "a"


@in_loop
async def test_limits_are_those_of_the_program_that_started_last(path, desk):
    async with engine_at(path, letter, desk=desk, queues=[mail]):
        pass
    async with engine_at(path, letter, desk=desk, queues=[Queue("mail", partition_concurrency=3)]) as engine:
        view = viewed(await engine.queues(), "mail")
        assert (view.concurrency, view.partition_concurrency) == (None, 3)
    async with engine_at(path, letter, desk=desk).client() as client:
        assert viewed(await client.queues(), "mail").partition_concurrency == 3


def test_the_blocking_engine_has_the_same(path, desk):
    with sync.Engine(path, workflows=[letter], tools=desk, durability="process", queues=[mail]) as engine:
        assert engine.enqueue(letter, "a", partition="p").result() == "a"
        assert engine.enqueue_many(letter, ["b"], queue="mail", partition="q")[0].result() == "b"
        assert viewed(engine.queues(), "mail").concurrency == 2
        assert engine.pause_queue("mail")
        assert engine.resume_queue("mail")


@in_loop
async def test_a_debounced_run_begins_when_it_has_been_quiet_with_what_was_said_last(path, desk):
    clock = Clock()
    async with engine_at(path, letter, desk=desk, clock=clock) as engine:

        async def call(tag):
            return await engine.enqueue(letter, tag, idempotency_key="k", debounce="10s", debounce_limit="1m")

        first = await call("a")
        clock.advance("6s")
        second = await call("b")
        assert second.run_id == first.run_id
        clock.advance("6s")
        assert (await first.row()).status is Status.PENDING
        clock.advance("4s")
        assert await first.result() == "b"
        third = await call("c")
        assert third.run_id != first.run_id


@in_loop
async def test_a_key_may_find_a_run_for_a_while_only(path, desk):
    clock = Clock()
    gate = desk.hold("a")
    async with engine_at(path, letter, desk=desk, clock=clock) as engine:
        first = await engine.enqueue(letter, "a", idempotency_key="k", idempotency_window="ended")
        assert (
            await engine.enqueue(letter, "a", idempotency_key="k", idempotency_window="ended")
        ).run_id == first.run_id
        gate.open()
        assert await first.result() == "a"
        again = await engine.enqueue(letter, "a", idempotency_key="k", idempotency_window="ended")
        assert again.run_id != first.run_id
        assert (await engine.enqueue(letter, "a", idempotency_key="k")).run_id == again.run_id
        clock.advance("10m")
        other = await engine.enqueue(letter, "b", idempotency_key="k", idempotency_window="10m")
        assert await other.result() == "b"


@pytest.mark.parametrize(
    "options",
    [
        {"debounce": "1s"},
        {"idempotency_window": "1s"},
        {"idempotency_key": "k", "debounce_limit": "1s"},
        {"idempotency_key": "k", "debounce": "0s"},
        {"idempotency_key": "k", "debounce": "1s", "delay": "1s"},
        {"idempotency_key": "k", "debounce": "1s", "idempotency_window": "1s"},
        {"idempotency_key": "k", "idempotency_window": "soon"},
        {"idempotency_key": "k", "idempotency_window": -1},
    ],
    ids=str,
)
@in_loop
async def test_what_is_wrong_with_how_long_a_key_counts_is_refused(path, desk, options):
    async with engine_at(path, letter, desk=desk).client() as client:
        with pytest.raises(DefinitionError):
            await client.enqueue(letter, "a", **options)
        assert [row async for row in client.runs()] == []


WRONG = {
    "no slots": lambda: Queue("mail", concurrency=0),
    "a bool": lambda: Queue("mail", worker_concurrency=True),
    "half a slot": lambda: Queue("mail", partition_concurrency=1.5),
    "no rate": lambda: Queue("mail", rate=(1, "1s")),
    "a name like a path": lambda: Queue("no/name"),
    "no name": lambda: Queue(7),
    "no runs": lambda: Rate(0, "1s"),
    "no time": lambda: Rate(1, "0s"),
    "no duration": lambda: Rate(1, "soon"),
    "two that differ": lambda: engine_at("x", queues=[Queue("a", 1), Queue("a", 2)]),
    "a text for a list": lambda: engine_at("x", queues="mail"),
    "nothing in the list": lambda: engine_at("x", only_queues=[None]),
    "a workflow's": lambda: workflow(queue=7)(letter.fn),
    "a child's": lambda: letter.with_options(queue="no/name"),
    "a child's partition": lambda: letter.with_options(partition=""),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_queue_is_said_where_it_is_written(wrong):
    with pytest.raises(DefinitionError):
        wrong()


@pytest.mark.parametrize("options", [{"queue": "no/name"}, {"queue": 7}, {"partition": "\0"}, {"priority": "high"}])
@in_loop
async def test_what_is_wrong_where_a_run_is_enqueued_is_refused_before_it_is_written(path, desk, options):
    async with engine_at(path, letter, desk=desk).client() as client:
        with pytest.raises(DefinitionError):
            await client.enqueue(letter, "a", **options)
        assert [row async for row in client.runs()] == []
