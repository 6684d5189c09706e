"""A workflow around an agent whose model is a function: each request and each call of a tool leaves a line in a file.

``python -m tests.contrib.guides`` runs it here and now. Where the environment says DIE, the process kills itself with
SIGKILL after the line of that name, the first time that it is left.
"""

from __future__ import annotations

import os
import signal

from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import perdure
from perdure import workflow
from perdure.contrib.pydantic_ai import Durable
from tests.contrib.leaving import folder, leave


class Place(BaseModel):
    name: str


def left(what: str) -> None:
    leave(what)
    if os.environ.get("DIE") == what and not (folder() / "died").exists():
        (folder() / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    turn = sum(isinstance(message, ModelResponse) for message in messages) + 1
    left(f"request {turn}")
    if turn == 1:
        calls = [ToolCallPart("weather", {"city": city}) for city in ("Rome", "Oslo")]
        return ModelResponse(parts=[*calls, ToolCallPart("where", {})])
    if turn in {2, 3}:
        return ModelResponse(parts=[ToolCallPart("book", {})])
    told = [part.content for m in messages for part in m.parts if isinstance(part, ToolReturnPart)]
    return ModelResponse(parts=[TextPart(f"{told[0]}, {told[1]}, {told[2].name}, {told[-1]}")])


guide = Agent(FunctionModel(answer), name="guide", deps_type=dict[str, int], capabilities=[Durable()])


@guide.tool_plain
async def weather(city: str) -> str:
    left(f"weather {city}")
    return f"sun in {city}"


@guide.tool_plain
def where() -> Place:
    left("where")
    return Place(name="Bergen")


@guide.tool
async def book(ctx: RunContext[dict[str, int]]) -> str:
    """Refuses the first time, by what only this process knows."""
    left("book")
    ctx.deps["asked"] = ctx.deps.get("asked", 0) + 1
    if ctx.retry == 0:
        raise ModelRetry("once more")
    return "booked"


@workflow
async def trip(question: str) -> str:
    result = await guide.run(question, deps={})
    return result.output


if __name__ == "__main__":
    print(perdure.run(trip, "where to?", run_id="trip"))  # noqa: T201 - the test reads it
