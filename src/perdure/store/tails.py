"""Where a log ends, and what a store itself appends there when a run changes hands."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from perdure.errors import IntegrityError
from perdure.model.chain import seal
from perdure.model.records import Event, Kind, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

DAMAGED = (IntegrityError, struct.error)
"""What appending to a run's log raises if its row or its log is not what was written."""

_LAST_EPOCH: Final = 1 << 62

ENDING = {
    Status.BLOCKED: Kind.RUN_BLOCKED,
    Status.CANCELLED: Kind.RUN_CANCELLED,
    Status.PAUSED: Kind.RUN_PAUSED,
}
"""The event with which a run that nobody holds gets a state."""


class Tail(NamedTuple):
    """What a run's next event continues."""

    run_key: int
    seq: int
    at: int
    hash: bytes


def tail_of(event: Event) -> Tail:
    """Return the end of a log that ends with ``event``."""
    return Tail(event.run_key, event.seq, event.at, event.hash)


def check_epoch(run_key: int, epoch: int, log: Sequence[Event], *, complete: bool) -> None:
    """Check the epoch that a run's row has: the last event of its log has the same.

    Args:
        run_key: the run.
        epoch: what its row says.
        log: its events from the first.
        complete: whether these are all.

    Raises:
        IntegrityError: nobody can have written it.
    """
    if epoch >= _LAST_EPOCH or (complete and epoch != log[-1].epoch):
        raise IntegrityError(f"epoch {epoch} was never reached, or is over", run_key=run_key)


def missing(run_key: int) -> IntegrityError:
    """Return what is raised where a run has no log."""
    return IntegrityError(f"the log of run {run_key} is gone", run_key=run_key, advice="restore it from a backup")


def follow(last: Tail, now: int, epoch: int, kind: Kind, payload: bytes | None = None) -> Event:
    """Seal the event that comes after ``last``, no earlier than it."""
    return seal(last.hash, last.run_key, last.seq + 1, max(now, last.at), epoch, kind, payload=payload)


__all__ = ["DAMAGED", "ENDING", "Tail", "check_epoch", "follow", "missing", "tail_of"]
