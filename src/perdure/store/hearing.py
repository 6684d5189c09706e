"""What news does to the run it is for, the same for every store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from perdure.model.records import InboxKind, Status

if TYPE_CHECKING:
    from perdure.model.records import Message

REQUESTS: Final = frozenset({InboxKind.CANCEL, InboxKind.PAUSE})
"""What is asked of a run, rather than told to it."""

_OF_CHILDREN: Final = frozenset(
    {InboxKind.CHILD_COMPLETED, InboxKind.CHILD_FAILED, InboxKind.CHILD_CANCELLED, InboxKind.CHILD_TAKEN}
)
_DORMANT: Final = frozenset({Status.SLEEPING, Status.WAITING, Status.RETRYING})


class Hearer(NamedTuple):
    """A run that news is for."""

    run_key: int
    status: Status
    idle: bool
    """It is neither held nor claimable."""
    awaits: str | None


def is_deaf(kind: InboxKind, status: Status) -> bool:
    """Whether a run has ended, so that news of a kind is not kept for it.

    The end of a child is kept for a run that can still be resumed: it comes only once.
    """
    return status is Status.COMPLETED or (status.terminal and kind not in _OF_CHILDREN)


def wakes(message: Message, run: Hearer) -> bool:
    """Whether a message makes the run claimable."""
    if not run.idle or run.status not in _DORMANT:
        return False
    if message.kind in _OF_CHILDREN:
        return run.status is Status.WAITING
    return message.kind is InboxKind.SIGNAL and message.name in json.loads(run.awaits or "[]")


def cancellation(reason: str, *, forced: bool = False, undo: str | None = None) -> bytes:
    """Payload of a cancel: why, and what one that is forced leaves undone (a JSON list, as the run's row has it)."""
    if not forced:
        return json.dumps({"reason": reason}).encode()
    return json.dumps({"reason": reason, "forced": True, "not_undone": json.loads(undo or "[]")}).encode()


def reason_of(message: Message) -> str:
    """Why something is asked of a run."""
    return str(json.loads(message.payload or b"{}").get("reason", ""))


__all__ = ["REQUESTS", "Hearer", "cancellation", "is_deaf", "reason_of", "wakes"]
