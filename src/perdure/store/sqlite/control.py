"""What is done to a run from outside: cancel, pause, resume, block. Its holder, if any, is asked, and does it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perdure.errors import RunNotFound
from perdure.model.records import Kind, Status
from perdure.store.controlling import Controlled
from perdure.store.creating import PRIORITY_WEIGHT, URGENT
from perdure.store.hearing import cancellation
from perdure.store.sqlite.builds import living
from perdure.store.sqlite.log import append, asked_to_cancel, end_unheld, tail
from perdure.store.sqlite.rows import fetch
from perdure.store.sqlite.runs import get_runs
from perdure.store.sqlite.sql import QUERIES
from perdure.store.texts import storable

if TYPE_CHECKING:
    import apsw

    from perdure.model.records import RunRow


def request_cancel(cursor: apsw.Cursor, run_key: int, reason: str, *, force: bool = False, now: int) -> Status:
    """Cancel a run, or ask its holder to, or whoever claims it next; with ``force`` nobody but its holder is asked."""
    run = _look(cursor, run_key, now)
    if run.status.terminal:
        return run.status
    reason = storable(reason)
    if not run.held and (force or (run.undo is None and not run.can_clean_up(lambda: living(cursor, run.route)))):
        payload = cancellation(reason, forced=force, undo=run.undo)
        end_unheld(cursor, tail(cursor, run_key), now, run.epoch + 1, Status.CANCELLED, payload, reason)
        return Status.CANCELLED
    _ask(cursor, "ask_cancel", run_key, cancellation(reason), now)
    if not run.held and run.status is not Status.BLOCKED:
        cursor.execute(QUERIES["hurry"], (run_key, URGENT))
    return run.status


def pause_run(cursor: apsw.Cursor, run_key: int, reason: str, *, now: int) -> Status:
    """Pause a run, or ask its holder to; not one that is to be cancelled."""
    run = _look(cursor, run_key, now)
    if not run.can_rest:
        return run.status
    reason = storable(reason)
    payload = json.dumps({"reason": reason}).encode()
    if run.held:
        _ask(cursor, "ask_pause", run_key, payload, now)
        return run.status
    if asked_to_cancel(cursor, run_key) is not None:
        return run.status
    end_unheld(cursor, tail(cursor, run_key), now, run.epoch + 1, Status.PAUSED, payload, reason)
    return Status.PAUSED


def _ask(cursor: apsw.Cursor, request: str, run_key: int, payload: bytes, now: int) -> None:
    """Put a request into a run's inbox, unless it waits there already."""
    if cursor.execute(QUERIES[request], (run_key, payload, now)).connection.changes():
        cursor.execute(QUERIES["count_inbox"], (run_key,))


def resume_run(cursor: apsw.Cursor, run_key: int, epoch: int, payload: bytes, *, now: int) -> RunRow | None:
    """Make an ended, blocked or paused run claimable again, if it is still at ``epoch``."""
    run = _look(cursor, run_key, now)
    run.check_resumable()
    if run.epoch != epoch:
        return None
    event = append(cursor, tail(cursor, run_key), now, epoch + 1, Kind.RUN_RESUMED, payload)
    cursor.execute(
        QUERIES["resume_run"], (run_key, Status.PENDING, event.epoch, event.seq, event.hash, now, PRIORITY_WEIGHT)
    )
    cursor.execute(QUERIES["drop_pauses"], (run_key,))
    return get_runs(cursor, [run_key])[run_key]


def block_run(cursor: apsw.Cursor, run_key: int, epoch: int, payload: bytes, reason: str, *, now: int) -> bool:
    """Block a run that nobody holds, if it is still at ``epoch``."""
    run = _look(cursor, run_key, now)
    if not run.can_be_blocked(epoch):
        return False
    end_unheld(cursor, tail(cursor, run_key), now, epoch + 1, Status.BLOCKED, payload, reason)
    return True


def _look(cursor: apsw.Cursor, run_key: int, now: int) -> Controlled:
    found = fetch(cursor, QUERIES["control"], (run_key,))
    if not found:
        raise RunNotFound(f"no run with key {run_key}", run_key=run_key)
    status, epoch, held, run_id, route, refused, undo = found[0]
    return Controlled(
        Status(status), epoch, bool(held), run_id, route, frozenset(json.loads(refused or "[]")), undo, now
    )
