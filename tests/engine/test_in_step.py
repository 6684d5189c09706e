"""Runs that wait for the same commit, and what goes on while it is written: where the store is a server."""

from __future__ import annotations

import asyncio

import pytest

from perdure import INJECTED, Signal, StepContext, sleep, step, workflow
from perdure.model.records import InboxKind, Kind, Message, Status
from perdure.runtime.journal import FEW
from tests.engine.desk import PATIENCE, engine_at, in_loop, in_status, job, log_of, until, work

pytestmark = pytest.mark.postgres

word = Signal[str]("word")


@pytest.fixture
def url(made_schema):
    return made_schema()


@workflow
async def listens() -> str:
    return await work(await word.wait())


@workflow
async def other() -> str:
    return await work("other")


@in_loop
async def test_a_run_that_was_claimed_for_a_slot_that_stays_taken_is_given_back(url, desk):
    """News comes in while a run that waits is written, when its slot has been promised already."""
    gate = desk.hold("news")
    async with engine_at(url, listens, other, desk=desk, concurrency=1) as engine:
        store, commit, late = engine._store, engine._store.commit, []

        def once_the_other_is_claimed(items, **options):
            if not late and any(event.kind == Kind.RUN_SUSPENDED for item in items for event in item.events):
                late.append(items[0].run_key)
                while store.get_run("second").status is not Status.RUNNING:
                    pass
                store.deliver([Message(InboxKind.SIGNAL, late[0], name="word", payload=b'"news"')])
            return commit(items, **options)

        store.commit, store.start_commit = once_the_other_is_claimed, lambda _items: None
        first = await engine.enqueue(listens, run_id="first")
        second = await engine.enqueue(other, run_id="second")
        await gate.arrival()
        await until(lambda: store.get_run("second").worker_key is None)
        assert [begun.key for begun in desk.begun] == ["work#1"]
        assert await first.view()
        gate.open()
        assert await first.result(timeout=PATIENCE) == "news"
        assert await second.result(timeout=PATIENCE) == "other"
        assert [event.kind for event in await log_of(engine, "second")].count(Kind.RUN_CLAIMED) == 2


HEARD, CALLED = [], []


@workflow
async def hears() -> None:
    HEARD.append(await word.wait())


@in_loop
async def test_what_is_waiting_for_a_slot_does_not_go_on_when_it_hears_news(url, desk):
    HEARD.clear()
    gate = desk.hold("other")
    async with engine_at(url, hears, other, desk=desk, concurrency=1) as engine:
        store, commit, unread, loop = (
            engine._store,
            engine._store.commit,
            engine._store.unread,
            asyncio.get_running_loop(),
        )
        told, early = [], []

        def looked(worker_key):
            rows = unread(worker_key)
            told.extend(run_key for run_key, _, _ in rows)
            return rows

        async def answered():
            await engine._journal.looks.call(lambda: None)  # after the look, whose answer has been heard then

        def once_the_news_is_heard(items, **options):
            if any(event.kind == Kind.RUN_COMPLETED for item in items for event in item.events) and not early:
                store.deliver([Message(InboxKind.SIGNAL, first.run_key, name="word", payload=b'"news"')])
                while first.run_key not in told:
                    pass
                asyncio.run_coroutine_threadsafe(answered(), loop).result(PATIENCE)
                early.append(list(HEARD))
            return commit(items, **options)

        first = await engine.enqueue(hears, run_id="first")
        await in_status(engine, "first", Status.WAITING)
        second = await engine.enqueue(other, run_id="second")
        await gate.arrival()
        store.commit, store.start_commit = once_the_news_is_heard, lambda _items: None
        store.unread, store.start_unread = looked, lambda _worker_key: None
        gate.open()
        assert await second.result(timeout=PATIENCE) == "other"
        assert await first.result(timeout=PATIENCE) is None
        assert early == [[]]
        assert HEARD == ["news"]


@workflow
async def naps() -> None:
    CALLED.append("once")
    await sleep("0.2s")


@in_loop
async def test_a_run_that_is_written_as_waiting_is_not_taken_for_one_that_others_hold(url):
    """A renewal came late, so what is held is looked at, between the commit and its being told."""
    CALLED.clear()
    async with engine_at(url, naps) as engine:
        store, commit, loop = engine._store, engine._store.commit, asyncio.get_running_loop()

        async def compared():
            engine._worker._vigil.check_held()
            await engine._journal.looks.call(lambda: None)  # after that look

        def looked_at(items, **options):
            verdicts = commit(items, **options)
            if any(item.state is not None for item in items):
                asyncio.run_coroutine_threadsafe(compared(), loop).result(PATIENCE)
            return verdicts

        store.commit, store.start_commit = looked_at, lambda _items: None
        assert await (await engine.enqueue(naps)).result(timeout=PATIENCE) is None
        assert CALLED == ["once"]
        assert engine._worker._suspended == {}


@step
async def computes(n: int, *, ctx: StepContext = INJECTED) -> int:
    ctx.tools.lapse(0.001)  # on a clock on which commits take no time
    return n


@workflow
async def computes_often(n: int) -> int:
    for _ in range(6):
        n = await computes(n)
    return n


@in_loop
async def test_while_one_half_of_what_is_in_step_is_written_the_other_goes_on(url, clock):
    count = 5 * FEW
    async with engine_at(url, computes_often, desk=clock, clock=clock, concurrency=count) as engine:
        store, sizes = engine._store, []
        start = store.start_commit

        def started(items):
            sizes.append(len(items))
            return start(items)

        store.start_commit = started
        handles = await engine.enqueue_many(computes_often, list(range(count)))
        assert [await handle.result() for handle in handles] == list(range(count))
        assert max(sizes) == count
        assert sizes.count(count // 2) >= 4


class Blind(asyncio.SelectorEventLoop):
    """A loop that cannot watch sockets, as one of Windows's cannot."""

    error: type[Exception] = NotImplementedError

    def add_reader(self, *_args):
        raise self.error


class Busy(Blind):
    """A loop that watches as many files already as the system allows."""

    error = OSError


@pytest.mark.parametrize("kind", [Blind, Busy])
def test_where_the_loop_cannot_watch_sockets_threads_wait(url, desk, kind):
    async def main():
        async with engine_at(url, job, desk=desk, concurrency=4) as engine:
            handles = await engine.enqueue_many(job, list(range(10)))
            assert [await handle.result(timeout=PATIENCE) for handle in handles] == [n + 1 for n in range(10)]
            assert engine._journal._talks.possible is (kind is Busy)

    with asyncio.Runner(loop_factory=kind) as runner:
        runner.run(main())


@in_loop
async def test_what_is_asked_from_outside_is_not_kept_waiting_by_what_is_written(url, desk):
    gate = desk.hold("0")
    async with engine_at(url, job, desk=desk) as engine:
        handle = await engine.enqueue(job, 0, run_id="r")
        await gate.arrival()
        store, commit, writing = engine._store, engine._store.commit, asyncio.Event()
        loop, go_on = asyncio.get_running_loop(), asyncio.Event()

        def slow(items, **options):
            loop.call_soon_threadsafe(writing.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(PATIENCE)
            return commit(items, **options)

        store.commit, store.start_commit = slow, lambda _items: None
        gate.open()
        await writing.wait()
        assert (await handle.row()).status is Status.RUNNING
        await engine.enqueue(job, 1, run_id="another")
        await until(lambda: store.get_run("another").status is Status.RUNNING)
        go_on.set()
        assert await handle.result(timeout=PATIENCE) == 1
