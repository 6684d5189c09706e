"""The oracle: what each run must come to, by its input and by what its log has recorded. It executes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

from perdure.model import payloads
from perdure.model.durations import to_datetime
from perdure.model.records import Kind, Status
from tests.storm.evidence import Case
from tests.storm.workflows import LIVES, heavy


class Fate(NamedTuple):
    """How a run must stand when all is over, and with what result."""

    status: Status
    output: Any = None


def fate(case: Case) -> Fate:
    """How a run must stand."""
    known = FATES.get(case.workflow)
    if known is not None:
        return known(case)
    return Fate(Status.COMPLETED, RESULTS[case.workflow](case))


def work(n: int) -> int:
    return 3 * n + 1


def _mixed(case: Case) -> int:
    n = case.input
    some = work(n + 1) + 5 * (n + 2) + (n + 7)
    newer = n + 8 if any(case.of(Kind.PATCH_MARKED)) else 0
    return work(n) + newer + some + sum(work(work(n + i)) for i in range(2)) + 5 * n


def _blocking(case: Case) -> int:
    n = case.input
    return work(n) + 5 * n + (n + 8) + 5 * (n + 2) + 5 * (n + 3)


def received(case: Case, name: str) -> list[Any]:
    """The messages of a signal that a run has consumed, in that order."""
    return [
        json.loads(event.payload or b"")
        for event in case.of(Kind.SIGNAL_RECEIVED)
        if payloads.fields(event.args)["name"] == name
    ]


def _listening(case: Case) -> list[str]:
    heard = received(case, "word")
    half = len(heard) // 2
    return [*heard[:half], "nobody", *heard[half:]]


def _relay(case: Case) -> Fate:
    heard = [*case.input, work(len(case.input)), *received(case, "baton")]
    return Fate(Status.COMPLETED, heard if len(heard) == 2 * LIVES else None)


def _heavily(case: Case) -> str:
    n = case.input
    return sha256(heavy(n) + heavy(n + 1) + heavy(n)).hexdigest()


def _once(case: Case) -> Fate:
    for event in case.of(Kind.STEP_COMPLETED, Kind.STEP_FAILED):
        if event.key != "only_once#1":
            continue
        if event.kind == Kind.STEP_COMPLETED:
            return Fate(Status.COMPLETED, f"done {case.input}")
        if b"StepInterrupted" in (event.payload or b""):
            return Fate(Status.COMPLETED, "interrupted")
    return Fate(Status.FAILED)  # its process was short of something: tried once means tried once


def _ticking(case: Case) -> str:
    at = payloads.scheduled_at(case.log[0])
    return "" if at is None else to_datetime(at).isoformat()


def _long_way(case: Case) -> int:
    n = case.input
    for _ in range(6):
        n = work(n % 100)
    return n


def _always(status: Status) -> Callable[[Case], Fate]:
    return lambda _: Fate(status)


FATES: dict[str, Callable[[Case], Fate]] = {
    "doomed": _always(Status.FAILED),
    "lingering": _always(Status.CANCELLED),
    "guardian": _always(Status.CANCELLED),
    "cancelled": _always(Status.CANCELLED),
    "overdue": _always(Status.CANCELLED),
    "stuck": _always(Status.BLOCKED),
    "silent": _always(Status.WAITING),
    "relay": _relay,
    "once": _once,
    "trip": lambda case: Fate(Status.FAILED) if case.input % 2 else Fate(Status.COMPLETED, work(case.input)),
}
RESULTS: dict[str, Callable[[Case], Any]] = {
    "mixed": _mixed,
    "blocking": _blocking,
    "listening": _listening,
    "errand": lambda case: work(case.input),
    "family": lambda case: [work(case.input + i) for i in (0, 1, 0, 1, 2)] + [case.input],
    "long_way": _long_way,
    "narrowly": lambda case: work(work(case.input) % 100),
    "telling": lambda case: 3 * (case.input % 5 + 6),
    "heavily": _heavily,
    "splitting": lambda case: work(case.input + 1),
    "tardy": lambda case: case.input + 1,
    "posting": lambda case: work(case.input),
    "posted": lambda case: [*received(case, "word"), str(work(case.input))],
    "ticking": _ticking,
}
