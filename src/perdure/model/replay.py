"""What a log says to the code that replays it: which outcomes to deliver, in which order, and what is still open.

The order is that of ``seq``. An outcome whose call nobody has made yet waits for it; whenever the loop is idle the
lowest such outcome whose call now exists goes first, before any later one and before any body.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from perdure.model.keys import is_of_failure, patch_name, step_name
from perdure.model.records import Event, Kind

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

OUTCOMES = frozenset(
    {
        Kind.STEP_COMPLETED,
        Kind.STEP_FAILED,
        Kind.STEP_CANCELLED,
        Kind.TIMER_FIRED,
        Kind.CANCEL_DELIVERED,
        Kind.SIGNAL_RECEIVED,
        Kind.CHILD_ENDED,
    }
)
"""Kinds of what is delivered into a workflow (a ``step_failed`` that is to be tried again is not)."""


_NOTES = frozenset(
    {
        Kind.STEP_STARTED,
        Kind.PATCH_MARKED,
        Kind.PROGRESS,
        Kind.EMITTED,
        Kind.CHILD_STARTED,
        Kind.MESSAGE_SENT,
        Kind.UNDO_BEGUN,
    }
)
"""Kinds of what is noted about calls and code, and not delivered."""


_OF_STEPS = frozenset({Kind.STEP_COMPLETED, Kind.STEP_FAILED, Kind.STEP_CANCELLED})


class Attempts:
    """What a step without an outcome has behind it."""

    __slots__ = ("base", "failed", "last", "next_at", "started")

    def __init__(self) -> None:
        self.base = 0
        """Attempts made before the last resume: they keep their numbers, and the step's limit does not count them."""
        self.last = 0
        """The last attempt that ended, from 1; 0: none."""
        self.next_at = 0
        """When the attempt after it is due, in µs."""
        self.failed = b""
        """Payload of its ``step_failed``; empty: none."""
        self.started = 0
        """The last attempt that is known to have begun."""


class Replay:
    """A run's log, read for replay.

    What is mostly empty is held in dicts, sets of keys too: an empty dict costs the garbage collector nothing.

    Attributes:
        attempts: by key, for steps that were tried and have no outcome.
        started_at: when the run was first claimed, µs.
        pauses: by seq of each resume, µs: for how long the run had ended before it.
        python: the Python minor that last claimed it before this claim ("3.12"), or "".
        cancelled: the cancel that has been delivered, if one has.
        accept_drift: whether the last resume was to go on with other arguments than those recorded.
        patches: names of the patches that are marked.
        claims: by seq, what the claims say of who executed the run, and of the code.
        progress: by key, what the attempts at a step recorded last of how far they were.
        emitted: keys of the values that the run's own code has emitted.
        delivered: how many recorded outcomes have been delivered.
        children: by key, what is recorded of children that were started and that nobody has asked for.
        superseded: keys whose recorded ends a resume has set aside.
        sent: keys of the messages that were sent to other runs.
        undone: keys of the unwindings that have begun.
        failures: how often the run had failed when it was resumed.
        trodden: whether an earlier execution may have been where the code is; the run keeps it so.
    """

    __slots__ = (
        "_copied",
        "_outcomes",
        "_position",
        "accept_drift",
        "attempts",
        "by_key",
        "cancelled",
        "children",
        "claims",
        "delivered",
        "emitted",
        "failures",
        "late",
        "patches",
        "pauses",
        "progress",
        "python",
        "sent",
        "started_at",
        "superseded",
        "trodden",
        "undone",
    )

    def __init__(self, events: Iterable[Event]) -> None:
        self._outcomes: list[Event] = []
        self._position = 0
        self.delivered = 0
        self.by_key: dict[str, Event] = {}
        self.late: dict[str, Event] = {}
        self.attempts: dict[str, Attempts] = {}
        self.started_at = 0
        self.pauses: dict[int, int] = {}
        self.python = ""
        self.cancelled: Event | None = None
        self.accept_drift = False
        self.patches: dict[str, None] = {}
        self.claims: dict[int, bytes | None] = {}
        self.children: dict[str, Event] = {}
        self.superseded: dict[str, None] = {}
        self.sent: dict[str, None] = {}
        self.undone: dict[str, None] = {}
        self.failures = 0
        self.progress: dict[str, bytes] = {}
        self.emitted: dict[str, None] = {}
        self._copied = ended_at = at = ended = 0
        for event in events:
            kind = event.kind
            if kind == Kind.STEP_FAILED and (next_at := retry_at(event)) is not None:
                state = self._attempts(event)
                state.last, state.next_at, state.failed = event.attempt or 0, next_at, event.payload or b""
            elif kind in OUTCOMES:
                self._outcomes.append(event)
                if event.key is not None:
                    self.by_key[event.key] = event
            elif kind in _NOTES and event.key is not None:
                self._note(event, event.key)
            elif kind == Kind.RUN_CLAIMED:
                self.started_at = self.started_at or event.at
                self.claims[event.seq] = event.payload
            elif kind in {Kind.RUN_FAILED, Kind.RUN_BLOCKED, Kind.RUN_CANCELLED}:
                ended_at, ended = event.at, kind
            elif kind == Kind.RUN_RESUMED:
                self._resume(event, ended_at, has_failed=ended == Kind.RUN_FAILED)
                ended_at = 0
            elif kind == Kind.RUN_FORKED:
                self._fork(event, at)
            at = event.at
        self.trodden = len(self.claims) > 1 and not self.at_frontier
        if len(self.claims) > 1:
            *_, before, _ = self.claims.values()
            self.python = str(json.loads(before or b"{}").get("python", ""))
        self.cancelled = None
        if self._outcomes:
            self.cancelled = next((event for event in self._outcomes if event.kind == Kind.CANCEL_DELIVERED), None)

    def _note(self, event: Event, key: str) -> None:
        if event.kind == Kind.STEP_STARTED:
            self._attempts(event).started = event.attempt or 0
        elif event.kind == Kind.PATCH_MARKED:
            self.patches[patch_name(key)] = None
        elif event.kind == Kind.PROGRESS:
            self.progress[key] = event.payload or b""
        elif event.kind == Kind.CHILD_STARTED:
            self.children[key] = event
        elif event.kind == Kind.MESSAGE_SENT:
            self.sent[key] = None
        elif event.kind == Kind.UNDO_BEGUN:
            self.undone[key] = None
        elif event.attempt is None:
            self.emitted[key] = None

    def _attempts(self, event: Event) -> Attempts:
        assert event.key is not None
        return self.attempts.setdefault(event.key, Attempts())

    def _resume(self, resumed: Event, ended_at: int, *, has_failed: bool) -> None:
        """Go on after the run had ended; ``ended_at``: 0 if it had not."""
        if ended_at:
            self.pauses[resumed.seq] = resumed.at - ended_at
            if has_failed:
                self._fail_anew()
        self._supersede(resumed)

    def _fail_anew(self) -> None:
        """Drop what was done because the run had failed: if it does so again, that is done again."""
        self.failures += 1
        self._outcomes = [event for event in self._outcomes if event.key is None or not is_of_failure(event.key)]
        self.by_key = {key: event for key, event in self.by_key.items() if not is_of_failure(key)}

    def _supersede(self, resumed: Event) -> None:
        """Drop the failures that a resume sets aside, and what was cancelled in their wake.

        Attempt numbers go on; the budget is new. Where the run had not ended, a cancel that was delivered stands.
        """
        names: dict[str, Any] = json.loads(resumed.payload or b"{}")
        self.accept_drift = names.get("accept_drift") is True
        keys = set(names.get("supersede", ()))
        first = min((e.seq for e in self._outcomes if e.key in keys or e.kind == Kind.CANCEL_DELIVERED), default=None)
        if first is None:
            return
        keeps = names.get("keep") is True
        kept: list[Event] = []
        for event in self._outcomes:
            in_wake = (
                not keeps
                and event.seq >= first
                and (
                    event.kind in {Kind.STEP_CANCELLED, Kind.CANCEL_DELIVERED}
                    or (event.kind == Kind.CHILD_ENDED and b'"status":"cancelled"' in (event.args or b""))
                )
            )
            if event.key in keys or in_wake:
                if event.key is not None:
                    self.by_key.pop(event.key, None)
                    self.superseded[event.key] = None
                    if event.kind == Kind.STEP_FAILED:
                        state = self._attempts(event)
                        state.base = state.last = event.attempt or 0
                        state.next_at = 0
            else:
                kept.append(event)
        self._outcomes = kept

    def _fork(self, forked: Event, copied_at: int) -> None:
        """Forget what was under way in the origin when the copy ends, and its cancel: that is done anew.

        Attempt numbers go on; the budget is new. The time since ``copied_at``, the last event that was copied, does not
        count.
        """
        self._copied = len(self.claims)
        self.pauses[forked.seq] = forked.at - copied_at
        accepted = self.accept_drift
        self._supersede(forked)
        self.accept_drift = accepted
        self.superseded.clear()
        self.children = {key: started for key, started in self.children.items() if key in self.by_key}
        for key, state in self.attempts.items():
            if key not in self.by_key:
                state.base = state.last = max(state.last, state.started)
                state.next_at = 0
        self.progress = {key: said for key, said in self.progress.items() if key in self.by_key}

    @property
    def at_frontier(self) -> bool:
        """Whether the code is where the copied part of a fork's log ends, and nobody was there before in this run."""
        return 0 < self._copied == len(self.claims) - 1 and self.done and not self.late

    def zero(self, seq: int) -> int:
        """Return from when the run's clock counts after ``seq``, µs: it leaves out the pauses before that."""
        if not self.pauses:
            return self.started_at
        return self.started_at + sum(pause for resumed, pause in self.pauses.items() if resumed <= seq)

    @property
    def done(self) -> bool:
        """Whether every recorded outcome that was asked for has been delivered."""
        return self._position >= len(self._outcomes)

    def next(self, calls: Container[str], timers: Container[str]) -> Event | None:
        """Return the next outcome to deliver, given the keys of what is asked for; None if there is none now."""
        if self.late:
            for late, event in self.late.items():  # in order of seq
                if late in calls or late in timers:
                    del self.late[late]
                    self.by_key.pop(late, None)
                    self.delivered += 1
                    return event
        outcomes = self._outcomes
        while self._position < len(outcomes):
            event = outcomes[self._position]
            self._position += 1
            key = event.key
            if key is None:
                self.delivered += 1
                return event
            if key in calls or key in timers:
                self.by_key.pop(key, None)
                self.delivered += 1
                return event
            self.late[key] = event
        return None

    def put_back(self) -> None:
        """Undo the last ``next``: that outcome is not due yet."""
        self._position -= 1
        self.delivered -= 1

    def moved(self, key: str) -> list[Event]:
        """Recorded outcomes nobody has asked for, of steps with the same name as ``key``'s."""
        name = step_name(key)
        return [e for k, e in self.late.items() if e.kind in _OF_STEPS and step_name(k) == name]


def retry_at(event: Event) -> int | None:
    """When the attempt after a ``step_failed`` is due, µs; None if that failure was the step's outcome."""
    payload = event.payload or b""
    if not payload.startswith(b'{"next_at":'):
        return None
    return int(payload[11 : payload.index(b",")])
