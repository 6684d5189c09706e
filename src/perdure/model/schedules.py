"""Schedules as they are stored, and as they are to be changed. Instants and durations are µs.

A schedule's *watermark* is the last occurrence that was decided: each becomes a run, a recorded skip or one that waits
for an earlier run, in the transaction that raises the watermark. It outlives runs, new definitions and removals, and
never falls, so that no occurrence is decided twice.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from perdure.model.deeds import Deed
    from perdure.model.records import Artifact, NewRun

Overlap = Literal["skip", "allow", "queue", "cancel"]
"""What becomes of an occurrence while an earlier run of the schedule has not ended.

``skip``: it is skipped. ``allow``: its run begins beside the other. ``queue``: its run is created when the others have
ended. ``cancel``: the others are cancelled, and its run is created when they have ended.
"""

OVERLAPS: Final = ("skip", "allow", "queue", "cancel")


class ScheduleState(IntEnum):
    """Whether a schedule fires; the numbers are part of the format."""

    ACTIVE = 1
    PAUSED = 2
    REMOVED = 3
    """It is not there for anybody; its row keeps the watermark."""


class OccurrenceKind(IntEnum):
    """What became of an occurrence; the numbers are part of the format."""

    STARTED = 1
    SKIPPED = 2
    TRIGGERED = 3
    """It was none of the schedule's own: somebody asked for it."""


class Occurrence(NamedTuple):
    """What became of an occurrence, or of several in a row that were skipped for one reason."""

    kind: int
    first: int
    last: int
    """The last of them; one alone is its own last."""
    times: int
    """How many; where it is ``MANY`` there may be more."""
    at: int
    """When it was decided."""
    run_id: str | None = None
    reason: str | None = None
    """Why there is no run."""


MANY: Final = 1000
"""Up to here skipped occurrences are counted."""
KEPT: Final = 100
"""How many records of what became of its occurrences are kept of a schedule."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a schedule fires, besides when.

    Attributes:
        overlap: what becomes of an occurrence while an earlier run goes on.
        catch_up: how late an occurrence may still be started.
        jitter: by less than this an occurrence is put off.
        priority: of its runs.
        tags: of its runs.
        deadline: of its runs: how long each may take (µs); None: for ever.
    """

    overlap: Overlap = "skip"
    catch_up: int = 3_600_000_000
    jitter: int = 0
    priority: int = 0
    tags: dict[str, str] | None = None
    deadline: int | None = None

    def encode(self) -> bytes:
        """Return what ``decode_policy`` makes the same of."""
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True).encode()


def decode_policy(data: bytes) -> Policy:
    """Return the policy that was encoded.

    Raises:
        ValueError, TypeError: it is none.
    """
    return Policy(**json.loads(data))


class ScheduleRow(NamedTuple):
    """A schedule as the store has it."""

    schedule_key: int
    """0 until the store has given it one."""
    namespace: str
    key: str
    workflow: str
    version: str
    queue: str
    state: int
    change: int
    """Rises with every change; a change is conditional on the number before it."""
    token: bytes
    """Of whoever made the last change: what is sent again is known by it."""
    revision: int
    build: str
    """The build that defined it."""
    since: int
    """When the engine that defined it was opened."""
    created_at: int
    watermark: int
    next_at: int | None
    """When the next occurrence is due; None: never."""
    cadence: bytes
    policy: bytes
    origin: bytes
    """Where its workflow's code was, as runs keep it."""
    codec: int
    payload: bytes
    """The input, as runs keep it."""
    waiting: str
    """Occurrences that wait for earlier runs to end: a JSON list."""
    active: str
    """Ids of its runs that have not ended, those that matter: a JSON list. The store leaves out those that have."""
    recorded: int
    """How many records of occurrences were ever made."""
    fault: str | None
    """Why it cannot be fired, where somebody tried to and could not."""


class ScheduleChange(NamedTuple):
    """What makes a schedule another: all of it, or nothing."""

    row: ScheduleRow
    """The schedule as it is to be. Those of ``runs`` that are new are added to its ``active``."""
    occurrences: tuple[Occurrence, ...] = ()
    """What became of which; where a run's id is taken, its occurrence is skipped."""
    runs: tuple[NewRun, ...] = ()
    cancel: tuple[str, ...] = ()
    """Ids of runs to be cancelled."""
    artifacts: tuple[Artifact, ...] = ()
    """The input, if it is large."""
    deed: Deed | None = None
    """What was done by hand, if it was; ``at`` is when it is written."""


class NextFiring(NamedTuple):
    """What schedules have in store: when the earliest is due, and whether any waits for a run to end."""

    due: int | None
    waits: bool


def status_of(row: ScheduleRow) -> Literal["active", "paused", "ended"]:
    """Return how a schedule that is there stands; it has ended if nothing is to come."""
    if row.state == ScheduleState.PAUSED:
        return "paused"
    return "ended" if row.next_at is None and not numbers(row.waiting) else "active"


OUTCOMES: Final[dict[int, Literal["started", "skipped", "triggered"]]] = {
    OccurrenceKind.STARTED: "started",
    OccurrenceKind.SKIPPED: "skipped",
    OccurrenceKind.TRIGGERED: "triggered",
}
"""What people are told of what became of an occurrence."""


def numbers(listed: str) -> list[int]:
    """Return a JSON list of numbers."""
    found: list[int] = json.loads(listed)
    return found


def names(listed: str) -> list[str]:
    """Return a JSON list of texts."""
    found: list[str] = json.loads(listed)
    return found


def listed(values: list[int] | list[str]) -> str:
    """Return numbers or texts as a JSON list."""
    return json.dumps(values, separators=(",", ":"))


__all__ = [
    "KEPT", "MANY", "OUTCOMES", "OVERLAPS", "NextFiring", "Occurrence", "OccurrenceKind", "Overlap", "Policy",
    "ScheduleChange", "ScheduleRow", "ScheduleState", "decode_policy", "listed", "names", "numbers", "status_of",
]  # fmt: skip
