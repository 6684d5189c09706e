from __future__ import annotations

import asyncio
import functools
import threading

import pytest

from perdure import INJECTED, StepContext, step, workflow
from perdure.errors import DefinitionError, NotSerializable
from perdure.testing import env
from tests.testing import shop
from tests.testing.shop import Desk, SideDesk, add, alarm, charge, front, label, refund


async def paid(amount: int, note: str) -> str:
    return f"paid {amount}{note}"


class Teller:
    """A fake that is an object."""

    async def __call__(self, amount: int, note: str) -> str:
        return f"paid {amount}{note}"


def run(wf, value, *overrides):
    with env(workflows=[wf]) as kit:
        for name, fake in overrides:
            kit.override(name, fake)
        return kit.run(wf, value)


@pytest.mark.parametrize(
    "fake",
    [
        paid,
        Teller(),
        functools.partial(paid),
        lambda amount, note: f"paid {amount}{note}",
        lambda a, b: asyncio.ensure_future(paid(a, b)),
        lambda *given: "paid " + "".join(map(str, given)),
        "paid 5n",
    ],
    ids=["async", "object", "partial", "other names", "returns an awaitable", "any arguments", "value"],
)
def test_a_fake_is_a_function_of_either_colour_or_a_value(fake):
    assert run(shop.both, 5, (charge, fake), (label, b"x")) == ("paid 5n", b"x")


@pytest.mark.parametrize("wf", [shop.both, shop.in_sync], ids=lambda wf: wf.name)
def test_a_fake_of_either_colour_serves_async_and_sync_steps(wf):
    async def sticker(amount):
        await asyncio.sleep(0)
        return bytes(amount)

    def plain_paid(amount, note):
        return "paid"

    found = run(wf, 5, (charge, plain_paid), (label, sticker))
    assert found in {("paid", bytes(5)), "paid 5"}


def test_a_sync_fake_of_a_sync_step_runs_on_a_thread_and_an_async_one_on_the_loop():
    seen = []

    async def on_the_loop(amount):
        asyncio.get_running_loop()
        seen.append(threading.current_thread().name)
        return b""

    def on_a_thread(amount):
        seen.append(threading.current_thread().name)
        return b""

    for fake in (on_the_loop, on_a_thread):
        run(shop.both, 5, (charge, "x"), (label, fake))
    assert seen[0] == "perdure-engine"
    assert seen[1].startswith("perdure-step")


@pytest.mark.parametrize("error", [KeyError("no"), KeyError], ids=["instance", "class"])
def test_a_fake_that_is_an_exception_is_raised_by_every_attempt(error):
    with env(workflows=[shop.fulfil]) as kit:
        kit.override(charge, error)
        with pytest.raises(KeyError) as caught:
            kit.run(shop.fulfil, 5)
        assert caught.value.args == (() if error is KeyError else ("no",))
        assert [one.attempt for one in kit.ran(charge).calls] == [1, 2, 3]


def test_the_step_keeps_its_retries_and_the_fake_is_told_the_attempt():
    def at_the_third(amount, note, ctx):
        if ctx.attempt < 3:
            raise ConnectionError
        return f"attempt {ctx.attempt} of {ctx.step}"

    assert run(shop.fulfil, 5, (charge, at_the_third)) == "attempt 3 of charge"


def test_a_fake_may_ask_for_a_context_of_its_own_where_the_step_does_not():
    async def sticker(amount: int, *, me: StepContext[None] = INJECTED) -> bytes:
        return me.key.encode()

    assert run(shop.both, 5, (charge, "x"), (label, sticker)) == ("x", b"label#1")


def test_a_fake_holds_in_children_in_on_failure_and_in_compensations():
    undone, told = [], []
    with env(workflows=[shop.order, shop.undone]) as kit:
        kit.override(charge, "paid")
        assert kit.run(shop.order, 5, signals=[("approved", True)]) == "paid"
        kit.override(charge, ValueError("no money"))
        kit.override(refund, undone.append)
        kit.override(alarm, told.append)
        with pytest.raises(ValueError, match="no money"):
            kit.run(shop.undone, 7)
        kit.idle()
        assert undone == [7]
        assert [(failure.message, failure.step) for failure in told] == [("no money", "charge#1")]


def test_a_method_is_faked_at_its_class_for_all_and_at_an_instance_for_that_one():
    with env(workflows=[shop.at_desks]) as kit:
        plain = kit.run(shop.at_desks)
        kit.override(Desk.greet, lambda self, whom: f"{self.name} ignores {whom}")
        kit.override(front.greet, lambda whom: f"hush, {whom}")
        kit.override(Desk.open, "closed")
        kit.override(Desk.price, 7)
        assert plain == ["front greets Ann", "back greets Bob", "Desk opens at 9", "SideDesk opens at 10", "30"]
        assert kit.run(shop.at_desks) == ["hush, Ann", "back ignores Bob", "closed", "closed", "7"]
        assert (kit.ran(Desk.greet).count, kit.ran(front.greet).count) == (4, 2)
        assert (kit.ran(Desk.open).count, kit.ran(SideDesk.open).count) == (4, 2)


def test_a_class_method_faked_at_a_subclass_stays_itself_elsewhere():
    with env(workflows=[shop.at_desks]) as kit:
        kit.override(SideDesk.open, lambda hour: f"from {hour}")
        assert kit.run(shop.at_desks)[2:4] == ["Desk opens at 9", "from 10"]


def test_arguments_come_as_in_the_signature_however_the_call_was_written():
    seen = []

    def adding(*given):
        seen.append(given)
        return 0

    assert run(shop.sums, 5, (add, adding), (shop.gather_all, lambda *a, **k: seen.append((a, k)) or 1)) == 1
    assert seen == [(5, 1), ((0, 5), {"extra": 3})]


def test_an_override_ends_with_its_block_and_the_one_before_counts_again():
    with env(workflows=[shop.sums]) as kit:
        kit.override(shop.gather_all, lambda *parts, **_: parts[0])
        outer = kit.override(add, 1)
        with kit.override(add, 2), kit.override(add, 3):
            assert kit.run(shop.sums, 5) == 3
        assert kit.run(shop.sums, 5) == 1
        outer.undo()
        outer.undo()
        assert kit.run(shop.sums, 5) == 6


def test_an_override_is_undone_between_two_attempts():
    with env(workflows=[shop.fulfil]) as kit:
        with kit.override(charge, OSError("fake")):
            handle = kit.start(shop.fulfil, 5)
            kit.idle()
        kit.advance("1h")
        with pytest.raises(ConnectionError, match="the real bank: 5  3"):
            handle.result()
        assert [one.faked for one in kit.ran(charge).calls] == [True, False, False]


def test_two_envs_do_not_share_their_overrides():
    with env(workflows=[shop.sums]) as one, env(workflows=[shop.sums]) as other:
        one.override(add, 100)
        assert (one.run(shop.sums, 1), other.run(shop.sums, 1)) == (104, 6)


def test_what_a_fake_returns_is_recorded_as_the_step_would_record_it():
    with pytest.raises(NotSerializable):
        run(shop.fulfil, 5, (charge, lambda *_: object()))


@pytest.mark.parametrize(
    ("name", "fake", "why"),
    [
        (charge, lambda _amount: "", r"too many positional arguments.*\(amount: 'int', note: 'str' = ''\)"),
        (charge, lambda _a, _b, _c: "", "missing a required argument: '_c'"),
        (front.greet, lambda _self, _whom: "", "missing a required argument: '_whom'"),
        (Desk.greet, lambda _whom: "", "too many positional arguments"),
        (shop.gather_all, lambda _a, **_: 1, "fixed number"),
        (shop.gather_all, lambda *_a: 1, "keyword"),
        (charge, label, "give a plain function"),
        (charge.fn, "x", "what @step made of it"),
        (shop.fulfil, "x", "the steps that it calls"),
        ("charge", "x", "'charge' is no step"),
    ],
    ids=[
        "too few", "too many", "self for an instance", "no self for a class", "no *args", "no **kwargs", "a step",
        "a function", "a workflow", "a name",
    ],
)  # fmt: skip
def test_what_cannot_stand_in_is_refused_at_once(name, fake, why):
    kit = env(workflows=[shop.fulfil]).env
    with pytest.raises(DefinitionError, match=r"(?s).*" + why):
        kit.override(name, fake)


def test_a_value_that_could_not_be_the_steps_result_is_refused_at_once():
    kit = env(workflows=[shop.fulfil]).env
    with pytest.raises(NotSerializable):
        kit.override(charge, object())
    with pytest.raises(DefinitionError, match="is no step"):
        kit.ran(shop.fulfil)


@step
async def outer(n: int) -> int:
    return await add(n, 1)


@workflow
async def nested(n: int) -> int:
    return await outer(n)


def test_a_step_that_a_body_calls_is_a_plain_function_there_and_neither_faked_nor_counted():
    with env(workflows=[nested]) as kit:
        kit.override(add, 100)
        assert kit.run(nested, 1) == 2
        assert not kit.ran(add)
