"""Who claims runs in the machine: each knows what it has been told, and may have lost its run since."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perdure.model.chain import seal
from perdure.model.records import CommitItem, Event, InboxKind, Kind, Message, StateChange, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import RunRow

ENDINGS: Final = {
    Status.COMPLETED: Kind.RUN_COMPLETED,
    Status.FAILED: Kind.RUN_FAILED,
    Status.CANCELLED: Kind.RUN_CANCELLED,
    Status.BLOCKED: Kind.RUN_BLOCKED,
    Status.PAUSED: Kind.RUN_PAUSED,
}
_TOLD: Final = {
    Status.COMPLETED: InboxKind.CHILD_COMPLETED,
    Status.FAILED: InboxKind.CHILD_FAILED,
    Status.CANCELLED: InboxKind.CHILD_CANCELLED,
}


@dataclass
class Claimant:
    """Who holds a run, or thinks so."""

    worker: int
    key: int
    epoch: int
    last: Event
    """The last event of the log, as far as it knows."""
    sent: list[CommitItem] = field(default_factory=list)
    seen: int = 0
    """The inbox counter, when it last looked."""
    letters: list[int] = field(default_factory=list)
    """What was in its inbox then."""

    def event(self, kind: Kind, payload: bytes = b"null", *, key: str | None = None, gap: int = 0) -> Event:
        """The next event of the log; with a gap before it, one that cannot be."""
        last = self.last
        return seal(
            last.hash, self.key, last.seq + 1 + gap, last.at + 1, self.epoch, kind, key, None if key is None else 1,
            payload=payload,
        )  # fmt: skip

    def step(self, kind: Kind = Kind.STEP_COMPLETED, *, gap: int = 0) -> Event:
        """The next event: something of a step."""
        return self.event(kind, key=f"w/say#{self.last.seq}", gap=gap)

    def item(self, *events: Event, **more: Any) -> CommitItem:
        """Something to commit."""
        return CommitItem(self.key, self.epoch, [*events], **more)

    def steps(self, count: int, **more: Any) -> CommitItem:
        """Some steps that have ended, to be committed; the last event is left as it is."""
        before, events = self.last, []
        for _ in range(count):
            self.last = self.step()
            events.append(self.last)
        self.last = before
        return self.item(*events, **more)

    def suspension(self, status: Status, wake_at: int | None, awaits: Sequence[str]) -> CommitItem:
        """What is committed when the run waits, by what is known of its inbox."""
        said = {"status": status.word, "wake_at": wake_at, "awaits": [*awaits]}
        state = StateChange(status, wake_at=wake_at, awaits=json.dumps([*awaits]) if awaits else None)
        return self.item(self.event(Kind.RUN_SUSPENDED, json.dumps(said).encode()), state=state, inbox_seen=self.seen)

    def end(self, status: Status, row: RunRow, **more: Any) -> CommitItem:
        """What is committed when the run ends or is parked; its parent is told."""
        told = _TOLD.get(status)
        has_to = told is not None and row.parent_key is not None and "successor" not in more
        sends = [Message(told, row.parent_key, name=row.run_id)] if told is not None and has_to else []
        kind = Kind.RUN_CONTINUED if "successor" in more else ENDINGS[status]
        state = StateChange(status, reason="why")
        return self.item(self.event(kind, b'{"reason":"why"}'), state=state, sends=sends, **more)


__all__ = ["ENDINGS", "Claimant"]
