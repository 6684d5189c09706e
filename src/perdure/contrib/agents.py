"""What agents of any framework have in common in workflows: the steps that their requests and calls of tools are."""

from __future__ import annotations

import asyncio
import re
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from perdure.model.durations import seconds
from perdure.runtime.runloop import RunTask
from perdure.workflow import step

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Token

    from perdure.model.durations import Duration
    from perdure.model.keys import Scope
    from perdure.model.retry import Retry
    from perdure.steps import AsyncStep

_RESERVED: Final = re.compile(r"[^\w.-]+")
_place: Final[ContextVar[Scope | None]] = ContextVar("perdure_agent_place", default=None)
"""The place, among the workflow's tasks, at which the agent was asked to run."""


class AgentSteps:
    """The steps of agents: ``NAME.request``, a request to a model; ``NAME.TOOL``, a call of a tool.

    Their bodies are methods of what is to be sent or called, so that arguments of the steps are only what is compared.
    """

    def __init__(
        self,
        request: Callable[..., Coroutine[Any, Any, Any]],
        call: Callable[..., Coroutine[Any, Any, Any]],
        *,
        retry: Retry | None,
        timeout: Duration | None,
        tool_retry: Retry | None,
        tool_timeout: Duration | None,
    ) -> None:
        """Set them up.

        Args:
            request: the method that sends a request.
            call: the method that calls a tool.
            retry: how often and when a request is tried again.
            timeout: how long an attempt at it may take.
            tool_retry: the same for calls of tools.
            tool_timeout: likewise.

        Raises:
            DefinitionError: an option is wrong.
        """
        self._request, self._call = request, call
        self._retry, self._timeout = retry, None if timeout is None else seconds(timeout, what="timeout")
        self._tool_retry = tool_retry
        self._tool_timeout = None if tool_timeout is None else seconds(tool_timeout, what="tool_timeout")
        # Two steps are the same if their definition is the same object.
        self._made: dict[str, AsyncStep[..., Any]] = {}
        step(name="agent.request", retry=retry, timeout=self._timeout)(request)
        step(name="agent.tool", retry=tool_retry, timeout=self._tool_timeout)(call)

    def request(self, agent: str, request: object, *arguments: object) -> Coroutine[object, None, Any]:
        """Send a request of an agent of that name, as a step."""
        name = f"{named(agent)}.request"
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = step(name=name, retry=self._retry, timeout=self._timeout)(self._request)
        return _at_its_place(made.__get__(request), *arguments)

    def call(self, agent: str, tool: str, call: object, *arguments: object) -> Coroutine[object, None, Any]:
        """Call a tool of an agent of that name, as a step."""
        name = f"{named(agent)}.{named(tool)}"
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = step(name=name, retry=self._tool_retry, timeout=self._tool_timeout)(self._call)
        return _at_its_place(made.__get__(call), *arguments)


def named(name: str) -> str:
    """Return a name of the framework's as it stands in names of steps.

    >>> named("Refunds (EU)")
    'Refunds-EU-'
    """
    return _RESERVED.sub("-", name)


def here() -> Scope | None:
    """Return the place of the workflow's task that is calling."""
    task = asyncio.current_task()
    return task.scope if isinstance(task, RunTask) else None


def stay(place: Scope | None) -> Token[Scope | None]:
    """Have what an agent calls from now on, in tasks of its own making too, called at a place.

    Keys of steps must not depend on how many tasks a framework makes.
    """
    return _place.set(place)


leave: Final = _place.reset
"""Undo ``stay``."""


def place() -> Scope | None:
    """Return the place at which an agent is running."""
    return _place.get()


def _at_its_place(called: AsyncStep[..., Any], *arguments: object) -> Coroutine[object, None, Any]:
    """Call a step as if the agent were one task, the workflow's."""
    task, at = asyncio.current_task(), _place.get()
    if at is None or not isinstance(task, RunTask):
        return called(*arguments)
    own, task.scope = task.scope, at
    try:
        return called(*arguments)  # a call takes its key at once
    finally:
        task.scope = own


__all__ = ["AgentSteps", "here", "leave", "named", "place", "stay"]
