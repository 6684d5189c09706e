"""What is done to a run from outside: cancel, pause, resume, block. Its holder, if any, is asked, and does it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perdure.errors import RunNotFound
from perdure.model.records import Kind, Status
from perdure.store.controlling import Controlled
from perdure.store.creating import PRIORITY_WEIGHT, URGENT
from perdure.store.hearing import cancellation
from perdure.store.postgres.arrays import bigints
from perdure.store.postgres.builds import living
from perdure.store.postgres.log import append, asked_to_cancel, end_unheld, is_there, tail
from perdure.store.postgres.runs import get_runs
from perdure.store.texts import storable

if TYPE_CHECKING:
    from perdure.model.records import Event, RunRow
    from perdure.store.postgres.session import Session


def request_cancel(session: Session, run_key: int, reason: str, *, force: bool = False, now: int | None) -> Status:
    """Cancel a run, or ask its holder to, or whoever claims it next; with ``force`` nobody but its holder is asked."""
    # With the parent that may have to be told, in the order in which all lock them.
    session.fetch("lock_runs", bigints([run_key]), bigints([run_key]))
    run = _look(session, run_key, now)
    if run.status.terminal:
        return run.status
    reason = storable(reason)
    if not run.held and (force or (run.undo is None and not run.can_clean_up(lambda: living(session, run.route)))):
        payload = cancellation(reason, forced=force, undo=run.undo)
        end_unheld(session, tail(session, run_key), run.now, run.epoch + 1, Status.CANCELLED, payload, reason)
        return Status.CANCELLED
    _ask(session, "ask_cancel", run_key, cancellation(reason), run.now)
    if not run.held and run.status is not Status.BLOCKED:
        session.change("hurry", run_key, URGENT)
    return run.status


def pause_run(session: Session, run_key: int, reason: str, *, now: int | None) -> Status:
    """Pause a run, or ask its holder to; not one that is to be cancelled."""
    run = _look(session, run_key, now)
    if not run.can_rest:
        return run.status
    reason = storable(reason)
    payload = json.dumps({"reason": reason}).encode()
    if run.held:
        _ask(session, "ask_pause", run_key, payload, run.now)
        return run.status
    if asked_to_cancel(session, run_key) is not None:
        return run.status
    end_unheld(session, tail(session, run_key), run.now, run.epoch + 1, Status.PAUSED, payload, reason)
    return Status.PAUSED


def _ask(session: Session, request: str, run_key: int, payload: bytes, now: int) -> None:
    """Put a request into a run's inbox, unless it waits there already."""
    if session.change(request, run_key, payload, now):
        session.change("count_inbox", run_key)


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

    def _resume(self, session: Session, run: Controlled) -> bool:
        run.check_resumable()
        if run.epoch != self._epoch:
            return False
        last = tail(session, self._key)
        event = self._tried = append(session, last, run.now, run.epoch + 1, Kind.RUN_RESUMED, self._payload)
        session.change(
            "resume_run", self._key, int(Status.PENDING), event.epoch, event.seq, event.hash, run.now, PRIORITY_WEIGHT
        )
        session.change("drop_pauses", self._key)
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
        if not run.can_be_blocked(self._epoch):
            return False
        last = tail(session, self._key)
        self._tried = end_unheld(session, last, run.now, run.epoch + 1, Status.BLOCKED, self._payload, self._reason)
        return True


def _look(session: Session, run_key: int, now: int | None) -> Controlled:
    found = session.fetch("control", run_key, now)
    if not found:
        raise RunNotFound(f"no run with key {run_key}", run_key=run_key)
    status, epoch, held, run_id, route, refused, undo, instant = found[0]
    return Controlled(Status(status), epoch, held, run_id, route, frozenset(refused or ()), undo, instant)
