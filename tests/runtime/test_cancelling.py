"""Cancelling a step is a request: its await ends when the body has settled, and always as cancelled."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import perdure
from perdure import INJECTED, Retry, StepContext, step, workflow
from perdure.model.records import Kind
from tests.runtime.harness import lab, trace, work

LOG = []


@pytest.fixture(autouse=True)
def _fresh_log():
    LOG.clear()


@step
async def slow(how: str, *, ctx: StepContext = INJECTED) -> str:
    """Waits for ever, and meets its cancellation in one way or another."""
    ctx.tools.began()
    LOG.append("begins")
    try:
        with ctx.tools.clock.let_pass():
            await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        await ctx.tools.nap(30)
        if how == "completes":
            return "done all the same"
        if how == "fails":
            raise ValueError("while stopping") from None
        raise
    finally:
        LOG.append("has ended")
    return ""


@step
def on_a_thread(how: str, *, ctx: StepContext = INJECTED) -> str:
    ctx.tools.began()
    LOG.append("begins")
    try:
        with ctx.tools.clock.let_pass():
            while not ctx.cancelled:
                time.sleep(0.001)
        if how == "aborts":
            ctx.raise_if_cancelled()
        if how == "fails":
            raise ValueError("while stopping")
        return "done all the same"
    finally:
        LOG.append("has ended")


@step
async def undo() -> None:
    LOG.append("is undone")


def giving_up(name, call):
    @workflow(name=name)
    async def gives_up(how: str) -> list[str]:
        noted = trace()
        try:
            async with asyncio.timeout(20):
                noted.append(await call(how))
        except TimeoutError:
            noted.append("timed out")
            await undo()
        return list(noted)

    return gives_up


GIVE_UP = [giving_up("async_body", slow), giving_up("sync_body", on_a_thread.aio)]
RECORDED = {"aborts": Kind.STEP_CANCELLED, "completes": Kind.STEP_COMPLETED, "fails": Kind.STEP_FAILED}


@pytest.mark.parametrize("how", RECORDED)
@pytest.mark.parametrize("made", GIVE_UP, ids=lambda made: made.name)
def test_the_await_ends_as_cancelled_when_the_body_has_settled_whatever_it_did(made, how, tmp_path):
    async def main():
        async with lab(tmp_path, [made], patient=True) as here:
            first = await here.live(made, how)
            assert first.outcome == ("returned", ["timed out"])
            assert LOG == ["begins", "has ended", "is undone"]
            (outcome,) = [e for e in first.history.events if e.kind in RECORDED.values() and "undo" not in e.key]
            assert outcome.kind == RECORDED[how]
            again = await here.replay(made, first.history)
            assert (again.outcome, again.trace) == (first.outcome, first.trace)

    asyncio.run(main())


def test_a_step_whose_cancellation_is_in_the_log_but_not_its_outcome_is_not_begun_again(tmp_path):
    made = GIVE_UP[0]

    async def main():
        async with lab(tmp_path, [made], patient=True) as here:
            first = await here.live(made, "completes")
            fired = next(e.seq for e in first.history.events if e.kind == Kind.TIMER_FIRED)
            resumed = await here.resume(made, first.history, fired)
            assert resumed.outcome == ("returned", ["timed out"])
            assert not resumed.bodies
            assert resumed.history.outcomes()["slow#1"].kind == Kind.STEP_CANCELLED
            again = await here.replay(made, resumed.history)
            assert again.outcome == resumed.outcome

    asyncio.run(main())


@workflow
async def changes_its_mind() -> str:
    call = asyncio.ensure_future(work("never begun"))
    call.cancel()
    task = asyncio.create_task(step_in_task())
    task.cancel()
    said = await asyncio.gather(call, task, return_exceptions=True)
    return " ".join(type(one).__name__ for one in said)


async def step_in_task():
    await work("never called")


def test_a_call_cancelled_where_it_is_made_leaves_nothing(tmp_path):
    async def main():
        async with lab(tmp_path, [changes_its_mind], patient=True) as here:
            seen = await here.live(changes_its_mind)
            assert seen.outcome == ("returned", "CancelledError CancelledError")
            assert not seen.bodies
            assert seen.history.kinds() == ["run_created", "run_claimed", "run_completed"]

    asyncio.run(main())


@workflow
async def insists() -> str:
    call = asyncio.ensure_future(slow("aborts"))
    await work("meanwhile", 10)
    assert call.cancel("first")
    assert call.cancel("second")
    assert not call.done()
    try:
        await call
    except asyncio.CancelledError as error:
        assert not call.cancel("too late")
        return str(error)
    return "?"


def test_a_second_request_changes_nothing(tmp_path):
    async def main():
        async with lab(tmp_path, [insists], patient=True) as here:
            seen = await here.live(insists)
            assert seen.outcome == ("returned", "first")
            assert seen.history.outcomes()["slow#1"].kind == Kind.STEP_CANCELLED
            assert (await here.replay(insists, seen.history)).outcome == seen.outcome

    asyncio.run(main())


@step(retry=Retry(max_attempts=3, initial_delay="1m"))
async def keeps_failing(*, ctx: StepContext = INJECTED) -> None:
    ctx.tools.began()
    raise ValueError("again")


@workflow
async def cannot_wait() -> str:
    try:
        async with asyncio.timeout(5):
            await keeps_failing()
    except TimeoutError:
        return "gave up"
    return "?"


@pytest.mark.parametrize("suspended", [None, 0])
def test_a_step_cancelled_between_attempts_ends_at_once(suspended, tmp_path):
    async def main():
        async with lab(tmp_path, [cannot_wait], patient=True, suspended=suspended) as here:
            seen = await here.live(cannot_wait)
            assert seen.outcome == ("returned", "gave up")
            assert seen.bodies == {"keeps_failing#1": 1}
            assert seen.history.outcomes()["keeps_failing#1"].kind == Kind.STEP_CANCELLED
            assert (await here.replay(cannot_wait, seen.history)).outcome == seen.outcome

    asyncio.run(main())


class Meeting:
    """Where the thread of a sync workflow and a body on the host's loop meet."""

    def __init__(self, loop):
        self.loop, self.gate, self.ended = loop, asyncio.Event(), threading.Event()

    def let_it_end(self):
        self.loop.call_soon_threadsafe(self.gate.set)
        assert self.ended.wait(10)
        for _ in range(3):  # and the host's loop hears of it, while the run's loop stands still
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self.loop).result(10)


MEETING = {}


@step
async def ends_unheard(*, ctx: StepContext = INJECTED) -> str:
    meeting = MEETING["here"]
    with ctx.tools.clock.let_pass():
        await meeting.gate.wait()
    meeting.ended.set()
    return "ended"


@workflow
def cancels_what_has_ended() -> str:
    branch = perdure.sync.submit(ends_unheard.sync)
    work.sync("until it has begun", 5)
    MEETING["here"].let_it_end()
    branch.cancel()
    perdure.sync.wait([branch])
    work.sync("after")
    try:
        return branch.result()
    except asyncio.CancelledError:
        return "cancelled"


def test_a_body_that_had_ended_when_its_cancellation_was_asked_for_has_one_outcome(tmp_path):
    async def main():
        MEETING["here"] = Meeting(asyncio.get_running_loop())
        async with lab(tmp_path, [cancels_what_has_ended], patient=True) as here:
            seen = await here.live(cancels_what_has_ended)
            assert seen.outcome == ("returned", "cancelled")
            assert seen.history.kinds() == [
                "run_created",
                "run_claimed",
                "step_completed",
                "step_completed",
                "step_completed",
                "run_completed",
            ]

    asyncio.run(main())


@step
async def held(*, ctx: StepContext = INJECTED) -> None:
    """Waits for ever; when asked to stop, says so and waits to be let go."""
    LOG.append("begins")
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        LOG.append("asked")
        await MEETING["gate"].wait()
        raise


@workflow
async def holds() -> None:
    try:
        await held()
    finally:
        LOG.append("cleans up")
        await work("cleaned")


def test_a_cancel_that_comes_while_the_engine_stops_still_ends_the_run(tmp_path):
    async def logged(what):
        while what not in LOG:
            await asyncio.sleep(0)

    async def main():
        MEETING["gate"] = asyncio.Event()
        async with lab(tmp_path, [holds]) as here:
            handle = await here.engine.enqueue(holds)
            await logged("begins")
            stopping = asyncio.create_task(here.engine.stop(drain=0, grace=20))
            await logged("asked")
            await handle.cancel("no longer wanted")
            run = next(iter(here.engine._worker.running.values()))
            while run.cancel_reason is None:
                here.engine._worker._vigil.read_inbox()
                await asyncio.sleep(0)
            MEETING["gate"].set()
            assert await stopping == []
            async with here.engine.client():
                assert (await handle.row()).status.word == "cancelled"
                assert LOG == ["begins", "asked", "cleans up"]

    asyncio.run(main())
