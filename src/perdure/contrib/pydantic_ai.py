"""Agents of Pydantic AI in workflows: every request to a model, and every call of a tool, is a step of the run.

The agent's own loop is workflow code: after a crash it goes again over what is recorded, and no request that was
answered is sent again. Outside of runs an agent with this capability is the same agent without it.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from perdure.context import current_run, in_step, now, step_context, uuid4
from perdure.contrib.agents import AgentSteps, here, stay
from perdure.extras import extra

with extra("pydantic-ai"):
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
    from pydantic_ai.messages import (
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
    )
    from pydantic_ai.models import CompletedStreamedResponse, Model
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.tools import AgentDepsT
    from pydantic_ai.toolsets import WrapperToolset

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from datetime import datetime
    from typing import Self

    from pydantic_ai import RunContext
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.capabilities import WrapRunHandler
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestParameters, StreamedResponse
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

    from perdure.model.durations import Duration
    from perdure.model.retry import Retry

_UNSTABLE: Final = frozenset({"timestamp", "run_id", "conversation_id"})


class Durable(AbstractCapability[AgentDepsT]):
    """What makes an agent durable in workflows: ``Agent(…, capabilities=[Durable()])``.

    In a workflow, ``await agent.run(…)`` is then made of steps ``NAME.request``, one for each request to the model, and
    ``NAME.TOOL``, one for each call of a tool. What else of yours is called (instructions, validators of outputs,
    hooks) is workflow code, and must do the same each time.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        tool_retry: Retry | None = None,
        tool_timeout: Duration | None = None,
        tokens: str | None = None,
    ) -> None:
        """Set the capability up.

        Args:
            name: what the names of steps begin with; by default the agent's name, else ``agent``.
            retry: how often and when a request to the model is tried again; by default once.
            timeout: how long an attempt at it may take.
            tool_retry: the same for calls of tools. ``ModelRetry`` and the like are answers, and never tried again.
            tool_timeout: likewise.
            tokens: a stream of the run to which the model's text is emitted as it comes, for ``handle.stream(tokens)``
                to give to readers anywhere. By default nothing is streamed.

        Raises:
            DefinitionError: an option is wrong.
        """
        self._name = name
        self._steps = AgentSteps(
            _Request.answered,
            _Call.ended,
            retry=retry,
            timeout=timeout,
            tool_retry=tool_retry,
            tool_timeout=tool_timeout,
        )
        self._tokens = tokens

    def for_agent(self, agent: AbstractAgent[AgentDepsT, Any]) -> Self:
        """Return the capability as it is for one agent."""
        bound = copy(self)
        bound._name = self._name or agent.name  # noqa: SLF001 - the same class
        return bound

    def get_default_run_id(self) -> str | None:
        """Return an id of the agent's run that is the same on every replay."""
        return None if current_run() is None else str(uuid4())

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return an id of the conversation that is the same on every replay."""
        del run_id
        return self.get_default_run_id()

    def get_run_clock(self) -> Callable[[], datetime] | None:
        """Return the run's clock."""
        if current_run() is None:
            return None
        stay(here())  # the agent asks for its clock where it is asked to run
        return now

    def get_wrapper_model(self, model: Model) -> Model | None:
        """Return the model whose requests are steps."""
        return _Model(model, self)

    def get_wrapper_toolset(self, toolset: AbstractToolset[AgentDepsT]) -> AbstractToolset[AgentDepsT] | None:
        """Return the tools whose calls are steps."""
        return _Tools(toolset, self)

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Let events of tools that are called side by side come in the order of the calls."""
        del ctx
        if current_run() is None:
            return await handler()
        with Agent.parallel_tool_call_execution_mode("parallel_ordered_events"):
            return await handler()

    def request(self, request: _Request) -> Any:
        """Send a request to a model, as a step."""
        asked = request.asked()
        return self._steps.request(self._called, request, request.model.model_id, len(request.messages), asked)

    def call(self, call: _Call, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool, as a step."""
        return self._steps.call(self._called, tool, call, arguments)

    @property
    def _called(self) -> str:
        return self._name or "agent"

    @property
    def tokens(self) -> str | None:
        """The stream to which the model's text is emitted."""
        return self._tokens


# -- requests to models ---------------------------------------------------------------------------


@dataclass
class _Request:
    """A request that is to be sent; what of it is recorded are the arguments of its step."""

    model: Model
    messages: list[ModelMessage]
    settings: ModelSettings | None
    parameters: ModelRequestParameters
    context: RunContext[Any] | None
    tokens: str | None

    def asked(self) -> object:
        """What is new in the request. All else of it follows from what is recorded, or is the model's own business.

        Instructions are left out: they may well tell the day.
        """
        last = self.messages[-1] if self.messages else None
        if not isinstance(last, ModelRequest):
            return None
        parts: Any = json.loads(ModelMessagesTypeAdapter.dump_json([last]))[0]["parts"]
        return [_stable(part) for part in parts if part["part_kind"] != "system-prompt"]

    async def answered(self, model: str, messages: int, asked: Any) -> dict[str, Any]:
        """Send it and return the response, as JSON."""
        del model, messages, asked
        # The connections of a model belong to the loop that bodies of steps live on, not to the run's.
        async with self.model:
            response = await (self._stream() if self.tokens is not None and in_step() else self._send())
        told: dict[str, Any] = json.loads(ModelMessagesTypeAdapter.dump_json([response]))[0]
        return told

    async def _send(self) -> ModelResponse:
        return await self.model.request(self.messages, self.settings, self.parameters)

    async def _stream(self) -> ModelResponse:
        context, tokens = step_context(), self.tokens or ""
        async with self.model.request_stream(self.messages, self.settings, self.parameters, self.context) as response:
            async for event in response:
                text = None
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    text = event.part.content
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    text = event.delta.content_delta
                if text:
                    context.emit(text, tokens)
            return response.get()


def _stable(part: Any) -> Any:
    """What is the same on every replay of a part of a message."""
    if isinstance(part, dict):
        return {name: _stable(value) for name, value in part.items() if name not in _UNSTABLE}
    return [_stable(value) for value in part] if isinstance(part, list) else part


def _response(told: dict[str, Any]) -> ModelResponse:
    (response,) = ModelMessagesTypeAdapter.validate_json(json.dumps([told]))
    assert isinstance(response, ModelResponse)
    return response


class _Model(WrapperModel):
    """A model whose requests are steps."""

    def __init__(self, model: Model, durable: Durable[Any]) -> None:
        super().__init__(model)
        self._durable = durable

    async def __aenter__(self) -> Self:
        return self  # each request enters the model itself, where its body is executed

    async def __aexit__(self, *exc: object) -> bool | None:
        return None

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send a request, as a step."""
        return await self._ask(messages, model_settings, model_request_parameters, None)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Send a request, as a step, and give the response as if it came in pieces; outside of runs it does."""
        if current_run() is None:
            async with (
                self.wrapped,
                self.wrapped.request_stream(
                    messages, model_settings, model_request_parameters, run_context
                ) as streamed,
            ):
                yield streamed
            return
        response = await self._ask(messages, model_settings, model_request_parameters, run_context)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)

    async def _ask(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        context: RunContext[Any] | None,
    ) -> ModelResponse:
        request = _Request(self.wrapped, messages, settings, parameters, context, self._durable.tokens)
        return _response(await self._durable.request(request))


# -- calls of tools -------------------------------------------------------------------------------


@dataclass
class _Call:
    """A call of a tool that is to be made."""

    tools: AbstractToolset[Any]
    name: str
    context: RunContext[Any]
    tool: ToolsetTool[Any]

    async def ended(self, arguments: dict[str, Any]) -> list[Any]:
        """Call the tool; return how that ended, and with what. What an agent expects to be raised is no failure."""
        # What a tool adds to the agent's messages or usage would be lost on a replay. So it cannot add any.
        context = self.context
        if in_step():
            context = replace(context, pending_messages=None, usage=copy(context.usage))
        try:
            return ["returned", await self.tools.call_tool(self.name, arguments, context, self.tool)]
        except ModelRetry as asked:
            return ["retry", asked.message]
        except ToolFailed as failed:
            return ["failed", failed.message]
        except CallDeferred as deferred:
            return ["deferred", deferred.metadata, deferred.kind]
        except ApprovalRequired as required:
            return ["approval", required.metadata]


def _come_to(how: str, *what: Any) -> Any:
    """Return or raise what a call of a tool has ended with."""
    match how:
        case "retry":
            raise ModelRetry(*what)
        case "failed":
            raise ToolFailed(*what)
        case "deferred":
            raise CallDeferred(what[0], kind=what[1])
        case "approval":
            raise ApprovalRequired(*what)
        case _:
            return what[0]


@dataclass
class _Tools(WrapperToolset[AgentDepsT]):
    """Tools whose calls are steps."""

    durable: Durable[AgentDepsT]

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        """Call a tool, as a step."""
        return _come_to(*await self.durable.call(_Call(self.wrapped, name, ctx, tool), name, tool_args))


__all__ = ["Durable"]
