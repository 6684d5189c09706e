"""The protections of logs, metrics and traces; part of the table."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_LOGS, _METRICS, _TRACES = (f"telemetry/test_{name}.py::test_" for name in ("logs", "metrics", "traces"))
_SAYS = _LOGS + "what_happens_is_told_under_its_name_with_what_it_is_about_and_no_value[sqlite]"
_SPANS = _TRACES + "each_execution_and_attempt_has_a_span_in_the_trace_of_who_enqueued_and_bodies_work_below_it[sqlite]"

OBSERVING = [
    Mutation(
        "what a user's exception says is no part of a line", "telemetry/logs.py",
        "return type_of(error) + where", "return str(error)", _SAYS,
    ),
    Mutation(
        "the traceback of a user's exception is told at DEBUG", "telemetry/logs.py",
        'logger.debug("%(perdure_event)s: its traceback"', 'logger.info("%(perdure_event)s: its traceback"', _SAYS,
    ),
    Mutation(
        "an execution goes on in the trace that was kept with its run", "runtime/spans.py",
        "parent = self._tracing.kept(payloads.trace_of(claim.row.meta))", "parent = self._tracing.kept({})", _SPANS,
    ),
    Mutation(
        "a body works below its attempt's span", "runtime/spans.py",
        "body.context.run(self._tracing.enter, span, parent)", "pass", _SPANS,
    ),
    Mutation(
        "a child goes on in its parent's trace", "runtime/children.py",
        "payloads.meta(options.tags, run.host.carrier(run))", "payloads.meta(options.tags)", _SPANS,
    ),
    Mutation(
        "what a schedule starts has a trace", "operations/scheduling.py",
        "return made if tracing is None else tracing.scheduled(row, made)", "return made",
        _TRACES + "what_a_run_continues_or_is_forked_as_and_what_a_schedule_starts_is_in_a_trace_too[sqlite]",
    ),
    Mutation(
        "a provider that fails touches nobody who enqueues", "telemetry/otel.py",
        "            self.fails(error)\n            yield\n            return\n", "            raise\n",
        _TRACES + "a_provider_that_fails_is_warned_of_once_and_runs_go_on[sqlite]",
    ),
    Mutation(
        "many scrapes read the store once", "observing.py",
        "if now - self._asked_at >= FRESH:", "if True:",
        _METRICS + "the_store_is_read_once_for_all_scrapes_of_ten_seconds"
        "[sqlite]",
    ),
    Mutation(
        "the series of a metric are bounded", "telemetry/metrics.py",
        "if before is None and len(series) >= MOST:", "if False:",
        _METRICS + "names_without_bound_become_one_series",
    ),
    Mutation(
        "metrics are served to this machine unless told otherwise", "telemetry/exposition.py",
        "or LOOPBACK, int(port)", 'or "127.0.0.2", int(port)',
        _METRICS + "scrapes_are_answered_on_the_loopback_interface_also_while_the_loop_is_blocked"
        "[sqlite]",
    ),
]  # fmt: skip
