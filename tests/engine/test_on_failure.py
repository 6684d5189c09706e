"""``@workflow(on_failure=…)``: a step that is told of a failure, once, before the run has failed."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure import INJECTED, Failure, saga, step, workflow
from perdure.errors import Deadlock, DefinitionError, NotSerializable, RunBlocked, RunCancelled
from perdure.model.payloads import fields
from perdure.model.records import Kind, Status
from tests.engine.desk import Clock, Refused, engine_at, in_loop, log_of, work
from tests.engine.trip import Counter, Ctx, book, tell, tell_briefly, unbook


@pytest.fixture
def desk():
    return Counter()


@workflow(on_failure=tell)
async def told(legs: list[str]) -> list[str]:
    async with saga() as undo:
        booked = []
        for leg in legs:
            undo.push(unbook, leg)
            booked.append(await book(leg))
        return booked


@workflow(on_failure=tell)
async def told_bare(legs: list[str]) -> list[str]:
    first = await work("first")
    legs.append("changed")
    return [first, await work("bad")]


@workflow(on_failure=tell_briefly)
def told_sync(legs: list[str]) -> None:
    raise KeyError(legs[0])


@workflow(on_failure=tell_briefly)
async def told_of_a_deadlock() -> None:
    await asyncio.Event().wait()


@workflow(on_failure=tell_briefly)
async def told_of_its_result() -> object:
    return object()


@step
def tell_on_a_thread(failure: Failure, *, ctx: Ctx = INJECTED) -> None:
    ctx.tools.told.append(failure)


@workflow(on_failure=tell_on_a_thread)
async def told_on_a_thread() -> None:
    await work("bad")


def ends(events):
    return [(event.word, event.key) for event in events]


@in_loop
async def test_it_is_told_error_step_attempt_and_input_when_all_is_undone(path, desk):
    desk.fails["book b"] = Refused("full")
    async with engine_at(path, told, desk=desk) as engine:
        with pytest.raises(Refused, match="full"):
            await engine.run(told, ["a", "b"], run_id="r")
        assert desk.did == ["book a", "book b", "unbook b", "unbook a", "tell"]
        assert desk.told == [(Failure("tests.engine.desk.Refused", "full", "book#2", 1), ["a", "b"])]
        assert ends(await log_of(engine, "r"))[-2:] == [
            ("step_completed", "@failure#1/tell#1"),
            ("run_failed", None),
        ]


@in_loop
async def test_it_is_not_called_when_the_run_completes(path, desk):
    async with engine_at(path, told, desk=desk) as engine:
        assert await engine.run(told, ["a"]) == ["book a"]
        assert desk.told == []


@in_loop
async def test_it_is_not_called_when_the_run_is_cancelled_or_blocked(path, desk):
    gate = desk.hold("book a")
    async with engine_at(path, told, desk=desk) as engine:
        handle = await engine.enqueue(told, ["a"], run_id="r")
        await gate.arrival()
        await handle.cancel("enough")
        gate.open()
        with pytest.raises(RunCancelled):
            await handle.result()
        desk.fails = {"book b": Refused(), "unbook b": Refused("no")}
        with pytest.raises(RunBlocked):
            await engine.run(told, ["b"])
        assert desk.told == []
        assert desk.did == ["book a", "unbook a", "book b", "unbook b"]


FAILING = [
    (told_sync, ["a"], KeyError, Failure("KeyError", "'a'")),
    (told_of_its_result, None, NotSerializable, None),
    (told_of_a_deadlock, None, Deadlock, None),
]


@pytest.mark.parametrize(("definition", "value", "error", "failure"), FAILING, ids=[case[0].name for case in FAILING])
@in_loop
async def test_it_is_told_of_whatever_the_run_fails_with(path, desk, definition, value, error, failure):
    async with engine_at(path, definition, desk=desk) as engine:
        with pytest.raises(error):
            await engine.run(definition, value)
        (seen,) = desk.told
        assert failure is None or seen == failure
        assert (seen.type.rpartition(".")[2], seen.step, seen.attempt) == (error.__name__, None, None)


@in_loop
async def test_a_sync_step_can_be_told(path, desk):
    desk.fails["bad"] = Refused("no")
    async with engine_at(path, told_on_a_thread, desk=desk) as engine:
        with pytest.raises(Refused):
            await engine.run(told_on_a_thread)
        assert desk.told == [Failure("tests.engine.desk.Refused", "no", "work#1", 1)]


@in_loop
async def test_its_own_failure_is_noted_and_hides_nothing(path, desk):
    desk.fails = {"book a": Refused("full"), "tell": ValueError("nobody is there")}
    async with engine_at(path, told, desk=desk) as engine:
        with pytest.raises(Refused, match="full") as raised:
            await engine.run(told, ["a"], run_id="r")
        assert "on_failure=tell failed as well: ValueError: nobody is there" in raised.value.__notes__
        view = await engine.get("r").view()
        assert (view.failed_steps, view.steps["@failure#1/tell#1"].status) == (["book#1"], "failed")


@in_loop
async def test_it_is_tried_again_as_its_retry_says_and_the_run_has_not_failed_before(path, desk):
    clock = Clock()
    desk.fails["tell"] = [Refused()]
    async with engine_at(path, told_sync, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(told_sync, ["a"], run_id="r")
        await engine.idle()
        assert (await handle.row()).status is Status.RETRYING
        clock.advance("1h")
        with pytest.raises(KeyError):
            await handle.result()
        assert [begun.attempt for begun in desk.begun] == [1, 2]


@in_loop
async def test_a_resume_that_fails_again_tells_again_and_under_another_key(path, desk):
    desk.fails["bad"] = [Refused("first"), Refused("second")]
    async with engine_at(path, told_bare, desk=desk) as engine:
        handle = await engine.enqueue(told_bare, ["a"], run_id="r")
        for number, said in enumerate(("first", "second"), 1):
            if number > 1:
                await handle.resume()
            with pytest.raises(Refused, match=said):
                await handle.result()
            failure, legs = desk.told[-1]
            assert (failure.message, failure.attempt, legs) == (said, number, ["a"])
        tells = [begun for begun in desk.begun if "tell" in begun.key]
        assert [begun.key for begun in tells] == ["@failure#1/tell#1", "@failure#2/tell#1"]
        assert len({begun.idem for begun in tells}) == 2
        await handle.resume()
        assert await handle.result() == ["first", "bad"]
        assert len(desk.told) == 2


@in_loop
async def test_a_stop_while_it_is_told_does_not_tell_twice(path, desk):
    desk.fails["bad"] = Refused("no")
    gate = desk.hold("tell")
    async with engine_at(path, told_bare, desk=desk) as engine:
        await engine.enqueue(told_bare, ["a"], run_id="r")
        await gate.arrival()
        await engine.stop(drain=0, grace="5s")
        assert (await status_of(path, "r")) is Status.RUNNING
    gate.open()
    async with engine_at(path, told_bare, desk=desk) as engine:
        with pytest.raises(Refused):
            await engine.get("r", told_bare).result()
        tells = [begun for begun in desk.begun if "tell" in begun.key]
        assert [begun.attempt for begun in tells] == [1, 1]
        assert len({begun.idem for begun in tells}) == 1
        assert desk.keys().count("work#2") == 1


async def status_of(path, run_id):
    async with perdure.Engine(path).client() as client:
        return (await client.get(run_id).row()).status


@in_loop
async def test_a_cancel_that_comes_while_it_is_told_interrupts_nothing_and_is_kept(path, desk):
    desk.fails["bad"] = Refused("no")
    gate = desk.hold("tell")
    async with engine_at(path, told_bare, desk=desk) as engine:
        handle = await engine.enqueue(told_bare, ["a"], run_id="r")
        await gate.arrival()
        await handle.cancel("too late")
        async for event in handle.events(follow=True):
            if event.kind == Kind.CANCEL_DELIVERED:
                gate.open()
        with pytest.raises(RunCancelled, match="too late"):
            await handle.result()
        events = await log_of(engine, "r")
        assert ("step_completed", "@failure#1/tell#1") in ends(events)
        assert fields(events[-1].payload)["failure"]["text"] == "no"


# -- what is refused where it is written ----------------------------------------------------------


async def no_step(failure: Failure) -> None: ...


@step
async def takes_nothing() -> None: ...


@step
async def takes_three(failure: Failure, value: str, more: int) -> None: ...


@step
async def takes_keyword(failure: Failure, *, how: str) -> None: ...


@pytest.mark.parametrize("handler", [no_step, takes_nothing, takes_three, takes_keyword, "tell"])
def test_a_handler_that_could_not_be_called_is_refused(handler):
    with pytest.raises(DefinitionError, match="on_failure="):

        @workflow(on_failure=handler)
        async def made(value: str) -> None: ...


def test_a_handler_of_an_input_is_refused_for_a_workflow_that_takes_none():
    with pytest.raises(DefinitionError, match="on_failure=tell"):

        @workflow(on_failure=tell)
        async def made() -> None: ...


def test_a_change_of_the_handler_is_another_build():
    def made(handler):
        @workflow(on_failure=handler)
        async def one() -> None: ...

        return one.build

    assert made(tell_briefly) == made(tell_briefly) != made(tell_on_a_thread)


def test_a_handler_can_be_a_method():
    class Desk:
        @step
        async def told(self, failure: Failure) -> None: ...

    @workflow(on_failure=Desk().told)
    async def made() -> None: ...

    assert made.on_failure is not None
    assert not made.tells_input
