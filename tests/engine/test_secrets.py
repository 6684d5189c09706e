"""What a run is given, and what its steps give back, is nobody's business but the store's: no log line shows it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pydantic import BaseModel

from perdure import INJECTED, Engine, Retry, Signal, StepContext, step, workflow
from perdure.errors import DriftError
from perdure.model.records import Kind, Status
from tests.engine.desk import in_loop

SECRET = "s3cret-of-the-customer"  # noqa: S105 - it is to be found nowhere
pin = Signal[int]("pin")


class Card(BaseModel):
    number: str


@step(retry=Retry(max_attempts=2, initial_delay=0))
async def charge(card: Card, *, ctx: StepContext = INJECTED) -> str:
    if ctx.attempt == 1:
        raise ConnectionError("the bank is away")
    return f"charged {card.number}"


@step
async def refuse(card: Card) -> None:
    raise PermissionError(f"no card {card.number}")


@workflow
async def pays(card: Card) -> str:
    return await charge(card)


@workflow(name="pays_and_waits")
async def pays_and_waits(card: Card) -> None:
    await charge(card)
    await pin.wait()


@workflow(name="pays_and_waits")
async def pays_otherwise(card: Card) -> None:
    await charge(Card(number=card.number * 2))
    await pin.wait()


@workflow
async def is_refused(card: Card) -> None:
    await refuse(card)


@workflow
async def listens(card: Card) -> int:
    return await pin.wait()


@pytest.fixture
def said(caplog, capfd):
    caplog.set_level(logging.INFO)

    def text() -> str:
        return caplog.text + "".join(capfd.readouterr())

    return text


@in_loop
async def test_runs_that_complete_fail_and_retry_say_nothing_of_their_values(path, said):
    async with Engine(path, workflows=[pays, is_refused]) as engine:
        assert SECRET in await engine.run(pays, Card(number=SECRET))
        with pytest.raises(PermissionError):
            await engine.run(is_refused, Card(number=SECRET))
    assert SECRET not in said()


@in_loop
async def test_a_message_that_does_not_fit_is_refused_without_being_shown(path, said):
    async with Engine(path, workflows=[listens]) as engine:
        handle = await engine.enqueue(listens, Card(number="1"))
        await handle.signal("pin", SECRET)  # by its name only, so nothing could check it
        await handle.signal(pin, 7)
        assert await handle.result() == 7
        (refusal,) = [event async for event in handle.events() if event.kind == Kind.SIGNAL_REFUSED]
    assert b"reason" in refusal.args
    assert SECRET.encode() not in refusal.args
    shown = said()
    assert "'pin' is refused" in shown
    assert SECRET not in shown


@in_loop
async def test_a_departure_from_the_log_is_warned_of_and_told_without_its_values_being_shown(path, said):
    async with Engine(path, workflows=[pays_and_waits]) as engine:
        handle = await engine.enqueue(pays_and_waits, Card(number=SECRET), run_id="r")
        await engine.idle()
        assert (await handle.row()).status is Status.WAITING
    async with Engine(path, workflows=[pays_otherwise]) as engine:
        await engine.get("r").signal(pin, 7)
        with pytest.raises(DriftError, match="charge#1 was recorded with other arguments") as caught:
            await engine.get("r").result()
        assert SECRET in str(caught.value), "whoever asks is shown it"
        assert SECRET not in caught.value.headline
    async with Engine(path, workflows=[pays_otherwise], on_drift="warn") as engine:
        await engine.get("r").resume()
        await engine.get("r").result()
    shown = said()
    assert "charge#1 was recorded with other arguments; it goes on all the same" in shown
    assert SECRET not in shown


def test_the_line_of_a_process_shows_no_value():
    assert SECRET not in Path("/proc/self/cmdline").read_text("utf-8")
