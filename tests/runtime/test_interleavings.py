"""Things that happen at the same time, in each order that makes a difference."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime

import pytest

import perdure
from perdure import INJECTED, Engine, Queue, Retry, StepContext, step, workflow
from perdure.errors import RunCancelled, StoreBusy, StoreError
from perdure.model.records import Kind, Status
from perdure.runtime import points
from perdure.store.open import open_store
from perdure.testing import ManualClock
from perdure.verifying import verify_run
from tests.engine.desk import PATIENCE
from tests.runtime.harness import plain
from tests.wrapper import Wrapper


def opened(path, clock=None):
    return open_store(path / "x.db", durability="process", clock=clock)


async def turns(until, most=2000):
    """Let the loop turn until something is so."""
    for _ in range(most):
        if until():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it does not come to that")


# -- the run's clock


@step
async def dated(when: datetime) -> datetime:
    return when


@step
async def fails_at_first(*, ctx: StepContext = INJECTED) -> str:
    if ctx.tools.pop("failing", False):
        raise ValueError("not now")
    return "now"


@workflow
async def uses_the_time() -> list[datetime]:
    await asyncio.sleep(5)
    first = perdure.now()
    await dated(first)
    loop = asyncio.get_running_loop()
    timer = loop.time() + 20
    await fails_at_first()
    last = perdure.now()
    await asyncio.sleep(timer - loop.time())
    return [first, last, perdure.now()]


def test_a_resumed_run_sees_the_instants_it_saw_and_the_pause_counts_on_no_timer(tmp_path):
    async def main():
        clock = ManualClock()
        tools = {"failing": True}
        engine = Engine(tmp_path / "x.db", workflows=[uses_the_time], tools=tools, durability="process", clock=clock)
        async with engine:
            start = clock.now()
            handle = await engine.enqueue(uses_the_time, run_id="r")
            await engine.idle()
            clock.advance(5)
            await engine.idle()
            assert (await handle.row()).status is Status.FAILED
            clock.advance("1h")
            await handle.resume()
            await engine.idle()
            clock.advance(19)
            await engine.idle()
            assert (await handle.row()).status is Status.SLEEPING
            clock.advance(1)
            first, last, end = [round(at.timestamp() * 1e6) - start for at in await handle.result()]
            assert (first, last, end) == (5_000_000, 3605_000_000, 3625_000_000)

    asyncio.run(main())


class Meeting:
    """Where the thread of a sync workflow and a body on the host's loop meet."""

    def __init__(self, loop):
        self.loop, self.begun, self.gate, self.told = loop, asyncio.Event(), asyncio.Event(), threading.Event()


MEETING = {}


@step
async def tells(*, ctx: StepContext = INJECTED) -> None:
    MEETING["here"].begun.set()
    await MEETING["here"].gate.wait()
    ctx.progress("half")
    MEETING["here"].told.set()


@step
async def meets() -> None:
    await MEETING["here"].begun.wait()


@workflow
def looks_twice() -> bool:
    branch = perdure.sync.submit(tells.sync)
    meets.sync()
    before = perdure.now()
    here = MEETING["here"]
    here.loop.call_soon_threadsafe(here.gate.set)
    assert here.told.wait(10)
    after = perdure.now()
    perdure.sync.wait([branch])
    return before == after


def test_what_bodies_say_meanwhile_does_not_move_the_time_of_the_code(tmp_path):
    async def main():
        MEETING["here"] = Meeting(asyncio.get_running_loop())
        async with Engine(tmp_path / "x.db", workflows=[looks_twice], durability="process") as engine:
            assert await engine.run(looks_twice)

    asyncio.run(main())


# -- memory


@workflow
def on_a_thread() -> int:
    return plain.sync(1)


def test_nothing_is_kept_of_sync_runs_that_have_ended(tmp_path):
    async def main():
        async with Engine(tmp_path / "x.db", workflows=[on_a_thread], durability="process") as engine:
            for _ in range(3):
                await engine.run(on_a_thread)
            assert not engine._worker.host.fibers._of

    asyncio.run(main())


# -- what comes with an event


@step(retry=Retry(max_attempts=2, initial_delay=0))
async def keeps_and_fails(*, ctx: StepContext = INJECTED) -> str:
    ctx.artifact("report", b"attempt %d" % ctx.attempt)
    if ctx.attempt == 1:
        raise ValueError("once")
    return "done"


@workflow
async def reports() -> str:
    return await keeps_and_fails()


def test_what_a_failed_attempt_has_kept_is_there(tmp_path):
    async def main():
        store = opened(tmp_path)
        async with Engine(store, workflows=[reports]) as engine:
            await engine.run(reports, run_id="r")
        assert verify_run(store, store.get_run("r")).damage == []
        store.close()

    asyncio.run(main())


@step
async def large_when_cancelled(*, ctx: StepContext = INJECTED) -> str:
    (store,) = ctx.tools
    store.request_cancel(store.get_run(ctx.run_id).run_key, "enough")
    return "x" * 100_000


@workflow
async def returns_large() -> str:
    return await large_when_cancelled()


def test_an_ending_that_was_stale_is_written_again_with_all_that_came_with_it(tmp_path):
    async def main():
        store = opened(tmp_path)
        async with Engine(store, workflows=[returns_large], tools=[store]) as engine:
            with pytest.raises(RunCancelled):
                await engine.run(returns_large, run_id="r")
        row = store.get_run("r")
        assert verify_run(store, row).damage == []
        kinds = [event.kind for event in store.read_events(row.run_key)][2:]
        assert kinds == [Kind.STEP_COMPLETED, Kind.CANCEL_DELIVERED, Kind.RUN_CANCELLED]
        store.close()

    asyncio.run(main())


# -- stopping


class HoldsMarks(Wrapper):
    """A disk that takes its time over what has begun."""

    def __init__(self, inner):
        super().__init__(inner)
        self.asked, self.may = threading.Event(), threading.Event()

    def commit(self, items, *, wait=True):
        if any(event.kind == Kind.STEP_STARTED for item in items for event in item.events):
            if not wait:
                raise StoreBusy("busy")
            self.asked.set()
            assert self.may.wait(10)
        return self.inner.commit(items, wait=wait)


@step(at_most_once=True)
async def once() -> str:
    return "done"


@workflow
async def shoots() -> str:
    return await once()


def test_what_is_marked_as_begun_begins_even_if_the_engine_stops_meanwhile(tmp_path):
    async def main():
        store = HoldsMarks(opened(tmp_path))
        engine = Engine(store, workflows=[shoots])
        await engine.start()
        await engine.enqueue(shoots, run_id="r")
        assert await asyncio.to_thread(store.asked.wait, 10)
        stopping = asyncio.ensure_future(engine.stop())
        await asyncio.sleep(0)
        engine._worker.hurry()
        store.may.set()
        await stopping
        async with Engine(store, workflows=[shoots]) as engine:
            assert await engine.run(shoots, run_id="r") == "done"
        store.close()

    asyncio.run(main())


@step
async def waits_for_ever(*, ctx: StepContext = INJECTED) -> None:
    ctx.tools.append(ctx.key)
    await asyncio.get_running_loop().create_future()


@workflow
async def cleans_up_for_ever() -> None:
    try:
        await waits_for_ever.with_options(key="work")()
    finally:
        await waits_for_ever.with_options(key="clean-up")()


def test_a_cancelled_run_that_cleans_up_too_long_is_given_back_all_the_same(tmp_path):
    async def main():
        store, begun = opened(tmp_path), []
        engine = Engine(store, workflows=[cleans_up_for_ever], tools=begun)
        await engine.start()
        handle = await engine.enqueue(cleans_up_for_ever, run_id="r")
        await turns(lambda: len(begun) == 1)
        stopping = asyncio.ensure_future(engine.stop(drain=1, grace=5))
        await turns(lambda: all(run.stopping for run in engine._worker.running.values()))
        await handle.cancel()
        await turns(lambda: len(begun) == 2)
        assert await stopping == []
        assert begun == ["waits_for_ever[work]", "waits_for_ever[clean-up]"]
        assert store.get_run("r").worker_key is None
        store.close()

    asyncio.run(main())


@workflow
async def waits() -> None:
    await waits_for_ever()


def test_a_worker_killed_while_it_drains_counts_as_no_crash(tmp_path):
    async def main():
        store, begun = opened(tmp_path), []
        engine = Engine(store, workflows=[waits], tools=begun)
        await engine.start()
        await engine.enqueue(waits, run_id="r")
        await turns(lambda: begun)
        worker = engine._worker
        stopping = asyncio.ensure_future(engine.stop(drain=60))
        await turns(lambda: worker._claiming._serving is None and worker._journal.at_rest)  # the store has been told
        store.reclaim(0, [worker.key], cap=5)
        assert store.get_run("r").crashes == 0
        worker.hurry()
        await stopping
        store.close()

    asyncio.run(main())


# -- faults while something begins or is written


class Hides(Wrapper):
    """A store that cannot read artifacts at first."""

    failing = True

    def get_artifact(self, digest):
        if self.failing:
            self.failing = False
            raise StoreError("not now")
        return self.inner.get_artifact(digest)


@workflow
async def length(text: str) -> int:
    return len(text)


def test_a_run_whose_input_cannot_be_read_now_goes_on_later(tmp_path):
    async def main():
        store = Hides(opened(tmp_path))
        async with Engine(store, workflows=[length]) as engine:
            assert await (await engine.enqueue(length, "x" * 100_000, run_id="r")).result(10) == 100_000
        store.close()

    asyncio.run(main())


class Surprises(Wrapper):
    """A store that raises once, inside the loop, what no store should."""

    surprise = True

    def commit(self, items, *, wait=True):
        if not wait and self.surprise:
            self.surprise = False
            raise RuntimeError("a bug in a store")
        return self.inner.commit(items, wait=wait)


@workflow
async def one_step() -> int:
    return await plain(1)


def test_a_commit_that_raises_what_it_should_not_is_made_again_on_the_thread(tmp_path):
    async def main():
        store = Surprises(opened(tmp_path))
        async with Engine(store, workflows=[one_step]) as engine:
            assert await (await engine.enqueue(one_step)).result(10) == 2
        assert not store.surprise
        store.close()

    asyncio.run(main())


@workflow
async def interrupts(which: int) -> int:
    await plain(which)
    n = await plain(which)  # begins, and on some Pythons ends, in the moment in which the first is on disk
    if which == 1 and INTERRUPTING.pop("once", False):
        raise KeyboardInterrupt
    return n


INTERRUPTING = {}


def test_an_interrupt_in_one_run_does_not_keep_from_others_that_they_are_written(tmp_path):
    INTERRUPTING["once"] = True
    loop = asyncio.new_event_loop()
    engine = Engine(tmp_path / "x.db", workflows=[interrupts], durability="process")

    async def begin():
        await engine.start()
        return await engine.enqueue_many(interrupts, [1, 2, 3])

    async def end():
        async with asyncio.timeout(10):
            results = [await handle.result() for handle in handles]
        await engine.stop()
        return results

    handles = []
    waiting = loop.create_task(_then_forever(begin, handles))
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(waiting)
    assert loop.run_until_complete(end()) == [2, 3, 4]
    waiting.cancel()
    loop.run_until_complete(asyncio.wait([waiting]))
    loop.close()


async def _then_forever(begin, handles):
    handles += await begin()
    await asyncio.get_running_loop().create_future()


def test_verbs_are_executed_in_their_order_whoever_asks_while_another_is_answered(tmp_path):
    async def main():
        async with Engine(tmp_path / "x.db", workflows=[waits]) as engine:
            journal = engine._journal
            order, go_on = [], threading.Event()

            def off_the_loop():
                assert go_on.wait(10)
                order.append("off the loop")

            def first(_):
                # As executing a claim does: two more verbs, one of which the loop may not wait for.
                journal.call(off_the_loop, background=True)
                journal.call(lambda: order.append("after it"))

            await turns(lambda: journal.at_rest)
            journal.call(lambda: None, then=first)
            go_on.set()
            await turns(lambda: journal.at_rest)
            assert order == ["off the loop", "after it"]

    asyncio.run(main())


# -- going on from memory


@workflow
async def naps() -> int:
    await asyncio.sleep(1)
    return await plain(1)


def test_a_run_that_goes_on_from_memory_is_known_by_its_new_claim_at_once(tmp_path):
    """Who looks which runs are still held must not take it for lost."""

    async def main():
        clock = ManualClock()
        engine = Engine(tmp_path / "x.db", workflows=[naps], durability="process", clock=clock)
        checks = []

        def reached(point):
            if point == points.CLAIMED and engine._worker is not None and engine._worker._suspended:
                checks.append(engine._worker)
                asyncio.get_running_loop().call_soon(engine._worker._vigil.check_held)

        engine._reached = reached
        async with engine:
            handle = await engine.enqueue(naps, run_id="r")
            await engine.idle()
            assert (await handle.row()).status is Status.SLEEPING
            clock.advance(1)
            assert await asyncio.wait_for(handle.result(), 10) == 2
            assert checks

    asyncio.run(main())


def test_a_run_that_is_claimed_while_it_is_looked_which_are_held_is_kept(tmp_path):
    """The look was made before the claim, so it says nothing of that run."""

    async def main():
        engine = Engine(tmp_path / "x.db", workflows=[naps], durability="process", clock=(clock := ManualClock()))
        looks = []

        def reached(point):
            if point == points.CLAIM and engine._worker is not None:
                looks.append(point)
                engine._worker._vigil.check_held()

        engine._reached = reached
        async with engine:
            handle = await engine.enqueue(naps, run_id="r")
            await turns(lambda: looks)
            await engine.idle()
            assert (await handle.row()).status is Status.SLEEPING
            clock.advance(1)
            assert await asyncio.wait_for(handle.result(), 10) == 2

    asyncio.run(main())


class AlwaysMore(Wrapper):
    """A disk so slow that there is always more to write once it has written: the loop turns meanwhile."""

    inline = False
    commits = 0

    def __init__(self, inner, loop):
        super().__init__(inner)
        self.loop, self.begun, self.enough = loop, asyncio.Event(), asyncio.Event()

    async def turn(self):
        if self.commits == 1:
            self.begun.set()
        if self.commits == 10:
            self.enough.set()
        for _ in range(20):
            await asyncio.sleep(0)

    def commit(self, items, *, wait=True):
        self.commits += any(event.kind is Kind.STEP_COMPLETED for item in items for event in item.events)
        asyncio.run_coroutine_threadsafe(self.turn(), self.loop).result(10)
        return self.inner.commit(items, wait=wait)


@step
async def begins_later(*, ctx: StepContext = INJECTED) -> None:
    await ctx.tools.begun.wait()


@workflow
async def many_steps(after: bool) -> None:
    if after:
        await begins_later()
    for number in range(40):
        await plain(number)


def test_whoever_asks_something_of_the_store_is_not_kept_waiting_by_those_who_always_write(tmp_path):
    async def main():
        store = AlwaysMore(opened(tmp_path), asyncio.get_running_loop())
        async with Engine(store, workflows=[many_steps], tools=store) as engine:
            first, second = await engine.enqueue_many(many_steps, [False, True])
            await store.enough.wait()
            asked = store.commits
            await engine._journal.call(lambda: store.get_runs([first.run_key]))
            answered = store.commits
            await second.result()
            assert store.commits > asked + 30
            assert answered <= asked + 2
        store.close()

    asyncio.run(main())


class Ahead(Wrapper):
    """While it is asked what is to be claimed next, the only run of a queue comes to its end, which is written then."""

    def __init__(self, inner, loop):
        super().__init__(inner)
        self.loop, self.gate = loop, asyncio.Event()

    def changed(self):
        return False  # nobody tells that there is more to claim

    async def turn(self):
        self.gate.set()
        for _ in range(20):
            await asyncio.sleep(0)

    def next_due(self, *args, **options):
        if self.inner.hasty:
            raise StoreBusy("busy")
        asyncio.run_coroutine_threadsafe(self.turn(), self.loop).result(10)
        return self.inner.next_due(*args, **options)


@step
async def waits_for_the_gate(*, ctx: StepContext = INJECTED) -> None:
    await ctx.tools.gate.wait()


@workflow(queue=Queue("one by one", concurrency=1))
async def ends_once_asked() -> None:
    await waits_for_the_gate()


def test_a_slot_that_becomes_free_at_the_end_of_a_claiming_is_filled_at_once(tmp_path):
    async def main():
        store = Ahead(opened(tmp_path), asyncio.get_running_loop())
        async with Engine(store, workflows=[ends_once_asked], tools=store) as engine:
            for handle in await engine.enqueue_many(ends_once_asked, [None, None]):
                await handle.result(timeout=PATIENCE)
        store.close()

    asyncio.run(main())
