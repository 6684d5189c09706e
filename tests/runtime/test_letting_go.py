"""How an execution in memory ends: dropped, interrupted, torn; and what it must not leave behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys

import pytest
import uvloop

import perdure
from perdure import Engine, Signal, sleep, step, workflow
from perdure.errors import NotAwaited, RunCancelled, RunFailed, RunGone
from tests.runtime import scenarios, scenarios_anyio, scenarios_sync
from tests.runtime.harness import attack, cancel_me, fail, lab, work

SEEN = []


@pytest.fixture(autouse=True)
def _fresh():
    SEEN.clear()


@pytest.fixture
def quiet(caplog, capfd, monkeypatch):
    """Nothing may be logged as an error, warned of, written to stderr or left unraisable."""
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    gc.collect()
    with caplog.at_level(logging.WARNING):
        yield
        gc.collect()
    assert [record.getMessage() for record in caplog.records] == []
    assert unraisable == []
    assert capfd.readouterr().err == ""


async def tries(what):
    """Call Perdure where that is over."""
    try:
        await work("too late")
    except BaseException as error:
        SEEN.append(f"{what}: {type(error).__name__}")


async def producing():
    try:
        while True:
            yield await work("item")
    finally:
        await tries("generator")


@workflow
async def sleeps_long() -> None:
    """Everything that has a finally, and then a long sleep."""

    async def branch(n):
        try:
            await sleep("1h")
        finally:
            await tries(f"branch {n}")

    @contextlib.asynccontextmanager
    async def context():
        try:
            yield
        finally:
            await tries("context")

    async def awkward():
        while True:
            try:
                await asyncio.Event().wait()
            except BaseException:
                SEEN.append("awkward")
                if SEEN.count("awkward") > 2:
                    raise

    failed = asyncio.ensure_future(asyncio.gather(fail("nobody looks"), return_exceptions=True))
    waiter = asyncio.create_task(awkward())
    stream = producing()
    await anext(stream)
    try:
        async with context(), asyncio.TaskGroup() as group, asyncio.timeout(7200):
            for n in range(3):
                group.create_task(branch(n))
            with contextlib.suppress(Exception):
                await asyncio.shield(asyncio.gather(sleep("2h"), asyncio.Event().wait()))
    finally:
        await tries("root")
        await stream.aclose()
        SEEN.append((failed.done(), waiter.done()))


async def suspended_run(engine, clock=None):
    handle = await engine.enqueue(sleeps_long, run_id="sleeps")
    worker = engine._worker
    while not worker._suspended:
        await asyncio.sleep(0)
    return handle


def test_dropping_a_run_runs_its_finally_blocks_without_perdure_and_without_noise(tmp_path, quiet):
    async def main():
        async with Engine(tmp_path / "runs.db", workflows=[sleeps_long], durability="process", tools=Tools()) as engine:
            await suspended_run(engine)
            await engine.stop()
            seen = list(SEEN)
            assert {
                "branch 0: RunGone",
                "branch 1: RunGone",
                "branch 2: RunGone",
                "context: RunGone",
                "root: RunGone",
            } <= {*seen}
            assert "awkward" in seen
            assert not any("RunGone" not in one for one in seen if isinstance(one, str) and one != "awkward")

    asyncio.run(main())
    first = list(SEEN)
    SEEN.clear()
    (tmp_path / "again").mkdir()

    async def again():
        async with Engine(
            tmp_path / "again" / "r.db", workflows=[sleeps_long], durability="process", tools=Tools()
        ) as engine:
            await suspended_run(engine)

    asyncio.run(again())
    assert first == SEEN, "the order is always the same"


class Tools:
    """What the harness' steps ask of their tools."""

    def began(self):
        pass

    async def nap(self, ms=None):
        await asyncio.sleep(0)


@workflow
async def catches_everything() -> str:
    try:
        await sleep("1h")
    except Exception:
        SEEN.append("caught")
    return "done"


def test_no_handler_of_exceptions_sees_the_drop(tmp_path, quiet):
    async def main():
        async with Engine(tmp_path / "runs.db", workflows=[catches_everything], durability="process") as engine:
            await engine.enqueue(catches_everything)
            while not engine._worker._suspended:
                await asyncio.sleep(0)

    asyncio.run(main())
    assert SEEN == []
    assert not issubclass(RunGone, Exception)


word = Signal[str]("word")


@workflow
async def listens() -> str:
    try:
        return await word.wait()
    except BaseException as error:
        SEEN.append(type(error).__name__)
        raise


def test_a_run_that_was_claimed_anew_before_its_suspension_was_told_is_let_go(tmp_path, quiet):
    async def main():
        async with Engine(tmp_path / "runs.db", workflows=[listens], durability="process") as engine:
            handle = await engine.enqueue(listens)
            worker = engine._worker
            while not worker._suspended:
                await asyncio.sleep(0)
            _, late = worker._suspended.popitem()
            await handle.signal(word, "hello")
            assert await handle.result() == "hello"
            worker.run_suspended(late)
            assert late.gone
            assert not worker._suspended

    asyncio.run(main())
    assert SEEN == ["GeneratorExit"]


# -- exceptions that are no failures


@workflow
async def interrupted() -> str:
    await work("before")
    if not SEEN:
        SEEN.append("interrupted")
        raise KeyboardInterrupt
    return await work("after")


@pytest.mark.timeout(15)
def test_an_interrupt_in_workflow_code_reaches_the_host_and_nothing_is_recorded(tmp_path):
    store = tmp_path / "runs.db"
    with pytest.raises(KeyboardInterrupt):
        perdure.run(interrupted, run_id="one", store=store, tools=Tools(), durability="process")
    assert perdure.run(interrupted, run_id="one", store=store, tools=Tools(), durability="process") == "after"

    async def kinds():
        engine = Engine(store)
        async with engine.client():
            return [event.kind async for event in engine.get("one").events()]

    assert 19 not in asyncio.run(kinds()), "it must not have failed"


@workflow
async def exits(where: str) -> str:
    if where == "workflow":
        sys.exit(3)
    if where == "task":
        await asyncio.gather(exiting())
    if where == "async step":
        await exits_async()
    if where == "sync step":
        await exits_sync.aio()
    return "went on"


async def exiting():
    await work("before")
    sys.exit(3)


@step
async def exits_async() -> None:
    await asyncio.sleep(0)
    sys.exit(3)


@step
def exits_sync() -> None:
    sys.exit(3)


@workflow
def exits_on_a_thread(where: str) -> None:
    sys.exit(3)


@pytest.mark.parametrize("where", ["workflow", "task", "async step", "sync step", "thread"])
def test_an_exit_fails_its_run_and_the_worker_lives(where, tmp_path):
    async def main():
        made = exits_on_a_thread if where == "thread" else exits
        async with lab(tmp_path, [made, *scenarios.SCENARIOS[:1]]) as here:
            with pytest.raises((RunFailed, Exception), match="3"):
                await here.engine.run(made, where, run_id="one")
            assert (await here.engine.get("one").view()).status.word == "failed"
            assert (await here.live(scenarios.SCENARIOS[0])).outcome[0] == "returned"

    asyncio.run(main())


# -- what is forgotten


@workflow
async def forgets() -> str:
    await work("a")
    work("b")
    return "done"


def test_a_step_that_is_never_awaited_fails_the_run_and_names_the_line(tmp_path):
    async def main():
        async with lab(tmp_path, [forgets]) as here:
            with pytest.raises(NotAwaited) as caught:
                await here.engine.run(forgets)
            line = forgets.fn.__code__.co_firstlineno + 3
            assert f"{__file__}:{line} in forgets" in str(caught.value)
            assert caught.value.line == line

    asyncio.run(main())


approved = Signal[bool]("approved")


@workflow
async def approves_by_itself() -> str:
    if approved.wait():
        await work("what nobody has approved")
    return "done"


@workflow
async def forgets_a_wait() -> str:
    approved.wait(timeout="1h", default=True)
    return await work("a")


@pytest.mark.parametrize("made", [approves_by_itself, forgets_a_wait], ids=lambda made: made.name)
def test_a_wait_that_is_never_awaited_is_never_taken_for_its_message(tmp_path, made):
    async def main():
        async with lab(tmp_path, [made]) as here:
            line = made.fn.__code__.co_firstlineno + 2
            with pytest.raises(NotAwaited, match=rf"wait for signal 'approved' .*:{line} in {made.name}"):
                await here.engine.run(made, run_id="one")
            steps = [event.key async for event in here.engine.get("one").events() if event.took is not None]
            assert steps == (["work#1"] if made is forgets_a_wait else [])

    asyncio.run(main())


@workflow
async def takes_a_call_for_its_result() -> str:
    return "got " + work("a")


@workflow
async def has_a_loop_of_its_own() -> str:
    return asyncio.run(work("a"))


@pytest.mark.parametrize("made", [takes_a_call_for_its_result, has_a_loop_of_its_own], ids=lambda made: made.name)
def test_what_comes_of_a_call_that_is_not_awaited_has_a_note_about_it(tmp_path, made):
    async def main():
        async with lab(tmp_path, [made]) as here:
            with pytest.raises((TypeError, RuntimeError)) as caught:
                await here.engine.run(made)
            line = made.fn.__code__.co_firstlineno + 2
            assert f"step work#1 was called but never awaited ({__file__}:{line}" in caught.value.__notes__[0]

    asyncio.run(main())


@workflow
async def stumbles() -> tuple[str, str]:
    call = work("made, and then something else fails")
    raise LookupError("the real failure")
    return await asyncio.gather(call)


@workflow
async def is_cancelled_between() -> None:
    calls = [work("a"), work("b")]
    await cancel_me()
    await asyncio.Event().wait()
    await asyncio.gather(*calls)


def test_a_call_left_over_by_a_failure_or_a_cancel_does_not_hide_it(tmp_path):
    async def main():
        async with lab(tmp_path, [stumbles, is_cancelled_between]) as here:
            with pytest.raises(LookupError, match="real") as caught:
                await here.engine.run(stumbles)
            assert "awaited" not in "".join(caught.value.__notes__)
            with pytest.raises(RunCancelled):
                await here.engine.run(is_cancelled_between)

    asyncio.run(main())


@workflow
async def abandons() -> list[str]:
    found = []

    async def stream():
        try:
            for n in range(3):
                yield await work(str(n))
        finally:
            await tries("abandoned")

    async for item in stream():
        found.append(item)
        break
    gc.collect()
    found.append(await work("after"))
    return found


def test_an_abandoned_generator_is_closed_without_steps_and_a_warning_names_it(tmp_path):
    async def main():
        async with lab(tmp_path, [abandons]) as here:
            with pytest.warns(ResourceWarning, match="aclosing"):
                first = await here.live(abandons)
            assert first.outcome == ("returned", ["0", "after"])
            assert SEEN == ["abandoned: RunGone"]
            with pytest.warns(ResourceWarning, match=r"abandons\.<locals>\.stream"):
                assert (await here.replay(abandons, first.history)).outcome == first.outcome

    asyncio.run(main())


@workflow
async def leaves_a_failure() -> str:
    async def failing():
        await fail("nobody asks")

    task = asyncio.create_task(failing())
    await asyncio.wait([task])
    return "done"


def test_a_failure_that_nobody_looked_at_is_logged(tmp_path, caplog):
    async def main():
        async with lab(tmp_path, [leaves_a_failure]) as here:
            assert await here.engine.run(leaves_a_failure) == "done"

    asyncio.run(main())
    gc.collect()
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "failing" in record.getMessage()
    assert "ValueError (test_letting_go.py:" in record.getMessage()
    assert "nobody asks" not in caplog.text, "what a user's exception says may be a value"


# -- other hosts

SOME = [scenarios.SCENARIOS[0], scenarios_anyio.SCENARIOS[0], scenarios_sync.SCENARIOS[1], scenarios.SCENARIOS[2]]


@pytest.mark.parametrize("made", SOME, ids=lambda made: made.name)
@pytest.mark.parametrize("host", ["debug", "uvloop"])
def test_any_host_loop_will_do(host, made, tmp_path):
    async def main():
        async with lab(tmp_path, [made]) as here:
            await attack(here, made, cuts=3)

    factory = uvloop.new_event_loop if host == "uvloop" else None
    with asyncio.Runner(debug=host == "debug", loop_factory=factory) as runner:
        runner.run(main())
