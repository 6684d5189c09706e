"""Queues: limits on how many runs go on at once, and on how many begin in a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.errors import DefinitionError
from perdure.model.durations import micros
from perdure.model.ids import valid_name
from perdure.model.queues import Limits, QueueRow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.model.durations import Duration

MOST = 1_000_000
"""The highest limit there is."""


@dataclass(frozen=True, slots=True)
class Rate:
    """So many runs may begin in a time: ``Rate(100, "1m")``.

    It is exact: in no interval of that length, wherever it begins, do more begin. A run counts when it is claimed for
    the first time, not when it goes on.

    Attributes:
        runs: how many.
        per: in which time.
    """

    runs: int
    per: Duration

    def __post_init__(self) -> None:
        """Check what was given.

        Raises:
            DefinitionError: it is no rate.
        """
        _limit("runs", self.runs)
        micros(self.per, what="per", allow_zero=False)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue with limits, which hold across all processes: ``Engine(…, queues=[Queue("mail", concurrency=5)])``.

    A run takes a slot while it is executed: from its claim until it ends, sleeps, waits or is given back. When its
    worker dies the slot comes free with the claim. What is to be cancelled needs none.

    Attributes:
        name: what it is called; the empty name is that of the default queue.
        concurrency: how many of its runs may be executed at once.
        worker_concurrency: how many of them in one worker.
        partition_concurrency: how many of them with one partition key. The keys then come in turn, however many runs
            each has enqueued. Runs without a key are under the other limits only.
        rate: how many of them may begin in a time.
    """

    name: str
    concurrency: int | None = None
    worker_concurrency: int | None = None
    partition_concurrency: int | None = None
    rate: Rate | None = None

    def __post_init__(self) -> None:
        """Check what was given.

        Raises:
            DefinitionError: the name or a limit is wrong.
        """
        if self.name != "":
            valid_name(self.name, "queue")
        for what in ("concurrency", "worker_concurrency", "partition_concurrency"):
            limit = getattr(self, what)
            if limit is not None:
                _limit(what, limit)
        if self.rate is not None and not isinstance(self.rate, Rate):
            raise DefinitionError(f"rate is a Rate, not {self.rate!r}", advice='write Rate(100, "1m")')

    def row(self, namespace: str, build: str, since: int) -> QueueRow:
        """Return the queue as the store has it."""
        rate = self.rate
        limits = Limits(
            self.concurrency,
            self.worker_concurrency,
            self.partition_concurrency,
            None if rate is None else rate.runs,
            None if rate is None else micros(rate.per),
        )
        return QueueRow(0, namespace, self.name, limits, build=build, since=since)


def queue_name(given: Queue | str) -> str:
    """Return the name of a queue that is given as itself or by its name.

    Raises:
        DefinitionError: it is neither.
    """
    if isinstance(given, Queue):
        return given.name
    return "" if given == "" else valid_name(given, "queue")


def queues_of(given: Iterable[Queue | str]) -> dict[str, Queue]:
    """Return the queues of an engine by name.

    Raises:
        DefinitionError: one is neither a queue nor a name, or two of one name differ.
    """
    if isinstance(given, (str, Queue)):
        raise DefinitionError(f"queues is a list of queues, not {given!r}", advice="write queues=[…]")
    found: dict[str, Queue] = {}
    for one in given:
        queue = one if isinstance(one, Queue) else Queue(queue_name(one))
        if found.setdefault(queue.name, queue) != queue:
            raise DefinitionError(f"two queues {queue.name!r} differ", advice="define each queue once")
    return found


def _limit(what: str, given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST:
        raise DefinitionError(
            f"{what} is a whole number from 1 to {MOST:,}, not {given!r}",
            advice="to let nothing through, pause the queue",
        )


__all__ = ["Queue", "Rate", "queue_name", "queues_of"]
