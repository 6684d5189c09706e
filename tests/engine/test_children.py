"""Child runs: written with their parent's own commit, awaited without holding anything, taken along by a cancel."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure import Child, Signal, continue_as_new, workflow
from perdure.errors import (
    DefinitionError,
    DuplicateName,
    InvalidValue,
    NotAwaited,
    RunCancelled,
    RunConflict,
    RunFailed,
    TooDeep,
)
from perdure.model.payloads import fields
from perdure.model.records import Kind, Status
from perdure.runtime.children import DEEPEST
from tests.engine.desk import PATIENCE, Refused, engine_at, in_loop, in_status, log_of, until, work

go = Signal[str]("go")


@workflow
async def child(tag: str) -> str:
    return f"<{await work(tag)}>"


@workflow
async def without_input() -> str:
    return await work("none")


@workflow
async def parent(tag: str) -> str:
    return await child(tag) + await without_input()


@workflow
async def starts(tag: str) -> list[str]:
    one = child.start(tag)
    two = child.with_options(key="second", run_id="chosen").start("two")
    assert isinstance(one, Child)
    return [one.run_id, two.run_id, await two.result(), await one.result(), await one.result()]


@workflow
async def starts_and_leaves(tag: str) -> str:
    return child.start(tag).run_id


@workflow
async def many(n: int) -> int:
    results = await perdure.map(child, [str(i) for i in range(n)], limit=7)
    assert results == [f"<{i}>" for i in range(n)]
    return len(results)


@workflow
async def grandparent(tag: str) -> str:
    return await parent(tag)


@workflow
def blocking(tag: str) -> list[str]:
    started = child.start(tag)
    return [child.sync("a"), started.join()]


@workflow
async def first_of_two() -> str:
    calls = [asyncio.ensure_future(child("slow")), asyncio.ensure_future(child("quick"))]
    done, left = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    for call in left:
        call.cancel()
    await asyncio.wait(calls)
    return done.pop().result()


@workflow
async def in_time() -> str:
    try:
        async with asyncio.timeout(60):
            return await child("slow")
    except TimeoutError:
        return "too late"


@workflow
async def listens() -> str:
    return await go.wait()


@workflow
async def speaks() -> str:
    listener = listens.start()
    listener.signal(go, "hello", idempotency_key="once")
    return await listener.result()


@workflow
async def gives_up() -> str:
    listener = listens.start()
    listener.cancel("not needed")
    try:
        return await listener.result()
    except RunCancelled as cancelled:
        return str(cancelled.fields["reason"])


@workflow
async def waits_for_two() -> None:
    await perdure.parallel(listens(), child("slow"))


@workflow
async def has_an_heir() -> None:
    listens.with_options(abandon=True, run_id="heir").start()
    listens.with_options(run_id="mine").start()
    await go.wait()


@workflow
async def again(n: int) -> int:
    return 0 if n == 0 else 1 + await again(n - 1)


@workflow
async def without_end(n: int) -> int:
    return await without_end(n + 1)


@workflow
async def forgetful() -> None:
    child("lost")


@workflow
async def wrong_input() -> None:
    await child(object())


@workflow
async def too_much() -> None:
    await without_input(1)


@workflow
async def names_its_child(tag: str) -> str:
    try:
        return await child.with_options(run_id="chosen")(tag)
    except RunConflict as conflict:
        return str(conflict.fields["run_id"])


@workflow
async def same_id_twice() -> None:
    await child.with_options(run_id="same")("a")
    child.with_options(run_id="same").start("b")


@workflow
async def tags_that_are_none() -> None:
    await child.with_options(tags={"a=b": "c"})("x")


@workflow
async def same_key_twice() -> None:
    await child.with_options(key="k")("a")
    await child.with_options(key="k")("a")


ALL = (
    child, without_input, parent, starts, starts_and_leaves, many, grandparent, blocking, first_of_two, in_time,
    listens, speaks, gives_up, waits_for_two, has_an_heir, again, without_end, forgetful, wrong_input, too_much,
    same_id_twice, names_its_child, same_key_twice, tags_that_are_none,
)  # fmt: skip


async def children_of(engine, run_id):
    """Rows of a run's children, oldest first."""
    key = (await engine.get(run_id).row()).run_key
    return [row async for row in engine.runs() if row.parent_key == key][::-1]


@in_loop
async def test_a_call_of_a_workflow_is_a_run_of_its_own_with_a_log_of_its_own(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        assert await engine.run(parent, "x", run_id="p") == "<x>none"
        rows = await children_of(engine, "p")
        assert [(row.workflow, row.status) for row in rows] == [
            ("child", Status.COMPLETED),
            ("without_input", Status.COMPLETED),
        ]
        view = await engine.get("p").view()
        assert [(one.key, one.workflow, one.status, one.run_id) for one in view.children.values()] == [
            ("child#1", "child", "completed", rows[0].run_id),
            ("without_input#1", "without_input", "completed", rows[1].run_id),
        ]
        assert rows[0].run_id.startswith("p/child#1-")
        assert view.steps == {}


@in_loop
async def test_a_parent_that_waits_executes_nothing_and_holds_no_slot(path, desk):
    async with engine_at(path, *ALL, desk=desk, concurrency=1) as engine:
        assert await engine.run(grandparent, "x") == "<x>none"


@in_loop
async def test_started_children_are_awaited_when_the_code_wants_it_and_as_often_as_it_wants(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        one, two, *results = await engine.run(starts, "x", run_id="p")
        assert results == ["<two>", "<x>", "<x>"]
        assert two == "chosen"
        assert {row.run_id for row in await children_of(engine, "p")} == {one, two}


@in_loop
async def test_a_child_that_nobody_awaits_goes_on_when_its_parent_has_ended(path, desk):
    gate = desk.hold("x")
    async with engine_at(path, *ALL, desk=desk) as engine:
        run_id = await engine.run(starts_and_leaves, "x")
        await gate.arrival()
        gate.open()
        assert await engine.get(run_id, child).result(timeout=PATIENCE) == "<x>"


@in_loop
async def test_many_children_run_side_by_side_as_many_as_are_allowed(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        assert await engine.run(many, 40, run_id="p") == 40
        assert len(await children_of(engine, "p")) == 40


@in_loop
async def test_sync_workflows_have_children_too(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        assert await engine.run(blocking, "b") == ["<a>", "<b>"]


@in_loop
async def test_a_failed_child_fails_its_parent_with_its_own_exception(path, desk):
    desk.fails["x"] = Refused("no")
    async with engine_at(path, *ALL, desk=desk) as engine:
        with pytest.raises(Refused, match="no") as caught:
            await engine.run(parent, "x", run_id="p")
        assert any("child run 'p/child#1-" in note for note in caught.value.__notes__)
        assert (await engine.get("p").view()).failed_steps == ["child#1"]


@in_loop
async def test_a_resumed_parent_has_its_failed_child_go_on_where_it_failed(path, desk):
    desk.fails["x"] = [Refused("no"), None]
    async with engine_at(path, *ALL, desk=desk) as engine:
        with pytest.raises(Refused):
            await engine.run(grandparent, "x", run_id="p")
        await engine.get("p").resume()
        assert await engine.get("p", grandparent).result(timeout=PATIENCE) == "<x>none"
        assert desk.keys() == ["work#1", "work#1", "work#1"]  # twice the child's, once that of the other
        assert len([row async for row in engine.runs()]) == 4  # nobody was started a second time


@in_loop
async def test_a_cancelled_parent_takes_its_children_along(path, desk):
    gate = desk.hold("slow")
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(waits_for_two, run_id="p")
        await gate.arrival()
        await handle.cancel("enough")
        with pytest.raises(RunCancelled, match="enough"):
            await handle.result(timeout=PATIENCE)
        assert [row.status for row in await children_of(engine, "p")] == [Status.CANCELLED, Status.CANCELLED]


@in_loop
async def test_children_that_are_abandoned_outlive_a_cancel_and_others_do_not(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(has_an_heir, run_id="p")
        await until_exists(engine, "mine")
        await in_status(engine, "mine", Status.WAITING)
        await in_status(engine, "heir", Status.WAITING)
        await handle.cancel()
        await in_status(engine, "mine", Status.CANCELLED)
        heir = engine.get("heir", listens)
        assert (await heir.row()).status is Status.WAITING
        await heir.signal(go, "on")
        assert await heir.result(timeout=PATIENCE) == "on"


async def until_exists(engine, run_id):
    await until(lambda: engine._store.get_run(run_id) is not None)


@in_loop
async def test_a_child_whose_call_is_cancelled_ends_before_its_parent_goes_on(path, desk):
    gate = desk.hold("slow")
    async with engine_at(path, *ALL, desk=desk) as engine:
        assert await engine.run(first_of_two, run_id="p") == "<quick>"
        assert [row.status for row in await children_of(engine, "p")] == [Status.CANCELLED, Status.COMPLETED]
        gate.open()


@in_loop
async def test_a_timeout_around_a_child_cancels_it(path, desk, clock):
    gate = desk.hold("slow")
    async with engine_at(path, *ALL, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(in_time, run_id="p")
        await gate.arrival()
        await in_status(engine, "p", Status.WAITING)
        clock.advance("2m")
        assert await handle.result(timeout=PATIENCE) == "too late"
        assert [row.status for row in await children_of(engine, "p")] == [Status.CANCELLED]


@in_loop
async def test_a_parent_signals_and_cancels_its_children(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        assert await engine.run(speaks) == "hello"
        assert await engine.run(gives_up) == "not needed"


@in_loop
async def test_what_a_replay_passes_by_is_not_sent_or_started_again(path, desk):
    gate = desk.hold("slow")
    async with engine_at(path, *ALL, desk=desk) as engine:
        engine._worker._limits = engine._limits  # no run is kept in memory while it waits
        engine._worker._suspended = _Forgets()
        assert await engine.run(speaks, run_id="s") == "hello"
        assert await engine.run(many, 20, run_id="m") == 20
        sent = [event for event in await log_of(engine, "s") if event.kind == Kind.MESSAGE_SENT]
        assert [fields(event.payload)["kind"] for event in sent] == ["signal"]
        assert len(await children_of(engine, "m")) == 20
        handle = await engine.enqueue(parent, "slow", run_id="p")
        await gate.arrival()
        await in_status(engine, "p", Status.WAITING)  # so that it is replayed for certain
        gate.open()
        assert await handle.result(timeout=PATIENCE) == "<slow>none"
        started = [event.key for event in await log_of(engine, "p") if event.kind == Kind.CHILD_STARTED]
        assert started == ["child#1", "without_input#1"]


class _Forgets(dict):
    """Keeps no run in memory."""

    def __setitem__(self, key, run):
        run.drop(None)


@in_loop
async def test_a_workflow_may_be_its_own_child(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        assert await engine.run(again, 5) == 5


@in_loop
async def test_a_workflow_that_starts_itself_without_end_is_stopped(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        assert await engine.run(again, DEEPEST) == DEEPEST
        with pytest.raises(TooDeep, match="runs above it") as caught:
            await engine.run(without_end, 0, run_id="p")
        assert caught.value.code == "too_deep"
        assert len([row async for row in engine.runs(workflow="without_end")]) == 1 + DEEPEST


@in_loop
async def test_a_child_counts_those_above_it_also_when_it_goes_on_as_a_new_run(path, desk):

    @workflow
    async def renews(n: int) -> int:
        if n % 2:
            continue_as_new(n + 1)
        return await renews(n + 1)

    async with engine_at(path, renews, desk=desk) as engine:
        with pytest.raises(TooDeep):
            await engine.run(renews, 0)
        assert len([row async for row in engine.runs(workflow="renews")]) == 1 + 2 * DEEPEST


@pytest.mark.parametrize(
    ("run", "error"),
    [
        (forgetful, NotAwaited),
        (wrong_input, InvalidValue),
        (too_much, DefinitionError),
        (tags_that_are_none, DefinitionError),
        (same_key_twice, DuplicateName),
        (same_id_twice, DuplicateName),
    ],
    ids=lambda one: getattr(one, "name", getattr(one, "__name__", "")),
)
@in_loop
async def test_what_is_wrong_with_a_child_is_refused_before_it_is_written(path, desk, run, error):
    async with engine_at(path, *ALL, desk=desk) as engine:
        with pytest.raises(error):
            await engine.run(run, run_id="p")
        assert len(await children_of(engine, "p")) == (1 if error is DuplicateName else 0)


@in_loop
async def test_a_child_whose_id_is_taken_is_a_conflict_of_its_call_only(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        assert await engine.run(names_its_child, "a", run_id="p") == "<a>"
        assert await engine.run(names_its_child, "b", run_id="q") == "chosen"


@in_loop
async def test_the_result_of_a_child_may_be_large(path, desk):
    @workflow
    async def grows(n: int) -> str:
        return "x" * n

    @workflow
    async def takes(n: int) -> int:
        return len(await grows(n))

    async with engine_at(path, grows, takes) as engine:
        assert await engine.run(takes, 300_000) == 300_000


@in_loop
async def test_an_exception_that_cannot_be_rebuilt_is_told_as_it_was(path):
    class Local(Exception):
        pass

    @workflow
    async def raises() -> None:
        raise Local("here")

    @workflow
    async def wonders() -> str:
        try:
            await raises()
        except RunFailed as failed:
            return str(failed)
        return ""

    async with engine_at(path, raises, wonders) as engine:
        assert "here" in await engine.run(wonders)


@pytest.mark.timeout(1.5 * PATIENCE)  # who does not go on with them waits without end
def test_the_same_call_goes_on_with_children_that_wait_for_their_code(new_store, desk):
    """Nobody who is there now has ever executed their parents, which do not run before the children have ended."""
    store = new_store()

    async def begun_and_left() -> None:
        async with engine_at(store, grandparent, desk=desk) as engine:
            await engine.enqueue(grandparent, "a", run_id="r")
            while (await engine.get("r").row()).status is not Status.WAITING:
                await asyncio.sleep(0)
        async with engine_at(store, parent, desk=desk) as engine:
            while Status.WAITING not in [row.status async for row in engine.runs(workflow=parent)]:
                await asyncio.sleep(0)

    asyncio.run(begun_and_left())
    assert perdure.run(grandparent, "a", run_id="r", store=store, tools=desk) == "<a>none"
