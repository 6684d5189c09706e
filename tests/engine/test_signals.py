"""Signals: kept once acknowledged, consumed once and in order, checked, and never late for the time they came in."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

import perdure
from perdure import Engine, Signal, workflow
from perdure.errors import (
    ColourError,
    DefinitionError,
    InvalidValue,
    NotInRun,
    RunNotFound,
    SignalTimeout,
    WrongState,
)
from perdure.model.payloads import fields
from perdure.model.records import InboxKind, Kind, Message, Status
from tests.engine.desk import PATIENCE, engine_at, in_loop, log_of, until, work


@dataclass
class Verdict:
    by: str
    yes: bool


approved = Signal[Verdict]("approved")
word = Signal[str]("word")
number = Signal[int]("number")


@workflow
async def waits() -> str:
    verdict = await approved.wait()
    return f"{verdict.by}: {verdict.yes}"


@workflow
async def three_words() -> list[str]:
    return [await word.wait() for _ in range(3)]


@workflow
async def patient() -> str:
    return await word.wait(timeout="1h", default="nobody")


@workflow
async def impatient() -> str:
    return await word.wait(timeout="1h")


@workflow
async def under_a_timeout() -> str:
    try:
        async with asyncio.timeout(3600):
            return await word.wait()
    except TimeoutError:
        return "too late"


@workflow
async def whichever() -> list[object]:
    """Waits for any of two, then for the other."""
    seen: list[object] = []
    waits = {asyncio.ensure_future(word.wait()), asyncio.ensure_future(number.wait())}
    while waits:
        done, waits = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        seen += [task.result() for task in done]
    return seen


@workflow
async def two_waiters() -> list[str]:
    return list(await perdure.parallel(word.wait(), word.wait()))


@workflow
async def gives_up() -> str:
    wait = asyncio.ensure_future(word.wait())
    await asyncio.sleep(0)
    wait.cancel()
    await asyncio.wait([wait])
    await work("between")
    return await word.wait()


@workflow
def blocking_waits() -> list[object]:
    return [perdure.sync.receive(word), perdure.sync.receive(number, timeout="1h", default=None)]


@workflow
async def reminded() -> str:
    """An approval with a reminder a day."""
    for day in range(3):
        try:
            verdict = await approved.wait(timeout="1d")
        except SignalTimeout:
            await work(f"remind {day}")
        else:
            return f"{verdict.by} on day {day}"
    return "expired"


ALL = (
    waits, three_words, patient, impatient, under_a_timeout, whichever, two_waiters, gives_up, blocking_waits, reminded,
)  # fmt: skip


async def waiting(engine, run_id):
    """Wait until a run is written as waiting."""

    async def rests():
        return (await engine.get(run_id).row()).status is Status.WAITING

    async with asyncio.timeout(PATIENCE):
        while not await rests():
            await engine.idle()


async def consumed(handle, count):
    """Wait until a run has consumed so many messages."""
    while sum((await handle.view()).signals.values()) < count:
        await asyncio.sleep(0)


def kinds(events):
    return [Kind(event.kind) for event in events]


@in_loop
async def test_a_run_that_waits_goes_on_with_the_message_and_nothing_of_it_is_executing_meanwhile(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(waits, run_id="r")
        await waiting(engine, "r")
        view = await handle.view()
        assert (view.status, view.awaits, view.wake_at) == (Status.WAITING, ["approved"], None)
        assert engine._worker.running == {}
        assert await handle.signal(approved, Verdict("ada", True)) is True
        assert await handle.result(timeout=PATIENCE) == "ada: True"
        assert (await handle.view()).signals == {"approved": 1}


@in_loop
async def test_messages_sent_before_anyone_waits_are_kept_and_come_in_their_order(path, desk):
    async with Engine(path).client() as client:
        handle = await client.enqueue(three_words, run_id="r")
        for one in ("a", "b", "c"):
            await handle.signal(word, one)
    async with engine_at(path, *ALL, desk=desk) as engine:
        assert await engine.get("r", three_words).result(timeout=PATIENCE) == ["a", "b", "c"]


@in_loop
async def test_a_message_from_another_process_wakes_a_run_that_waits(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(waits, run_id="r")
        await waiting(engine, "r")
        async with Engine(path).client() as client:
            await client.get("r").signal("approved", {"by": "bob", "yes": False})
        # Sent by name it is checked when it is received.
        assert await handle.result(timeout=PATIENCE) == "bob: False"


@in_loop
async def test_a_message_is_consumed_in_the_commit_of_the_event_that_says_so(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(three_words, run_id="r")
        await waiting(engine, "r")
        await handle.signal(word, "a")
        await handle.signal(word, "b")
        await consumed(handle, 2)
        received = [event for event in await log_of(engine, handle.run_id) if event.kind == Kind.SIGNAL_RECEIVED]
        assert [event.payload for event in received] == [b'"a"', b'"b"']
        assert {fields(event.args)["name"] for event in received} == {"word"}


@in_loop
async def test_a_second_message_with_the_same_idempotency_key_is_not_sent_again(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(three_words, run_id="r")
        assert await handle.signal(word, "a", idempotency_key="1") is True
        assert await handle.signal(word, "A", idempotency_key="1") is False
        await consumed(handle, 1)
        assert await handle.signal(word, "again", idempotency_key="1") is False  # also when it has been consumed
        await handle.signal(word, "b", idempotency_key="2")
        await handle.signal(word, "c")
        assert await handle.result(timeout=PATIENCE) == ["a", "b", "c"]


@in_loop
async def test_a_wait_times_out_at_the_instant_that_was_set(path, desk, clock):
    async with engine_at(path, *ALL, desk=desk, clock=clock) as engine:
        handles = [await engine.enqueue(one, run_id=one.name) for one in (patient, impatient, under_a_timeout)]
        for one in handles:
            await waiting(engine, one.run_id)
        clock.advance("59m")
        await engine.idle()
        assert {(await one.row()).status for one in handles} == {Status.WAITING}
        clock.advance("2m")
        assert await handles[0].result(timeout=PATIENCE) == "nobody"
        with pytest.raises(SignalTimeout, match="no signal 'word' came within 3600") as caught:
            await handles[1].result(timeout=PATIENCE)
        assert isinstance(caught.value, TimeoutError)
        assert await handles[2].result(timeout=PATIENCE) == "too late"


@workflow
async def waits_beside_a_step() -> list[str]:
    return await asyncio.gather(work("slow"), word.wait(timeout="1h", default="nobody"))


@in_loop
async def test_a_wait_times_out_while_a_step_is_in_flight(path, desk, clock):
    gate = desk.hold("slow")
    async with engine_at(path, waits_beside_a_step, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(waits_beside_a_step, run_id="r")
        await gate.arrival()
        clock.advance("1h")
        async for event in handle.events(follow=True):
            if event.kind == Kind.TIMER_FIRED:
                gate.open()
        assert await handle.result(timeout=PATIENCE) == ["slow", "nobody"]


@pytest.mark.parametrize("run", [patient, impatient, under_a_timeout], ids=lambda run: run.name)
@in_loop
async def test_a_message_that_is_there_when_the_timeout_is_written_wins_over_it(path, desk, clock, run):
    """It comes after the run was woken by its timeout, and before that is committed."""
    async with engine_at(path, *ALL, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(run, run_id="r")
        await waiting(engine, "r")
        store, commit = engine._store, engine._store.commit
        key = handle.run_key
        sent = []

        def late(items, **options):
            if not sent and any(e.kind == Kind.TIMER_FIRED for item in items for e in item.events):
                sent.append(store.deliver([Message(InboxKind.SIGNAL, key, name="word", payload=b'"just in time"')]))
            return commit(items, **options)

        store.commit, store.start_commit = late, lambda _items: None
        clock.advance("2h")
        assert await handle.result(timeout=PATIENCE) == "just in time"
        assert sent
        assert Kind.TIMER_FIRED not in kinds(await log_of(engine, handle.run_id))


@in_loop
async def test_any_of_several_signals_can_be_waited_for(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(whichever, run_id="r")
        await waiting(engine, "r")
        assert (await handle.view()).awaits == ["number", "word"]
        await handle.signal(number, 7)
        await consumed(handle, 1)
        await waiting(engine, "r")
        await handle.signal(word, "seven")
        assert await handle.result(timeout=PATIENCE) == [7, "seven"]


@in_loop
async def test_who_waited_first_gets_the_first_message(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(two_waiters, run_id="r")
        await handle.signal(word, "first")
        await handle.signal(word, "second")
        assert await handle.result(timeout=PATIENCE) == ["first", "second"]


@in_loop
async def test_a_wait_that_was_given_up_consumes_nothing(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(gives_up, run_id="r")
        await handle.signal(word, "kept")
        assert await handle.result(timeout=PATIENCE) == "kept"


@in_loop
async def test_sync_workflows_wait_too(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(blocking_waits, run_id="r")
        await waiting(engine, "r")
        await handle.signal(word, "w")
        await consumed(handle, 1)
        await waiting(engine, "r")
        await handle.signal(number, 3)
        assert await handle.result(timeout=PATIENCE) == ["w", 3]


@in_loop
async def test_an_approval_with_reminders_goes_on_for_days(path, desk, clock):
    async with engine_at(path, *ALL, desk=desk, clock=clock) as engine:
        handle = await engine.enqueue(reminded, run_id="r")
        await waiting(engine, "r")
        clock.advance("25h")
        await until(lambda: desk.begun)
        await waiting(engine, "r")
        await handle.signal(approved, Verdict("eve", True))
        assert await handle.result(timeout=PATIENCE) == "eve on day 1"
        assert desk.keys() == ["work#1"]


@in_loop
async def test_the_message_is_checked_before_it_is_sent(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(waits, run_id="r")
        with pytest.raises(InvalidValue, match="signal 'approved' is not of type"):
            await handle.signal(approved, "yes")
        with pytest.raises(DefinitionError, match="is no signal"):
            await handle.signal(7, "yes")
        with pytest.raises(DefinitionError, match="reserve"):
            await handle.signal("app/roved", "yes")
        assert (await handle.row()).inbox == 0
        await handle.signal(approved, Verdict("ada", True))
        assert await handle.result(timeout=PATIENCE) == "ada: True"


@in_loop
async def test_a_message_that_does_not_fit_is_set_aside_in_the_log_and_the_run_waits_on(path, desk, caplog):
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = await engine.enqueue(waits, run_id="r")
        await handle.signal("approved", {"by": 1})
        await handle.signal("approved", {"by": "ada", "yes": True})
        assert await handle.result(timeout=PATIENCE) == "ada: True"
        refused = [event for event in await log_of(engine, handle.run_id) if event.kind == Kind.SIGNAL_REFUSED]
        assert len(refused) == 1
        assert fields(refused[0].args)["name"] == "approved"
    assert "is refused" in caplog.text


@in_loop
async def test_unknown_and_ended_runs_hear_nothing(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        with pytest.raises(RunNotFound, match="no run 'nobody'"):
            await engine.get("nobody").signal(word, "x")
        handle = await engine.enqueue(patient, run_id="r")
        await handle.signal(word, "x")
        await handle.result(timeout=PATIENCE)
        with pytest.raises(WrongState, match="is completed, and hears no signal any more"):
            await handle.signal(word, "y")


@in_loop
async def test_what_a_failed_run_was_sent_is_there_when_it_is_resumed(path, desk):
    desk.fails["between"] = [RuntimeError("not yet"), None]
    async with Engine(path).client() as client:
        await (await client.enqueue(gives_up, run_id="r")).signal(word, "kept")
    async with engine_at(path, *ALL, desk=desk) as engine:
        handle = engine.get("r", gives_up)
        with pytest.raises(RuntimeError):
            await handle.result(timeout=PATIENCE)
        await handle.resume()
        assert await handle.result(timeout=PATIENCE) == "kept"


@in_loop
async def test_a_broadcast_goes_to_every_run_that_has_the_tag_and_has_not_ended(path, desk):
    async with engine_at(path, *ALL, desk=desk) as engine:
        mine = [await engine.enqueue(patient, run_id=f"m{n}", tags={"customer": "42"}) for n in range(3)]
        other = await engine.enqueue(patient, run_id="o", tags={"customer": "43"})
        tally = await engine.runs(tags={"customer": "42"}).signal(word, "all", idempotency_key="once")
        assert (tally.done, tally.unchanged, tally.failures) == (3, 0, {})
        assert [await one.result(timeout=PATIENCE) for one in mine] == ["all"] * 3
        again = await engine.runs(tags={"customer": "42"}).signal(word, "all", idempotency_key="once")
        assert again.done == 0
        assert (await other.row()).inbox == 0
        await other.cancel()


def test_a_signal_is_waited_for_in_a_workflow_and_in_its_colour():
    with pytest.raises(NotInRun, match="no workflow"):
        word.wait()
    with pytest.raises(NotInRun, match="no workflow"):
        perdure.sync.receive(word)
    with pytest.raises(DefinitionError, match="reserve"):
        Signal("a/b")
    with pytest.raises(DefinitionError):
        word.wait(timeout="soon")


@workflow
async def wrong_colour() -> None:
    perdure.sync.receive(word)


@workflow
def wrong_colour_too() -> None:
    word.wait()


@pytest.mark.parametrize("run", [wrong_colour, wrong_colour_too], ids=lambda run: run.name)
@in_loop
async def test_the_wrong_colour_is_refused_with_the_right_spelling(path, run):
    async with engine_at(path, run) as engine:
        with pytest.raises(ColourError, match="word"):
            await engine.run(run)
