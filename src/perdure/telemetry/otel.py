"""Spans by OpenTelemetry's API. Their context is kept with a run as a W3C ``traceparent``, whatever else is set up."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from perdure.model import payloads
from perdure.telemetry import lines
from perdure.telemetry.logs import say, type_of

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import TracerProvider

    from perdure.model.schedules import ScheduleChange, ScheduleRow

_KINDS = {"producer": SpanKind.PRODUCER, "consumer": SpanKind.CONSUMER, "internal": SpanKind.INTERNAL}
_W3C = TraceContextTextMapPropagator()


class RunSpan(NonRecordingSpan):
    """What is current in a workflow's own code: the context of its execution, on which nothing can be recorded.

    The code is executed again on every replay, by spans of other executions; and it outlives the one it began under.
    """


class Tracing:
    """Makes spans with one provider."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("perdure")
        self._failed = False

    def start(
        self,
        name: str,
        kind: Literal["producer", "consumer", "internal"],
        attributes: Mapping[str, Any],
        parent: Context | None = None,
    ) -> Span:
        """Begin a span; ``parent`` is the context it is in, by default the current one."""
        return self._tracer.start_span(name, parent, kind=_KINDS[kind], attributes=attributes)

    @contextmanager
    def around(self, name: str, attributes: Mapping[str, Any]) -> Generator[None]:
        """Make a span around what starts runs, and have it be the current one."""
        try:
            span = self.start(name, "producer", attributes)
        except Exception as error:  # noqa: BLE001 - the user's provider
            self.fails(error)
            yield
            return
        token = contexts.attach(trace.set_span_in_context(span))
        failed = ""
        try:
            yield
        except BaseException as error:
            failed = type_of(error)
            raise
        finally:
            contexts.detach(token)
            try:
                self.end(span, error=failed)
            except Exception as error:  # noqa: BLE001 - the user's processor
                self.fails(error)

    def fails(self, error: Exception) -> None:
        """Something of the user's has raised: say so, once."""
        if not self._failed:
            self._failed = True
            say(lines.SPANS_FAILED, error=error)

    def end(self, span: Span, *, error: str = "", **attributes: str) -> None:
        """End a span, with the type of the error that it ended in."""
        for name, value in attributes.items():
            span.set_attribute(f"perdure.{name}", value)
        if error:
            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR)
        span.end()

    def scheduled(self, row: ScheduleRow, change: ScheduleChange) -> ScheduleChange:
        """Have the runs that a change of a schedule starts go on in the current trace, or begin one of their own."""
        if not change.runs:
            return change
        attributes = {
            "perdure.schedule": row.key,
            "perdure.workflow": row.workflow,
            "perdure.namespace": row.namespace,
            "perdure.queue": row.queue,
            "perdure.runs": len(change.runs),
        }
        try:
            span = self.start(f"schedule {row.key}", "producer", attributes)
            self.end(span)
            carrier = self.carrier(span)
        except Exception as error:  # noqa: BLE001 - the user's provider
            self.fails(error)
            return change
        runs = tuple(run._replace(meta=payloads.traced(run.meta, carrier)) for run in change.runs)
        return change._replace(runs=runs)

    # -- contexts

    def carrier(self, span: Span | None = None) -> dict[str, str]:
        """Return the context of a span (by default the current one) as it is kept with a run; {} if there is none."""
        carrier: dict[str, str] = {}
        _W3C.inject(carrier, None if span is None else trace.set_span_in_context(span))
        return carrier

    def kept(self, carrier: Mapping[str, str]) -> Context:
        """Return the context that was kept with a run, and nothing of the current one."""
        return _W3C.extract(carrier, contexts.Context())

    def within(self, span: Span) -> Context:
        """Return the current context with another span, unless one of the user's own is current in the run's code."""
        current = trace.get_current_span()
        if isinstance(current, RunSpan) or not current.get_span_context().is_valid:
            return trace.set_span_in_context(span)
        return contexts.get_current()

    def enter(self, span: Span, context: Context | None = None) -> None:
        """Make a span the current one of the calling context, for good."""
        contexts.attach(trace.set_span_in_context(span, context))

    def enter_run(self, span: Span) -> None:
        """Make the calling context that of a run's code."""
        self.enter(RunSpan(span.get_span_context()), contexts.Context())


__all__ = ["RunSpan", "Span", "Tracing"]
