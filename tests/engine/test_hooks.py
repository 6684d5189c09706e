"""Hooks: told what was committed, in order, and never in anybody's way."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading

import pytest

from perdure import INJECTED, Hooks, Retry, StepContext, emit, sleep, step, workflow
from perdure.dispatch import MOST, TOGETHER
from perdure.errors import DefinitionError, RunCancelled
from perdure.model.records import Kind
from perdure.runtime.narrating import Narrator
from tests.crash.procs import SERVER
from tests.engine.desk import PATIENCE, Desk, Refused, chore, engine_at, in_loop, log_of, until, work
from tests.engine.saying import cut_short, report


@step(retry=Retry(max_attempts=2, initial_delay="1ms"))
async def tries(*, ctx: StepContext[Desk] = INJECTED) -> list[int]:
    ctx.progress({"half": True})
    ctx.emit([1], "numbers")
    if ctx.attempt == 1:
        raise Refused("no")
    return [1, 2]


@workflow
async def eventful() -> str:
    await tries()
    emit("done", "code")
    return "result"


@workflow
async def fails() -> None:
    await work("bad")


@workflow
async def naps() -> None:
    await sleep("1h")


@step
async def is_overtaken(*, ctx: StepContext[Desk] = INJECTED) -> None:
    ctx.tools.act()


@workflow
async def overtaken() -> None:
    await is_overtaken()


@workflow
async def many(n: int) -> None:
    for i in range(n):
        emit(i)


class Told(Hooks):
    """Keeps what it is told."""

    def __init__(self):
        self.notices = []

    def event(self, notice):
        self.notices.append(notice)

    def kinds(self):
        return [notice.kind for notice in self.notices]


class Slow(Told):
    """Takes its time with the first."""

    def __init__(self):
        super().__init__()
        self.begun, self.gate = threading.Event(), threading.Event()

    def event(self, notice):
        self.begun.set()
        self.gate.wait(20)
        super().event(notice)


@in_loop
async def test_they_are_told_all_that_was_committed_in_the_order_of_the_log(path):
    told = Told()
    async with engine_at(path, eventful, hooks=[told]) as engine:
        await engine.run(eventful, run_id="r")
        log = await log_of(engine, "r")
    assert [notice.event for notice in told.notices] == log[1:]  # the first was written by whoever enqueued it
    assert {(notice.run_id, notice.workflow, notice.version) for notice in told.notices} == {("r", "eventful", "1")}


@in_loop
async def test_a_notice_says_what_happened(path):
    told = Told()
    async with engine_at(path, eventful, hooks=[told]) as engine:
        await engine.run(eventful, run_id="r")
    by_kind = {notice.kind: notice for notice in reversed(told.notices)}
    failed, progress, emitted = by_kind["step_failed"], by_kind["progress"], by_kind["emitted"]
    assert (failed.step, failed.key, failed.attempt, failed.value) == ("tries", "tries#1", 1, None)
    assert isinstance(failed.error, Refused)
    assert failed.next_at > failed.at
    assert failed.took > 0
    assert (progress.value, progress.error, progress.stream) == ({"half": True}, None, None)
    assert (emitted.value, emitted.stream, emitted.step) == ([1], "numbers", "tries")
    assert (told.notices[-2].value, told.notices[-2].step) == ("done", None)
    assert (by_kind["run_completed"].value, by_kind["run_completed"].reason) == ("result", None)
    emitted.value.append("spoilt")
    assert emitted.value == [1]


@in_loop
async def test_only_what_is_overridden_is_called_async_or_not(path, desk):
    calls = []

    class Some(Hooks):
        async def run_completed(self, notice):
            await asyncio.sleep(0)
            calls.append((notice.kind, notice.value, threading.current_thread() is threading.main_thread()))

        def step_completed(self, notice):
            calls.append((notice.kind, notice.value, threading.current_thread() is threading.main_thread()))

        def worker_started(self, worker):
            calls.append(("worker_started", worker.name))

        async def worker_stopped(self, worker):
            calls.append(("worker_stopped", worker.name))

    async with engine_at(path, chore, desk=desk, hooks=[Some()], name="me") as engine:
        await engine.run(chore)
    assert calls == [
        ("worker_started", "me"),
        ("step_completed", "chore", False),
        ("run_completed", "chore", True),
        ("worker_stopped", "me"),
    ]


@in_loop
async def test_one_that_returns_what_can_be_awaited_is_awaited(path, desk):
    calls = []

    async def notify(notice):
        calls.append(notice.kind)

    class Passes(Hooks):
        run_completed = staticmethod(functools.partial(notify))

    async with engine_at(path, chore, desk=desk, hooks=[Passes()]) as engine:
        await engine.run(chore)
    assert calls == ["run_completed"]


@pytest.mark.parametrize("error", [ValueError("oops"), SystemExit(3), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("is_async", [True, False])
@in_loop
async def test_one_that_fails_is_logged_and_touches_neither_the_run_nor_the_others(path, desk, caplog, error, is_async):
    class Fails(Hooks):
        if is_async:

            async def step_completed(self, _notice):
                raise error
        else:

            def step_completed(self, _notice):
                raise error

    told, after = Told(), Fails()
    with caplog.at_level(logging.ERROR, "perdure.hooks"):
        async with engine_at(path, chore, desk=desk, hooks=[after, told]) as engine:
            assert await engine.run(chore) == "chore"
            assert await engine.run(chore) == "chore"
    assert told.kinds().count("run_completed") == 2
    assert len([record for record in caplog.records if record.name == "perdure.hooks"]) == 2
    assert "step_completed" in caplog.text


@in_loop
async def test_a_slow_one_holds_nobody_up_and_what_does_not_fit_its_queue_is_dropped_and_counted(path, caplog):
    slow, told = Slow(), Told()
    number = MOST // 2
    with caplog.at_level(logging.WARNING, "perdure.hooks"):
        async with engine_at(path, many, hooks=[slow, told]) as engine:
            for n in range(1, 5):
                await engine.run(many, number)
                await until(lambda: len(told.notices) == n * (number + 2))  # noqa: B023 - awaited within the turn
            assert await asyncio.to_thread(slow.begun.wait, 20)
            slow.gate.set()
    assert len(told.notices) == 4 * (number + 2)
    assert slow.dropped == 4 * (number + 2) - len(slow.notices) > 0
    assert MOST <= len(slow.notices) <= MOST + TOGETHER
    assert [record.getMessage() for record in caplog.records if record.name == "perdure.hooks"] == [
        f"{slow!r} is too slow: notices for it are dropped, and counted in its `dropped`"
    ]
    assert told.dropped == 0


@pytest.mark.timeout(1.5 * PATIENCE)  # who waits for longer waits without end
@pytest.mark.parametrize("is_async", [True, False])
@in_loop
async def test_stop_waits_for_them_no_longer_than_its_grace(path, desk, caplog, is_async):
    gate = threading.Event()

    class Stuck(Hooks):
        if is_async:

            async def event(self, _notice):
                await asyncio.Event().wait()
        else:

            def event(self, _notice):
                gate.wait(20)

    stuck = Stuck()
    engine = engine_at(path, chore, desk=desk, hooks=[stuck])
    with caplog.at_level(logging.WARNING, "perdure.hooks"):
        await engine.start()
        await engine.run(chore)
        assert await engine.stop(grace="50ms") == []
    gate.set()
    assert stuck.dropped == 2
    assert "had not heard 2 notices when the engine stopped" in caplog.text


@in_loop
async def test_what_is_queued_is_heard_before_stop_returns(path):
    slow = Slow()
    engine = engine_at(path, many, hooks=[slow])
    await engine.start()
    await engine.run(many, 20)
    stopping = asyncio.ensure_future(engine.stop())
    assert await asyncio.to_thread(slow.begun.wait, 20)
    assert not stopping.done()
    slow.gate.set()
    await stopping
    assert len(slow.notices) == 22
    assert slow.dropped == 0


@in_loop
async def test_they_are_told_by_each_start_of_an_engine_anew(path, desk):
    told = Told()
    engine = engine_at(path, chore, desk=desk, hooks=[told])
    for _ in range(2):
        async with engine:
            await engine.run(chore)
    await engine.tick()
    await engine.stop()
    assert told.kinds() == ["run_claimed", "step_completed", "run_completed"] * 2


@in_loop
async def test_failures_cancels_and_waits_are_told(path, desk, clock):
    told = Told()
    desk.fails["bad"] = Refused("no")
    async with engine_at(path, fails, naps, chore, desk=desk, clock=clock, hooks=[told]) as engine:
        with pytest.raises(Refused):
            await engine.run(fails, run_id="failed")
        await engine.enqueue(naps, run_id="sleeps")
        await clock.armed()
        gate = desk.hold("chore")
        handle = await engine.enqueue(chore, run_id="cancelled")
        await gate.arrival()
        await handle.cancel("enough")
        async for _ in handle.events(follow=True):
            pass
    kinds = {notice.kind: notice for notice in told.notices}
    assert isinstance(kinds["run_failed"].error, Refused)
    assert kinds["run_suspended"].run_id == "sleeps"
    assert kinds["run_cancelled"].reason == "enough"
    assert kinds["step_cancelled"].step == "work"


@in_loop
async def test_a_run_that_was_taken_back_or_set_aside_is_told_by_who_did_it(path, desk):
    process = SERVER.Process(target=cut_short, args=(path,))
    process.start()
    await asyncio.to_thread(process.join)
    told = Told()
    async with engine_at(path, report, desk=desk, hooks=[told], crash_cap=1) as engine:
        async for event in engine.get("r").events(follow=True):
            if event.kind == Kind.RUN_BLOCKED:
                break
        await until(lambda: "run_blocked" in told.kinds())
    assert told.kinds() == ["run_reclaimed", "run_blocked"]
    assert "died" in told.notices[-1].reason


@in_loop
async def test_an_end_that_was_not_written_because_a_cancel_came_first_is_not_told(path, desk):
    told = Told()
    async with engine_at(path, overtaken, desk=desk, hooks=[told]) as engine:
        store = engine._store
        desk.act = lambda: store.request_cancel(store.get_run("r").run_key, "enough")
        with pytest.raises(RunCancelled):
            await engine.run(overtaken, run_id="r")
        log = await log_of(engine, "r")
    assert [notice.event for notice in told.notices] == log[1:]
    assert told.kinds()[-2:] == ["cancel_delivered", "run_cancelled"]


@in_loop
async def test_nothing_is_told_of_what_others_execute(path, desk):
    told, others = Told(), Told()
    async with (
        engine_at(path, chore, desk=desk, hooks=[others]) as engine,
        engine_at(path, many, hooks=[told]),
    ):
        await engine.run(chore)
    assert told.notices == []
    assert others.kinds()[-1] == "run_completed"


@in_loop
async def test_without_hooks_the_log_alone_listens(path, desk):
    async with engine_at(path, chore, desk=desk) as engine:
        host = engine._worker.host
        assert type(host.hooks) is Narrator
        assert engine._journal.told == host.hooks.committed
        assert (host.spans, host.measuring) == (None, None)


@pytest.mark.parametrize("hooks", [[print], [Told], ["x"]])
@pytest.mark.only("sqlite")
def test_what_is_no_hook_is_refused(path, hooks):
    with pytest.raises(DefinitionError, match=r"derived from perdure\.Hooks"):
        engine_at(path, chore, hooks=hooks)
