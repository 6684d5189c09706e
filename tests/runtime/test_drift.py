"""Code that no longer matches the log it replays: what is safe goes on, else nothing is run and nothing changes."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from uuid import uuid4

import pytest
from pydantic import BaseModel

from perdure import INJECTED, Engine, StepContext, step, volatile, workflow
from perdure.errors import DefinitionError, DriftError, RunConflict
from perdure.model.records import Kind, Status
from tests.runtime.harness import Lab, fail, lab, work

CODE = {}
"""The code that ``changing`` has today."""


@workflow
async def changing() -> Any:
    return await CODE["today"]()


async def before_and_after(here: Lab, before, after, cut=-1):
    """Run ``before``, and resume its history (less the end) with the code ``after``."""
    CODE["today"] = before
    first = await here.live(changing)
    assert first.outcome[0] == "returned", first.outcome
    CODE["today"] = after
    return first, await here.resume(changing, first.history, len(first.history.events) + cut)


def check(tmp_path, before, after, expect, cut=-1):
    async def main():
        async with lab(tmp_path / uuid4().hex, [changing]) as here:
            first, resumed = await before_and_after(here, before, after, cut)
            expect(first, resumed)

    asyncio.run(main())


def is_blocked(*words):
    def expect(first, resumed):
        assert resumed.outcome[:2] == ("raised", "DriftError"), resumed.outcome
        assert not resumed.bodies, "something was run"
        kinds = resumed.history.kinds()
        assert kinds[-2:] == ["drift_found", "run_blocked"]
        assert not {"step_completed", "step_failed", "run_completed"} & set(kinds[len(first.history.events) :])
        said = resumed.history.events[-2].payload.decode()
        assert all(word in said for word in words), said

    return expect


def goes_on(result, *ran):
    def expect(first, resumed):
        assert resumed.outcome == ("returned", result)
        assert set(resumed.bodies) == set(ran)

    return expect


async def a_then_b():
    return [await work("a"), await note("b")]


@step
async def note(text: str, *, ctx: StepContext = INJECTED) -> str:
    ctx.tools.began()
    return text


# -- safe


def test_a_step_of_another_name_can_be_added(tmp_path):
    async def after():
        return [await other("new"), await work("a"), await other("newer"), await note("b")]

    check(tmp_path, a_then_b, after, goes_on(["new", "a", "newer", "b"], "other#1", "other#2"))


@step
async def other(text: str, *, ctx: StepContext = INJECTED) -> str:
    ctx.tools.began()
    return text


def test_a_step_can_be_removed(tmp_path):
    async def after():
        return [await note("b")]

    check(tmp_path, a_then_b, after, goes_on(["b"]))


def test_steps_of_different_names_can_change_their_order(tmp_path):
    async def after():
        return [await note("b"), await work("a")]

    check(tmp_path, a_then_b, after, goes_on(["b", "a"]))


def test_a_renamed_step_runs_again(tmp_path):
    async def after():
        return [await work("a"), await other("b")]

    check(tmp_path, a_then_b, after, goes_on(["a", "b"], "other#1"))


renamed = step(name="note")(other.fn)


def test_a_renamed_function_that_keeps_its_name_does_not(tmp_path):
    async def after():
        return [await work("a"), await renamed("b")]

    check(tmp_path, a_then_b, after, goes_on(["a", "b"]))


def test_calls_with_explicit_keys_can_change_their_order(tmp_path):
    def keyed(*keys):
        async def code():
            return [await work.with_options(key=key)(key) for key in keys]

        return code

    check(tmp_path, keyed("x", "y", "z"), keyed("new", "z", "x", "y"), goes_on(["new", "z", "x", "y"], "work[new]"))


@step
async def stamped(text: str, at: Annotated[int, volatile], *, ctx: StepContext = INJECTED) -> str:
    ctx.tools.began()
    return text


def test_volatile_arguments_may_differ(tmp_path):
    def at(instant):
        async def code():
            return await stamped("a", instant)

        return code

    check(tmp_path, at(1), at(2), goes_on("a"))


class Order(BaseModel):
    id: str


class Evolved(BaseModel):
    id: str
    note: str = ""


@step(name="ship")
async def ship(order: Order, *, ctx: StepContext = INJECTED) -> Order:
    ctx.tools.began()
    return order


@step(name="ship")
async def ship_evolved(order: Evolved, *, ctx: StepContext = INJECTED) -> Evolved:
    ctx.tools.began()
    return order


async def ships():
    return (await ship(Order(id="1"))).id


def test_a_model_that_has_grown_an_optional_field_is_no_drift(tmp_path):
    async def after():
        return (await ship_evolved(Evolved(id="1"))).id

    check(tmp_path, ships, after, goes_on("1"))


# -- not safe


def test_other_arguments_block_the_run(tmp_path):
    async def after():
        return [await work("changed"), await note("b")]

    check(tmp_path, a_then_b, after, is_blocked("work#1", "changed"))


def test_other_arguments_of_a_step_that_failed_and_was_caught_block_the_run(tmp_path):
    def code(text):
        async def code():
            try:
                await fail(text)
            except ValueError:
                return "caught"

        return code

    check(tmp_path, code("a"), code("b"), is_blocked("fail#1"))


def test_a_call_that_looks_like_one_that_has_moved_blocks_the_run(tmp_path):
    async def before():
        return [await work("a"), await work("b")]

    async def after():
        async def branch():
            return await work("a")

        return [await asyncio.create_task(branch()), await note("c")]

    check(tmp_path, before, after, is_blocked("branch#1/work#1", "work#1"))


def test_a_repeated_call_that_is_removed_in_the_middle_blocks_the_run(tmp_path):
    def code(*texts):
        async def code():
            return [await work(text) for text in texts]

        return code

    check(tmp_path, code("a", "b", "c"), code("a", "c"), is_blocked("work#2"))
    check(tmp_path, code("a", "b", "c"), code("a", "x", "b", "c"), is_blocked("work#2"))


class Strict(BaseModel):
    id: str
    weight: int


@step(name="ship")
async def ship_strict(order: Order, *, ctx: StepContext = INJECTED) -> Strict:
    ctx.tools.began()
    return Strict(id=order.id, weight=1)


def test_a_result_that_no_longer_decodes_blocks_the_run(tmp_path):
    async def after():
        result = await ship_strict(Order(id="1"))
        return [result.id, await note("never reached")]

    check(tmp_path, ships, after, is_blocked("ship#1"))


def test_swallowing_drift_does_not_help(tmp_path):
    async def after():
        try:
            await work("changed")
        except BaseException:
            pass
        try:
            await note("another")
        except BaseException:
            pass
        return "went through"

    check(tmp_path, a_then_b, after, is_blocked("work#1"))


def test_a_blocked_run_goes_on_when_the_code_is_mended_and_when_drift_is_accepted(tmp_path):
    async def changed():
        return [await work("changed"), await note("b"), await other("c")]

    async def mended():
        return [await work("a"), await note("b"), await other("c")]

    async def main():
        async with lab(tmp_path, [changing]) as here:
            CODE["today"] = a_then_b
            first = await here.live(changing)
            for name, code, accept, result in (
                ("mended", mended, False, ["a", "b", "c"]),
                ("accepted", changed, True, ["a", "b", "c"]),
            ):
                CODE["today"] = changed
                here.put(first.history.open_end(), name)
                handle = here.engine.get(name, changing)
                with pytest.raises(DriftError):
                    await handle.result()
                assert (await handle.view()).status is Status.BLOCKED
                CODE["today"] = code
                await handle.resume(accept_drift=accept)
                assert await handle.result() == result
                assert here.bodies[name] == {"other#1": 1}

    asyncio.run(main())


# -- inputs and outputs


@workflow(name="typed")
async def typed(order: Order) -> Order:
    return await ship(order)


@workflow(name="typed")
async def retyped(order: Strict) -> Order:
    return Order(id=order.id)


@workflow(name="typed")
async def ends_otherwise(order: Order) -> Strict:
    return await ship_strict(order)


def test_an_input_that_no_longer_decodes_blocks_the_run(tmp_path):
    async def main():
        async with lab(tmp_path / "a", [typed]) as here:
            first = await here.live(typed, Order(id="1"))
        async with lab(tmp_path / "b", [retyped]) as here:
            resumed = await here.resume(retyped, first.history, 3)
            assert resumed.history.kinds()[-1] == "run_blocked"
            assert resumed.outcome[0] == "raised"
            assert not resumed.bodies

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    asyncio.run(main())


def test_a_completed_run_whose_result_no_longer_decodes_is_drift_and_stays_as_it_is(tmp_path):
    async def main():
        async with lab(tmp_path, [typed]) as here:
            await here.live(typed, Order(id="1"), run_id="one")
        async with lab(tmp_path, [ends_otherwise]) as here:
            with pytest.raises(DriftError, match="does not decode"):
                await here.engine.get("one", ends_otherwise).result()
            view = await here.engine.get("one").view()
            assert view.status is Status.COMPLETED
            assert not here.bodies

    asyncio.run(main())


def test_the_moved_step_guard_leaves_unlike_calls_alone(tmp_path):
    async def before():
        return [await work("a"), await work("b")]

    async def after():
        async def branch():
            return await work("unlike")

        return [await asyncio.create_task(branch()), await work("a"), await work("b")]

    check(tmp_path, before, after, goes_on(["unlike", "a", "b"], "branch#1/work#1"))


def test_a_cut_before_the_departure_is_no_drift(tmp_path):
    async def after():
        return [await work("a"), await note("changed")]

    def expect(first, resumed):
        assert resumed.outcome == ("returned", ["a", "changed"])
        assert [e.key for e in resumed.history.events if e.kind == Kind.STEP_COMPLETED] == ["work#1", "note#1"]

    check(tmp_path, a_then_b, after, expect, cut=-2)


# -- old forms, made to fit


def to_strict(old):
    return {"id": old["id"], "weight": 7}


@step(name="ship", upcast=to_strict)
async def ship_upcast(order: Order, *, ctx: StepContext = INJECTED) -> Strict:
    ctx.tools.began()
    return Strict(id=order.id, weight=1)


def test_a_result_that_no_longer_decodes_is_upcast_on_every_replay(tmp_path):
    async def after():
        result = await ship_upcast(Order(id="1"))
        again = await ship_upcast.with_options(key="new")(Order(id="2"))
        return [result.weight, again.weight, await note("b")]

    check(tmp_path, ships, after, goes_on([7, 1, "b"], "ship[new]", "note#1"))


def test_an_upcast_that_does_not_fit_either_blocks_the_run(tmp_path):
    @step(name="ship", upcast=lambda old: old["no such field"])
    async def ship_wrong(order: Order, *, ctx: StepContext = INJECTED) -> Strict:
        ctx.tools.began()
        return Strict(id=order.id, weight=1)

    async def after():
        return (await ship_wrong(Order(id="1"))).weight

    check(tmp_path, ships, after, is_blocked("ship#1", "upcast=", "no such field"))


@workflow(name="typed", upcast=to_strict)
async def retyped_upcast(order: Strict) -> Order:
    return await ship(Order(id=f"{order.id} of {order.weight}" if order.weight != 7 else order.id))


def test_an_input_that_no_longer_decodes_is_upcast(tmp_path):
    async def main():
        async with lab(tmp_path / "a", [typed]) as here:
            first = await here.live(typed, Order(id="1"))
        async with lab(tmp_path / "b", [retyped_upcast]) as here:
            resumed = await here.resume(retyped_upcast, first.history, 3)
            assert resumed.outcome == ("returned", Order(id="1"))
            assert not resumed.bodies
            # The same call attaches to it, in the new form; another input is another one.
            handle = await here.engine.enqueue(retyped_upcast, Strict(id="1", weight=7), run_id="cut-3-1")
            assert await handle.result() == Order(id="1")
            with pytest.raises(RunConflict):
                await here.engine.enqueue(retyped_upcast, Strict(id="1", weight=8), run_id="cut-3-1")

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    asyncio.run(main())


# -- on_drift="warn"


def test_an_engine_that_only_warns_goes_on_with_what_is_recorded(tmp_path, caplog):
    async def other_arguments():
        return [await work("changed"), await note("b"), await other("c")]

    async def moved():
        async def branch():
            return await work("a")

        return [await asyncio.create_task(branch()), await note("b")]

    async def main(after):
        path = tmp_path / uuid4().hex
        path.mkdir()
        async with lab(path, [changing]) as here:
            here.engine._worker.host.on_drift = "warn"
            return (await before_and_after(here, a_then_b, after))[1]

    warned = asyncio.run(main(other_arguments))
    assert (warned.outcome, set(warned.bodies)) == (("returned", ["a", "b", "c"]), {"other#1"})
    assert "work#1 was recorded with other arguments" in caplog.text
    caplog.clear()
    again = asyncio.run(main(moved))
    assert (again.outcome, set(again.bodies)) == (("returned", ["a", "b"]), {"branch#1/work#1"})
    assert "branch#1/work#1" in caplog.text
    assert "drift_found" not in again.history.kinds()


def test_what_does_not_decode_blocks_even_where_drift_is_only_warned_of(tmp_path):
    async def after():
        return (await ship_strict(Order(id="1"))).id

    async def main():
        async with lab(tmp_path, [changing]) as here:
            here.engine._worker.host.on_drift = "warn"
            _, resumed = await before_and_after(here, ships, after)
            assert resumed.history.kinds()[-1] == "run_blocked"

    asyncio.run(main())


def test_an_engine_blocks_unless_it_is_told_to_warn(tmp_path):
    assert Engine(tmp_path)._limits.on_drift == "block"
    assert Engine(tmp_path, on_drift="warn")._limits.on_drift == "warn"
    with pytest.raises(DefinitionError, match="on_drift"):
        Engine(tmp_path, on_drift="ignore")
