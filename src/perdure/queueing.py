"""Queues as an engine shows and pauses them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.model.durations import to_datetime
from perdure.queues import Rate, queue_name

if TYPE_CHECKING:
    from datetime import datetime

    from perdure.model.queues import QueueUsage
    from perdure.queues import Queue
    from perdure.waiting import Home


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue, and how much of it is in use.

    Attributes:
        name: its name; empty: the default queue.
        paused: whether nothing is claimed from it.
        concurrency: as for ``Queue``.
        worker_concurrency: as for ``Queue``.
        partition_concurrency: as for ``Queue``.
        rate: as for ``Queue``.
        running: how many of its runs are executed.
        ready: how many could begin or go on but for limits and free workers; counted up to a thousand.
        begun: how many have begun within the time of its rate.
        opens_at: when its rate lets the next run begin; None: now.
    """

    name: str
    paused: bool
    concurrency: int | None
    worker_concurrency: int | None
    partition_concurrency: int | None
    rate: Rate | None
    running: int
    ready: int
    begun: int
    opens_at: datetime | None


def view_of(usage: QueueUsage) -> QueueView:
    """Return a queue for people."""
    row, limits = usage.row, usage.row.limits
    rate = None
    if limits.starts is not None and limits.period is not None:
        rate = Rate(limits.starts, limits.period / 1e6)
    return QueueView(
        name=row.name,
        paused=row.paused,
        concurrency=limits.concurrency,
        worker_concurrency=limits.per_worker,
        partition_concurrency=limits.per_partition,
        rate=rate,
        running=usage.held,
        ready=usage.ready,
        begun=usage.begun,
        opens_at=None if usage.opens_at is None else to_datetime(usage.opens_at),
    )


class QueueClient:
    """The part of an engine, or of its client, that is about queues."""

    _home: Home  # pyright: ignore[reportUninitializedInstanceVariable] - made by the engine

    async def queues(self) -> list[QueueView]:
        """Return all queues that are defined or have runs, by name, and how much of each is in use."""
        operations = self._home.operations
        namespace = operations.namespace
        return list(map(view_of, await operations.call(lambda: operations.store.list_queues(namespace))))

    async def pause_queue(self, queue: Queue | str) -> bool:
        """Let nobody claim anything from a queue until it is resumed; runs under way go on. Whether that is new.

        Raises:
            DefinitionError: that is no queue's name.
        """
        return await self._pause(queue, paused=True)

    async def resume_queue(self, queue: Queue | str) -> bool:
        """Let a paused queue go on; whether it was paused.

        Raises:
            DefinitionError: that is no queue's name.
        """
        return await self._pause(queue, paused=False)

    async def _pause(self, queue: Queue | str, *, paused: bool) -> bool:
        name, operations = queue_name(queue), self._home.operations
        namespace = operations.namespace
        changed = await operations.call(lambda: operations.store.pause_queue(name, namespace, paused=paused))
        self._home.waiting.poke()
        return changed


__all__ = ["QueueClient", "QueueView", "view_of"]
