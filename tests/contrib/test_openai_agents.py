"""Agents of the OpenAI Agents SDK in workflows: what was answered is never asked again, whatever dies."""

from __future__ import annotations

import asyncio
import gc
import os
from dataclasses import dataclass

import pytest
from agents import (
    Agent,
    ComputerTool,
    RunConfig,
    RunContextWrapper,
    Runner,
    SQLiteSession,
    TracingProcessor,
    function_tool,
    handoff,
    set_trace_processors,
)
from agents.mcp import MCPServerStdio
from agents.run_config import SandboxRunConfig
from agents.testing import assistant_message

import perdure
from perdure import Engine, Retry, Signal, workflow
from perdure.contrib.openai_agents import Durable
from perdure.errors import DriftError, NotDurable
from perdure.testing import explore_crashes
from tests.contrib.clerks import Told, called, doorman, durable, errand, outputs, translator
from tests.contrib.leaving import leave
from tests.engine.desk import in_loop


class Traces(TracingProcessor):
    """Instead of the SDK's, which sends them to the provider."""

    def __init__(self):
        self.begun = 0

    def on_trace_start(self, _trace):
        self.begun += 1

    def on_trace_end(self, trace): ...
    def on_span_start(self, span): ...
    def on_span_end(self, span): ...
    def shutdown(self): ...
    def force_flush(self): ...


traces = Traces()
set_trace_processors([traces])
STORM = "PERDURE_STORM" in os.environ
OUTPUT = "clerk: sun in Rome, sun in Oslo, Bergen, booked, gebucht"
STEPS = [
    "doorman.request#1", "judge#1/judge.request#1", "clerk.request#1", "clerk.weather#1", "clerk.weather#2",
    "clerk.where#1", "clerk.request#2", "clerk.book#1", "clerk.request#3", "clerk.book#2", "clerk.request#4",
    "translator#1/translator.request#1", "translator#1/translator.look_up#1", "translator#1/translator.request#2",
    "clerk.request#5",
]  # fmt: skip
LINES = [
    "doorman asked", "judge asked", "clerk asked 0", "weather Rome", "weather Oslo", "where", "clerk asked 3", "book",
    "book", "clerk asked 4", "book", "book", "clerk asked 5", "translator asked 0", "look up booked",
    "translator asked 1", "clerk asked 6",
]  # fmt: skip


# What it had begun is dropped where a process dies, in a context that is not its own.
died_half_way = pytest.mark.filterwarnings(
    "ignore:.*dropped half-way:ResourceWarning",
    "ignore:.*was never awaited:RuntimeWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


async def recorded(engine: Engine, run_id: str) -> list[str]:
    return [event.key async for event in engine.get(run_id).events() if event.took is not None]


def answering(*texts):
    """A model that gives these answers; a text that is a dict is a call of a tool."""
    left = iter(texts)

    def answer(_items):
        text = next(left)
        return [called(*text) if isinstance(text, tuple) else assistant_message(text)]

    return Told(answer)


@in_loop
async def test_each_request_and_each_call_of_a_tool_is_a_step(store, processes):
    async with Engine(store, workflows=[errand]) as engine:
        assert await engine.run(errand, "where to?", run_id="a") == OUTPUT
        assert sorted(set(await recorded(engine, "a"))) == sorted(STEPS)
    assert sorted(processes.effects()) == sorted(LINES)


@died_half_way
@pytest.mark.timeout(900)
@pytest.mark.only("sqlite")
def test_it_survives_a_crash_at_every_point(processes):
    del processes  # which say where effects go
    report = explore_crashes(errand, "where to?", limit=None if STORM else 8, interleavings=12 if STORM else 3)
    gc.collect()  # so that what it has to say of processes that died is said here
    assert len(report.rows) >= 8


@pytest.mark.crash
@pytest.mark.only("sqlite")
@pytest.mark.parametrize("at", ["weather Oslo", "translator asked 1"] if STORM else ["translator asked 1"])
def test_a_killed_agent_pays_for_nothing_twice_but_for_what_was_under_way(processes, at):
    effects = processes.die_and_go_on("tests.contrib.clerks", at, output=OUTPUT, lines=LINES)
    assert effects.count("doorman asked") == effects.count("judge asked") == 1


@pytest.mark.only("sqlite")
@in_loop
async def test_outside_of_a_run_the_agent_is_what_it_is_without_it(processes):
    result = await Runner.run(doorman, "where to?")
    assert result.last_agent is doorman.handoffs[0]
    assert (await durable.run(translator, "booked")).final_output == "gebucht"
    assert len(processes.effects()) > len(LINES) / 2


@pytest.mark.only("sqlite")
@in_loop
async def test_the_model_is_asked_the_same_as_without_it_and_nothing_is_traced(store):
    asked = []

    def answer(items):
        asked.append(items)
        return [assistant_message("fine")] if outputs(items) else [called("look", "c", at="x")]

    @function_tool
    def look(at: str) -> dict[str, str]:
        return {"at": at}

    agent = Agent(name="a", model=Told(answer), tools=[look])
    durable = Durable()

    @workflow
    async def main() -> str:
        return (await durable.run(agent, "look")).final_output

    before = traces.begun
    async with Engine(store, workflows=[main]) as engine:
        assert await engine.run(main, run_id="a") == "fine"
    assert traces.begun == before
    assert (await durable.run(agent, "look")).final_output == "fine"
    assert traces.begun == before + 1
    assert asked[:2] == asked[2:]


@in_loop
async def test_the_models_text_is_streamed_to_readers_of_the_run(store):
    poet = Agent(name="poet", model=answering("sunny in Oslo"))
    durable = Durable(tokens="words")

    @workflow
    async def write(asked: str) -> list[str]:
        streamed = durable.run_streamed(poet, asked)
        kinds = [event.type async for event in streamed.stream_events()]
        assert streamed.final_output == "sunny in Oslo"
        return kinds

    async with Engine(store, workflows=[write]) as engine:
        assert "run_item_stream_event" in await engine.run(write, "poem", run_id="a")
        told = [emitted.value async for emitted in engine.get("a").stream("words", follow=False)]
    assert told == ["sunny", "in", "Oslo"]


paid = Signal[bool]("paid")


@function_tool(needs_approval=True)
async def pay(amount: int) -> str:
    leave(f"paid {amount}")
    return f"paid {amount}"


def teller_answers(items):
    return [assistant_message(outputs(items)[0])] if outputs(items) else [called("pay", "p", amount=5)]


teller = Agent(name="teller", model=Told(teller_answers), tools=[pay])
simple = Durable()


@workflow
async def approve() -> str:
    result = await simple.run(teller, "pay")
    while result.interruptions:
        state = result.to_state()
        for asked in result.interruptions:
            if await paid.wait(timeout="1d"):
                state.approve(asked)
            else:
                state.reject(asked)
        result = await simple.run(teller, state)
    return result.final_output


@in_loop
async def test_a_tool_waits_for_approval_by_a_signal(store, processes):
    async with Engine(store, workflows=[approve]) as engine:
        handle = await engine.enqueue(approve, run_id="a")
        while (await handle.row()).status.word != "waiting":
            await asyncio.sleep(0.005)
    assert processes.effects() == []
    async with Engine(store, workflows=[approve]) as engine:  # which begins anew, from the log
        await engine.get("a").signal(paid, True)
        assert await engine.get("a", approve).result(timeout=10) == "paid 5"
        assert await recorded(engine, "a") == ["teller.request#1", "teller.pay#1", "teller.request#2"]
    assert processes.effects() == ["paid 5"]


@died_half_way
@pytest.mark.only("sqlite")
def test_what_waits_for_approval_survives_a_crash(processes):
    del processes  # which say where effects go
    report = explore_crashes(approve, signals=[(paid, True)], limit=None if STORM else 3, interleavings=1)
    assert report.reads == []


@dataclass
class Notes:
    said: list[str]


@pytest.mark.only("sqlite")
@in_loop
async def test_a_tool_that_is_workflow_code_waits_for_signals_and_changes_the_context(store):
    @function_tool
    async def ask(context: RunContextWrapper[Notes]) -> str:
        context.context.said.append("asked")
        return "yes" if await paid.wait() else "no"

    agent = Agent(name="a", model=answering(("ask", "c"), "done"), tools=[ask])
    durable = Durable(in_workflow=["ask"])

    @workflow
    async def main() -> list[str]:
        notes = Notes([])
        await durable.run(agent, "x", context=notes)
        return notes.said

    async with Engine(store, workflows=[main]) as engine:
        handle = await engine.enqueue(main, run_id="a")
        await handle.signal(paid, True)
        assert await handle.result(timeout=10) == ["asked"]
        assert await recorded(engine, "a") == ["a.request#1", "a.request#2"]


@pytest.mark.only("sqlite")
@in_loop
async def test_what_could_not_be_recorded_is_refused_even_where_an_agent_would_swallow_it(store):
    durable = Durable()
    plain = Agent(name="plain", model=answering("x"))
    inner = Agent(name="inner", model=answering("x"), tools=[ComputerTool(computer=None)])
    hidden = Agent(
        name="hidden", model=Told(lambda _: [called("ask", "c", input="x")]), tools=[inner.as_tool("ask", "Asks.")]
    )  # fmt: skip
    outside = (await Runner.run(teller, "pay")).to_state()
    refused = {
        "state": lambda: durable.run(teller, outside),
        "mcp": lambda: durable.run(plain.clone(mcp_servers=[MCPServerStdio({"command": "true"})]), "x"),
        "sandbox": lambda: durable.run(plain, "x", run_config=RunConfig(sandbox=SandboxRunConfig())),
        "session": lambda: durable.run(plain, "x", session=SQLiteSession("s")),
        "undurable": lambda: Runner.run(plain, "x"),
        "streamed": lambda: Runner.run_streamed(plain, "x"),
        "blocking": lambda: Runner.run_sync(plain, "x"),
        "computer": lambda: durable.run(inner, "x"),
        "hidden": lambda: durable.run(hidden, "x"),
    }

    @workflow
    async def main(what: str) -> None:
        await refused[what]()

    async with Engine(store, workflows=[main]) as engine:
        for what in refused:
            with pytest.raises(NotDurable):
                await engine.run(main, what, run_id=what)


@pytest.mark.only("sqlite")
@in_loop
async def test_a_request_that_fails_is_tried_again_by_its_step_and_a_runs_model_is_all_agents(store):
    failures = iter([ConnectionError("away"), None, None])

    def answer(items):
        if (failure := next(failures)) is not None:
            raise failure
        return [assistant_message("one")] if outputs(items) else [called("transfer_to_second", "t")]

    second = Agent(name="second", model="nowhere/at-all")
    first = Agent(name="the first", handoffs=[handoff(second)])
    durable = Durable(retry=Retry(max_attempts=2, initial_delay="1ms"))

    @workflow
    async def main() -> str:
        return (await durable.run(first, "x", run_config=RunConfig(model=Told(answer)))).final_output

    async with Engine(store, workflows=[main]) as engine:
        assert await engine.run(main, run_id="a") == "one"
        assert await recorded(engine, "a") == ["the-first.request#1"] * 2 + ["second.request#1"]


@pytest.mark.only("sqlite")
@in_loop
async def test_another_prompt_is_drift_and_asks_nothing(store):
    asked = []

    def answer(items):
        asked.append(items)
        return [assistant_message("x")]

    agent = Agent(name="a", model=Told(answer))
    prompts = iter(["old", "new"])
    durable = Durable()

    @workflow
    async def main() -> str:
        await durable.run(agent, next(prompts))
        raise ConnectionError("later")

    with pytest.raises(ConnectionError):
        await perdure.arun(main, run_id="a", store=store)
    with pytest.raises(DriftError):
        await perdure.arun(main, run_id="a", store=store)
    assert len(asked) == 1
