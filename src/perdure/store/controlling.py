"""Whether what is done to a run from outside applies to it, the same for every store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perdure.errors import WrongState
from perdure.model.records import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RESUMABLE: Final = frozenset({Status.FAILED, Status.CANCELLED, Status.BLOCKED, Status.PAUSED})
PAUSABLE: Final = frozenset(status for status in Status if not status.terminal) - {Status.BLOCKED, Status.PAUSED}


class Controlled(NamedTuple):
    """A run as its row has it, and the instant that judges (µs)."""

    status: Status
    epoch: int
    held: bool
    run_id: str
    route: int
    refused: frozenset[str]
    """The builds that have refused it."""
    undo: str | None
    now: int

    def can_clean_up(self, living: Callable[[], Iterable[str]]) -> bool:
        """Whether the code of a run that nobody holds has begun, and somebody lives who can let it end.

        Args:
            living: gives the builds of the living workers that serve its route.
        """
        if self.status is Status.BLOCKED or self.epoch == 0:
            return False
        return any(build not in self.refused for build in living())

    @property
    def can_rest(self) -> bool:
        """Whether there is anything to pause."""
        return self.status in PAUSABLE

    def can_be_blocked(self, epoch: int) -> bool:
        """Whether it is at the epoch that was seen, nobody holds it, and it has neither ended nor is blocked."""
        return not self.held and self.epoch == epoch and not self.status.terminal and self.status is not Status.BLOCKED

    def check_resumable(self) -> None:
        """Refuse a run that has not stopped.

        Raises:
            WrongState: it has not.
        """
        if self.held or self.status not in RESUMABLE:
            raise WrongState(
                f"run {self.run_id!r} is {self.status.word}, so there is nothing to resume",
                run_id=self.run_id,
                status=self.status.word,
                advice="only failed, cancelled, blocked and paused runs are resumed",
            )


__all__ = ["PAUSABLE", "RESUMABLE", "Controlled"]
