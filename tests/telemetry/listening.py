"""What the tests of telemetry look at: every record that was logged, every span that was made."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from perdure.telemetry.logs import EVENT
from tests.engine.desk import ORDER, Clock, Desk, engine_at, errand


class Ear(logging.Handler):
    """Keeps every record of a level and above, and all that it would tell any formatter."""

    def __init__(self, level=logging.DEBUG):
        super().__init__(level)
        self.records = []
        self.text = ""

    def emit(self, record):
        self.records.append(record)
        self.text += f"{logging.Formatter().format(record)} {vars(record)!r}\n"

    def events(self, *names):
        """The lines of these names (of all), with what they carry."""
        told = [vars(record) for record in self.records if EVENT in vars(record)]
        return [one for one in told if not names or one[EVENT] in names]


class Traces:
    """A provider whose spans are kept in memory."""

    def __init__(self, **options):
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider(**options)
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = self.provider.get_tracer("tests")

    @property
    def spans(self):
        return list(self._kept.get_finished_spans())

    def named(self, name):
        return [span for span in self.spans if span.name == name]

    def tree(self):
        """Names of spans, each with those below it, in the order in which they began."""
        below = {}
        known = {span.context.span_id for span in self.spans}
        for span in sorted(self.spans, key=lambda span: span.start_time):
            parent = span.parent.span_id if span.parent is not None and span.parent.span_id in known else None
            below.setdefault(parent, []).append(span)

        def branch(parent):
            return [(span.name, branch(span.context.span_id)) for span in below.get(parent, [])]

        return branch(None)


def samples(text):
    """What an exposition says: by name of the sample and labels, its value."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def die_in_the_second_step(path, note):
    """Be a web process that enqueues an errand within a request's span, and is killed while it executes it."""

    async def main():
        desk, traces = Desk(), Traces()
        gate = desk.hold("second")
        engine = engine_at(path, errand, desk=desk, clock=Clock(), tracing=traces.provider)
        await engine.start()
        with traces.tracer.start_as_current_span("request") as request:
            await engine.enqueue(errand, ORDER, run_id="r")
        await gate.arrival()
        note.write_text(f"{request.get_span_context().trace_id} {len(traces.named('step work'))}")
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())
