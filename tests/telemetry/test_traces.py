"""Spans: what happened when and within what, across processes, and what the user's own code does below it."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased
from opentelemetry.trace import StatusCode

from perdure import INJECTED, Engine, StepContext, continue_as_new, sleep, step, workflow
from perdure.errors import DefinitionError
from perdure.model import payloads
from perdure.model.records import Status
from perdure.telemetry.tracing import ATTRIBUTES, SPANS, tracing_of
from tests.crash.procs import SERVER
from tests.engine.desk import ORDER, Desk, Refused, engine_at, errand, in_loop, in_status, job
from tests.telemetry.listening import Traces, die_in_the_second_step, samples


@step
async def asks(*, ctx: StepContext[Desk] = INJECTED) -> None:
    with ctx.tools.tracer.start_as_current_span("GET /"):
        pass


@step
def computes(*, ctx: StepContext[Desk] = INJECTED) -> None:
    with ctx.tools.tracer.start_as_current_span("compute"):
        pass


@workflow
async def below(n: int) -> int:
    await asks()
    return n


@workflow
async def whole(n: int) -> int:
    await asyncio.gather(asks(), computes.aio())
    await sleep("1h")
    return await below(n)


@workflow
def blocking() -> None:
    computes()


@workflow
async def rounds(n: int) -> int:
    if n:
        continue_as_new(n - 1)
    await asks()
    return n


@in_loop
async def test_each_execution_and_attempt_has_a_span_in_the_trace_of_who_enqueued_and_bodies_work_below_it(
    path, desk, clock, traces
):
    desk.tracer = traces.tracer
    async with engine_at(path, whole, below, blocking, desk=desk, clock=clock, tracing=traces.provider) as engine:
        with traces.tracer.start_as_current_span("request"):
            handle = await engine.enqueue(whole, 1)
        await in_status(engine, handle.run_id, Status.SLEEPING)
        clock.advance("1h")
        assert await handle.result() == 1
        await engine.run(blocking)
    steps = [("step asks", [("GET /", [])]), ("step computes", [("compute", [])])]
    child = ("run below", [("step asks", [("GET /", [])])])
    request, enqueue = traces.tree()
    assert request[:1] == ("request",)
    ((_, executions),) = request[1]
    assert [name for name, _ in executions] == ["run whole"] * 3
    assert [sorted(found) for _, found in executions] == [steps, [child], []], "a replay makes no span of a step"
    assert enqueue == ("enqueue blocking", [("run blocking", steps[1:])])
    assert len({span.context.trace_id for span in traces.spans}) == 2
    whole_runs = traces.named("run whole")
    assert [span.attributes["perdure.outcome"] for span in whole_runs] == ["suspended", "suspended", "completed"]
    assert {name.partition(" ")[0] for name in SPANS} >= {
        span.name.partition(" ")[0] for span in traces.spans if span.instrumentation_scope.name == "perdure"
    }
    ours = [span for span in traces.spans if span.instrumentation_scope.name == "perdure"]
    assert {name for span in ours for name in span.attributes} <= ATTRIBUTES.keys()


@in_loop
async def test_errors_are_recorded_by_type_and_without_a_word_of_what_they_say(path, desk, traces):
    desk.fails = {"7": Refused("s3cret")}
    async with engine_at(path, job, desk=desk, tracing=traces.provider) as engine:
        with pytest.raises(Refused):
            await engine.run(job, 7)
    (attempt,), (execution,) = traces.named("step work"), traces.named("run job")
    for span in (attempt, execution):
        assert span.attributes["perdure.outcome"] == "failed"
        assert span.attributes["error.type"].endswith("Refused")
        assert span.status.status_code is StatusCode.ERROR
    assert "s3cret" not in "".join(span.to_json() for span in traces.spans)


@pytest.mark.crash
@in_loop
async def test_a_run_that_another_process_takes_over_goes_on_in_its_trace(path, desk, clock, traces, ear, tmp_path):
    note = tmp_path / "note"
    process = SERVER.Process(target=die_in_the_second_step, args=(path, note))
    process.start()
    await asyncio.to_thread(process.join)
    trace_id, made = map(int, note.read_text().split())
    assert made == 1, "the span of the first step had ended"
    async with engine_at(path, errand, desk=desk, clock=clock, tracing=traces.provider, metrics=True) as engine:
        await engine.get("r").result()
        row = await engine.get("r").row()
        said = samples(await engine.metrics())
    assert {span.context.trace_id for span in traces.spans} == {trace_id}
    (execution,), (attempt,) = traces.named("run errand"), traces.named("step work_twice")
    parent = payloads.trace_of(row.meta)["traceparent"].split("-")[2]
    assert execution.parent.span_id == int(parent, 16)
    assert attempt.parent.span_id == execution.context.span_id
    assert traces.named("step work") == [], "what was done before has its span already"
    assert said[("perdure_runs_reclaimed_total",)] == 1
    assert [one["runs"] for one in ear.events("worker.reclaimed")] == [1]


@in_loop
async def test_what_a_run_continues_or_is_forked_as_and_what_a_schedule_starts_is_in_a_trace_too(path, desk, traces):
    desk.tracer = traces.tracer
    async with engine_at(path, rounds, below, desk=desk, tracing=traces.provider) as engine:
        with traces.tracer.start_as_current_span("request") as request:
            first = await engine.enqueue(rounds, 2)
        assert await first.result() == 0
        fork = await first.fork(from_step="asks")
        await fork.result()
        schedule = await engine.schedule(below, 1, every="1d", key="daily")
        await (await schedule.trigger()).result()
    assert len(traces.named("run rounds")) == 4
    assert {span.context.trace_id for span in traces.named("run rounds")} == {request.get_span_context().trace_id}
    (run,) = traces.named("run below")
    assert run.parent is not None


@in_loop
async def test_what_the_parent_decided_of_sampling_holds_also_later_and_elsewhere(path, desk, clock, traces):
    off = Traces(sampler=ParentBased(ALWAYS_OFF))
    async with engine_at(path, errand, desk=desk, clock=clock, tracing=off.provider).client() as client:
        await client.enqueue(errand, ORDER, run_id="r")
    mine = Traces(sampler=ParentBased(ALWAYS_ON))
    async with engine_at(path, errand, desk=desk, clock=clock, tracing=mine.provider) as engine:
        await engine.get("r").result()
    assert (off.spans, mine.spans) == ([], [])


class Broken(trace.TracerProvider):
    """Cannot make a span."""

    def get_tracer(self, *_args, **_kwargs):
        return self

    def start_span(self, *_args, **_kwargs):
        raise LookupError("s3cret")


@in_loop
async def test_a_provider_that_fails_is_warned_of_once_and_runs_go_on(path, desk, ear):
    async with engine_at(path, job, desk=desk, tracing=Broken()) as engine:
        handles = [await engine.enqueue(job, n) for n in range(2)]
        assert [await one.result() for one in handles] == [1, 2]
    said = [(one["levelname"], one["error_type"]) for one in ear.events("traces.failed")]
    assert said == [("WARNING", "LookupError"), ("DEBUG", "LookupError")]


def test_what_is_no_provider_is_refused():
    with pytest.raises(DefinitionError, match="no tracer provider"):
        Engine("nowhere.db", tracing=print)


PROGRAM = """
import sys
import perdure
from perdure import step, workflow

@step
async def one() -> int:
    return 1

@workflow
async def job() -> int:
    return await one()

if sys.argv[1] == "provider":
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda span: span.name + chr(10))))
    trace.set_tracer_provider(provider)
perdure.run(job, run_id="r", store=sys.argv[2])
loaded = {name.partition(".")[0] for name in sys.modules}
print("opentelemetry" in loaded, "prometheus_client" in loaded)
if sys.argv[1] == "provider":
    assert trace.get_tracer_provider() is provider
"""


@pytest.mark.parametrize(
    ("how", "said"),
    [("nothing", ["False False"]), ("provider", ["enqueue job", "step one", "run job", "True False"])],
)
def test_a_provider_that_is_set_up_is_used_and_left_alone_and_without_one_nothing_is_loaded(tmp_path, how, said):
    program = [sys.executable, "-c", PROGRAM, how, str(tmp_path / "store.db")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.split("\n")[:-1] == said


@in_loop
async def test_what_a_stop_interrupts_has_not_failed_and_goes_on_in_its_trace(path, desk, traces):
    gate = desk.hold("1")
    async with engine_at(path, job, desk=desk, tracing=traces.provider) as engine:
        await engine.enqueue(job, 1, run_id="r")
        await gate.arrival()
        await engine.stop(0)
    (attempt,), (execution,) = traces.named("step work"), traces.named("run job")
    assert (attempt.attributes["perdure.outcome"], execution.attributes["perdure.outcome"]) == (
        "interrupted",
        "released",
    )
    assert {span.status.status_code for span in traces.spans} == {StatusCode.UNSET}
    gate.open()
    async with engine_at(path, job, desk=desk, tracing=traces.provider) as engine:
        assert await engine.get("r").result() == 2
    assert [span.attributes["perdure.outcome"] for span in traces.named("run job")] == ["released", "completed"]
    assert len({span.context.trace_id for span in traces.spans}) == 1


def test_what_is_asked_for_and_not_installed_says_how_it_is(monkeypatch):
    for module in ("opentelemetry", "prometheus_client"):
        monkeypatch.setitem(sys.modules, module, None)
    for module in ("perdure.telemetry.otel", "perdure.telemetry.exposition"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(DefinitionError, match="OpenTelemetry's API is not installed") as caught:
        tracing_of(True)
    assert "perdure[otel]" in caught.value.advice
    with pytest.raises(DefinitionError, match="prometheus_client is not installed") as caught:
        Engine("nowhere.db", metrics=True).collector()
    assert "perdure[prometheus]" in caught.value.advice
