"""What is done to a run from outside: cancel, resume, block. The holder, if any, is told; it does the rest itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perdure.errors import RunNotFound, WrongState
from perdure.model.records import Kind, Status
from perdure.store.creating import PRIORITY_WEIGHT
from perdure.store.sqlite.log import append, end_unheld, tail
from perdure.store.sqlite.rows import fetch
from perdure.store.sqlite.runs import get_runs
from perdure.store.sqlite.sql import QUERIES
from perdure.store.texts import storable

if TYPE_CHECKING:
    import apsw

    from perdure.model.records import RunRow

RESUMABLE = frozenset({Status.FAILED, Status.CANCELLED, Status.BLOCKED, Status.PAUSED})


def request_cancel(cursor: apsw.Cursor, run_key: int, reason: str, *, now: int) -> Status:
    """Cancel a run, or ask its holder to."""
    status, epoch, held, _ = _look(cursor, run_key)
    if status.terminal:
        return status
    reason = storable(reason)
    payload = json.dumps({"reason": reason}).encode()
    if not held:
        end_unheld(cursor, tail(cursor, run_key), now, epoch + 1, Status.CANCELLED, payload, reason)
        return Status.CANCELLED
    if cursor.execute(QUERIES["ask_cancel"], (run_key, payload, now)).connection.changes():
        cursor.execute(QUERIES["count_inbox"], (run_key,))
    return status


def resume_run(cursor: apsw.Cursor, run_key: int, epoch: int, payload: bytes, *, now: int) -> RunRow | None:
    """Make an ended, blocked or paused run claimable again, if it is still at ``epoch``."""
    status, found, held, run_id = _look(cursor, run_key)
    if held or status not in RESUMABLE:
        raise WrongState(
            f"run {run_id!r} is {status.word}, so there is nothing to resume",
            run_id=run_id,
            status=status.word,
            advice="only failed, cancelled, blocked and paused runs are resumed",
        )
    if found != epoch:
        return None
    event = append(cursor, tail(cursor, run_key), now, epoch + 1, Kind.RUN_RESUMED, payload)
    cursor.execute(
        QUERIES["resume_run"], (run_key, Status.PENDING, event.epoch, event.seq, event.hash, now, PRIORITY_WEIGHT)
    )
    return get_runs(cursor, [run_key])[run_key]


def block_run(cursor: apsw.Cursor, run_key: int, epoch: int, payload: bytes, reason: str, *, now: int) -> bool:
    """Block a run that nobody holds, if it is still at ``epoch``."""
    status, found, held, _ = _look(cursor, run_key)
    if held or found != epoch or status.terminal or status is Status.BLOCKED:
        return False
    end_unheld(cursor, tail(cursor, run_key), now, epoch + 1, Status.BLOCKED, payload, reason)
    return True


def _look(cursor: apsw.Cursor, run_key: int) -> tuple[Status, int, bool, str]:
    found = fetch(cursor, QUERIES["control"], (run_key,))
    if not found:
        raise RunNotFound(f"no run with key {run_key}", run_key=run_key)
    status, epoch, held, run_id = found[0]
    return Status(status), epoch, bool(held), run_id
