"""Many who wait for runs that are executed elsewhere: asked for together, in parts, and nobody is left out."""

from __future__ import annotations

import asyncio

import pytest

from perdure import workflow
from perdure.errors import StoreError
from perdure.lookout import MOST, PART
from perdure.store.open import open_store
from perdure.store.protocol import PAGE
from tests.engine.desk import PATIENCE, engine_at, in_loop, until
from tests.wrapper import Wrapper


@workflow
async def double(n: int) -> int:
    return 2 * n


class Counting(Wrapper):
    """Counts the runs that are asked for, and fails if it is told to."""

    def __init__(self, inner):
        super().__init__(inner)
        self.asked, self.fault = [], None

    def over(self, run_keys, limit):
        self.asked.append(len(run_keys))
        if self.fault is not None:
            raise self.fault
        return self.inner.over(run_keys, limit)


@pytest.fixture
def store(path):
    with open_store(path, durability="process") as opened:
        yield Counting(opened)


@in_loop
async def test_thousands_wait_for_what_another_process_executes_and_all_are_told(path, store):
    numbers = list(range(PART + 2 * MOST))
    async with engine_at(store, double).client() as client:
        handles = await client.enqueue_many(double, numbers)
        waiting = asyncio.gather(*(handle.result() for handle in handles))
        await until(lambda: sum(store.asked) >= len(numbers))
        assert max(store.asked) == PART  # together, but not all at once
        async with engine_at(path, double):
            assert await waiting == [2 * n for n in numbers]
        # Of those that have ended already each is told as soon as it is asked for.
        assert await asyncio.gather(*(handle.result() for handle in handles)) == [2 * n for n in numbers]


class Behind(Wrapper):
    """Reads what was there a while ago, so many times, as from a server that was demoted and still answers."""

    def __init__(self, inner):
        super().__init__(inner)
        self.old, self.times = {}, 0

    def remember(self, run_key):
        self.old[run_key] = self.inner.get_runs([run_key]), self.inner.read_events(run_key)

    def _is_behind(self):
        self.times -= 1
        return self.times >= 0

    def get_runs(self, run_keys):
        return self.old[run_keys[0]][0] if self._is_behind() else self.inner.get_runs(run_keys)

    def get_run(self, run_id, namespace=""):
        return None if self._is_behind() else self.inner.get_run(run_id, namespace)

    def read_events(self, run_key, after=0, limit=PAGE):
        return self.old[run_key][1][after:] if self._is_behind() else self.inner.read_events(run_key, after, limit)


@pytest.mark.parametrize("was_there", [True, False])
@pytest.mark.parametrize("times", range(8))
@in_loop
async def test_who_reads_from_a_server_that_is_behind_the_one_that_was_looked_at_looks_again(path, was_there, times):
    with open_store(path, durability="process") as opened:
        store = Behind(opened)
        async with engine_at(store, double).client() as client:
            handle = await client.enqueue(double, 21)
            store.remember(handle.run_key)
            if not was_there:
                store.old[handle.run_key] = [], []
            async with engine_at(path, double) as engine:
                assert await engine.get(handle.run_id, double).result(timeout=PATIENCE) == 42
            store.times = times
            assert await handle.result(timeout=PATIENCE) == 42


@in_loop
async def test_of_runs_that_were_waited_for_nothing_is_kept(path):
    async with engine_at(path, double) as engine:
        lookout = engine._home.waiting._lookout
        for n in range(20):
            assert await engine.run(double, n) == 2 * n
        await until(lambda: not (lookout._trusted or lookout._new or lookout._waiting))


@in_loop
async def test_who_cannot_be_told_whether_a_run_has_ended_hears_why_and_who_waits_already_goes_on(path, store):
    async with engine_at(store, double).client() as client:
        handle = await client.enqueue(double, 21)
        waiting = asyncio.create_task(handle.result(timeout=PATIENCE))
        await until(lambda: store.asked)
        store.fault = StoreError("the disk is on fire")
        with pytest.raises(StoreError, match="on fire"):
            await handle.result(timeout=PATIENCE)
        asked = len(store.asked)
        async with engine_at(path, double) as engine:
            assert await engine.get(handle.run_id, double).result(timeout=PATIENCE) == 42
        await until(lambda: len(store.asked) > asked)  # something has changed
        store.fault = None
        assert await waiting == 42
