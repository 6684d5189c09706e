"""What JSON answers look like, as JSON schemas."""

from __future__ import annotations

from typing import Any, Final

from perdure.model.records import Kind, Status

Schema = dict[str, Any]


def _object(properties: dict[str, Schema]) -> Schema:
    """Return the schema of an object that has all of these properties, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]} if "$ref" in schema else {**schema, "type": [schema["type"], "null"]}


def _list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def ref(name: str) -> Schema:
    """Return a reference to a schema of these."""
    return {"$ref": f"#/components/schemas/{name}"}


_TEXT: Final[Schema] = {"type": "string"}
_WHOLE: Final[Schema] = {"type": "integer"}
_NUMBER: Final[Schema] = {"type": "number"}
_TRUTH: Final[Schema] = {"type": "boolean"}
_INSTANT: Final[Schema] = {"type": "string", "format": "date-time"}
_ANY: Final[Schema] = {}
_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": _TEXT}
_NUMBERS: Final[Schema] = {"type": "object", "additionalProperties": _WHOLE}
_STATUS: Final[Schema] = {"type": "string", "enum": [status.word for status in Status]}

_ROW: Final[dict[str, Schema]] = {
    "run_id": _TEXT,
    "workflow": _TEXT,
    "version": _TEXT,
    "namespace": _TEXT,
    "queue": _TEXT,
    "status": _STATUS,
    "reason": _or_null(_TEXT),
    "created_at": _INSTANT,
    "ended_at": _or_null(_INSTANT),
    "wake_at": _or_null(_INSTANT),
    "deadline_at": _or_null(_INSTANT),
    "priority": _WHOLE,
    "idempotency_key": _or_null(_TEXT),
    "tags": _ANY,
    "epoch": _WHOLE,
    "crashes": _WHOLE,
    "codeless": _or_null(_TRUTH),
    "undo": _list(_TEXT),
}

_COUNTS: Final[Schema] = _object(
    {
        "total": _WHOLE,
        "exact": _TRUTH,
        "by_status": _NUMBERS,
        "by_workflow": {"type": "object", "additionalProperties": _NUMBERS},
    }
)
_QUEUE: Final[dict[str, Schema]] = {
    "name": _TEXT,
    "paused": _TRUTH,
    "concurrency": _or_null(_WHOLE),
    "worker_concurrency": _or_null(_WHOLE),
    "partition_concurrency": _or_null(_WHOLE),
    "rate": _or_null(_object({"runs": _WHOLE, "per": _NUMBER})),
    "running": _WHOLE,
    "ready": _WHOLE,
    "begun": _WHOLE,
    "opens_at": _or_null(_INSTANT),
}
_SCHEDULE: Final[dict[str, Schema]] = {
    "key": _TEXT,
    "workflow": _TEXT,
    "version": _TEXT,
    "status": {"type": "string", "enum": ["active", "paused", "ended"]},
    "cadence": _TEXT,
    "start": _or_null(_INSTANT),
    "end": _or_null(_INSTANT),
    "next_at": _or_null(_INSTANT),
    "waiting": _list(_INSTANT),
    "running": _list(_TEXT),
    "overlap": _TEXT,
    "catch_up": _NUMBER,
    "jitter": _NUMBER,
    "priority": _WHOLE,
    "tags": _ANY,
    "input": _ANY,
    "revision": _WHOLE,
    "created_at": _INSTANT,
    "fault": _or_null(_TEXT),
    "is_served": _TRUTH,
    "last": _or_null(ref("Occurrence")),
}

SCHEMAS: Final[dict[str, Schema]] = {
    "Error": _object({"error": _object({"code": _TEXT, "message": _TEXT, "advice": _TEXT})}),
    "Row": _object(_ROW),
    "Runs": _object(
        {
            "now": _INSTANT,
            "runs": _list(_object({**_ROW, "abandoned": _TRUTH})),
            "next": _or_null(_TEXT),
            "counts": _COUNTS,
            "traffic": _object({"exact": _TRUTH, "buckets": _list(ref("Bucket"))}),
        }
    ),
    "Latency": _object({"p50": _NUMBER, "p95": _NUMBER, "max": _NUMBER}),
    "Bucket": _object(
        {
            "since": _INSTANT,
            "until": _INSTANT,
            "created": _WHOLE,
            "completed": _WHOLE,
            "failed": _WHOLE,
            "cancelled": _WHOLE,
            "latency": _or_null(ref("Latency")),
            "execution": _or_null(ref("Latency")),
        }
    ),
    "Failure": _object({name: _or_null(_TEXT) for name in ("type", "text", "line", "traceback")}),
    "Step": _object(
        {
            "key": _TEXT,
            "name": _TEXT,
            "status": _TEXT,
            "attempt": _WHOLE,
            "at": _INSTANT,
            "seq": _WHOLE,
            "took": _or_null(_NUMBER),
            "next_at": _or_null(_INSTANT),
            "args": _ANY,
            "result": _ANY,
            "failure": _or_null(ref("Failure")),
            "failures": _list({"type": "object"}),
            "progress": _ANY,
            "artifacts": _TEXTS,
        }
    ),
    "Run": _object(
        {
            **_ROW,
            "seq": _WHOLE,
            "hash": _TEXT,
            "input": _ANY,
            "result": _ANY,
            "failure": _or_null(ref("Failure")),
            "failed_steps": _list(_TEXT),
            "cancel_reason": _or_null(_TEXT),
            "updated_at": _INSTANT,
            "scheduled_at": _or_null(_INSTANT),
            "created_by": _or_null(_object({"via": _TEXT, "name": _TEXT})),
            "claims": _list({"type": "object"}),
            "refusals": _list({"type": "object"}),
            "undone": _list(_TEXT),
            "not_undone": _list(_TEXT),
            "awaits": _list(_TEXT),
            "signals": _NUMBERS,
            "children": _list(
                _object({"key": _TEXT, "run_id": _TEXT, "workflow": _TEXT, "status": _TEXT, "seq": _WHOLE})
            ),
            "patches": _list(_TEXT),
            "forked_from": _or_null({"type": "object"}),
            "forks": {"type": "array", "items": {"type": "string"}},
            "streams": _NUMBERS,
            "steps": _list(ref("Step")),
            "worker": _or_null({"type": "object"}),
            "code": {"type": "object"},
        }
    ),
    "Event": _object(
        {
            "seq": _WHOLE,
            "at": _INSTANT,
            "epoch": _WHOLE,
            "kind": {"type": "string", "enum": [kind.word for kind in Kind]},
            "key": _or_null(_TEXT),
            "attempt": _or_null(_WHOLE),
            "took": _or_null(_NUMBER),
            "value": _ANY,
            "details": _ANY,
            "args": _ANY,
            "hash": _TEXT,
        }
    ),
    "Log": _object(
        {
            "now": _INSTANT,
            "run": ref("Row"),
            "events": _list(ref("Event")),
            "after": _WHOLE,
            "next": _or_null(_WHOLE),
        }
    ),
    "Span": _object(
        {
            "kind": _TEXT,
            "start": _INSTANT,
            "end": _or_null(_INSTANT),
            "outcome": _TEXT,
            "attempt": _or_null(_WHOLE),
            "seq": _WHOLE,
            "pid": _or_null(_WHOLE),
        }
    ),
    "Timeline": _object(
        {
            "run": _list(ref("Span")),
            "lanes": _list(_object({"key": _TEXT, "kind": _TEXT, "spans": _list(ref("Span"))})),
            "marks": _list(_object({"at": _INSTANT, "kind": _TEXT})),
        }
    ),
    "Explanation": _object(
        {
            "run_id": _TEXT,
            "workflow": _TEXT,
            "version": _TEXT,
            "queue": _TEXT,
            "status": _STATUS,
            "now": _INSTANT,
            "severity": _TEXT,
            "causes": _list(
                _object(
                    {
                        "run_id": _TEXT,
                        "depth": _WHOLE,
                        "code": _TEXT,
                        "severity": _TEXT,
                        "about": _TEXT,
                        "found": _TEXT,
                        "advice": _TEXT,
                        "since": _or_null(_INSTANT),
                        "until": _or_null(_INSTANT),
                        "who": _or_null({"type": "object"}),
                    }
                )
            ),
        }
    ),
    "RunPage": _object(
        {
            "now": _INSTANT,
            "run": ref("Run"),
            "counts": _NUMBERS,
            "is_readable": _TRUTH,
            "is_held": _TRUTH,
            "timeline": ref("Timeline"),
            "events": _list(ref("Event")),
            "why": ref("Explanation"),
            "parent": _or_null(ref("Row")),
            "children": _list(ref("Row")),
            "family": _or_null(
                _object(
                    {
                        "whole": _TRUTH,
                        "runs": _list(
                            _object(
                                {
                                    "run_id": _TEXT,
                                    "status": _TEXT,
                                    "created_at": _INSTANT,
                                    "depth": _WHOLE,
                                    "step": _or_null(_TEXT),
                                }
                            )
                        ),
                    }
                )
            ),
        }
    ),
    "Done": _object({"done": _TEXT, "run": ref("Row")}),
    "Queue": _object(_QUEUE),
    "Deed": _object(
        {
            "at": _INSTANT,
            "name": _TEXT,
            "what": _TEXT,
            "by": _object({"via": _TEXT, "name": _TEXT}),
            "detail": _or_null(_TEXT),
        }
    ),
    "Queues": _object({"now": _INSTANT, "queues": _list(ref("Queue")), "deeds": _list(ref("Deed"))}),
    "QueueDone": _object({"done": _TEXT, "queue": ref("Queue")}),
    "Occurrence": _object(
        {
            "at": _INSTANT,
            "until": _INSTANT,
            "times": _WHOLE,
            "outcome": _TEXT,
            "decided_at": _INSTANT,
            "run_id": _or_null(_TEXT),
            "reason": _or_null(_TEXT),
        }
    ),
    "Schedule": _object(_SCHEDULE),
    "Schedules": _object(
        {"now": _INSTANT, "schedules": _list(ref("Schedule")), "next": _or_null(_TEXT), "deeds": _list(ref("Deed"))}
    ),
    "SchedulePage": _object(
        {
            "now": _INSTANT,
            "schedule": ref("Schedule"),
            "upcoming": _or_null(_list(_INSTANT)),
            "history": _list(ref("Occurrence")),
            "deeds": _list(ref("Deed")),
        }
    ),
    "ScheduleDone": _object({"done": _TEXT, "schedule": ref("Schedule")}),
    "Route": _object(dict.fromkeys(("workflow", "version", "queue", "namespace"), _TEXT)),
    "Worker": _object(
        {
            "name": _TEXT,
            "host": _TEXT,
            "pid": _WHOLE,
            "build": _TEXT,
            "started_at": _INSTANT,
            "alive": _TRUTH,
            "life": {"type": "string", "enum": ["alive", "frozen", "gone"]},
            "lock": {"type": "string", "enum": ["held", "free", "unknowable"]},
            "leased_until": _or_null(_INSTANT),
            "beats": _WHOLE,
            "stopped": _TRUTH,
            "serves": _list(ref("Route")),
            "holds": _WHOLE,
            "runs": _list(ref("Row")),
        }
    ),
    "Workers": _object({"now": _INSTANT, "workers": _list(ref("Worker")), "more": _WHOLE}),
    "Finding": _object(dict.fromkeys(("code", "severity", "about", "found", "advice"), _TEXT)),
    "Backlog": _object(
        {
            **dict.fromkeys(("workflow", "version", "queue", "namespace"), _TEXT),
            "served": _TRUTH,
            "runs": _WHOLE,
            "run_id": _TEXT,
            "since": _INSTANT,
        }
    ),
    "Trouble": _object(
        {
            "now": _or_null(_INSTANT),
            "url": _TEXT,
            "kind": _or_null(_TEXT),
            "deep": _TRUTH,
            "namespaces": _list(_TEXT),
            "counts": _or_null(_COUNTS),
            "blocked": _list(ref("Row")),
            "codeless": _list(ref("Backlog")),
            "schedules": _list(ref("Schedule")),
            "report": _or_null({"type": "object"}),
        }
    ),
    "Workflows": _object(
        {
            "now": _INSTANT,
            "workflows": _list(
                _object(
                    {
                        **dict.fromkeys(("workflow", "version", "queue"), _TEXT),
                        "takes_input": _TRUTH,
                        "schema": _or_null({"type": "object"}),
                        "about": _TEXT,
                    }
                )
            ),
        }
    ),
    "Tally": _object(
        {
            "done": _WHOLE,
            "unchanged": _WHOLE,
            "failures": _list(_object(dict.fromkeys(("run_id", "code", "message", "advice"), _TEXT))),
            "more": _TRUTH,
        }
    ),
    "ManyDone": _object({"done": _TEXT, "tally": ref("Tally")}),
    "Job": _object(
        {
            **dict.fromkeys(("job", "verb", "by", "state"), _TEXT),
            "number": _WHOLE,
            "began_at": _INSTANT,
            "failure": _or_null(_TEXT),
            "tally": ref("Tally"),
        }
    ),
    "JobPage": _object({"now": _INSTANT, "job": ref("Job"), "asked": {"type": "object"}}),
    "JobDone": _object({"done": _TEXT, "job": ref("Job")}),
}
"""By name: what pages return, and what those consist of."""

__all__ = ["SCHEMAS", "Schema", "ref"]
