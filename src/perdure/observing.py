"""All that looks on while an engine works: the log, its hooks, its metrics, its spans. None of it holds up a run."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Final

from perdure.dispatch import Dispatch
from perdure.errors import DefinitionError, StoreError
from perdure.model.records import Status
from perdure.runtime.counting import Counting
from perdure.runtime.hearing import Audience
from perdure.runtime.narrating import Narrator
from perdure.runtime.spans import Spans
from perdure.telemetry import lines, metrics
from perdure.telemetry.logs import say
from perdure.telemetry.metrics import Numbers
from perdure.telemetry.tracing import check_tracing, tracing_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perdure.hooks import Hooks
    from perdure.model.clock import Clock
    from perdure.model.gauge import Gauge
    from perdure.operations import Operations
    from perdure.runtime.host import Hearing
    from perdure.runtime.journal import Journal
    from perdure.runtime.worker import Worker
    from perdure.store.protocol import Store
    from perdure.telemetry.exposition import Endpoint, EngineCollector
    from perdure.telemetry.tracing import Given

PATIENCE: Final = 1.0
"""Seconds for which a scrape waits for another one that reads the store; then it shows what was read before."""
FRESH: Final = 10.0
"""Seconds for which what was read of the store is shown again: however often it is scraped, it is read no oftener."""


class Observers:
    """Who looks on at one engine.

    Args:
        hooks: the hooks it was given.
        counts: whether it keeps metrics; or the address where it answers scrapes while it is started.
        tracing: what it was told of spans.
        clock: the engine's.
        namespace: the engine's.
    """

    def __init__(
        self,
        hooks: Sequence[Hooks],
        counts: bool | str,  # noqa: FBT001 - an address says it too
        tracing: Given,
        clock: Clock,
        namespace: str,
    ) -> None:
        check_tracing(tracing)
        self._hooks, self._given = hooks, tracing
        self._dispatch: Dispatch | None = None
        self._endpoint: Endpoint | None = None
        self._address = counts if isinstance(counts, str) else None
        self._numbers = Numbers() if counts else None
        self._shown = _Shown(clock, namespace)
        self._hearers: list[Hearing] = []

    def expose(self, address: str) -> None:
        """Keep metrics from the next start on, and answer scrapes at an address."""
        self._address = address
        self._numbers = self._numbers or Numbers()

    @property
    def address(self) -> str | None:
        """Where scrapes are answered."""
        return None if self._endpoint is None else self._endpoint.address

    # -- with the engine

    def opened(self, store: Store, operations: Operations) -> None:
        """The engine's store is open."""
        operations.tracing = tracing_of(self._given)
        self._shown.store = store

    def listen(self) -> None:
        """The engine is about to start: answer scrapes.

        Raises:
            DefinitionError: that cannot be done.
        """
        if self._address is not None:
            collector = self.collector()
            from perdure.telemetry.exposition import Endpoint

            self._endpoint = Endpoint(collector, self._address)

    def start(self, worker: Worker, store: Store, journal: Journal, operations: Operations, *, only: bool) -> None:
        """The worker is about to execute; ``only``: a single run, for a caller who is told by what is raised."""
        hearers: list[Hearing] = [Narrator(raises=only)]
        self._hearers = hearers
        host = worker.host
        if self._numbers is not None:
            host.measuring = counting = Counting(self._numbers)
            hearers.append(counting)
        if operations.tracing is not None:
            host.spans = spans = Spans(operations.tracing)
            hearers.append(spans)
        if self._hooks:
            self._dispatch = dispatch = Dispatch(self._hooks, store, journal)
            hearers.append(dispatch)
        audience = hearers[0] if len(hearers) == 1 else Audience(hearers)
        journal.told, host.hooks = audience.committed, audience

    def started(self, worker: Worker) -> None:
        """The worker executes."""
        self._shown.worker = worker
        say(lines.WORKER_STARTED, worker=worker.name)
        if self._dispatch is not None:
            self._dispatch.worker("worker_started", worker)

    async def leave(self, worker: Worker | None, journal: Journal | None, patience: float) -> None:
        """The worker has stopped, but for what does not heed it: its spans and counts go on."""
        dispatch, self._dispatch = self._dispatch, None
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            await asyncio.to_thread(endpoint.close)  # it waits until the thread has noticed
        if worker is not None and self._shown.worker is worker:
            say(lines.WORKER_STOPPED, worker=worker.name)
        self._shown.worker = None
        if dispatch is None:
            return
        rest = Audience([one for one in self._hearers if one is not dispatch])
        if journal is not None:
            journal.told = rest.committed
        if worker is not None:
            worker.host.hooks = rest
            dispatch.worker("worker_stopped", worker)
        await dispatch.close(patience)

    def abandon(self) -> None:
        """End at once."""
        dispatch, self._dispatch = self._dispatch, None
        if dispatch is not None:
            dispatch.abandon()
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            endpoint.close()
        self._shown.worker = None

    def closed(self) -> None:
        """The engine's store is closed."""
        self._shown.store = None

    # -- metrics

    def collector(self) -> EngineCollector:
        """Return what collects the engine's metrics.

        Raises:
            DefinitionError: it keeps none, or prometheus_client is not installed.
        """
        if self._numbers is None:
            raise DefinitionError("this engine keeps no metrics", advice="Engine(metrics=True)")
        try:
            from perdure.telemetry.exposition import EngineCollector
        except ImportError as error:
            raise DefinitionError(
                "prometheus_client is not installed", advice="pip install 'perdure[prometheus]'"
            ) from error
        return EngineCollector(self._numbers, self._shown.read)


class _Shown:
    """What is read at a scrape: of the worker, and of the store, which is asked seldom and by one thread at a time."""

    def __init__(self, clock: Clock, namespace: str) -> None:
        self._clock, self._namespace = clock, namespace
        self._asking = threading.Lock()
        self._seen: Gauge | None = None
        self._seen_at = self._asked_at = -FRESH
        self._is_blind = False
        self.store: Store | None = None
        self.worker: Worker | None = None

    def read(self) -> Mapping[str, Mapping[tuple[str, ...], float]]:
        """Return what is not counted, by metric and labels."""
        shown: dict[str, dict[tuple[str, ...], float]] = {}
        worker = self.worker
        if worker is not None:
            shown[metrics.SLOTS.name] = {(): worker.slots}
            shown[metrics.SLOTS_USED.name] = {(): worker.slots - worker.free}
        store = self.store
        if store is None:
            return shown
        now = self._clock.monotonic()
        if self._asking.acquire(timeout=PATIENCE):
            try:
                if now - self._asked_at >= FRESH:
                    self._asked_at = now
                    self._ask(store, now)
            finally:
                self._asking.release()
        seen, age = self._seen, now - self._seen_at
        shown[metrics.STORE_UP.name] = {(): 0.0 if seen is None else 1.0}
        if seen is not None:
            shown[metrics.STORE_AGE.name] = {(): age}
            queues = set[str]() if worker is None else worker.queues
            shown |= _of_store(seen, self._namespace, queues)
        return shown

    def _ask(self, store: Store, now: float) -> None:
        try:
            self._seen, self._seen_at = store.gauge(), now
        except StoreError as error:
            self._seen = None
            if not self._is_blind:
                say(lines.SCRAPE_BLIND, error=error)
            self._is_blind = True
        else:
            self._is_blind = False


def _of_store(seen: Gauge, namespace: str, queues: Iterable[str]) -> dict[str, dict[tuple[str, ...], Any]]:
    ready: dict[tuple[str, ...], float] = {(queue,): 0 for queue in queues}
    oldest: dict[tuple[str, ...], float] = dict(ready)
    for one in seen.backlogs:
        if one.namespace == namespace:
            labels = (one.queue,)
            ready[labels] = ready.get(labels, 0) + one.runs
            oldest[labels] = max(oldest.get(labels, 0.0), (seen.now - one.since) / 1e6)
    shown: dict[str, dict[tuple[str, ...], Any]] = {
        metrics.RUNS.name: {(status.word,): seen.counts.get(status, 0) for status in Status},
        metrics.READY.name: ready,
        metrics.OLDEST.name: oldest,
        metrics.RECONNECTS.name: {(): seen.reconnects},
    }
    if seen.log_bytes is not None:
        shown[metrics.LOG_SIZE.name] = {(): seen.log_bytes}
    return shown


__all__ = ["FRESH", "Observers"]
