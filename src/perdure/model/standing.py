"""Where a run stands with its store beyond what its row says, and what shows that a worker lives: data only.

Instants are µs by the store's clock.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

Life = Literal["alive", "frozen", "gone"]
"""``frozen``: its process is there, and its lease has ended. ``gone``: its runs are there to be taken."""


class News(NamedTuple):
    """What lies unread in a run's inbox: of one kind and name.

    Attributes:
        kind: an ``InboxKind``.
        name: the signal's, or a child's run id.
        times: how many of them; counted up to a bound.
        sent_at: when the first of them was sent.
    """

    kind: int
    name: str | None
    times: int
    sent_at: int


class Standing(NamedTuple):
    """Where a run stands with its store.

    Attributes:
        claimable: whether it is there to be claimed.
        new: whether it has never been claimed.
        ahead: how many claimable runs of its queue come before it; counted up to a bound.
        refused: the builds that have refused it.
        awaits: names of the signals that wake it; None if it waits for none.
        news: what lies in its inbox.
        partition_held: how many runs of its queue with its partition key are under way; 0 if it has none.
    """

    claimable: bool
    new: bool
    ahead: int
    refused: tuple[str, ...]
    awaits: tuple[str, ...] | None
    news: tuple[News, ...]
    partition_held: int


class Sign(NamedTuple):
    """What shows that a worker lives.

    Attributes:
        lock: whether its lock is held, where that can be known.
        leased_until: until when its lease runs; None: it is of another boot of the machine, and has ended.
    """

    lock: Literal["held", "free", "unknowable"]
    leased_until: int | None

    def life(self, now: int) -> Life:
        """Return what that means at an instant."""
        if self.lock == "free" or self.leased_until is None:
            return "gone"
        if self.leased_until > now:
            return "alive"
        return "frozen" if self.lock == "held" else "gone"


def news_of(rows: Iterable[tuple[int, str | None, int]]) -> tuple[News, ...]:
    """Group inbox rows (kind, name, sent_at), the first of each kind and name first."""
    first: dict[tuple[int, str | None], int] = {}
    times: Counter[tuple[int, str | None]] = Counter()
    for kind, name, sent_at in rows:
        times[kind, name] += 1
        first[kind, name] = min(first.get((kind, name), sent_at), sent_at)
    return tuple(News(kind, name, times[kind, name], at) for (kind, name), at in first.items())


__all__ = ["Life", "News", "Sign", "Standing", "news_of"]
