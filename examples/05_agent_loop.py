"""An agent that is killed in the middle of its loop, and pays for no answer twice. Run it until it prints a result.

$ pip install 'perdure[pydantic-ai]'
$ python examples/05_agent_loop.py

The model is a function, so that it costs nothing; put "anthropic:…" or "openai:…" in its place.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import perdure
from perdure import workflow
from perdure.contrib.pydantic_ai import Durable

CITIES = ("Rome", "Oslo", "Lima")


def model(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    turn = sum(isinstance(message, ModelResponse) for message in messages)
    print(f"paying for answer {turn + 1}", flush=True)
    if turn < len(CITIES):
        return ModelResponse(parts=[ToolCallPart("visit", {"city": CITIES[turn]})])
    return ModelResponse(parts=[TextPart("the best was Oslo")])


scout = Agent(FunctionModel(model), name="scout", capabilities=[Durable()])


@scout.tool_plain
def visit(city: str) -> str:
    marker = Path(f"visited-{city}")
    if city != "Rome" and not marker.exists():
        marker.touch()
        print(f"visiting {city}, and the process dies of it", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    print(f"visiting {city}", flush=True)
    return f"{city} is nice"


@workflow
async def journey(question: str) -> str:
    return (await scout.run(question)).output


if __name__ == "__main__":
    print(perdure.run(journey, "Where is it best?", run_id="journey", store="journey.db"))
