"""The records every layer shares: events, rows of runs and workers, and what a store is asked to write.

Instants are integer microseconds since the epoch, UTC. Payloads are bytes. Records are plain tuples or frozen
dataclasses without behaviour.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

APPLICATION_ID = 0x50455244
"""Marks a SQLite database as a store of Perdure's: "PERD" in the header of the file."""

FORMAT = 1
"""Version of everything that is stored: key grammar, event payloads, hash chain. A store holds the least
writer version it accepts; claims filter ``format <= FORMAT``."""

NO_HASH = b""


class Status(IntEnum):
    """Where a run is in its life; the numbers are part of the format."""

    PENDING = 1
    RUNNING = 2
    SLEEPING = 3
    WAITING = 4
    RETRYING = 5
    PAUSED = 6
    BLOCKED = 7
    COMPLETED = 8
    FAILED = 9
    CANCELLED = 10

    @property
    def terminal(self) -> bool:
        """Whether the run has ended for good (a failed run can still be resumed)."""
        return self >= Status.COMPLETED

    @property
    def word(self) -> str:
        """The name users see: ``running``."""
        return self.name.lower()


class Kind(IntEnum):
    """Kinds of events; the numbers are part of the format. Payload types: see ``perdure.model.history``."""

    RUN_CREATED = 1
    RUN_CLAIMED = 2
    STEP_STARTED = 3
    STEP_COMPLETED = 4
    STEP_FAILED = 5
    STEP_CANCELLED = 6
    CANCEL_DELIVERED = 7
    TIMER_FIRED = 8
    SIGNAL_RECEIVED = 9
    CHILD_STARTED = 10
    CHILD_ENDED = 11
    PATCH_MARKED = 12
    PROGRESS = 13
    DRIFT_FOUND = 14
    RUN_SUSPENDED = 15
    RUN_RESUMED = 16
    RUN_PAUSED = 17
    RUN_COMPLETED = 18
    RUN_FAILED = 19
    RUN_CANCELLED = 20
    RUN_BLOCKED = 21
    RUN_RELEASED = 22
    RUN_RECLAIMED = 23
    ARTIFACT_KEPT = 24
    EMITTED = 25
    SIGNAL_REFUSED = 26
    MESSAGE_SENT = 27
    RUN_CONTINUED = 28
    RUN_FORKED = 29
    UNDO_BEGUN = 30

    @property
    def word(self) -> str:
        """The name users see: ``step_completed``."""
        return self.name.lower()


class Event(NamedTuple):
    """One entry of a run's append-only log.

    Attributes:
        run_key: the key of the run in its database.
        seq: the place in the run's log; contiguous from 1.
        at: when it happened, µs since 1970 UTC.
        epoch: of the claim under which it was written.
        kind: what happened, a ``Kind``.
        key: of the step, timer, signal or child it is about.
        attempt: of the step, from 1.
        took: how long the attempt took, µs.
        codec: how the payload is stored.
        payload: what your code or Perdure said, as stored.
        args: the arguments of a step, as stored.
        hash: covers all the other fields and the hash of the event before it.
    """

    # In the order of the table's columns, so that a batch of events is a batch of rows.

    run_key: int
    seq: int
    at: int
    epoch: int
    kind: int
    key: str | None
    attempt: int | None
    took: int | None
    codec: int
    payload: bytes | None
    args: bytes | None
    hash: bytes

    @property
    def word(self) -> str:
        """What its kind is called: ``step_completed``."""
        return Kind(self.kind).word


class Opened(Event):
    """An event with what codecs have made of it undone; its hash is that of ``stored``, the event as it is kept."""

    stored: Event


class Artifact(NamedTuple):
    """A payload kept once under its content's hash: payloads over 64 KiB, and what steps store by name."""

    hash: bytes
    size: int
    data: bytes


class StoredKey(NamedTuple):
    """A key that payloads are encrypted with, encrypted itself: only who has the master key can use it.

    Attributes:
        key_id: 8 bytes, drawn by lot.
        master: names the master key.
        wrapped: the key, as the master key has encrypted it.
        created_at: µs UTC.
    """

    key_id: bytes
    master: str
    wrapped: bytes
    created_at: int


class Reuse(NamedTuple):
    """When a run that has the key of a new one does not stand in its way.

    Attributes:
        age: it was created so long ago.
        ended: it has ended.
        debounce: it has begun; while it has not, it is put off, at most until so long after it was created.
    """

    age: int | None = None
    ended: bool = False
    debounce: int | None = None


class NewRun(NamedTuple):
    """A run to create. ``run_created`` is sealed by the store, which gives the run its key."""

    run_id: str
    uid: bytes
    workflow: str
    version: str
    created_at: int
    codec: int
    payload: bytes
    origin: bytes
    namespace: str = ""
    queue: str = ""
    delay_until: int | None = None
    priority: int = 0
    partition: str | None = None
    idempotency_key: str | None = None
    deadline_at: int | None = None
    parent_key: int | None = None
    meta: bytes | None = None
    artifacts: tuple[Artifact, ...] = ()
    reuse: Reuse | None = None
    """When a run that has the idempotency key does not stand in the way."""


class RunRow(NamedTuple):
    """A run as the store lists it: the fold of its log kept for claiming and listing.

    ``seq`` and ``hash`` are those of the last event at the last change of state (None while running on). ``undo``: keys
    of the compensations that are registered, as a JSON list; None if there are none.
    """

    run_key: int
    namespace: str
    run_id: str
    uid: bytes
    workflow: str
    version: str
    queue: str
    status: Status
    epoch: int
    worker_key: int | None
    seq: int
    hash: bytes
    inbox: int
    crashes: int
    wake_at: int | None
    deadline_at: int | None
    priority: int
    partition: str | None
    parent_key: int | None
    idempotency_key: str | None
    reason: str | None
    meta: bytes | None
    format: int
    created_at: int
    ended_at: int | None
    undo: str | None = None


class StateChange(NamedTuple):
    """What a commit makes of the run besides appending events.

    ``awaits``: names of the signals that wake it while it waits, as a JSON list.
    """

    status: Status
    wake_at: int | None = None
    reason: str | None = None
    awaits: str | None = None


class InboxKind(IntEnum):
    """Kinds of inbox rows; the numbers are part of the format."""

    TAKEN = 0
    """Consumed, and kept for the sake of its dedup key until the run has completed."""
    CANCEL = 1
    SIGNAL = 2
    CHILD_COMPLETED = 3
    CHILD_FAILED = 4
    CHILD_CANCELLED = 5
    CHILD_TAKEN = 6
    """The id of a child was taken by another run, so there is none."""
    PAUSE = 7


class Message(NamedTuple):
    """News for a run, from outside or from another run.

    The run is named by its key, or by id and namespace where the key is not known. ``name`` is the signal's, or a
    child's run id. A second message with the same ``name`` and ``dedup`` is not delivered again.
    ``author``: who sends it by hand, see ``perdure.model.deeds``.
    """

    kind: InboxKind
    run_key: int | None = None
    run_id: str | None = None
    namespace: str = ""
    name: str | None = None
    codec: int = 0
    payload: bytes | None = None
    dedup: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    author: str | None = None


class Delivery(IntEnum):
    """What became of a message."""

    DELIVERED = 1
    DUPLICATE = 2
    """It is there already, or was consumed."""
    ENDED = 3
    """The run has ended and hears nothing any more."""
    UNKNOWN = 4
    """There is no such run."""


class Successor(NamedTuple):
    """The run that goes on under this one's id, called ``renamed`` from now on; its inbox and parent go along."""

    run: NewRun
    renamed: str


@dataclass(slots=True)
class CommitItem:
    """Everything one run writes in one transaction: all of it or nothing."""

    run_key: int
    epoch: int
    events: list[Event]
    artifacts: Sequence[Artifact] = ()
    take: Sequence[int] = ()
    """Inbox rows (their keys) consumed by these events."""
    state: StateChange | None = None
    inbox_seen: int | None = None
    """The inbox counter the holder has seen; the item is ``STALE`` if the row's has moved on."""
    children: Sequence[NewRun] = ()
    """Runs created with these events."""
    sends: Sequence[Message] = ()
    """Messages sent with these events; what becomes of them is not told."""
    successor: Successor | None = None
    undo: str | None = None
    """The compensations that are registered from now on, as a JSON list; "" for none, None: as before."""


class Verdict(IntEnum):
    """What became of one item of a verb."""

    APPLIED = 1
    ALREADY = 2
    """The very same write is there already: a resend after an unknown outcome."""
    FENCED = 3
    """The run has another epoch: the sender lost its claim and may write nothing more."""
    STALE = 4
    """News came in meanwhile; look at it and decide again."""
    BAD = 5
    """The item itself cannot be written; the others were."""


class Claim(NamedTuple):
    """A run taken by a worker: its row (epoch already raised) and its log so far, ``run_claimed`` included."""

    row: RunRow
    events: list[Event]
    complete: bool = True
    """False if the log is longer than one page; the rest is read with ``read_events``."""


class Tombstone(NamedTuple):
    """What is left of a purged run: enough to refuse its id and idempotency key. Instants: µs UTC."""

    namespace: str
    run_id: str
    idempotency_key: str | None
    workflow: str
    status: Status
    ended_at: int
    purged_at: int


class Created(NamedTuple):
    """What became of one ``NewRun``: the row, whether it is new, and the claim if one was asked for and made.

    With ``purged`` there is no run: its id or idempotency key was that of one which has been purged.
    """

    row: RunRow
    is_new: bool
    claim: Claim | None = None
    purged: Tombstone | None = None


@dataclass(frozen=True, slots=True)
class InboxRow:
    """Something from outside for a run: a cancel request, a signal."""

    inbox_key: int
    run_key: int
    kind: int
    name: str | None
    codec: int
    payload: bytes | None
    sent_at: int
    author: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """An engine that executes runs. ``lease_until`` and ``beat`` are judged on the clock of ``boot``."""

    worker_key: int
    name: str
    host: str
    pid: int
    pid_started: int
    boot: str
    build: str
    sidecar: str
    started_at: int
    lease_until: int
    beat: int
    suspect: int | None = None
    stopped: bool = False
