"""Whether an engine makes spans, and with which provider; OpenTelemetry is loaded only if somebody else has, or asks.

A library that speaks OpenTelemetry uses its API only, and works by itself once the application has set a provider up.
So that is the default here, decided when an engine opens its store: a process that has no provider pays nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from perdure.errors import DefinitionError

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from perdure.telemetry.otel import Tracing

    Given: TypeAlias = bool | TracerProvider | None
    """True: with the global provider, also if that is set later. False: never. None: if there is one by now."""

_ADVICE = "pip install 'perdure[otel]'"


class Kept(NamedTuple):
    """An attribute of spans.

    Attributes:
        name: its name.
        spans: on which kinds of spans it is.
        meaning: what it says.
    """

    name: str
    spans: str
    meaning: str


SPANS: Final = {
    "enqueue WORKFLOW": ("producer", "a run, or several, is created; its context is kept with the run"),
    "schedule KEY": ("producer", "a schedule starts runs"),
    "run WORKFLOW": ("consumer", "an execution of a run, from its claim until it ends, waits or is let go"),
    "step STEP": ("internal", "an attempt at a step; what its body does is below it"),
}
"""Spans by name: their kind, and what they are."""

_ALL = (
    Kept("perdure.run_id", "enqueue, run, step", "the run; of an enqueue only where the caller has named it"),
    Kept("perdure.workflow", "enqueue, schedule, run, step", "the name of the workflow"),
    Kept("perdure.version", "run", "its version"),
    Kept("perdure.namespace", "enqueue, schedule, run, step", "the namespace; empty for the one without a name"),
    Kept("perdure.queue", "schedule, run, step", "the queue; empty for the default queue"),
    Kept("perdure.worker", "run, step", "the name of the worker"),
    Kept("perdure.runs", "enqueue, schedule", "how many runs are created"),
    Kept("perdure.schedule", "schedule", "the key of the schedule"),
    Kept("perdure.epoch", "run", "the epoch of the claim: it rises with every execution"),
    Kept("perdure.step", "step", "the name of the step"),
    Kept("perdure.step_key", "step", "its key in the run's log"),
    Kept("perdure.attempt", "step", "the number of the attempt, from 1"),
    Kept(
        "perdure.outcome", "run, step",
        "of an execution: completed, failed, cancelled, blocked, continued, suspended, paused, released or lost; "
        "of an attempt: completed, failed, cancelled or interrupted",
    ),
    Kept("error.type", "run, step", "the type of the exception that it failed with; its text is not shown"),
)  # fmt: skip

ATTRIBUTES: Final = {one.name: one for one in _ALL}
"""Attributes of spans, by name."""


def check_tracing(given: Given) -> None:
    """Refuse what is no choice of spans.

    Raises:
        DefinitionError: it is none.
    """
    if given is None or isinstance(given, bool):
        return
    module = sys.modules.get("opentelemetry.trace")
    if module is None or not isinstance(given, module.TracerProvider):
        raise DefinitionError(
            f"{given!r} is no tracer provider", advice="give one of OpenTelemetry's, True, False, or nothing"
        )


def tracing_of(given: Given) -> Tracing | None:
    """Return what makes spans; None if nothing does.

    Raises:
        DefinitionError: it is asked for, and OpenTelemetry's API is not installed.
    """
    if given is False:
        return None
    if given is None and "opentelemetry.trace" not in sys.modules:
        return None
    try:
        from opentelemetry import trace

        from perdure.telemetry.otel import Tracing
    except ImportError as error:
        if given is None:
            return None
        raise DefinitionError("OpenTelemetry's API is not installed", advice=_ADVICE) from error
    if given is not None and given is not True:
        return Tracing(given)
    provider = trace.get_tracer_provider()
    if given is None and isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return None
    return Tracing(provider)


__all__ = ["ATTRIBUTES", "SPANS", "check_tracing", "tracing_of"]
