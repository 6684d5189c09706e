"""Pruning: one pass through what is to be purged, as a series of short transactions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perdure.store.purging import BURIED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perdure.model.purging import EndedPlace, EndedRun, Purgeable
    from perdure.store.protocol import Store

PURGE: Final = "purge"
PURGED: Final = "purged"
COLLECT: Final = "collect"
COLLECTED: Final = "collected"

_FORGOTTEN: Final = 1000
"""Tombstones that are deleted in one transaction."""


@dataclass(slots=True)
class Pruned:
    """What became of a pass.

    Attributes:
        runs: how many runs were purged; of a trial, how many would have been.
        kinds: how many of them by workflow and status.
        rows: events and messages of purged runs that were deleted.
        artifacts: artifacts that were deleted, since nothing refers to them any more.
        forgotten: purged runs whose ids are free again.
    """

    runs: int = 0
    kinds: dict[tuple[str, str], int] = field(default_factory=dict)
    rows: int = 0
    artifacts: int = 0
    forgotten: int = 0

    def count(self, runs: Sequence[EndedRun]) -> None:
        """Count runs."""
        self.runs += len(runs)
        for run in runs:
            kind = run.workflow, run.status.word
            self.kinds[kind] = self.kinds.get(kind, 0) + 1


class Pruning:
    """One pass; ``steps`` does it, a transaction at a time, and may be left at any time: the next pass goes on.

    Args:
        store: where the runs are.
        rules: which ones are to be purged.
        limit: how many at most; None: all.
        forget: namespace, and the instant (µs) before which runs were purged that are to be forgotten.
        dry: only count what would be purged.
        reached: told of the points of ``perdure.runtime.points``.
    """

    def __init__(
        self,
        store: Store,
        rules: Sequence[Purgeable],
        *,
        limit: int | None = None,
        forget: tuple[str, int] | None = None,
        dry: bool = False,
        reached: Callable[[str], object] | None = None,
    ) -> None:
        self._store, self._rules, self._limit, self._forget, self._dry = store, rules, limit, forget, dry
        self._reached: Callable[[str], object] = reached or _nobody
        self.pruned = Pruned()

    def steps(self) -> Iterator[None]:
        """Go through the pass; each step is at most one transaction that writes."""
        for rule in self._rules:
            yield from self._purge(rule)
        if self._dry:
            return
        more = True
        while more:
            self._reached(COLLECT)
            found = self._store.collect_purged()
            self._reached(COLLECTED)
            self.pruned.rows += found.rows
            self.pruned.artifacts += found.artifacts
            more = found.more
            yield
        if self._forget is not None:
            forgotten = _FORGOTTEN
            while forgotten == _FORGOTTEN:
                forgotten = self._store.forget_purged(*self._forget, _FORGOTTEN)
                self.pruned.forgotten += forgotten
                yield

    def _purge(self, rule: Purgeable) -> Iterator[None]:
        after: EndedPlace | None = None
        while self._limit is None or self.pruned.runs < self._limit:
            most = BURIED if self._limit is None else min(BURIED, self._limit - self.pruned.runs)
            page = self._store.list_ended(rule, after, most)
            if self._dry:
                self.pruned.count(page.runs)
            elif page.runs:
                self._reached(PURGE)
                gone = set(self._store.purge_runs([run.run_key for run in page.runs], rule))
                self._reached(PURGED)
                self.pruned.count([run for run in page.runs if run.run_key in gone])
            yield
            after = page.after
            if after is None:
                return


def _nobody(_point: str) -> None:
    pass


__all__ = ["COLLECT", "COLLECTED", "PURGE", "PURGED", "Pruned", "Pruning"]
