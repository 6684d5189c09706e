"""A workflow around agents of the OpenAI Agents SDK: each request and each call of a tool leaves a line in a file.

A doorman, whom a guardrail watches, hands over to a clerk, who has tools: two calls of one side by side, a plain
function, one that fails at first, and an agent.

``python -m tests.contrib.clerks`` runs it here and now. Where the environment says DIE, the process kills itself with
SIGKILL after the line of that name, the first time that it is left.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

from agents import (
    Agent,
    GuardrailFunctionOutput,
    Model,
    ModelResponse,
    RunContextWrapper,
    Runner,
    TResponseInputItem,
    Usage,
    function_tool,
    input_guardrail,
)
from agents.testing import assistant_message, function_call
from openai.types.responses import ResponseTextDeltaEvent

import perdure
from perdure import Retry, workflow
from perdure.contrib.openai_agents import Durable
from tests.contrib.leaving import folder, leave


class Told(Model):
    """A model that answers as a function says; it streams the words of its texts."""

    def __init__(self, answer: Callable[[list[TResponseInputItem]], list[Any]]) -> None:
        self.answer = answer

    async def get_response(self, system_instructions, input, *more, **rest) -> ModelResponse:
        del system_instructions, more, rest
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        return ModelResponse(output=self.answer(items), usage=Usage(requests=1), response_id=None)

    async def stream_response(self, *asked, **rest):
        response = await self.get_response(*asked, **rest)
        for word in response.output[0].content[0].text.split(" "):
            yield ResponseTextDeltaEvent(
                content_index=0, delta=word, item_id="x", logprobs=[], output_index=0, sequence_number=0,
                type="response.output_text.delta",
            )  # fmt: skip
        yield completed(response)


def completed(response: ModelResponse):
    from openai.types.responses import Response, ResponseCompletedEvent

    whole = Response(
        id="r", created_at=0, model="told", object="response", output=response.output, parallel_tool_calls=False,
        tool_choice="auto", tools=[],
    )  # fmt: skip
    return ResponseCompletedEvent(response=whole, sequence_number=1, type="response.completed")


def left(what: str) -> None:
    leave(what)
    if os.environ.get("DIE") == what and not (folder() / "died").exists():
        (folder() / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def called(name: str, call_id: str, **arguments: object) -> Any:
    return function_call(name, json.dumps(arguments), call_id=call_id)


def outputs(items: list[TResponseInputItem]) -> list[str]:
    return [str(item["output"]) for item in items if item.get("type") == "function_call_output"]


def doorman_answers(_items: list[TResponseInputItem]) -> list[Any]:
    left("doorman asked")
    return [called("transfer_to_clerk", "t")]


def judge_answers(_items: list[TResponseInputItem]) -> list[Any]:
    left("judge asked")
    return [assistant_message("harmless")]


def clerk_answers(items: list[TResponseInputItem]) -> list[Any]:
    said = outputs(items)[1:]  # the first is the doorman's
    left(f"clerk asked {len(said)}")
    if not said:
        return [called("weather", "r", city="Rome"), called("weather", "o", city="Oslo"), called("where", "w")]
    if len(said) < 5:
        return [called("book", f"b{len(said)}")]
    if len(said) == 5:
        return [called("translate", "x", input="booked")]
    return [assistant_message(", ".join([*said[:3], *said[4:]]))]


def translator_answers(items: list[TResponseInputItem]) -> list[Any]:
    said = outputs(items)
    left(f"translator asked {len(said)}")
    return [assistant_message(said[0])] if said else [called("look_up", "l", word="booked")]


@function_tool
async def weather(city: str) -> str:
    left(f"weather {city}")
    return f"sun in {city}"


@function_tool
def where() -> str:
    left("where")
    return "Bergen"


@function_tool
async def book() -> str:
    """Fails the first time, in both attempts; then in one."""
    left("book")
    if (folder() / "full").exists() and perdure.step_context().attempt > 1:
        return "booked"
    if perdure.step_context().attempt > 1:
        (folder() / "full").touch()
    raise ConnectionError("full")


@function_tool
async def look_up(word: str) -> str:
    left(f"look up {word}")
    return "gebucht"


translator = Agent(name="translator", model=Told(translator_answers), tools=[look_up])
judge = Agent(name="judge", model=Told(judge_answers))


@input_guardrail
async def harmless(
    _context: RunContextWrapper[None], _agent: Agent[None], items: str | list[TResponseInputItem]
) -> GuardrailFunctionOutput:
    found = await Runner.run(judge, items)
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=found.final_output != "harmless")


clerk = Agent(
    name="clerk",
    model=Told(clerk_answers),
    tools=[weather, where, book, translator.as_tool("translate", "Translates.")],
)
doorman = Agent(name="doorman", model=Told(doorman_answers), handoffs=[clerk], input_guardrails=[harmless])
durable = Durable(tool_retry=Retry(max_attempts=2, initial_delay="1ms"))


@workflow
async def errand(question: str) -> str:
    result = await durable.run(doorman, question)
    return f"{result.last_agent.name}: {result.final_output}"


if __name__ == "__main__":
    print(perdure.run(errand, "where to?", run_id="errand"))  # noqa: T201 - the test reads it
