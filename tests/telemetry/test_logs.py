"""Log lines: named, with what they are about, and without a value."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

from perdure import INJECTED, Hooks, Retry, RunContext, Signal, StepContext, sleep, step, workflow
from perdure.errors import DriftError
from perdure.telemetry import lines
from perdure.telemetry.logs import FIELDS, Line
from tests.engine.desk import Desk, engine_at, in_loop, until
from tests.house import tree
from tests.telemetry.listening import Ear

SECRET = "s3cret-of-the-customer"  # noqa: S105 - it is to be found nowhere
pin = Signal[int]("pin")


@step(retry=Retry(max_attempts=2, initial_delay=0))
async def charge(card: str, *, ctx: StepContext[Desk] = INJECTED) -> str:
    ctx.progress({"card": card})
    ctx.emit(card, "cards")
    if ctx.attempt == 1:
        raise ConnectionError(f"no {card}")
    ctx.logger.info("charged")
    return f"charged {card}"


@step
def refuse(card: str) -> None:
    raise PermissionError(f"no card {card}")


async def fails_unheard(card):
    raise LookupError(card)


def fails_at_once(card):
    raise LookupError(card)


@workflow
async def spends(card: str, *, ctx: RunContext = INJECTED) -> str:
    ctx.logger.info("before")
    charged = await charge(card)
    await sleep("1h")
    ctx.logger.info("after")
    asyncio.get_running_loop().call_soon(fails_at_once, card)
    task = asyncio.create_task(fails_unheard(card))
    await asyncio.wait([task])
    del task
    return charged


@workflow
async def is_refused(card: str) -> None:
    await refuse.aio(card)


@workflow
async def listens(card: str) -> int:
    await charge(card)
    return await pin.wait()


@workflow(name="listens")
async def listens_otherwise(card: str) -> int:
    await charge(card * 2)
    return await pin.wait()


class Fails(Hooks):
    def run_completed(self, notice):
        raise ValueError(notice.value)


@in_loop
async def test_what_happens_is_told_under_its_name_with_what_it_is_about_and_no_value(path, desk, clock, ear):
    async with engine_at(
        path, spends, is_refused, listens, desk=desk, clock=clock, hooks=[Fails()], name="w"
    ) as engine:
        await engine.enqueue(spends, SECRET, run_id="spends")
        await engine.idle()
    clock.advance("1h")
    async with engine_at(
        path, spends, is_refused, listens, desk=desk, clock=clock, hooks=[Fails()], name="w"
    ) as engine:
        assert SECRET in await engine.get("spends").result()
        with pytest.raises(PermissionError):
            await engine.run(is_refused, SECRET, run_id="refused")
        waiting = await engine.enqueue(listens, SECRET, run_id="listens")
        await waiting.signal("pin", SECRET)
        await engine.idle()
        await until(lambda: ear.events("hooks.failed"))
    async with engine_at(path, listens_otherwise, desk=desk, clock=clock, name="w") as engine:
        await engine.get("listens").signal(pin, 7)
        with pytest.raises(DriftError):
            await engine.get("listens").result()

    about = {"run_id": "spends", "workflow": "spends", "namespace": "", "queue": "", "worker": "w"}
    told = [one for one in ear.events() if one.get("run_id") == "spends"]
    assert [one["perdure_event"] for one in told if one["levelno"] >= logging.INFO] == [
        "step.retried", "run.loop_error", "run.task_unheard", "run.completed",
    ]  # fmt: skip
    assert [one["perdure_event"] for one in told if one["levelno"] == logging.DEBUG and not one["exc_info"]] == [
        "run.claimed", "step.completed", "run.suspended", "run.claimed",
    ]  # fmt: skip
    assert all(about.items() <= one.items() for one in told)
    retried, _ = ear.events("step.retried")
    assert (retried["step"], retried["attempt"], retried["error_type"]) == ("charge", 1, "ConnectionError")
    assert [(one["step"], one["error_type"]) for one in ear.events("step.failed")] == [("refuse", "PermissionError")]
    assert [one["run_id"] for one in ear.events("run.failed")] == ["refused"]
    assert [one["code"] for one in ear.events("run.blocked")] == ["drift"]
    assert {"worker.started", "worker.stopped", "run.signal_refused", "run.drift_found"} <= {
        one["perdure_event"] for one in ear.events()
    }

    own = [record for record in ear.records if record.name in {"perdure.workflow", "perdure.step"}]
    said = [one for one in own if "perdure_event" not in vars(one) and vars(one)["run_id"] == "spends"]
    assert [record.getMessage() for record in said] == ["before", "charged", "after"], "not again on replay"
    assert [about.items() <= vars(record).items() for record in said] == [True] * 3
    assert set(FIELDS) <= vars(said[1]).keys()

    kept = Ear()
    for record in ear.records:
        if record.levelno >= logging.INFO or not record.exc_info:
            kept.handle(record)
    assert SECRET not in kept.text
    assert SECRET in ear.text, "at DEBUG it is told what the exceptions of users say"


CALLS = re.compile(r"\b(?:log|logger|_log|_logger|_RUNS|_STEPS)\.(?:debug|info|warning|error|critical|exception|log)\(")


def test_every_line_that_is_logged_is_in_the_vocabulary_and_is_logged_somewhere():
    texts = {tree.where(path): path.read_text("utf-8") for path in tree.modules()}
    by_hand = {where for where, text in texts.items() if CALLS.search(text)}
    assert {where.rpartition("perdure/")[2] for where in by_hand} == {"telemetry/logs.py"}
    said = {name for text in texts.values() for name in re.findall(r"\blines\.([A-Z_]+)", text)}
    defined = {name for name, value in vars(lines).items() if isinstance(value, Line)}
    assert said == defined
    assert len(lines.LINES) == len(defined)
