"""What a run promises those outside it: what they see is on disk, and what does not fit the log is not executed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import asynccontextmanager

import pytest

from perdure import INJECTED, Engine, Retry, StepContext, step, step_context, workflow
from perdure.errors import DriftError, IntegrityError, StepInterrupted, StoreBusy, StoreError
from perdure.model.records import Kind, Status
from perdure.store.open import open_store
from tests.runtime.harness import plain
from tests.wrapper import Wrapper


def log_of(path, run_id):
    """A run's log as another handle on the file finds it: what is committed."""
    store = open_store(path)
    try:
        return store.read_events(store.get_run(run_id).run_key)
    finally:
        store.close()


def executing(path, *workflows, **options):
    return Engine(path, workflows=workflows, durability="process", **options)


class TakesItsTime(Wrapper):
    """A disk that lets the loop turn a few times before it writes what steps did: whoever does not wait runs."""

    def __init__(self, inner, loop):
        super().__init__(inner)
        self.loop = loop

    async def turn(self):
        for _ in range(10):
            await asyncio.sleep(0)

    def commit(self, items, *, wait=True):
        if any(event.key for item in items for event in item.events):
            if not wait:
                raise StoreBusy("busy")
            asyncio.run_coroutine_threadsafe(self.turn(), self.loop).result(10)
        return self.inner.commit(items, wait=wait)


@asynccontextmanager
async def slowly(path, flow):
    """An engine on such a disk; the path is its tools."""
    store = TakesItsTime(open_store(path, durability="process"), asyncio.get_running_loop())
    async with executing(store, flow, tools=str(path)) as engine:
        yield engine
    store.close()


def vandalise(path, sql):
    """Change the database behind everybody's back; from another process, as two SQLite libraries in one do harm."""
    code = "import apsw, sys; apsw.Connection(sys.argv[1]).execute(sys.argv[2])"
    subprocess.run([sys.executable, "-c", code, path, sql], check=True)


# -- nothing is seen before it is on disk


@step
async def looks(*, ctx: StepContext = INJECTED) -> list[str]:
    """What is committed of its own run when it begins."""
    return [f"{e.word} {e.attempt}" for e in log_of(ctx.tools, ctx.run_id) if e.key]


@workflow
async def one_after_another() -> list[str]:
    await plain(1)
    return await looks()


def test_a_body_begins_when_all_before_it_is_on_disk(tmp_path):
    async def main():
        path = tmp_path / "x.db"
        async with slowly(path, one_after_another) as engine:
            assert await engine.run(one_after_another) == ["step_completed 1"]

    asyncio.run(main())


@step(retry=Retry(max_attempts=2, initial_delay=0))
async def fails_first(*, ctx: StepContext = INJECTED) -> list[str]:
    if ctx.attempt == 1:
        raise ValueError("once")
    return [f"{e.word} {e.attempt}" for e in log_of(ctx.tools, ctx.run_id) if e.kind == Kind.STEP_FAILED]


@workflow
async def retries_at_once() -> list[str]:
    return await fails_first()


def test_the_next_attempt_begins_when_the_failure_of_the_last_is_on_disk(tmp_path):
    async def main():
        path = tmp_path / "x.db"
        async with slowly(path, retries_at_once) as engine:
            assert await engine.run(retries_at_once) == ["step_failed 1"]

    asyncio.run(main())


@step(at_most_once=True)
async def once(*, ctx: StepContext = INJECTED) -> list[str]:
    return [e.word for e in log_of(ctx.tools, ctx.run_id) if e.key]


@workflow
async def shoots() -> list[str]:
    return await once()


def test_what_may_begin_once_begins_when_that_is_on_disk(tmp_path):
    async def main():
        path = tmp_path / "x.db"
        async with slowly(path, shoots) as engine:
            assert await engine.run(shoots) == ["step_started"]

    asyncio.run(main())


@workflow
async def nothing() -> str:
    return "done"


class HoldsEndings(Wrapper):
    """A disk that takes its time over the ending of a run."""

    def __init__(self, inner):
        super().__init__(inner)
        self.asked, self.may = threading.Event(), threading.Event()

    def commit(self, items, *, wait=True):
        if any(item.state is not None for item in items):
            if not wait:
                raise StoreBusy("busy")
            self.asked.set()
            assert self.may.wait(10)
        return self.inner.commit(items, wait=wait)


def test_a_result_is_told_when_it_is_on_disk(tmp_path):
    async def main():
        store = HoldsEndings(open_store(tmp_path / "x.db", durability="process"))
        async with executing(store, nothing) as engine:
            result = asyncio.ensure_future(engine.run(nothing, run_id="r"))
            assert await asyncio.to_thread(store.asked.wait, 10)
            try:
                for _ in range(10):
                    await asyncio.sleep(0)
                assert not result.done()
            finally:
                store.may.set()
            assert await result == "done"
        store.close()

    asyncio.run(main())


# -- no body without a lease


class NoRenewal(Wrapper):
    """A store whose leases cannot be renewed for a while."""

    def __init__(self, inner):
        super().__init__(inner)
        self.failing, self.tried = True, threading.Event()

    def renew(self, *args):
        if self.failing:
            self.tried.set()
            raise StoreError("not now")
        return self.inner.renew(*args)


@step
async def notes_itself(*, ctx: StepContext = INJECTED) -> None:
    ctx.tools.append(ctx.key)


@workflow
async def one_step() -> None:
    await notes_itself()


def test_no_body_begins_while_the_lease_is_in_doubt(tmp_path):
    async def main():
        store = NoRenewal(open_store(tmp_path / "x.db", durability="process"))
        begun = []
        async with executing(store, one_step, tools=begun, lease="5s", heartbeat="100ms") as engine:
            engine._worker._heartbeat.until = 0.0
            result = asyncio.ensure_future(engine.run(one_step, run_id="r"))
            for _ in range(100):
                await asyncio.sleep(0)
            assert engine._worker.running
            store.tried.clear()
            assert await asyncio.to_thread(store.tried.wait, 10)
            assert begun == []
            store.failing = False
            await result
            assert begun == ["notes_itself#1"]
        store.close()

    asyncio.run(main())


class Doubts(Wrapper):
    """A store of whose workers others may think that they are dead."""

    doubt = True

    def doubtful(self, _worker_key):
        return self.doubt


def test_no_body_begins_while_others_may_take_its_worker_for_dead(tmp_path):
    async def main():
        store = Doubts(open_store(tmp_path / "x.db", durability="process"))
        begun = []
        async with executing(store, one_step, tools=begun) as engine:
            result = asyncio.ensure_future(engine.run(one_step, run_id="r"))
            for _ in range(100):
                await asyncio.sleep(0)
            assert engine._worker.running
            assert begun == []
            store.doubt = False
            await result
            assert begun == ["notes_itself#1"]
        store.close()

    asyncio.run(main())


# -- values


@step
async def kept(*, ctx: StepContext = INJECTED) -> list[int]:
    return ctx.tools


@step
async def changes(numbers: list[int]) -> None:
    numbers.append(99)


@workflow
async def takes_and_changes() -> list[int]:
    found = await kept()
    found.append(2)
    await changes(found)
    return found


def test_steps_and_workflow_share_no_object(tmp_path):
    async def main():
        tools = [1]
        async with executing(tmp_path / "x.db", takes_and_changes, tools=tools) as engine:
            assert await engine.run(takes_and_changes) == [1, 2]
            assert tools == [1]

    asyncio.run(main())


@workflow
async def polls() -> int:
    task = asyncio.ensure_future(plain(1))
    for turns in range(5000):
        if task.done():
            return turns
        await asyncio.sleep(0)
    return -1


def test_a_workflow_that_polls_gets_its_outcome(tmp_path):
    async def main():
        async with executing(tmp_path / "x.db", polls) as engine:
            assert 0 < await engine.run(polls) < 1000

    asyncio.run(main())


# -- what does not fit the log is not executed


@step
async def add(n: int, *, ctx: StepContext = INJECTED) -> int:
    ctx.tools.append((ctx.key, n))
    return n


def version(body):
    """One version of a workflow's code: it fails at first, so that it is resumed under the next."""
    return workflow(name="changing")(body)


async def first_version() -> int:
    n = await add(1)
    raise ValueError(n)


async def other_argument() -> int:
    return await add(2)


async def other_place() -> int:
    return await add.with_options(key="moved")(1)


@pytest.mark.parametrize("body", [other_argument, other_place])
def test_code_that_departs_from_its_log_runs_nothing(body, tmp_path):
    async def main():
        begun = []
        async with executing(tmp_path / "x.db", version(first_version), tools=begun) as engine:
            with pytest.raises(ValueError, match="1"):
                await engine.run(version(first_version), run_id="r")
        async with executing(tmp_path / "x.db", version(body), tools=begun) as engine:
            with pytest.raises(DriftError):
                await engine.run(version(body), run_id="r", retry_failed=True)
            assert (await engine.get("r").row()).status is Status.BLOCKED
        assert begun == [("add#1", 1)]

    asyncio.run(main())


def test_a_log_that_was_changed_is_not_gone_on_from(tmp_path):
    async def main():
        path, begun = tmp_path / "x.db", []
        definition = version(first_version)
        async with executing(path, definition, tools=begun) as engine:
            with pytest.raises(ValueError, match="1"):
                await engine.run(definition, run_id="r")
        await asyncio.to_thread(vandalise, path, "UPDATE events SET payload = x'37' WHERE kind = 4")
        async with executing(path, definition, tools=begun) as engine:
            with pytest.raises(IntegrityError):
                await engine.run(definition, run_id="r", retry_failed=True)
        assert begun == [("add#1", 1)]

    asyncio.run(main())


def test_a_result_that_was_changed_is_not_given_out(tmp_path):
    async def main():
        path = tmp_path / "x.db"
        async with executing(path, nothing) as engine:
            await engine.run(nothing, run_id="r")
        await asyncio.to_thread(vandalise, path, "UPDATE events SET payload = x'226f7468657222' WHERE kind = 18")
        async with executing(path, nothing) as engine:
            with pytest.raises(IntegrityError):
                await engine.run(nothing, run_id="r")

    asyncio.run(main())


# -- at most once


@step(at_most_once=True)
async def dies_inside() -> None:
    begun, inside = step_context().tools
    begun.append("begun")
    inside.set()
    if begun == ["begun"]:
        await asyncio.get_running_loop().create_future()


@workflow
async def dies() -> None:
    await dies_inside()


def test_what_may_begin_once_does_not_begin_again_after_a_crash(tmp_path):
    async def main():
        path, begun, inside = tmp_path / "x.db", [], asyncio.Event()
        first = executing(path, dies, tools=(begun, inside))
        await first.start()
        await first.enqueue(dies, run_id="r")
        await inside.wait()
        assert begun == ["begun"]
        worker = first._worker.key
        bodies = [body.task for run in first._worker.running.values() for body in run.in_flight.values()]
        store = first._store
        first._abandon()
        store.reclaim(0, [worker], cap=5)
        store.retire_worker(worker)
        async with executing(path, dies, tools=(begun, inside)) as second:
            with pytest.raises(StepInterrupted):
                await second.run(dies, run_id="r")
        assert begun == ["begun"]
        for task in bodies:
            task.cancel()
        await asyncio.gather(*bodies, return_exceptions=True)
        first._close()

    asyncio.run(main())
