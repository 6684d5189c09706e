"""Runs, steps and events as plain data for JSON: what ``--json`` prints, what the web API answers and its pages show.

Instants are ISO 8601 in UTC with microseconds, durations are seconds, hashes are hexadecimal. Stored values are shown
as the JSON they are stored as; those over 64 KiB as a reference to their artifact. No key is ever left out: what
there is not is null.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from perdure.errors import PerdureError
from perdure.model import cadence, payloads
from perdure.model.deeds import author_of
from perdure.model.durations import instant as micros_of
from perdure.model.history import fold
from perdure.model.keys import step_name
from perdure.model.records import Event, Kind, Status
from perdure.model.redaction import HIDDEN
from perdure.model.schedules import OUTCOMES, decode_policy, names, numbers, status_of
from perdure.shown import failure, instant, redacting, redaction, value

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from perdure.diagnosis import Cause, Explanation, Finding, Holder
    from perdure.diagnosis.doctor import Report
    from perdure.model.condition import Backlog, Condition, Worker
    from perdure.model.counting import Counts, Traffic
    from perdure.model.deeds import Deed
    from perdure.model.forking import Lineage
    from perdure.model.history import ChildView, RunView, StepView
    from perdure.model.queues import QueueUsage
    from perdure.model.records import RunRow, WorkerRow
    from perdure.model.schedules import Occurrence, ScheduleRow
    from perdure.model.standing import Sign
    from perdure.model.timeline import Span, Timeline
    from perdure.store.protocol import Route

_VALUES = frozenset(
    {Kind.RUN_CREATED, Kind.STEP_COMPLETED, Kind.RUN_COMPLETED, Kind.SIGNAL_RECEIVED, Kind.PROGRESS, Kind.EMITTED}
)
"""Kinds whose payload is a value of the user's."""
_INSTANTS = frozenset({"wake_at", "next_at"})
"""What is an instant in the payloads of the others."""
_FAILED = frozenset({"failed", "failed-undone", "retrying"})
"""Findings whose sentence ends with the text of a failure."""


def row(run: RunRow, *, codeless: bool | None = None) -> dict[str, Any]:
    """Return a run as the store lists it; ``codeless``: whether no living worker has its code, if that is known."""
    return {
        "run_id": run.run_id,
        "workflow": run.workflow,
        "version": run.version,
        "namespace": run.namespace,
        "queue": run.queue,
        "status": run.status.word,
        "reason": _reason(run),
        "created_at": instant(run.created_at),
        "ended_at": instant(run.ended_at),
        "wake_at": instant(run.wake_at),
        "deadline_at": instant(run.deadline_at),
        "priority": run.priority,
        "idempotency_key": redaction().shown(run.idempotency_key, "idempotency_key"),
        "tags": redaction().shown(payloads.tags_of(run.meta), "tags"),
        "epoch": run.epoch,
        "crashes": run.crashes,
        "codeless": codeless,
        "undo": undo(run),
    }


def _reason(run: RunRow) -> str | None:
    """Return a run's reason; what is left out of failures is left out of it as well."""
    shown, reason = redaction(), run.reason
    if reason is None or not shown:
        return reason
    if run.status is Status.FAILED and shown.hides("failure", "text"):
        return f"{reason.partition(': ')[0]}: {HIDDEN}"
    # Of drift, values follow in the lines below.
    return reason.partition("\n")[0]


def undo(run: RunRow) -> list[str]:
    """Return the keys of the compensations that a run has registered, those for the latest effects last."""
    return [] if run.undo is None else list(json.loads(run.undo))


def step(view: StepView) -> dict[str, Any]:
    """Return a step of a run."""
    result = view.result
    return {
        "key": view.key,
        "name": view.name,
        "status": view.status,
        "attempt": view.attempt,
        "at": instant(view.at),
        "seq": view.seq,
        "took": None if view.took is None else view.took / 1e6,
        "next_at": instant(view.next_at),
        "args": None if view.args is None else redaction().arguments(value(view.args), "steps", view.name, "args"),
        "result": None if result is None else value(result.payload, result.codec, "steps", view.name, "result"),
        "failure": failure(view.failure),
        "failures": [{"attempt": attempt, **(failure(data) or {})} for attempt, data in view.failures],
        "progress": value(view.progress, payloads.PLAIN, "steps", view.name, "progress"),
        "artifacts": {name: digest.hex() for name, digest in view.artifacts.items()},
    }


def event(entry: Event) -> dict[str, Any]:
    """Return an event of a log."""
    kind = Kind(entry.kind)
    is_value = kind in _VALUES
    said = value(entry.payload, entry.codec, *_place(kind, entry))
    if kind == Kind.DRIFT_FOUND and isinstance(said, dict) and redaction():
        said = {**said, **_parted(said)}
    if not is_value and isinstance(said, dict) and "failure" in said:
        said = {**said, "failure": failure(payloads.failure_of(entry.payload))}
    if not is_value and isinstance(said, dict):
        said = {name: instant(one) if name in _INSTANTS and isinstance(one, int) else one for name, one in said.items()}
    return {
        "seq": entry.seq,
        "at": instant(entry.at),
        "epoch": entry.epoch,
        "kind": kind.word,
        "key": entry.key,
        "attempt": entry.attempt,
        "took": None if entry.took is None else entry.took / 1e6,
        "value": said if is_value else None,
        "details": None if is_value else said,
        "args": _args(kind, entry),
        "hash": entry.hash.hex(),
    }


def _place(kind: Kind, entry: Event) -> tuple[str, ...]:
    """Return where the payload of an event stands, for what is left out."""
    if kind in {Kind.RUN_CREATED, Kind.RUN_COMPLETED}:
        return ("input",) if kind == Kind.RUN_CREATED else ("result",)
    if kind in {Kind.SIGNAL_RECEIVED, Kind.SIGNAL_REFUSED}:
        return "signals", str(payloads.fields(entry.args).get("name", ""))
    if kind == Kind.EMITTED:
        return "streams", payloads.stream_of(entry)
    name = step_name(entry.key or "")
    if kind == Kind.CHILD_ENDED:
        return "children", name, "result"
    if kind in {Kind.STEP_COMPLETED, Kind.PROGRESS}:
        return "steps", name, "result" if kind == Kind.STEP_COMPLETED else "progress"
    return ()


def _args(kind: Kind, entry: Event) -> Any:
    """Return what is beside the payload of an event: arguments, a child's input, or what we say ourselves."""
    said = value(entry.args)
    if kind in _BY_HAND and isinstance(said, dict) and "by" in said:
        return {**said, "by": author(str(said["by"]))}
    if kind in _WITH_ARGUMENTS:
        shown, name = redaction(), step_name(entry.key or "")
        if kind == Kind.CHILD_STARTED:
            return shown.arguments(said, "children", name, "input")
        return shown.arguments(said, "steps", name, "args")
    return said


_BY_HAND = frozenset({Kind.RUN_CREATED, Kind.SIGNAL_RECEIVED})
"""Kinds beside whose payload stands who has done it, if that was a person."""
_WITH_ARGUMENTS = frozenset({Kind.STEP_COMPLETED, Kind.STEP_FAILED, Kind.STEP_CANCELLED, Kind.CHILD_STARTED})


def _parted(said: dict[str, Any]) -> dict[str, Any]:
    """Return where code and record part: the one and the other hold values, in no form that could be looked through."""
    if not redaction():
        return {name: said.get(name) for name in ("reason", "recorded", "found")}
    reason = said.get("reason")
    return {
        "reason": None if reason is None else str(reason).partition("\n")[0],
        **{name: None if said.get(name) is None else HIDDEN for name in ("recorded", "found")},
    }


def timeline(found: Timeline, keys: Container[str]) -> dict[str, Any]:
    """Return what happened in a run when; of its steps those whose keys are given."""
    return {
        "run": [span(one) for one in found.run],
        "lanes": [
            {"key": lane.key, "kind": lane.kind, "spans": [span(one) for one in lane.spans]}
            for lane in found.lanes.values()
            if lane.kind != "step" or lane.key in keys
        ],
        "marks": [{"at": instant(at), "kind": kind} for at, kind in found.marks],
    }


def span(found: Span) -> dict[str, Any]:
    """Return something that went on for a while."""
    return {
        "kind": found.kind,
        "start": instant(found.start),
        "end": instant(found.end),
        "outcome": found.outcome,
        "attempt": found.attempt,
        "seq": found.seq,
        "pid": found.pid,
    }


def worker(found: WorkerRow, *, alive: bool) -> dict[str, Any]:
    """Return a worker."""
    return {
        "name": found.name,
        "host": found.host,
        "pid": found.pid,
        "started_at": instant(found.started_at),
        "alive": alive,
    }


def serving(
    found: WorkerRow, sign: Sign | None, now: int, routes: Sequence[Route], held: Sequence[RunRow], holds: int
) -> dict[str, Any]:
    """Return a worker with what shows that it lives, what it serves, and how many runs it holds, some of them named."""
    return {
        **worker(found, alive=sign is not None and sign.life(now) == "alive"),
        "build": found.build,
        "life": "gone" if sign is None else sign.life(now),
        "lock": "free" if sign is None else sign.lock,
        "leased_until": None if sign is None else instant(sign.leased_until),
        "beats": found.beat,
        "stopped": found.stopped,
        "serves": [asdict(one) for one in routes],
        "holds": holds,
        "runs": [row(one) for one in held],
    }


def backlog(found: Backlog) -> dict[str, Any]:
    """Return runs of one route that could go on now."""
    return {**found._asdict(), "since": instant(found.since)}


def tally(done: int, unchanged: int, failures: Mapping[str, Exception], *, more: bool) -> dict[str, Any]:
    """Return what became of many runs; ``more``: whether there are others that were not come to."""
    return {
        "done": done,
        "unchanged": unchanged,
        "failures": [{"run_id": run_id, **_fault(error)} for run_id, error in failures.items()],
        "more": more,
    }


def _fault(error: Exception) -> dict[str, str]:
    """Return an error; where anything is left out, no more of it than holds no values."""
    if not isinstance(error, PerdureError):
        return {"code": "internal", "message": type(error).__name__, "advice": ""}
    told = error.headline if redaction() else error.message
    return {"code": error.code, "message": told, "advice": error.advice}


def run(
    run: RunRow,
    events: Sequence[Event],
    *,
    holder: dict[str, Any] | None = None,
    view: RunView | None = None,
    codeless: bool | None = None,
    forks: Iterable[RunRow] = (),
) -> dict[str, Any]:
    """Return all that is known of a run but its log itself.

    Args:
        run: its row.
        events: its log.
        holder: the worker that executes it, as ``worker`` returns it.
        view: the fold of the log, if it is there already.
        codeless: as for ``row``.
        forks: the runs that were forked from it.
    """
    view = fold(events) if view is None else view
    code = payloads.fields(view.input.args) if view.input is not None else {}
    return {
        **row(run, codeless=codeless),
        "status": view.status.word,
        "seq": view.seq,
        "hash": view.hash.hex(),
        "input": None if view.input is None else value(view.input.payload, view.input.codec, "input"),
        "result": None if view.result is None else value(view.result.payload, view.result.codec, "result"),
        "failure": failure(view.failure),
        "failed_steps": view.failed_steps,
        "cancel_reason": view.cancel_reason,
        "updated_at": instant(view.updated_at),
        "scheduled_at": None if view.input is None else instant(payloads.scheduled_at(view.input)),
        "created_by": author(code["by"]) if "by" in code else None,
        "claims": [claim(entry) for entry in events if entry.kind == Kind.RUN_CLAIMED],
        "refusals": [refusal(entry) for entry in refusals(events)],
        "undone": view.undone,
        "not_undone": view.not_undone,
        "awaits": view.awaits,
        "signals": view.signals,
        "children": [child(one) for one in view.children.values()],
        "patches": view.patches,
        "forked_from": None if view.forked_from is None else lineage(view.forked_from),
        "forks": [one.run_id for one in forks],
        "streams": view.streams,
        "steps": [step(one) for one in view.steps.values()],
        "worker": holder,
        "code": {name: code.get(name) for name in ("module", "qualname", "file")},
    }


def lineage(forked: Lineage) -> dict[str, Any]:
    """Return where a run was forked from."""
    return {
        "run_id": forked.run_id,
        "step": forked.step,
        "seq": forked.seq,
        "keep_keys": forked.keys is not None,
    }


def child(view: ChildView) -> dict[str, Any]:
    """Return a child of a run."""
    return {"key": view.key, "run_id": view.run_id, "workflow": view.workflow, "status": view.status, "seq": view.seq}


def claim(entry: Event) -> dict[str, Any]:
    """Return one claim of a run: who began to execute it, and when."""
    said = payloads.fields(entry.payload)
    return {
        "seq": entry.seq,
        "at": instant(entry.at),
        **{name: said.get(name) for name in ("worker", "pid", "python", "build")},
    }


def refusals(events: Sequence[Event]) -> list[Event]:
    """Return the drift that was found since the run was last resumed: what builds have refused it for."""
    found: list[Event] = []
    for entry in events:
        if entry.kind == Kind.RUN_RESUMED:
            found = []
        elif entry.kind == Kind.DRIFT_FOUND:
            found.append(entry)
    return found


def refusal(entry: Event) -> dict[str, Any]:
    """Return one refusal of a run: which build found what."""
    said = payloads.fields(entry.payload)
    return {
        "seq": entry.seq,
        "at": instant(entry.at),
        **{name: said.get(name) for name in ("build", "code", "reason", "key")},
        **_parted(said),
    }


def queue(found: QueueUsage) -> dict[str, Any]:
    """Return a queue with its limits, and how much of it is in use."""
    row, limits = found.row, found.row.limits
    return {
        "name": row.name,
        "paused": row.paused,
        "concurrency": limits.concurrency,
        "worker_concurrency": limits.per_worker,
        "partition_concurrency": limits.per_partition,
        "rate": None if limits.period is None else {"runs": limits.starts, "per": limits.period / 1e6},
        "running": found.held,
        "ready": found.ready,
        "begun": found.begun,
        "opens_at": instant(found.opens_at),
    }


def schedule(found: ScheduleRow) -> dict[str, Any]:
    """Return a schedule; what cannot be understood here of when it fires is left as it is."""
    policy = decode_policy(found.policy)
    said: dict[str, Any] = {"cadence": found.cadence.decode("utf-8", "replace"), "start": None, "end": None}
    fault = found.fault
    try:
        when = cadence.decode(found.cadence)
    except (PerdureError, ValueError, LookupError, TypeError) as error:
        fault = fault or str(error)
    else:
        said = {"cadence": when.describe(), "start": instant(when.start), "end": instant(when.end)}
    return {
        "key": found.key,
        "workflow": found.workflow,
        "version": found.version,
        "status": status_of(found),
        **said,
        "next_at": instant(found.next_at),
        "waiting": [instant(one) for one in numbers(found.waiting)],
        "running": names(found.active),
        "overlap": policy.overlap,
        "catch_up": policy.catch_up / 1e6,
        "jitter": policy.jitter / 1e6,
        "priority": policy.priority,
        "tags": redaction().shown(policy.tags or {}, "tags"),
        "input": value(found.payload, found.codec, "input"),
        "revision": found.revision,
        "created_at": instant(found.created_at),
        "fault": fault,
    }


def occurrence(found: Occurrence) -> dict[str, Any]:
    """Return what became of an occurrence, or of several in a row."""
    return {
        "at": instant(found.first),
        "until": instant(found.last),
        "times": found.times,
        "outcome": OUTCOMES[found.kind],
        "decided_at": instant(found.at),
        "run_id": found.run_id,
        "reason": found.reason,
    }


def deed(found: Deed) -> dict[str, Any]:
    """Return what was done to a queue or schedule by hand."""
    return {
        "at": instant(found.at),
        "name": found.name,
        "what": found.what,
        "by": author(found.author),
        "detail": found.detail or None,
    }


def author(text: str) -> dict[str, str]:
    """Return who did something by hand: by what, and by what name they are known there."""
    return author_of(text)._asdict()


def explanation(found: Explanation) -> dict[str, Any]:
    """Return why a run is where it is."""
    return {
        "run_id": found.run_id,
        "workflow": found.workflow,
        "version": found.version,
        "queue": found.queue,
        "status": found.status.word,
        "now": instant(found.now),
        "severity": found.worst.word,
        "causes": [cause(one) for one in found.causes],
    }


def cause(found: Cause) -> dict[str, Any]:
    """Return a reason for a run being where it is; ``depth`` says how far down the chain."""
    return {
        "run_id": found.run_id,
        "depth": found.depth,
        **_told(found.finding),
        "since": instant(found.since),
        "until": instant(found.until),
        "who": None if found.who is None else holder(found.who),
    }


def _told(found: Finding) -> dict[str, Any]:
    """Return a finding about a run; what is left out of failures is left out of it as well."""
    said = finding(found)
    if found.code in _FAILED and redaction().hides("failure", "text"):
        said["found"] = f"{found.found.partition(': ')[0]}: {HIDDEN}"
    return said


def finding(found: Finding) -> dict[str, Any]:
    """Return a finding."""
    return {
        "code": found.code,
        "severity": found.severity.word,
        "about": found.about,
        "found": found.found,
        "advice": found.advice,
    }


def report(found: Report) -> dict[str, Any]:
    """Return what a store suffers from."""
    condition = found.condition
    inside = condition.contents
    return {
        "store": condition.store,
        "now": instant(condition.now),
        "severity": found.worst.word,
        "schema": {"version": condition.version, "known": condition.known},
        "facts": dict(condition.facts),
        "database": None if condition.database is None else asdict(condition.database),
        "runs": None if inside is None else {status.word: inside.counts.get(status, 0) for status in Status},
        "workers": None if inside is None else [_examined(one, condition.now) for one in inside.workers],
        "queues": None if inside is None else [queue(one) for one in inside.queues],
        "findings": [finding(one) for one in found.findings],
    }


def _examined(found: Worker, now: int) -> dict[str, Any]:
    row, sign = found.row, found.sign
    return {
        "name": row.name,
        "host": row.host,
        "pid": row.pid,
        "build": row.build,
        "started_at": instant(row.started_at),
        "lock": sign.lock,
        "leased_until": instant(sign.leased_until),
        "life": sign.life(now),
        "holds": found.holds,
    }


def tallies(of: Condition) -> list[tuple[str, str]]:
    """Return in a few words what is in a store: runs by status, and workers."""
    inside = of.contents
    if inside is None:
        return []
    more = {status: "+" if number >= inside.bound else "" for status, number in inside.counts.items()}
    runs = [f"{number:,}{more[status]} {status.word}" for status, number in inside.counts.items()]
    alive = sum(one.sign.life(of.now) == "alive" for one in inside.workers)
    return [("runs", ", ".join(runs) or "none"), ("workers", f"{alive} alive" if alive else "none")]


def holder(found: Holder) -> dict[str, Any]:
    """Return a worker as it looks at one moment."""
    return {
        "name": found.name,
        "host": found.host,
        "pid": found.pid,
        "build": found.build,
        "leased_until": instant(found.leased_until),
        "life": found.life,
        "holds": found.holds,
        "serves": found.serves,
    }


def counts(found: Counts) -> dict[str, Any]:
    """Return how many runs there are, by status and by workflow."""
    by_workflow = {name: _numbers(of) for name, of in found.by_workflow.items()}
    return {
        "total": found.total,
        "exact": found.exact,
        "by_status": _numbers(found.by_status),
        "by_workflow": by_workflow,
    }


def _numbers(found: Mapping[Status, int]) -> dict[str, int]:
    return {status.word: found.get(status, 0) for status in Status}


def traffic(found: Traffic) -> dict[str, Any]:
    """Return what became of runs over time; latencies in seconds."""
    return {
        "exact": found.exact,
        "buckets": [
            {
                "since": instant(micros_of(one.since)),
                "until": instant(micros_of(one.until)),
                **{name: getattr(one, name) for name in ("created", "completed", "failed", "cancelled")},
                "latency": None if one.latency is None else asdict(one.latency),
                "execution": None if one.execution is None else asdict(one.execution),
            }
            for one in found.buckets
        ],
    }


def is_open(status: Status) -> bool:
    """Whether a run in this status may still go on by itself."""
    return not status.terminal and status is not Status.BLOCKED


__all__ = [
    "backlog", "cause", "child", "claim", "counts", "event", "explanation", "failure", "finding", "holder",
    "instant", "is_open", "lineage", "occurrence", "redacting", "refusal", "refusals", "report", "row", "run",
    "schedule", "serving", "span", "step", "tallies", "tally", "timeline", "traffic", "undo", "value", "worker",
]  # fmt: skip
