"""Options of engines and of the calls that start runs: their names and types, and what can be checked about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, NotRequired, TypedDict

from perdure.errors import DefinitionError
from perdure.model.durations import seconds
from perdure.model.records import Status
from perdure.model.retention import Retention
from perdure.runtime.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from pathlib import Path

    from perdure.hooks import Hooks
    from perdure.model.clock import Clock
    from perdure.model.coding import Codec
    from perdure.model.durations import Duration
    from perdure.queues import Queue
    from perdure.runtime.host import OnDrift
    from perdure.store.protocol import Durability
    from perdure.telemetry.tracing import Given
    from perdure.transactional.guests import Connection
    from perdure.transactional.source import Source
    from perdure.workflow import Workflow


_DURABILITIES: Final = ("disk", "process")


class EngineOptions(TypedDict, total=False):
    """What ``Engine`` takes besides its store."""

    workflows: Iterable[Workflow[Any, Any]]
    tools: Any
    queues: Iterable[Queue | str]
    only_queues: Iterable[Queue | str] | None
    concurrency: int | None
    lease: Duration | None
    heartbeat: Duration | None
    threads: int | None
    crash_cap: int | None
    hooks: Iterable[Hooks]
    retention: Retention | None
    on_drift: OnDrift | None
    name: str
    namespace: str | None
    outboxes: Iterable[Source[Any]]
    codecs: Iterable[Codec] | None
    metrics: bool | str
    tracing: Given
    durability: Durability | None
    clock: Clock | None
    reached: Callable[[str], None] | None


class EnqueueOptions(TypedDict, total=False):
    """What ``Engine.enqueue`` takes besides the workflow and its input."""

    run_id: str | None
    idempotency_key: str | None
    idempotency_window: Duration | Literal["ended"] | None
    debounce: Duration | None
    debounce_limit: Duration | None
    delay: Duration | None
    queue: Queue | str | None
    priority: int
    partition: str | None
    tags: Mapping[str, str] | None
    deadline: Duration | datetime | None
    within: Connection | None


class RunOptions(TypedDict, total=False):
    """What ``Engine.run`` takes besides the workflow and its input."""

    run_id: str | None
    deadline: Duration | datetime | None
    retry_failed: bool


class RunFilters(TypedDict, total=False):
    """Which runs ``Engine.runs`` and ``Engine.counts`` are for: those that all of it is true of."""

    status: Iterable[Status | str] | Status | str | None
    workflow: Workflow[Any, Any] | str | None
    tags: Mapping[str, str] | None
    codeless: bool | None
    version: str | None
    queue: Queue | str | None
    id_prefix: str | None
    created_after: datetime | None
    created_before: datetime | None
    ended_after: datetime | None
    ended_before: datetime | None
    error: type[BaseException] | str | None


class TrafficOptions(TypedDict):
    """What ``Engine.traffic`` takes."""

    since: datetime
    until: NotRequired[datetime | None]
    buckets: NotRequired[int]
    workflow: NotRequired[Workflow[Any, Any] | str | None]


class HowOptions(TypedDict, total=False):
    """How a run is executed here and now."""

    tools: Any
    namespace: str | None
    lease: Duration | None
    heartbeat: Duration | None
    codecs: Iterable[Codec] | None
    hooks: Iterable[Hooks]
    durability: Durability | None
    clock: Clock | None
    reached: Callable[[str], None] | None


class HereOptions(RunOptions, HowOptions, total=False):
    """What ``perdure.run`` and ``perdure.arun`` take besides the workflow and its input."""

    store: str | Path | None


def limits(
    concurrency: object, lease: Duration, heartbeat: Duration, threads: object, crash_cap: object, on_drift: OnDrift
) -> Limits:
    """Return how a worker works.

    Raises:
        DefinitionError: an option is wrong.
    """
    for what, value in (("concurrency", concurrency), ("threads", threads), ("crash_cap", crash_cap)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise DefinitionError(f"{what} is a whole number from 1, not {value!r}")
    assert isinstance(concurrency, int)
    assert isinstance(threads, int)
    assert isinstance(crash_cap, int)
    lease_s = seconds(lease, what="lease", allow_zero=False)
    heartbeat_s = seconds(heartbeat, what="heartbeat", allow_zero=False)
    if heartbeat_s >= lease_s:
        raise DefinitionError(
            f"the heartbeat ({heartbeat_s:g} s) must be shorter than the lease ({lease_s:g} s)",
            advice="a third of the lease is a good heartbeat",
        )
    if on_drift not in {"block", "warn"}:
        raise DefinitionError(f"on_drift is 'block' or 'warn', not {on_drift!r}")
    return Limits(concurrency, lease_s, heartbeat_s, threads, crash_cap, on_drift)


def durable(given: object) -> Durability:
    """Return what is meant by "committed".

    Raises:
        DefinitionError: it is neither "disk" nor "process".
    """
    if given not in _DURABILITIES:
        raise DefinitionError(f"durability is 'disk' or 'process', not {given!r:.80}")
    return given


def check_retention(retention: Retention | None) -> Retention | None:
    """Return a retention as it is.

    Raises:
        DefinitionError: it is none.
    """
    if retention is not None and not isinstance(retention, Retention):
        raise DefinitionError(
            f"{retention!r} is no retention", advice='write retention=perdure.Retention(completed="30d", failed="90d")'
        )
    return retention


def statuses(given: Iterable[Status | str] | Status | str | None) -> list[Status] | None:
    """Return statuses given in one of the ways users may write them.

    Raises:
        DefinitionError: there is no such status.
    """
    if given is None:
        return None
    several = [given] if isinstance(given, (str, Status)) or not isinstance(given, Iterable) else list(given)
    by_name = {status.word: status for status in Status}
    found: list[Status] = []
    for one in several:
        status = by_name.get(one.lower()) if isinstance(one, str) else one
        if not isinstance(status, Status):
            raise DefinitionError(f"no status {one!r}", advice=f"statuses are {', '.join(by_name)}")
        found.append(status)
    return found


__all__ = [
    "EngineOptions",
    "EnqueueOptions",
    "HereOptions",
    "HowOptions",
    "RunFilters",
    "RunOptions",
    "TrafficOptions",
    "check_retention",
    "durable",
    "limits",
    "statuses",
]
