"""``explore_crashes`` and ``run_to_completion`` over signals, children, and runs that go on as new ones."""

from __future__ import annotations

import pytest

import perdure
from perdure import INJECTED, Signal, StepContext, continue_as_new, saga, sleep, step, workflow
from perdure.errors import InvalidValue, SignalTimeout
from perdure.testing import Ledger, ManualClock, RunNotFinished, UnsafeWorkflow, explore_crashes, run_to_completion
from tests.testing import planted

name = Signal[str]("name")
number = Signal[int]("number")


@step
async def note(what: str, *, ctx: StepContext[Ledger] = INJECTED) -> str:
    ctx.tools.effect(what, ctx.idempotency_key)
    return what


@workflow
async def hears() -> list[str]:
    heard = [await name.wait(timeout="1d"), str(await number.wait())]
    await note("heard")
    try:
        await name.wait(timeout="1d")
    except SignalTimeout:
        heard.append("silence")
    return heard


CUES = [(number, 7), ("name", "Ada")]
"""Not in the order in which they are waited for."""


def test_what_a_run_waits_for_is_sent_before_time_goes_on(tmp_path):
    clock = ManualClock()
    begun = clock.now()
    heard = run_to_completion(hears, store=tmp_path, clock=clock, tools=Ledger(), signals=CUES)
    assert heard == ["Ada", "7", "silence"]
    assert clock.now() - begun == 86_400_000_000


def test_a_workflow_that_hears_signals_survives_every_crash():
    report = explore_crashes(hears, tools=Ledger, signals=CUES)
    assert report.safe
    died = {row.point for row in report.rows}
    assert any("signal_received" in point for point in died)
    assert "silence" in report.result


@workflow
async def says_outside_a_step() -> str:
    heard = await name.wait()
    planted.outbox.effect("mail", "")
    return await note(heard)


def test_an_effect_in_the_workflow_around_a_signal_is_found(monkeypatch):
    ledger = Ledger()
    monkeypatch.setattr(planted, "outbox", ledger)
    with pytest.raises(UnsafeWorkflow, match="'mail' again while it was replayed"):
        explore_crashes(says_outside_a_step, tools=ledger, ledger=ledger, signals=[(name, "x")])


@workflow
async def says(what: str) -> str:
    return await note(what)


@workflow
async def listens() -> str:
    return await note(await name.wait())


async def some(words: list[str]) -> list[str]:
    return await perdure.map(says, words)


@workflow
async def parent(words: list[str]) -> list[str]:
    started = listens.start()
    first = await says("first")
    return [first, *await some(words), await started.result()]


def test_a_family_survives_every_crash_and_children_are_found_by_their_names():
    def once(ledger: Ledger) -> None:
        assert len({effect.idempotency_key for effect in ledger.effects()}) == 4

    report = explore_crashes(parent, ["a", "b"], tools=Ledger, signals=[(name, "last")], check=once)
    assert report.safe
    assert {row.place for row in report.rows} == {"before", "after", "inside"}
    assert sum(row.place == "inside" and not row.order for row in report.rows) == 4
    assert report.result == 'the result ["first","a","b","last"]'


CHILDREN = {"says": says}


@workflow
async def reaches_by_a_table(what: str) -> str:
    return await CHILDREN["says"](what)


def test_a_child_that_is_not_called_by_its_name_is_given(tmp_path):
    assert run_to_completion(reaches_by_a_table, "x", store=tmp_path, tools=Ledger(), workflows=[says]) == "x"
    assert explore_crashes(reaches_by_a_table, "x", tools=Ledger, workflows=[says], limit=4).safe
    with pytest.raises(RunNotFinished, match=r"for child r/says#1"):
        run_to_completion(reaches_by_a_table, "x", store=tmp_path, tools=Ledger(), run_id="r")


@workflow
async def goes_on(n: int) -> int:
    await note(f"life {n}")
    await number.wait()
    return n if n == 2 else continue_as_new(n + 1)


def test_a_run_that_goes_on_as_a_new_one_survives_every_crash(tmp_path):
    cues = [(number, n) for n in range(3)]
    assert run_to_completion(goes_on, 0, store=tmp_path, tools=Ledger(), signals=cues) == 2
    report = explore_crashes(goes_on, 0, tools=Ledger, signals=cues)
    assert report.safe
    assert sum(row.place == "inside" for row in report.rows) == 3


def test_a_run_that_waits_for_what_nobody_sends_is_not_waited_for(tmp_path):
    with pytest.raises(RunNotFinished, match="is waiting, for signal 'number'") as caught:
        run_to_completion(hears, store=tmp_path, tools=Ledger(), run_id="r", signals=CUES[1:])
    assert caught.value.fields["status"] == "waiting"
    assert caught.value.fields["awaits"] == ["number"]
    # The same call with what it waits for goes on with it.
    heard = run_to_completion(hears, store=tmp_path, tools=Ledger(), run_id="r", signals=CUES[:1])
    assert heard == ["Ada", "7", "silence"]


@pytest.mark.parametrize("test", [explore_crashes, lambda *a, **o: run_to_completion(*a, store="never", **o)])
def test_a_message_of_another_type_is_refused_before_anything_runs(test):
    with pytest.raises(InvalidValue):
        test(hears, signals=[(number, "seven")])


@step
async def pay(amount: int, *, ctx: StepContext[Ledger] = INJECTED) -> int:
    ctx.tools.effect("pay", ctx.idempotency_key)
    return amount


@step
async def refuse() -> None:
    raise LookupError


@step
async def pay_back(amount: int, *, ctx: StepContext[Ledger] = INJECTED) -> None:
    ctx.tools.effect("pay back", ctx.idempotency_key)


@workflow
async def says_everything() -> list[str]:
    first = await name.wait()
    paid = 0
    try:
        async with saga() as undo:
            undo.push(pay_back, 1)
            paid = await pay(1)
            await sleep("1d")
            first += await says(first)
            await refuse()
    except LookupError:
        second = await name.wait()
    started = says.start(second)
    return [first, second, await started.result(), str(await pay(paid + 1))]


@pytest.mark.parametrize("kill", [False, True])
def test_a_fork_from_any_step_survives_crashes_and_ends_as_its_origin(tmp_path, kill):
    ledger = Ledger(tmp_path / "ledger")
    cues = [(name, "a"), (name, "b")]
    report = explore_crashes(
        says_everything, tools=ledger, ledger=ledger, signals=cues, interleavings=0, forks=True, kill=kill,
        limit=1 if kill else None,
    )  # fmt: skip
    assert report.safe
    assert report.forks == ["pay#1", "says#1", "refuse#1", "pay_back#1", "says#2", "pay#2"]
    of_forks = [row for row in report.rows if row.forked]
    assert {row.forked for row in of_forks} == set(report.forks)
    assert {row.place for row in of_forks} == {"before", "after", "inside"}
    assert any(row.point == "the run is forked" for row in of_forks)
    assert "(of a fork from pay#1)" in str(report)


@workflow
async def minds_its_name() -> str:
    await note("x")
    return perdure.run_context().run_id


def test_a_fork_that_ends_otherwise_is_found():
    with pytest.raises(UnsafeWorkflow, match=r"forked from note#1: it ends with .*again.*, but undisturbed with"):
        explore_crashes(minds_its_name, tools=Ledger, forks=True)
    assert explore_crashes(minds_its_name, tools=Ledger).safe
