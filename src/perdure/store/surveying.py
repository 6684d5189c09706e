"""What is in a store, asked for in the same words whatever the database; everything is counted up to a bound."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Protocol

from perdure.model.condition import Backlog, Blocked, Contents, Fault, Worker
from perdure.model.gauge import BOUND as FEW
from perdure.model.gauge import Gauge
from perdure.model.history import fold
from perdure.model.payloads import fields
from perdure.model.records import Kind, RunRow, Status
from perdure.model.standing import Sign
from perdure.store import rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perdure.errors import StoreError
    from perdure.model.queues import QueueUsage
    from perdure.model.records import Event
    from perdure.model.schedules import ScheduleRow
    from perdure.store.migrate import Migration

BOUND: Final = 100_000
"""Up to here runs are counted, and news looked through."""
_LISTED: Final = 100
_ROUTES: Final = 1000
_GONE: Final = Sign("free", None)
_INDEX = re.compile(r"CREATE\s+(?:UNIQUE\s+)?INDEX\s+(\w+)")
_OPEN = (Status.RUNNING, Status.SLEEPING, Status.WAITING, Status.RETRYING, Status.PAUSED, Status.BLOCKED)


class Asked(Protocol):
    """A store that answers, each by a read of its own."""

    def fetch(self, query: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        """All rows of a query that every store has under the same name."""
        ...

    def signs(self) -> dict[int, Sign]:
        """What shows of each worker that it lives."""
        ...

    def queues(self, namespace: str) -> list[QueueUsage]:
        """The queues of a namespace."""
        ...

    def schedules(self, namespace: str) -> list[ScheduleRow]:
        """The schedules of a namespace."""
        ...

    def runs(self, run_keys: Sequence[int]) -> Iterable[RunRow]:
        """Rows by key."""
        ...

    def events(self, run_key: int, after: int, limit: int) -> list[Event]:
        """A part of a log."""
        ...


def survey(store: Asked, now: int, *, deep: bool) -> Contents:
    """Look at what is in a store.

    Args:
        store: what answers.
        now: the instant that judges (µs).
        deep: whether to look for what takes long to find.
    """
    counts = {status: store.fetch("count_of_status", int(status), BOUND)[0][0] for status in Status}
    signs = store.signs()
    held: dict[int, int] = dict(store.fetch("held_of_workers"))
    found = [rows.worker_row(row) for row in store.fetch("list_workers")]
    workers = tuple(Worker(row, signs.get(row.worker_key, _GONE), held.pop(row.worker_key, 0)) for row in found)
    alive = {one.row.worker_key for one in workers if one.sign.life(now) == "alive"}
    served = {tuple(route) for key, *route in store.fetch("served") if key in alive}
    routes = store.fetch("list_routes_known", _ROUTES)
    namespaces = [namespace for (namespace,) in store.fetch("namespaces")]
    schedules = tuple(one for namespace in namespaces for one in store.schedules(namespace))
    return Contents(
        counts={status: number for status, number in counts.items() if number},
        bound=BOUND,
        workers=workers,
        orphans=sum(held.values()),
        backlogs=tuple(_backlogs(store, routes, served, now)),
        blocked=tuple(_blocked(store)),
        queues=tuple(one for namespace in namespaces for one in store.queues(namespace)),
        schedules=schedules,
        unserved=frozenset(
            one.key for one in schedules if (one.namespace, one.queue, one.workflow, one.version) not in served
        ),
        overdue=len(store.fetch("overdue", now, _LISTED)),
        suspects=tuple(
            (run_id, crashes)
            for route, *_ in routes
            for run_id, crashes in store.fetch("suspects_of_route", route, _LISTED)
        ),
        longest=_longest(store),
        unread=next(iter(store.fetch("most_unread", BOUND)), None),
        unused=store.fetch("unused_artifacts")[0] if deep else None,
    )


def gauge(store: Asked, now: int, *, log_bytes: int | None, reconnects: int) -> Gauge:
    """Count what metrics show of a store.

    Args:
        store: what answers.
        now: the instant that judges (µs).
        log_bytes: size of the write-ahead log, if it has one.
        reconnects: connections that had to be opened again.
    """
    counts = {status: store.fetch("count_of_status", int(status), FEW)[0][0] for status in Status}
    routes = store.fetch("list_routes_known", _ROUTES)
    backlogs = tuple(_backlogs(store, routes, set(), now, FEW))
    return Gauge({status: number for status, number in counts.items() if number}, backlogs, now, log_bytes, reconnects)


def _backlogs(
    store: Asked, routes: Iterable[tuple[Any, ...]], served: set[tuple[str, ...]], now: int, bound: int = BOUND
) -> Iterable[Backlog]:
    for route, namespace, queue, workflow, version in routes:
        (ready,), (due,) = store.fetch("count_backlog", route, bound)[0], store.fetch("count_due", route, now, bound)[0]
        if not ready + due:
            continue
        waits = [(at, run_id) for run_id, at in store.fetch("first_due", route, now)]
        first = store.runs([key for (key,) in store.fetch("first_ready", route)])
        waits += [(_ready_since(store, row), row.run_id) for row in first]
        if waits:
            since, run_id = min(waits)
            is_served = (namespace, queue, workflow, version) in served
            yield Backlog(workflow, version, queue, namespace, is_served, ready + due, run_id, since)


def _ready_since(store: Asked, row: RunRow) -> int:
    """Since when a claimable run could go on: since its last event, or since the instant that it waited for by it."""
    events = store.events(row.run_key, max(0, row.seq - 1), 1)
    wake_at = fold(events).wake_at if events and events[0].kind in {Kind.RUN_CREATED, Kind.RUN_SUSPENDED} else None
    return max([event.at for event in events] + [row.created_at, wake_at or 0])


def _blocked(store: Asked) -> Iterable[Blocked]:
    for row in store.runs([key for (key,) in store.fetch("latest_blocked", _LISTED)]):
        last = store.events(row.run_key, max(0, row.seq - 1), 1)
        said = fields(last[0].payload) if last and last[0].kind == Kind.RUN_BLOCKED else {}
        yield Blocked(row.run_id, str(said.get("code") or ""), row.reason or "", last[0].at if last else row.created_at)


def _longest(store: Asked) -> tuple[str, int] | None:
    found = [row for status in _OPEN for row in store.fetch("longest_of_status", int(status), BOUND)]
    return max(((run_id, seq) for run_id, seq in found), key=lambda one: one[1], default=None)


def wanted_indexes(migrations: Iterable[Migration]) -> set[str]:
    """The names of the indexes that migrations make."""
    return {name for migration in migrations for name in _INDEX.findall(migration.sql)}


def fault_of(error: StoreError) -> Fault:
    """What an error means for an examination."""
    return Fault(error.code, error.message, error.advice)


__all__ = ["BOUND", "Asked", "fault_of", "gauge", "survey", "wanted_indexes"]
