"""Agents of Pydantic AI in workflows: what was answered is never asked again, whatever dies."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, RunContext
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

import perdure
from perdure import Engine, Retry, sleep, workflow
from perdure.contrib.pydantic_ai import Durable
from perdure.errors import DriftError
from perdure.testing import explore_crashes
from tests.contrib.guides import guide, trip
from tests.engine.desk import in_loop

# It drops async generators half-way, of which Perdure warns; and what it had begun is dropped where a process dies.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*dropped half-way:ResourceWarning",
    "ignore:.*was never awaited:RuntimeWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
STORM = "PERDURE_STORM" in os.environ
OUTPUT = "sun in Rome, sun in Oslo, Bergen, booked"
STEPS = [
    "guide.request#1", "guide.weather#1", "guide.weather#2", "guide.where#1", "guide.request#2", "guide.book#1",
    "guide.request#3", "guide.book#2", "guide.request#4",
]  # fmt: skip
LINES = ["request 1", "weather Rome", "weather Oslo", "where", "request 2", "book", "request 3", "book", "request 4"]


async def recorded(engine: Engine, run_id: str) -> list[str]:
    return [event.key async for event in engine.get(run_id).events() if event.took is not None]


@in_loop
async def test_each_request_and_each_call_of_a_tool_is_a_step(store, processes):
    async with Engine(store, workflows=[trip]) as engine:
        assert await engine.run(trip, "where to?", run_id="a") == OUTPUT
        assert sorted(await recorded(engine, "a")) == sorted(STEPS)
    assert sorted(processes.effects()) == sorted(LINES)


@pytest.mark.timeout(180)
@pytest.mark.only("sqlite")
def test_it_survives_a_crash_at_every_point(processes):
    del processes  # which say where effects go
    # Pydantic AI draws ids that nothing depends on; they would be noted, were there not somebody else who measures.
    sys.setprofile(lambda *_: None)
    try:
        # Threads of anyio's own would outlive the loops that die here, and this process would not end.
        with ThreadPoolExecutor() as pool, Agent.using_thread_executor(pool):
            report = explore_crashes(trip, "where to?", limit=None if STORM else 12, interleavings=12 if STORM else 4)
    finally:
        sys.setprofile(None)
        gc.collect()  # so that what it has to say of processes that died is said here
    assert len(report.rows) >= len(STEPS)


@pytest.mark.crash
@pytest.mark.only("sqlite")
@pytest.mark.parametrize("at", ["weather Oslo", "request 3"])
def test_a_killed_agent_pays_for_nothing_twice_but_for_what_was_under_way(processes, at):
    effects = processes.die_and_go_on("tests.contrib.guides", at, output=OUTPUT, lines=LINES)
    assert effects.count("request 1") == 1


@in_loop
async def test_the_models_text_is_streamed_to_readers_of_the_run(store):
    async def words(_messages: list[ModelMessage], _info: AgentInfo):
        for word in ("sunny ", "in ", "Oslo"):
            yield word

    poet = Agent(FunctionModel(stream_function=words), name="poet", capabilities=[Durable(tokens="words")])

    @workflow
    async def write(asked: str) -> str:
        pieces = []
        async with poet.run_stream(asked) as streamed:
            pieces = [piece async for piece in streamed.stream_text(delta=True, debounce_by=None)]
        return "".join(pieces)

    async with Engine(store, workflows=[write]) as engine:
        assert await engine.run(write, "poem", run_id="a") == "sunny in Oslo"
        told = [emitted.value async for emitted in engine.get("a").stream("words", follow=False)]
    assert told == ["sunny ", "in ", "Oslo"]


@pytest.mark.only("sqlite")
@in_loop
async def test_outside_of_a_run_the_agent_is_what_it_is_without_it(processes):
    result = await guide.run("where to?", deps={})
    assert result.output == OUTPUT
    assert len(processes.effects()) == len(LINES)


@pytest.mark.only("sqlite")
@in_loop
async def test_a_request_that_fails_is_tried_again_by_its_step_and_several_agents_are_told_apart(store):
    failures = iter([ConnectionError("away"), None, None, None])

    def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        if (failure := next(failures)) is not None:
            raise failure
        return ModelResponse(parts=[TextPart(str(messages[0].parts[0].content))])

    model = FunctionModel(answer)
    first = Agent(model, name="first", capabilities=[Durable(retry=Retry(max_attempts=2, initial_delay="1ms"))])
    second = Agent(model, capabilities=[Durable(name="the second")])

    @workflow
    async def both() -> list[str]:
        one = await first.run("one")
        others = await asyncio.gather(second.run("two"), second.run("three"))
        return [result.output for result in (one, *others)]

    async with Engine(store, workflows=[both]) as engine:
        assert await engine.run(both, run_id="a") == ["one", "two", "three"]
        keys = await recorded(engine, "a")
        assert keys[:2] == ["first.request#1"] * 2  # the first attempt, and the second
        assert sorted(keys[2:]) == [f"AbstractAgent.run#{n}/the-second.request#1" for n in (1, 2)]


@pytest.mark.only("sqlite")
@in_loop
async def test_what_would_be_lost_on_a_replay_is_refused_in_tools_and_a_deferred_call_comes_to_the_workflow(store):
    agent = Agent(TestModel(), name="a", output_type=[str, DeferredToolRequests], capabilities=[Durable()])
    refused = []

    @agent.tool
    async def ask(ctx: RunContext[None]) -> str:
        try:
            ctx.enqueue("more")
        except UserError as error:
            refused.append(error)
        raise CallDeferred({"to": "person"})

    @workflow
    async def main() -> list[str]:
        result = await agent.run("x")
        assert isinstance(result.output, DeferredToolRequests)
        await sleep("1ms")
        return [call.tool_name for call in result.output.calls]

    async with Engine(store, workflows=[main]) as engine:
        assert await engine.run(main, run_id="a") == ["ask"]
    assert len(refused) == 1


@pytest.mark.only("sqlite")
@in_loop
async def test_another_prompt_is_drift_and_asks_nothing(store):
    asked = []

    def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        asked.append(messages)
        return ModelResponse(parts=[TextPart("x")])

    agent = Agent(FunctionModel(answer), name="a", capabilities=[Durable()])
    prompts = iter(["old", "new"])

    @workflow
    async def main() -> str:
        prompt = next(prompts)
        await agent.run(prompt)
        raise ConnectionError("later")

    with pytest.raises(ConnectionError):
        await perdure.arun(main, run_id="a", store=store)
    with pytest.raises(DriftError):
        await perdure.arun(main, run_id="a", store=store)
    assert len(asked) == 1
