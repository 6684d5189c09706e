"""Retention: how long runs are kept once they have ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from perdure.errors import DefinitionError
from perdure.model.durations import Duration, micros, seconds
from perdure.model.ids import valid_name
from perdure.model.purging import Purgeable
from perdure.model.records import Status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

EVERY: Final = "1m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long runs are kept once they have ended, by how they ended; None: for ever.

    Runs that have not ended are never purged, whatever their age. A child is kept until its parent has completed, or is
    purged itself.

    Attributes:
        completed: how long runs that have completed are kept.
        failed: how long runs that have failed are kept, to be looked at and resumed.
        cancelled: how long runs that were cancelled are kept.
        workflows: other rules for workflows, by name; what is not said in one of them is for ever.
        tombstones: how long ids and idempotency keys of purged runs are refused, from when they were purged.
        every: the time between two looks for runs to purge.
    """

    completed: Duration | None = None
    failed: Duration | None = None
    cancelled: Duration | None = None
    workflows: Mapping[str, Retention] = field(default_factory=dict)
    tombstones: Duration | None = None
    every: Duration = EVERY

    def __post_init__(self) -> None:
        """Check it.

        Raises:
            DefinitionError: a duration is none, or a rule for a workflow says what only all of them can have.
        """
        for what, given in (*self.ages(), ("tombstones", self.tombstones)):
            if given is not None:
                micros(given, what=what)
        seconds(self.every, what="every", allow_zero=False)
        for name, rule in self.workflows.items():
            valid_name(name, "workflow")
            if not isinstance(rule, Retention):
                raise DefinitionError(f"the rule for {name} is {rule!r}", advice="give a perdure.Retention")
            if rule.workflows or rule.tombstones is not None or rule.every != EVERY:
                raise DefinitionError(
                    f"the rule for {name} says more than how long its runs are kept",
                    advice="workflows, tombstones and every are said once, for all",
                )

    @classmethod
    def same(cls, age: Duration) -> Self:
        """Return the rule that keeps all runs for the same time, however they ended."""
        return cls(completed=age, failed=age, cancelled=age)

    @property
    def pause(self) -> float:
        """Seconds between two looks."""
        return seconds(self.every)

    def rules(self, now: int, namespace: str) -> list[Purgeable]:
        """Return which runs of a namespace are to be purged at an instant (µs)."""
        found = self._rules(now, Purgeable((), now, namespace, besides=tuple(sorted(self.workflows))))
        for name, rule in sorted(self.workflows.items()):
            found += self._rules(now, Purgeable((), now, namespace, name), rule)
        return found

    def forgets_before(self, now: int) -> int | None:
        """Return the instant (µs) before which runs were purged that are forgotten by now; None: none are."""
        return None if self.tombstones is None else now - micros(self.tombstones)

    def ages(self) -> tuple[tuple[str, Duration | None], ...]:
        """Return how long runs are kept, by how they have ended."""
        return (("completed", self.completed), ("failed", self.failed), ("cancelled", self.cancelled))

    def _rules(self, now: int, whose: Purgeable, rule: Retention | None = None) -> list[Purgeable]:
        ages = (self if rule is None else rule).ages()
        found = sorted((micros(age), Status[name.upper()]) for name, age in ages if age is not None)
        return [
            replace(whose, statuses=tuple(status for _, status in group), before=now - age)
            for age, group in groupby(found, key=lambda one: one[0])
        ]


__all__ = ["EVERY", "Retention"]
