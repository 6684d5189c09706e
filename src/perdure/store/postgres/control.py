"""What is done to a run from outside: cancel, resume, block. The holder, if any, is told; it does the rest itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from perdure.errors import RunNotFound, WrongState
from perdure.model.records import Kind, Status
from perdure.store.creating import PRIORITY_WEIGHT
from perdure.store.postgres.log import append, end_unheld, is_there, tail
from perdure.store.postgres.runs import get_runs
from perdure.store.texts import storable

if TYPE_CHECKING:
    from perdure.model.records import Event, RunRow
    from perdure.store.postgres.session import Session

RESUMABLE = frozenset({Status.FAILED, Status.CANCELLED, Status.BLOCKED, Status.PAUSED})


class _Look(NamedTuple):
    """A locked run, and the instant."""

    status: Status
    epoch: int
    held: bool
    run_id: str
    now: int


def request_cancel(session: Session, run_key: int, reason: str, *, now: int | None) -> Status:
    """Cancel a run, or ask its holder to."""
    run = _look(session, run_key, now)
    if run.status.terminal:
        return run.status
    reason = storable(reason)
    payload = json.dumps({"reason": reason}).encode()
    if not run.held:
        end_unheld(session, tail(session, run_key), run.now, run.epoch + 1, Status.CANCELLED, payload, reason)
        return Status.CANCELLED
    if session.change("ask_cancel", run_key, payload, run.now):
        session.change("count_inbox", run_key)
    return run.status


class Resumption:
    """A run's resumption; done again it finds that it has been done."""

    def __init__(self, run_key: int, epoch: int, payload: bytes, *, now: int | None) -> None:
        self._key, self._epoch, self._payload, self._now = run_key, epoch, payload, now
        self._tried: Event | None = None

    def resume(self, session: Session) -> RunRow | None:
        """Make an ended, blocked or paused run claimable again, if it is still at the epoch that was seen."""
        run = _look(session, self._key, self._now)
        if (self._tried is None or not is_there(session, self._tried)) and not self._resume(session, run):
            return None
        return get_runs(session, [self._key])[self._key]

    def _resume(self, session: Session, run: _Look) -> bool:
        if run.held or run.status not in RESUMABLE:
            raise WrongState(
                f"run {run.run_id!r} is {run.status.word}, so there is nothing to resume",
                run_id=run.run_id,
                status=run.status.word,
                advice="only failed, cancelled, blocked and paused runs are resumed",
            )
        if run.epoch != self._epoch:
            return False
        last = tail(session, self._key)
        event = self._tried = append(session, last, run.now, run.epoch + 1, Kind.RUN_RESUMED, self._payload)
        session.change(
            "resume_run", self._key, int(Status.PENDING), event.epoch, event.seq, event.hash, run.now, PRIORITY_WEIGHT
        )
        return True


class Blocking:
    """The blocking of a run; done again it finds that it has been done."""

    def __init__(self, run_key: int, epoch: int, payload: bytes, reason: str) -> None:
        self._key, self._epoch, self._payload, self._reason = run_key, epoch, payload, reason
        self._tried: Event | None = None

    def block(self, session: Session) -> bool:
        """Block a run that nobody holds, if it is still at the epoch that was seen."""
        run = _look(session, self._key, None)
        if self._tried is not None and is_there(session, self._tried):
            return True
        if run.held or run.epoch != self._epoch or run.status.terminal or run.status is Status.BLOCKED:
            return False
        last = tail(session, self._key)
        self._tried = end_unheld(session, last, run.now, run.epoch + 1, Status.BLOCKED, self._payload, self._reason)
        return True


def _look(session: Session, run_key: int, now: int | None) -> _Look:
    found = session.fetch("control", run_key, now)
    if not found:
        raise RunNotFound(f"no run with key {run_key}", run_key=run_key)
    status, epoch, held, run_id, instant = found[0]
    return _Look(Status(status), epoch, held, run_id, instant)
