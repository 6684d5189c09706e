"""What the limits of a queue let through: pure functions of how much of it is in use.

A run takes a slot of its queue while somebody executes it, that is from its claim until it ends, sleeps, waits or is
released; whose holder has died loses the slot with the claim. So what is in use is counted over claims, never kept.

A rate counts first claims. It is exact: in no interval of its length, wherever it begins, do more runs begin than it
allows. Hence the instants of the latest beginnings are kept, rather than a number of tokens, which would let through
twice as many around a refill.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Limits(NamedTuple):
    """The limits of a queue; None: there is none of that kind.

    Attributes:
        concurrency: runs under way at once, wherever.
        per_worker: runs under way at once in one worker.
        per_partition: runs under way at once with one partition key.
        starts: how many runs may begin ...
        period: ... in so many µs.
    """

    concurrency: int | None = None
    per_worker: int | None = None
    per_partition: int | None = None
    starts: int | None = None
    period: int | None = None

    @property
    def is_unlimited(self) -> bool:
        """Whether there is no limit at all."""
        return all(limit is None for limit in self)


class QueueRow(NamedTuple):
    """A queue as the store has it.

    Attributes:
        queue_key: 0 until the store has given it one.
        namespace: where it is.
        name: what it is called there; the empty name is the default queue's.
        limits: what its definition says.
        paused: whether nothing is claimed from it.
        turn: the partition that was served last.
        build: of whoever defined it last.
        since: when that one's engine was opened (µs).
    """

    queue_key: int
    namespace: str
    name: str
    limits: Limits = Limits()
    paused: bool = False
    turn: str = ""
    build: str = ""
    since: int = 0


class QueueUsage(NamedTuple):
    """A queue and how much of it is in use.

    Attributes:
        row: the queue.
        held: runs under way.
        ready: runs that could begin or go on now, but for limits; counted up to a bound.
        begun: runs that have begun in the last period of its rate.
        opens_at: when its rate lets the next run begin (µs); None: now, or there is no rate.
    """

    row: QueueRow
    held: int
    ready: int
    begun: int
    opens_at: int | None


class Held(NamedTuple):
    """What one worker holds of a queue with one partition key."""

    worker_key: int
    partition: str | None
    runs: int


class Ready(NamedTuple):
    """A run that could be claimed but for limits.

    Attributes:
        rank: its place in the order of claiming.
        run_key: which run it is.
        partition: its partition key.
        is_new: whether it has never been claimed.
        found: what the store needs to claim it.
    """

    rank: int
    run_key: int
    partition: str | None
    is_new: bool
    found: Any


class Gate:
    """What a queue lets one worker claim at one moment. Runs that are admitted count at once.

    Args:
        row: the queue.
        worker_key: who wants to claim.
        held: what is held of it.
        begun: how many runs have begun within the last period of its rate.

    Attributes:
        row: the queue.
        room: how many runs more it lets through, new ones or not.
        fresh: how many of these may be new.
    """

    def __init__(self, row: QueueRow, worker_key: int, held: Iterable[Held], begun: int) -> None:
        self.row, limits = row, row.limits
        held = list(held)
        total = sum(one.runs for one in held)
        mine = sum(one.runs for one in held if one.worker_key == worker_key)
        room = _ENOUGH
        if limits.concurrency is not None:
            room = limits.concurrency - total
        if limits.per_worker is not None:
            room = min(room, limits.per_worker - mine)
        self.room = 0 if row.paused else max(0, room)
        self.fresh = self.room if limits.starts is None else max(0, min(self.room, limits.starts - begun))
        self._partitions: Counter[str] = Counter()
        for one in held:
            if one.partition is not None:
                self._partitions[one.partition] += one.runs

    @property
    def full(self) -> list[str]:
        """The partition keys that may have no more."""
        most = self.row.limits.per_partition
        return [] if most is None else [key for key, runs in self._partitions.items() if runs >= most]

    def admits(self, one: Ready) -> bool:
        """Whether the run may be claimed; then it counts."""
        most = self.row.limits.per_partition
        if self.room < 1 or (one.is_new and self.fresh < 1):
            return False
        if one.partition is not None:
            if most is not None and self._partitions[one.partition] >= most:
                return False
            self._partitions[one.partition] += 1
        self.room -= 1
        self.fresh = min(self.room, self.fresh - one.is_new)
        return True


_ENOUGH = 1 << 30


def admitted(gate: Gate, ready: Iterable[Ready]) -> list[Ready]:
    """Return what a queue lets through of what is ready, in the order in which it is to be claimed.

    Without partition keys that is by rank. With a limit per key the keys come in turn, beginning after the one that was
    served last, each with its first run by rank, then each with its second: whoever has enqueued a million waits behind
    none and holds up none. Runs without a key take part as one key more.
    """
    each = {one.run_key: one for one in ready}
    ordered = sorted(each.values(), key=_in_order)
    if gate.row.limits.per_partition is not None:
        ordered = _in_turn(ordered, gate.row.turn)
    let_through = [one for one in ordered if gate.admits(one)]
    # A queue's own order is kept when it is merged with others by rank.
    ranks = sorted(one.rank for one in let_through)
    return [one._replace(rank=rank) for one, rank in zip(let_through, ranks, strict=True)]


def next_turn(row: QueueRow, claimed: Sequence[Ready]) -> str:
    """Return the partition key that has been served last, once these are claimed."""
    keys = [one.partition for one in claimed if one.partition is not None]
    return keys[-1] if keys and row.limits.per_partition is not None else row.turn


def opens_at(limits: Limits, latest: Sequence[int], now: int) -> int | None:
    """Return when a rate lets the next run begin; None: now.

    Args:
        limits: of the queue.
        latest: instants (µs) of its latest beginnings, as many as the rate allows at least, latest first.
        now: the instant.
    """
    if limits.starts is None or limits.period is None or len(latest) < limits.starts:
        return None
    opens = latest[limits.starts - 1] + limits.period
    return opens if opens > now else None


def _in_order(one: Ready) -> tuple[int, int]:
    return one.rank, one.run_key


def _in_turn(ordered: Iterable[Ready], turn: str) -> list[Ready]:
    seen: Counter[str | None] = Counter()
    rounds: list[tuple[int, bool, str, int, int, Ready]] = []
    for one in ordered:
        seen[one.partition] += 1
        key = one.partition or ""
        rounds.append((seen[one.partition], key <= turn, key, *_in_order(one), one))
    return [entry[-1] for entry in sorted(rounds, key=lambda entry: entry[:-1])]


def merged(groups: Mapping[int, list[Ready]], limit: int) -> list[Ready]:
    """Return the first of several queues' runs, each group in an order of its own that ranks tell."""
    return sorted((one for group in groups.values() for one in group), key=_in_order)[:limit]


__all__ = [
    "Gate", "Held", "Limits", "QueueRow", "QueueUsage", "Ready", "admitted", "merged", "next_turn",
    "opens_at",
]  # fmt: skip
