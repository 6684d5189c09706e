"""Who hears what happens to runs that are executed here: hooks, log, metrics and spans, each told in turn."""

# pyright: reportUnusedParameter=false
# Who does not override something does nothing with what it is given.

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perdure.model.records import Claim, CommitItem, Event, Verdict
    from perdure.runtime.host import Hearing
    from perdure.runtime.run import Run
    from perdure.store.protocol import Reclaimed


class Hearer:
    """Hears everything and does nothing; to be derived from."""

    def committed(self, batch: Mapping[Run, CommitItem], verdicts: Sequence[Verdict], seconds: float) -> None:
        """The journal has written a batch, which took so long."""

    def claimed(self, run: Run, claim: Claim) -> None:
        """A run was claimed, and is about to be executed."""

    def wrote(self, run: Run, events: Sequence[Event]) -> None:
        """Something was written for a run that is executed here, by another way than the journal's."""

    def reclaimed(self, runs: Sequence[Reclaimed]) -> None:
        """Runs were taken back from dead workers."""

    def blocked(self, run: Run, reason: str) -> None:
        """A run was blocked after its hold had ended."""

    def left(self, run: Run) -> None:
        """A run is not executed here any more; ``run.leaving`` says how it ended or rests, if it does."""


class Audience(Hearer):
    """Passes everything on to several."""

    def __init__(self, hearers: Sequence[Hearing]) -> None:
        self._hearers = tuple(hearers)

    def committed(self, batch: Mapping[Run, CommitItem], verdicts: Sequence[Verdict], seconds: float) -> None:
        """The journal has written a batch, which took so long."""
        for one in self._hearers:
            one.committed(batch, verdicts, seconds)

    def claimed(self, run: Run, claim: Claim) -> None:
        """A run was claimed, and is about to be executed."""
        for one in self._hearers:
            one.claimed(run, claim)

    def wrote(self, run: Run, events: Sequence[Event]) -> None:
        """Something was written for a run that is executed here, by another way than the journal's."""
        for one in self._hearers:
            one.wrote(run, events)

    def reclaimed(self, runs: Sequence[Reclaimed]) -> None:
        """Runs were taken back from dead workers."""
        for one in self._hearers:
            one.reclaimed(runs)

    def blocked(self, run: Run, reason: str) -> None:
        """A run was blocked after its hold had ended."""
        for one in self._hearers:
            one.blocked(run, reason)

    def left(self, run: Run) -> None:
        """A run is not executed here any more."""
        for one in self._hearers:
            one.left(run)


__all__ = ["Audience", "Hearer"]
