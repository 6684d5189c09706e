"""Agents of the OpenAI Agents SDK in workflows: every request to a model, and every call of a tool, is a step.

The agent's own loop is workflow code: after a crash it goes again over what is recorded, and no request that was
answered is sent again. Outside of runs an agent is what it is without Perdure.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter

from perdure.context import current_run, in_step, step_context
from perdure.contrib.agents import AgentSteps, here, leave, named, place, stay
from perdure.errors import NotDurable, PerdureError, StepFailed, StepInterrupted, StepTimeout
from perdure.extras import extra
from perdure.runtime.runloop import RunLoop

with extra("openai-agents"):
    from agents import (
        Agent,
        ApplyPatchTool,
        ComputerTool,
        CustomTool,
        FunctionTool,
        Handoff,
        LocalShellTool,
        Model,
        ModelBehaviorError,
        ModelResponse,
        ModelSettings,
        MultiProvider,
        RunConfig,
        Runner,
        RunState,
        ShellTool,
        ToolOriginType,
        Usage,
    )
    from agents.models import get_default_model_settings
    from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
    from agents.sandbox import SandboxAgent
    from agents.tool import (
        get_function_tool_origin,
        invoke_function_tool,
        maybe_invoke_function_tool_failure_error_function,
        set_function_tool_failure_error_function,
    )
    from agents.tool_context import ToolContext  # noqa: TC002 - the SDK reads the annotations of invokers
    from openai.types.responses import Response, ResponseCompletedEvent, ResponseTextDeltaEvent, ResponseUsage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Generator, Mapping
    from typing import Unpack

    from agents import ModelProvider, RunResult, RunResultStreaming, Tool, TResponseInputItem
    from agents.run_config import RunOptions

    from perdure.model.durations import Duration
    from perdure.model.retry import Retry

ResultT = TypeVar("ResultT", "RunResult", "RunResultStreaming")
_RESPONSE: Final = TypeAdapter(ModelResponse)
_ASKED: Final = "system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs", "tracing"
"""What models are asked by place."""
_LOCAL: Final = (ApplyPatchTool, ComputerTool, CustomTool, LocalShellTool)
"""Tools of the SDK's own that do something here rather than at the provider's."""
_ENDS: Final = (StepFailed, StepInterrupted, StepTimeout)
"""Errors of Perdure's that a step has ended with, which a model is told of as of any other."""


class Durable:
    """What runs agents in workflows: ``await Durable().run(agent, …)`` instead of ``await Runner.run(agent, …)``.

    It is then made of steps ``AGENT.request``, one for each request to the model, and ``AGENT.TOOL``, one for each call
    of a function tool; those of agents that it is handed to, that are tools, or that guardrails ask, likewise. What
    else of yours is called (instructions, guardrails, handoffs, hooks) is workflow code, and must do the same each
    time.
    """

    def __init__(
        self,
        *,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        tool_retry: Retry | None = None,
        tool_timeout: Duration | None = None,
        tokens: str | None = None,
        in_workflow: Collection[str] = (),
    ) -> None:
        """Say how agents run.

        Args:
            retry: how often and when a request to the model is tried again; by default once.
            timeout: how long an attempt at it may take.
            tool_retry: the same for calls of tools. What a tool raises in its last attempt the model is told, as the
                tool's ``failure_error_function`` says it.
            tool_timeout: likewise.
            tokens: a stream of the run to which the model's text is emitted as it comes, for ``handle.stream(tokens)``
                to give to readers anywhere. By default nothing is streamed.
            in_workflow: names of tools that are no steps but workflow code: these may wait for signals, call steps and
                change the agent's context, and must not do I/O. They have to be ``async def``.

        Raises:
            DefinitionError: an option is wrong.
        """
        self._steps = AgentSteps(
            _Request.answered,
            _Call.ended,
            retry=retry,
            timeout=timeout,
            tool_retry=tool_retry,
            tool_timeout=tool_timeout,
        )
        self._tokens = tokens
        self._in_workflow = frozenset(in_workflow)
        self._provider: ModelProvider | None = None
        self._agents: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[object, tuple[Agent[Any], Agent[Any]]]] = (
            WeakKeyDictionary()
        )
        _Inside.install()

    async def run(
        self,
        starting_agent: Agent[Any],
        input: str | list[TResponseInputItem] | RunState[Any],
        **options: Unpack[RunOptions[Any]],
    ) -> RunResult:
        """Run an agent as ``Runner.run`` does, with the same arguments.

        Raises:
            NotDurable: in a workflow, something is asked for that could not be recorded; the advice says what to do.
        """
        if current_run() is None:
            return await Runner.run(starting_agent, input, **options)
        with self._entered(starting_agent, input, options) as (agent, given):
            return _known(await _Inside.install().other.run(agent, input, **given))

    def run_streamed(
        self,
        starting_agent: Agent[Any],
        input: str | list[TResponseInputItem] | RunState[Any],
        **options: Unpack[RunOptions[Any]],
    ) -> RunResultStreaming:
        """Run an agent as ``Runner.run_streamed`` does; in a workflow each response comes at once, when it is recorded.

        Raises:
            NotDurable: as for ``run``.
        """
        if current_run() is None:
            return Runner.run_streamed(starting_agent, input, **options)
        with self._entered(starting_agent, input, options) as (agent, given):
            return _known(_Inside.install().other.run_streamed(agent, input, **given))

    # -- what agents are made of in workflows

    @contextmanager
    def _entered(
        self, agent: Agent[Any], asked: object, options: RunOptions[Any]
    ) -> Generator[tuple[Agent[Any], RunOptions[Any]]]:
        """Give the agent and the options as they are in workflows; what is done in the block is done at one place."""
        outer = _running.get()
        at = place()
        at = here() if outer is None or at is None else at.child(named(agent.name))
        config, running = self._configured(options, outer)
        token, left = _running.set(running), stay(at)
        try:
            _check_state(asked)
            yield self._durable(agent, running), {**options, "run_config": config}
        finally:
            leave(left)
            _running.reset(token)

    def _configured(self, options: RunOptions[Any], outer: _Running | None) -> tuple[RunConfig, _Running]:
        if options.get("session") is not None:
            raise _refused(
                "a session would be written again by every replay",
                advice="keep the conversation in the workflow: give result.to_input_list() to the next run",
            )
        given = options.get("run_config")
        config = (
            RunConfig(**given) if isinstance(given, dict) else given or RunConfig(model_provider=self._own_provider())
        )
        if config.sandbox is not None:
            raise _refused("a sandbox's state could not be recorded", advice="use the sandbox in a tool of yours")
        override = config.model
        if override is None and isinstance(config, _Config) and outer is not None:
            override = outer.override  # an agent that is a tool gets what its caller was run with
        settings = config.model_settings
        return (
            _config(
                config,
                # Which model is whose is said by the agents.
                model=None,
                # What is replayed would be traced again.
                tracing_disabled=True,
                model_settings=None if settings is None else _settings(settings),
            ),
            _Running(self, override, config.model_provider, None if settings is None else settings.timeout),
        )

    def _own_provider(self) -> ModelProvider:
        if self._provider is None:
            self._provider = MultiProvider()
        return self._provider

    def _durable(self, agent: Agent[Any], running: _Running) -> Agent[Any]:
        """Return an agent as it is in workflows: the same one for the same one, while a run is in memory."""
        if isinstance(agent.model, _Model):
            return agent
        made = self._agents.setdefault(asyncio.get_running_loop(), {})
        override = running.override
        key = id(agent), override if isinstance(override, str) else id(override)
        if key not in made:
            _check(agent)
            clone = agent.clone(
                model=_Model(self, agent),
                model_settings=_settings(_settings_of(agent, override)),
                tools=[self._tool(agent, tool) for tool in agent.tools],
                handoffs=[],
            )
            made[key] = agent, clone  # two agents may be handed to each other
            clone.handoffs = [self._handoff(one, running) for one in agent.handoffs]
        return made[key][1]

    def _handoff(self, handoff: Agent[Any] | Handoff[Any, Any], running: _Running) -> Agent[Any] | Handoff[Any, Any]:
        if not isinstance(handoff, Handoff):
            return self._durable(handoff, running)
        invoke = handoff.on_invoke_handoff

        async def handed(context: Any, arguments: str) -> Agent[Any]:
            return self._durable(await invoke(context, arguments), running)

        other = copy(handoff)
        other.on_invoke_handoff = handed
        return other

    def _tool(self, agent: Agent[Any], tool: Tool) -> Tool:
        if not isinstance(tool, FunctionTool):
            if isinstance(tool, _LOCAL) or (isinstance(tool, ShellTool) and tool.executor is not None):
                raise _refused(
                    f"what {type(tool).__name__} of agent {agent.name!r} does here could not be recorded",
                    advice="do it in a function tool",
                )
            return tool  # which the provider executes
        origin = get_function_tool_origin(tool)
        if tool.name in self._in_workflow or (origin is not None and origin.type is ToolOriginType.AGENT_AS_TOOL):
            return tool
        # So that what the tool raises fails the step, and the model is told only when no attempt is left.
        raising = set_function_tool_failure_error_function(copy(tool), None)

        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            try:
                return await self._steps.call(
                    agent.name, tool.name, _Call(raising, context, arguments), _read(arguments)
                )
            except Exception as error:
                if isinstance(error, PerdureError) and not isinstance(error, _ENDS):
                    raise
                told = await maybe_invoke_function_tool_failure_error_function(
                    function_tool=tool, context=context, error=error
                )
                if told is None:
                    raise
                return told

        other = copy(tool)
        other.on_invoke_tool = invoke
        other.timeout_seconds = None  # the body keeps to it
        return other

    def ask(self, agent: Agent[Any], asked: Mapping[str, Any]) -> Any:
        """Send a request to an agent's model, as a step."""
        running = cast("_Running", _running.get())
        model = running.model_of(agent)
        timeout = agent.model_settings.timeout if running.timeout is None else running.timeout
        request = _Request(model, asked, self._tokens, timeout)
        items = asked["input"]
        count = 1 if isinstance(items, str) else len(items)
        return self._steps.request(agent.name, request, _called(model), count, _new(items))


@dataclass(frozen=True)
class _Running:
    """What an agent is run with."""

    durable: Durable
    override: str | Model | None
    provider: ModelProvider
    timeout: float | None

    def model_of(self, agent: Agent[Any]) -> Model:
        """Return an agent's own model."""
        model = agent.model if self.override is None else self.override
        return model if isinstance(model, Model) else self.provider.get_model(model)


_running: Final[ContextVar[_Running | None]] = ContextVar("perdure_openai_agents", default=None)


@dataclass
class _Config(RunConfig):
    """A configuration that was made here, and that agents which are tools inherit."""


def _config(config: RunConfig, **changes: Any) -> _Config:
    made = _Config()
    made.__dict__.update(config.__dict__, **changes)
    return made


class _Inside(AgentRunner):
    """What ``Runner.run`` calls: of agents that are tools, and of guardrails, as the agent around them is run."""

    def __init__(self, other: AgentRunner) -> None:
        self.other = other

    @staticmethod
    def install() -> _Inside:
        """Be the SDK's runner; outside of runs, everything goes to the one that was there."""
        runner = get_default_agent_runner()
        if not isinstance(runner, _Inside):
            runner = _Inside(runner)
            set_default_agent_runner(runner)
        return runner

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Unpack[RunOptions[Any]]) -> RunResult:
        if current_run() is None:
            return await self.other.run(starting_agent, input, **options)
        return await _durable().run(starting_agent, input, **options)

    def run_sync(self, starting_agent: Agent[Any], input: Any, **options: Unpack[RunOptions[Any]]) -> RunResult:
        if current_run() is not None:
            raise _refused(
                "Runner.run_sync blocks, and a workflow must not",
                advice="write an async workflow: await durable.run(agent, …), with durable = Durable()",
            )
        return self.other.run_sync(starting_agent, input, **options)

    def run_streamed(
        self,
        starting_agent: Agent[Any],
        input: Any,
        **options: Unpack[RunOptions[Any]],
    ) -> RunResultStreaming:
        if current_run() is None:
            return self.other.run_streamed(starting_agent, input, **options)
        return _durable().run_streamed(starting_agent, input, **options)


def _known(result: ResultT) -> ResultT:
    """Have a result's states made here. They draw an id, on which nothing depends; elsewhere that would be noted."""
    make = result.to_state

    def to_state() -> RunState[Any]:
        return make()

    result.to_state = to_state  # type: ignore[method-assign]
    return result


def _durable() -> Durable:
    running = _running.get()
    if running is None:
        raise _refused(
            "Runner.run in a workflow would pay again on every replay",
            advice="write await durable.run(agent, …), with durable = Durable()",
        )
    return running.durable


def _refused(message: str, *, advice: str) -> NotDurable:
    """Return the error that a run fails with, whatever becomes of it on its way; agents tell models of errors."""
    error = NotDurable(message, advice=advice)
    loop = asyncio._get_running_loop()
    if isinstance(loop, RunLoop):
        loop.poisoned(error)
    return error


def _check(agent: Agent[Any]) -> None:
    if isinstance(agent, SandboxAgent):
        raise _refused(
            f"what agent {agent.name!r} does in its sandbox could not be recorded",
            advice="use the sandbox in a tool of yours",
        )
    if agent.mcp_servers:
        raise _refused(
            f"agent {agent.name!r} would speak to its MCP servers from the workflow",
            advice="call the server in a function tool, or let the provider call it: HostedMCPTool",
        )


def _check_state(asked: object) -> None:
    agent = asked._current_agent if isinstance(asked, RunState) else None  # noqa: SLF001 - there is no other way
    if agent is not None and not isinstance(agent.model, _Model):
        raise _refused(
            "a state that was made outside of the workflow leads to agents whose requests are no steps",
            advice="make it of a result in the workflow: result.to_state()",
        )


def _settings_of(agent: Agent[Any], override: str | Model | None) -> ModelSettings:
    """Return an agent's settings; defaults of a model are not for another one."""
    own = ModelSettings() if isinstance(agent.model, Model) else get_default_model_settings(agent.model)
    if override is None or agent.model_settings != own:
        return agent.model_settings
    return get_default_model_settings(override) if isinstance(override, str) else ModelSettings()


def _settings(settings: ModelSettings) -> ModelSettings:
    """Return settings by which only steps try again and time out: pauses of the SDK's are drawn by chance."""
    return replace(settings, retry=None, timeout=None)


# -- requests to models ---------------------------------------------------------------------------


@dataclass
class _Request:
    """A request that is to be sent; what of it is recorded are the arguments of its step."""

    model: Model
    asked: Mapping[str, Any]
    tokens: str | None
    timeout: float | None

    async def answered(self, model: str, items: int, asked: Any) -> Any:
        """Send it and return the response, as JSON."""
        del model, items, asked
        async with asyncio.timeout(self.timeout):
            response = await (self._stream() if self.tokens is not None and in_step() else self._send())
        # Only what the provider has set, since the SDK sends that back to it, and not all of it may be null; but all of
        # that: some providers' items have more than the SDK knows of.
        return _RESPONSE.dump_python(response, serialize_as_any=True, mode="json", by_alias=True, exclude_unset=True)

    async def _send(self) -> ModelResponse:
        return await self.model.get_response(**self.asked)

    async def _stream(self) -> ModelResponse:
        context, tokens = step_context(), self.tokens or ""
        ended = None
        async for event in self.model.stream_response(**self.asked):
            if isinstance(event, ResponseTextDeltaEvent) and event.delta:
                context.emit(event.delta, tokens)
            elif isinstance(event, ResponseCompletedEvent):
                ended = event.response
        if ended is None:
            raise ModelBehaviorError("the model's stream ended without a response")
        return ModelResponse(output=ended.output, usage=_usage(ended), response_id=ended.id)


def _usage(response: Response) -> Usage:
    used = response.usage
    if used is None:
        return Usage()
    return Usage(
        requests=1,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        total_tokens=used.total_tokens,
        input_tokens_details=used.input_tokens_details,
        output_tokens_details=used.output_tokens_details,
    )


def _called(model: Model) -> str:
    """Return what a model is called."""
    name = getattr(model, "model", None)
    return name if isinstance(name, str) else type(model).__name__


def _new(items: str | list[TResponseInputItem]) -> object:
    """Return what is new in what is asked. All else of it follows from what is recorded.

    Instructions are left out: they may well tell the day.
    """
    if isinstance(items, str):
        return items
    first = len(items)
    while first and _is_told(cast("Mapping[str, Any]", items[first - 1])):
        first -= 1
    return items[first:]


def _is_told(item: Mapping[str, Any]) -> bool:
    """Return whether an item is no answer of the model's."""
    return item.get("role", "assistant") != "assistant" or str(item.get("type")).endswith("_output")


class _Model(Model):
    """A model whose requests are steps."""

    def __init__(self, durable: Durable, agent: Agent[Any]) -> None:
        self._durable, self._agent = durable, agent

    async def get_response(self, *asked: Any, **more: Any) -> ModelResponse:
        """Send a request, as a step."""
        told = await self._durable.ask(self._agent, {**dict(zip(_ASKED, asked, strict=False)), **more})
        return _RESPONSE.validate_python(told)

    async def stream_response(self, *asked: Any, **more: Any) -> AsyncIterator[Any]:
        """Send a request, as a step, and give the response at once."""
        response = await self.get_response(*asked, **more)
        used = response.usage
        whole = Response(
            id=response.response_id or "",
            created_at=0,
            model=_called(self),
            object="response",
            output=response.output,
            parallel_tool_calls=False,
            status="completed",
            tool_choice="auto",
            tools=[],
            usage=ResponseUsage(
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                total_tokens=used.total_tokens,
                input_tokens_details=used.input_tokens_details,
                output_tokens_details=used.output_tokens_details,
            ),
        )
        yield ResponseCompletedEvent(response=whole, sequence_number=0, type="response.completed")


# -- calls of tools -------------------------------------------------------------------------------


@dataclass
class _Call:
    """A call of a tool that is to be made."""

    tool: FunctionTool
    context: ToolContext[Any]
    given: str

    async def ended(self, arguments: Any) -> Any:
        """Call the tool and return what it returns."""
        del arguments
        return await invoke_function_tool(function_tool=self.tool, context=self.context, arguments=self.given)


def _read(arguments: str) -> object:
    """Return what a tool is called with, for people and redaction to read; as it is, if it is no JSON."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


__all__ = ["Durable"]
