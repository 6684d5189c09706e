"""Sagas: what was done is undone in reverse, once, whatever fails, cancels or dies."""

from __future__ import annotations

import pytest

from perdure import Engine, saga, workflow
from perdure.errors import (
    RunBlocked,
    RunCancelled,
    WrongState,
)
from perdure.model.payloads import fields
from perdure.model.records import Kind, Status
from perdure.runtime import points
from perdure.store.open import open_store
from tests.engine import trip
from tests.engine.desk import Clock, Refused, engine_at, in_loop, log_of
from tests.engine.trip import Counter, book, unbook


@pytest.fixture
def desk():
    return Counter()


async def cancelled(handle, reason):
    with pytest.raises(RunCancelled, match=reason):
        await handle.result()


@pytest.mark.parametrize("definition", [trip.trip, trip.sync_trip])
@in_loop
async def test_what_was_done_is_undone_in_reverse_and_then_the_failure_goes_on(path, desk, definition):
    desk.fails["book c"] = Refused("full")
    async with engine_at(path, definition, desk=desk) as engine:
        with pytest.raises(Refused, match="full"):
            await engine.run(definition, ["a", "b", "c"], run_id="r")
        assert desk.did == ["book a", "book b", "book c", "unbook c", "unbook b", "unbook a"]
        view = await engine.get("r").view()
        assert (view.undone, view.undone_from) == (["unbook#3", "unbook#2", "unbook#1"], "book#1")
        assert (await engine.get("r").row()).undo is None


@pytest.mark.parametrize("definition", [trip.trip, trip.sync_trip])
@in_loop
async def test_what_ends_well_is_not_undone_and_leaves_nothing_in_the_log(path, desk, definition):
    async with engine_at(path, definition, desk=desk) as engine:
        await engine.run(definition, ["a", "b"], run_id="r")
        assert desk.did == ["book a", "book b"]
        assert [event.word for event in await log_of(engine, "r")] == [
            "run_created", "run_claimed", "step_completed", "step_completed", "run_completed",
        ]  # fmt: skip
        assert (await engine.get("r").row()).undo is None


@pytest.mark.parametrize("definition", [trip.trip, trip.sync_trip])
@in_loop
async def test_a_cancel_is_delivered_once_and_does_not_reach_the_undoing(path, desk, definition):
    desk.hold("book b")
    gate = desk.hold("unbook b")
    async with engine_at(path, definition, desk=desk) as engine:
        handle = await engine.enqueue(definition, ["a", "b"], run_id="r")
        await desk.gates["book b"].arrival()
        await handle.cancel("changed my mind")
        await gate.arrival()
        await handle.cancel("a second time")
        gate.open()
        await cancelled(handle, "changed my mind")
        assert desk.did == ["book a", "book b", "unbook b", "unbook a"]


@in_loop
async def test_a_cancel_that_comes_while_a_failure_is_undone_interrupts_nothing_and_is_kept(path, desk):
    desk.fails["book b"] = Refused("full")
    gate = desk.hold("unbook b")
    async with engine_at(path, trip.trip, desk=desk) as engine:
        handle = await engine.enqueue(trip.trip, ["a", "b"], run_id="r")
        await gate.arrival()
        await handle.cancel("too late")
        async for event in handle.events(follow=True):
            if event.kind == Kind.CANCEL_DELIVERED:
                gate.open()
        await cancelled(handle, "too late")
        assert desk.did == ["book a", "book b", "unbook b", "unbook a"]
        last = (await log_of(engine, "r"))[-1]
        assert fields(last.payload)["failure"]["text"] == "full"


@workflow
async def goes_on_after_its_saga() -> None:
    async with saga() as undo:
        undo.push(unbook, "a")
        await book("a")
    await book("b")


@pytest.mark.parametrize("definition", [trip.trip, trip.sync_trip])
@in_loop
async def test_a_cancel_that_comes_as_the_block_and_the_run_end_undoes(path, desk, definition):
    asked = []

    def ask(point):
        # What the step has led to is about to be written: the run has ended, and has not heard of it.
        if point == points.COMMIT and desk.did == ["book a"] and not asked:
            with open_store(path, durability="process") as store:
                asked.append(store.request_cancel(store.get_run("r", "").run_key, "at the last moment"))

    async with engine_at(path, definition, desk=desk, reached=ask) as engine:
        handle = await engine.enqueue(definition, ["a"], run_id="r")
        await cancelled(handle, "at the last moment")
        assert desk.did == ["book a", "unbook a"]
    assert asked == [Status.RUNNING]
    async with engine_at(path, definition, desk=desk) as engine:
        assert (await engine.get("r").view()).status is Status.CANCELLED


@in_loop
async def test_what_ended_well_before_the_cancel_stays(path, desk):
    gate = desk.hold("book b")
    async with engine_at(path, goes_on_after_its_saga, desk=desk) as engine:
        handle = await engine.enqueue(goes_on_after_its_saga, run_id="r")
        await gate.arrival()
        await handle.cancel("too late")
        gate.open()
        await cancelled(handle, "too late")
        assert desk.did == ["book a", "book b"]


@in_loop
async def test_everything_that_can_be_called_can_be_pushed(path, desk):
    desk.fails["book x"] = Refused()
    async with engine_at(path, trip.all_kinds, trip.undo_by_child, desk=desk) as engine:
        with pytest.raises(Refused):
            await engine.run(trip.all_kinds, run_id="r")
        assert desk.did == [
            "book x", "unbook named child", "unbook child", "unbook thread", "unbook keyed", "unbook plain",
        ]  # fmt: skip
        assert (await engine.get("chosen").row()).status is Status.COMPLETED
        view = await engine.get("r").view()
        assert view.steps["unbook[the-one]"].status == "completed"


@in_loop
async def test_methods_can_be_pushed_bound_and_unbound(path, desk):
    desk.fails["book x"] = Refused()
    async with engine_at(path, trip.by_method, desk=desk) as engine:
        with pytest.raises(Refused):
            await engine.run(trip.by_method, run_id="r")
        assert desk.did == ["book x", "unbook unbound", "unbook bound"]


@in_loop
async def test_sagas_nest_and_each_undoes_its_own(path, desk):
    desk.fails = {"book inner": Refused(), "book outer": Refused("outer")}
    async with engine_at(path, trip.nested, desk=desk) as engine:
        with pytest.raises(Refused, match="outer"):
            await engine.run(trip.nested, run_id="r")
        assert desk.did == ["book inner", "unbook inner", "book instead", "book outer", "unbook outer"]


@pytest.mark.parametrize("definition", [trip.branches, trip.groups])
@in_loop
async def test_branches_undo_their_own_when_one_of_them_fails(path, desk, definition):
    desk.fails["book a hotel"] = Refused("full")
    desk.hold("book b hotel")
    held = desk.hold("book a hotel")
    async with engine_at(path, definition, desk=desk) as engine:
        handle = await engine.enqueue(definition, run_id="r")
        await desk.gates["book b hotel"].arrival()
        held.open()
        with pytest.raises((Refused, ExceptionGroup)):
            await handle.result()
        whole = [] if definition is trip.branches else ["unbook whole"]
        assert sorted(desk.did[4:6]) == ["unbook a", "unbook b"]
        assert desk.did[6:] == whole


@in_loop
async def test_a_timeout_undoes_and_is_then_a_timeout(path, desk):
    clock = Clock()
    gate = desk.hold("book slow hotel")
    async with engine_at(path, trip.in_time, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(trip.in_time, run_id="r")
        await gate.arrival()
        await clock.armed()
        clock.advance("61s")
        assert await handle.result() == "too late"
        assert desk.did == ["book slow", "book slow hotel", "unbook slow"]


@in_loop
async def test_what_is_taken_back_is_not_undone(path, desk):
    desk.fails["book y"] = Refused()
    async with engine_at(path, trip.takes_back, desk=desk) as engine:
        with pytest.raises(Refused):
            await engine.run(trip.takes_back, run_id="r")
        assert desk.did == ["book x", "book y", "unbook last"]


@in_loop
async def test_arguments_are_taken_when_they_are_pushed(path, desk):
    desk.fails["book x"] = Refused()
    async with engine_at(path, trip.changes_arguments, desk=desk) as engine:
        with pytest.raises(Refused):
            await engine.run(trip.changes_arguments, ["a"], run_id="r")
        assert desk.did == ["book x", "unbook ['a']"]


@in_loop
async def test_a_compensation_is_tried_again_as_its_own_retry_says_and_the_run_waits_for_it(path, desk):
    clock = Clock()
    desk.fails = {"book b": Refused("full"), "unbook a": [Refused(), Refused()]}
    async with engine_at(path, trip.patient_trip, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(trip.patient_trip, ["a", "b"], run_id="r")
        for _ in range(2):
            await engine.idle()
            assert (await handle.row()).status is Status.RETRYING
            assert (await handle.row()).undo == '["unbook_patiently#1"]'
            clock.advance("1h")
        with pytest.raises(Refused, match="full"):
            await handle.result()
        assert desk.did == ["book a", "book b", "unbook b", "unbook a", "unbook a", "unbook a"]


@pytest.mark.parametrize("how", ["failure", "cancel"])
@in_loop
async def test_a_compensation_that_fails_for_good_blocks_the_run_and_resume_tries_exactly_it_again(path, desk, how):
    desk.fails["unbook b"] = [Refused("bank closed")]
    gate = desk.hold("book c")
    if how == "failure":
        desk.fails["book c"] = Refused("full")
        gate.open()
    async with engine_at(path, trip.trip, desk=desk) as engine:
        handle = await engine.enqueue(trip.trip, ["a", "b", "c"], run_id="r")
        await gate.arrival()
        if how == "cancel":
            await handle.cancel("enough")
        with pytest.raises(RunBlocked, match="unbook#2 failed: Refused: bank closed; not undone: unbook#2, unbook#1"):
            await handle.result()
        row, view = await handle.row(), await handle.view()
        assert (row.status, row.undo) == (Status.BLOCKED, '["unbook#1", "unbook#2"]')
        assert (view.failed_steps, view.not_undone) == (["unbook#2"], ["unbook#2", "unbook#1"])
        before = list(desk.did)
        await handle.resume()
        if how == "failure":
            with pytest.raises(Refused, match="full"):
                await handle.result()
        else:
            await cancelled(handle, "enough")
        assert desk.did[len(before) :] == ["unbook b", "unbook a"]
        attempts = [begun.attempt for begun in desk.begun if begun.key == "unbook#2"]
        keys = {begun.idem for begun in desk.begun if begun.key == "unbook#2"}
        assert (attempts, len(keys)) == ([1, 2], 1)


@in_loop
async def test_a_blocked_undoing_lets_other_branches_finish_theirs_first(path, desk):
    desk.fails["unbook a"] = [Refused("no")]
    hotels, other = [desk.hold("book a hotel"), desk.hold("book b hotel")], desk.hold("unbook b")
    async with engine_at(path, trip.branches, desk=desk) as engine:
        handle = await engine.enqueue(trip.branches, run_id="r")
        for hotel in hotels:
            await hotel.arrival()
        await handle.cancel("enough")
        await other.arrival()
        async for event in handle.events(follow=True):
            if event.kind == Kind.STEP_FAILED:
                other.open()
            if event.kind == Kind.RUN_BLOCKED:
                break
        assert fields(event.payload)["not_undone"] == ["leg#1/unbook#1"]
        await handle.resume()
        await cancelled(handle, "enough")
        assert (desk.did.count("unbook a"), desk.did.count("unbook b")) == (2, 1)


@in_loop
async def test_an_engine_that_stops_while_it_undoes_leaves_the_rest_to_the_next(path, desk):
    desk.fails["book b"] = Refused("full")
    gate = desk.hold("unbook b")
    async with engine_at(path, trip.trip, desk=desk) as engine:
        await engine.enqueue(trip.trip, ["a", "b"], run_id="r")
        await gate.arrival()
        await engine.stop(drain=0, grace="5s")
        assert desk.did == ["book a", "book b", "unbook b"]
    gate.open()
    async with engine_at(path, trip.trip, desk=desk) as engine:
        with pytest.raises(Refused, match="full"):
            await engine.get("r", trip.trip).result()
        assert desk.did == ["book a", "book b", "unbook b", "unbook b", "unbook a"]
        assert [begun.attempt for begun in desk.begun if begun.key == "unbook#2"] == [1, 1]
        assert sum(event.kind == Kind.UNDO_BEGUN for event in await log_of(engine, "r")) == 1


@pytest.mark.parametrize("definition", [trip.waiting_trip, trip.sync_waiting_trip])
@in_loop
async def test_a_run_that_leaves_memory_undoes_nothing(path, desk, definition):
    async with engine_at(path, definition, desk=desk, clock=Clock()) as engine:
        await engine.enqueue(definition, ["a", "b"], run_id="r")
        await engine.idle()
        assert (await engine.get("r").row()).status is Status.SLEEPING
        assert (await engine.get("r").row()).undo == '["unbook#1", "unbook#2"]'
    assert desk.did == ["book a", "book b"]


# -- cancelling a run whose code nobody has ------------------------------------------------------


async def waits_without_code(path, desk, definition=trip.waiting_trip):
    async with engine_at(path, definition, desk=desk, clock=Clock()) as engine:
        await engine.enqueue(definition, ["a", "b"], run_id="r")
        await engine.idle()


@in_loop
async def test_a_codeless_run_with_something_to_undo_stays_asked_until_its_code_comes(path, desk):
    await waits_without_code(path, desk)
    async with Engine(path).client() as client:
        handle = client.get("r")
        await handle.cancel("enough")
        assert (await handle.row()).status is Status.SLEEPING
    async with engine_at(path, trip.waiting_trip, desk=desk) as engine:
        await cancelled(engine.get("r"), "enough")
        assert desk.did == ["book a", "book b", "unbook b", "unbook a"]


@in_loop
async def test_force_ends_it_at_once_and_the_log_says_what_is_not_undone(path, desk):
    await waits_without_code(path, desk)
    async with Engine(path).client() as client:
        handle = client.get("r")
        await handle.cancel("enough", force=True)
        await cancelled(handle, "enough")
        view = await handle.view()
        assert (view.not_undone, view.undone) == (["unbook#1", "unbook#2"], [])
        assert fields((await log_of(client, "r"))[-1].payload)["forced"] is True


@in_loop
async def test_a_cancel_of_a_run_blocked_in_its_undoing_is_heard_when_it_is_resumed(path, desk):
    desk.fails = {"book b": Refused("full"), "unbook b": [Refused("no")]}
    async with engine_at(path, trip.trip, desk=desk) as engine:
        handle = await engine.enqueue(trip.trip, ["a", "b"], run_id="r")
        with pytest.raises(RunBlocked):
            await handle.result()
        await handle.cancel("enough")
        assert (await handle.row()).status is Status.BLOCKED
        await handle.resume()
        await cancelled(handle, "enough")
        assert desk.did == ["book a", "book b", "unbook b", "unbook b", "unbook a"]


# -- what has been undone cannot go on ------------------------------------------------------------


@in_loop
async def test_a_run_that_has_undone_something_is_not_resumed_but_forked_from_before(path, desk):
    desk.fails["book b"] = [Refused("full")]
    async with engine_at(path, trip.trip, desk=desk) as engine:
        with pytest.raises(Refused):
            await engine.run(trip.trip, ["a", "b"], run_id="r")
        handle = engine.get("r", trip.trip)
        with pytest.raises(WrongState, match="unbook#2, unbook#1") as refused:
            await handle.resume()
        assert refused.value.advice == "fork it from before that: fork('book#1')"
        tally = await engine.runs(status="failed").resume()
        assert (tally.done, tally.unchanged, tally.failures) == (0, 1, {})
        with pytest.raises(Refused):  # the same line again, as with perdure.run
            await engine.run(trip.trip, ["a", "b"], run_id="r", retry_failed=True)
        before = len(desk.did)
        forked = await handle.fork("book#1")
        assert await forked.result() == ["book a", "book b"]
        assert desk.did[before:] == ["book a", "book b"]


@in_loop
async def test_a_cancelled_run_that_has_undone_something_is_not_resumed(path, desk):
    gate = desk.hold("book a")
    async with engine_at(path, trip.trip, desk=desk) as engine:
        handle = await engine.enqueue(trip.trip, ["a"], run_id="r")
        await gate.arrival()
        await handle.cancel("enough")
        await cancelled(handle, "enough")
        with pytest.raises(WrongState, match="is cancelled and has undone"):
            await handle.resume()


@workflow
async def has_a_child() -> list[str]:
    return await trip.trip(["a"])


@in_loop
async def test_a_parent_that_is_resumed_hears_again_of_a_child_that_cannot_go_on(path, desk):
    desk.fails["book a"] = [Refused("full")]
    async with engine_at(path, has_a_child, trip.trip, desk=desk) as engine:
        with pytest.raises(Refused):
            await engine.run(has_a_child, run_id="r")
        await engine.get("r").resume()
        with pytest.raises(Refused, match="full"):
            await engine.get("r").result()
        assert desk.did == ["book a", "unbook a"]
