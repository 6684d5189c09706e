"""Sagas: what the code does wrong, before, in and after them."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure import continue_as_new, saga, step, workflow
from perdure.errors import (
    ColourError,
    DefinitionError,
    DuplicateName,
    NotDurable,
    NotInRun,
    NotSerializable,
    RunBlocked,
    WrongState,
)
from perdure.model.records import Status
from tests.engine.desk import Refused, engine_at, in_loop
from tests.engine.trip import Counter, book, unbook


@pytest.fixture
def desk():
    return Counter()


# -- what must not go by unheard ------------------------------------------------------------------


@workflow
async def breaks_a_rule() -> None:
    async with saga() as undo:
        undo.push(unbook, "a")
        await book("a")
        asyncio.get_running_loop().run_in_executor(None, print)


@workflow
async def waits_for_nothing() -> None:
    async with saga() as undo:
        undo.push(unbook, "a")
        await book("a")
        await asyncio.Event().wait()


@workflow
async def never_awaits() -> None:
    task = asyncio.create_task(forgets())
    await book("b")
    await task


async def forgets() -> None:
    async with saga() as undo:
        undo.push(unbook, "a")
        await book("a")
        await asyncio.get_running_loop().create_future()


async def is_left_behind() -> None:
    async with saga() as undo:
        undo.push(unbook, "a")
        try:
            await asyncio.Event().wait()
        finally:
            await book("on leaving")


@workflow
async def leaves_a_task_behind() -> str:
    task = asyncio.create_task(is_left_behind())
    await book("a")
    return task.get_name()[:4]


@in_loop
async def test_a_task_that_is_left_behind_cleans_up_and_undoes_before_the_run_ends(path, desk):
    async with engine_at(path, leaves_a_task_behind, desk=desk) as engine:
        assert await engine.run(leaves_a_task_behind, run_id="r") == "Task"
        assert desk.did == ["book a", "book on leaving", "unbook a"]
        assert {step.status for step in (await engine.get("r").view()).steps.values()} == {"completed"}


@pytest.mark.parametrize("definition", [breaks_a_rule, waits_for_nothing, never_awaits])
@in_loop
async def test_what_was_done_is_undone_also_if_the_code_can_do_nothing_any_more(path, desk, definition):
    async with engine_at(path, definition, desk=desk) as engine:
        with pytest.raises((NotDurable, perdure.errors.Deadlock)):
            await engine.run(definition, run_id="r")
        assert desk.did[-1] == "unbook a"
        assert desk.did.count("unbook a") == 1
        assert (await engine.get("r").view()).status is Status.FAILED


@in_loop
async def test_a_compensation_that_fails_when_the_code_has_ended_blocks_the_run_as_well(path, desk):
    desk.fails["unbook a"] = [Refused("no")]
    async with engine_at(path, waits_for_nothing, desk=desk) as engine:
        handle = await engine.enqueue(waits_for_nothing, run_id="r")
        with pytest.raises(RunBlocked, match="unbook#1 failed"):
            await handle.result()
        await handle.resume()
        with pytest.raises(perdure.errors.Deadlock):
            await handle.result()
        assert desk.did == ["book a", "unbook a", "unbook a"]


@workflow
async def continues() -> None:
    async with saga() as undo:
        undo.push(unbook, "a")
        await book("a")
        continue_as_new()


@in_loop
async def test_a_run_does_not_continue_as_another_with_something_left_to_undo(path, desk):
    async with engine_at(path, continues, desk=desk) as engine:
        with pytest.raises(WrongState, match="continue_as_new in a saga"):
            await engine.run(continues, run_id="r")
        assert desk.did == ["book a", "unbook a"]


@workflow
async def raises_what_is_no_exception() -> None:
    async with saga() as undo:
        undo.push(unbook, "a")
        raise SystemExit(3)


@in_loop
async def test_whatever_the_code_raises_undoes(path, desk):
    async with engine_at(path, raises_what_is_no_exception, desk=desk) as engine:
        with pytest.raises(perdure.errors.RunFailed):
            await engine.run(raises_what_is_no_exception, run_id="r")
        assert desk.did == ["unbook a"]


# -- what is refused where it is written ----------------------------------------------------------


@workflow
async def pushes_a_call() -> None:
    async with saga() as undo:
        undo.push(unbook("a"))


@workflow
async def pushes_what_cannot_be_stored() -> None:
    async with saga() as undo:
        undo.push(unbook, object())
        await book("never")


@workflow
async def pushes_other_arguments() -> None:
    async with saga() as undo:
        undo.push(unbook, "a", "b")


@workflow
async def pushes_a_key_twice() -> None:
    async with saga() as undo:
        undo.push(unbook.with_options(key="k"), "a")
        undo.push(unbook.with_options(key="k"), "b")


@workflow
async def pushes_too_late() -> None:
    async with saga() as undo:
        await book("x")
    undo.push(unbook, "a")


@workflow
async def wrong_colour() -> None:
    with perdure.sync.saga():
        pass


@workflow
def wrong_colour_sync() -> None:
    asyncio.run(_enter())


async def _enter():
    async with saga():
        pass


REFUSED = [
    (pushes_a_call, DefinitionError, "undo.push"),
    (pushes_what_cannot_be_stored, NotSerializable, "leg"),
    (pushes_other_arguments, TypeError, "unbook"),
    (pushes_a_key_twice, DuplicateName, "the key"),
    (pushes_too_late, WrongState, "has ended"),
    (wrong_colour, ColourError, "would block"),
    (wrong_colour_sync, NotInRun, "event loop"),
]


@pytest.mark.parametrize(("definition", "error", "says"), REFUSED, ids=[case[0].name for case in REFUSED])
@in_loop
async def test_what_cannot_be_pushed_is_refused_before_anything_is_done(path, desk, definition, error, says):
    async with engine_at(path, definition, desk=desk) as engine:
        with pytest.raises(error, match=says):
            await engine.run(definition, run_id="r")
        assert "book never" not in desk.did


@step
async def enters_a_saga() -> None:
    async with saga():
        pass


@in_loop
async def test_a_saga_is_a_workflows(path, desk):
    with pytest.raises(NotInRun, match="no workflow"):
        async with saga():
            pass
    with pytest.raises(NotInRun, match="no workflow"):
        perdure.sync.saga().__enter__()

    @workflow
    async def by_a_step() -> None:
        await enters_a_saga()

    async with engine_at(path, by_a_step, desk=desk) as engine:
        with pytest.raises(NotInRun, match="a step"):
            await engine.run(by_a_step)
