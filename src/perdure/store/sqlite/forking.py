"""Forking: a run's beginning becomes that of another run, whole or not at all."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from perdure.model.forking import ORIGIN_TAG
from perdure.model.records import Created, Status
from perdure.store.copying import Copy, no_origin, taken
from perdure.store.creating import PRIORITY_WEIGHT
from perdure.store.sqlite.burial import get_tombstone
from perdure.store.sqlite.reading import get_run, read_events
from perdure.store.sqlite.rows import fetch
from perdure.store.sqlite.runs import get_runs
from perdure.store.sqlite.sql import QUERIES
from perdure.store.sqlite.tags import tag

if TYPE_CHECKING:
    import apsw

    from perdure.model.forking import Fork
    from perdure.model.records import Event


def fork_run(cursor: apsw.Cursor, fork: Fork) -> Created:
    """Make a fork, or find the run that has its id."""
    origin = get_runs(cursor, [fork.origin_key]).get(fork.origin_key)
    if origin is None:
        raise no_origin(fork)
    values = (fork.origin_key, fork.run_id, fork.uid, Status.PENDING, fork.created_at)
    made = fetch(cursor, QUERIES["fork_run"], values)
    if not made:
        found = get_run(cursor, fork.run_id, origin.namespace)
        if found is None:
            return taken(fork, get_tombstone(cursor, fork.run_id, origin.namespace))
        return Created(found, found.uid == fork.uid)
    key = made[0][0]
    end = Copy(fork, key, origin.uid).copy(partial(read_events, cursor), partial(_append, cursor, key))
    tag(cursor, [(key, origin.meta)], {ORIGIN_TAG: str(fork.origin_key)})
    cursor.execute(QUERIES["complete_fork"], (key, end.epoch, end.seq, end.hash, end.at, PRIORITY_WEIGHT))
    return Created(get_runs(cursor, [key])[key], is_new=True)


def _append(cursor: apsw.Cursor, run_key: int, events: list[Event], artifacts: list[bytes]) -> None:
    cursor.executemany(QUERIES["insert_event"], events)
    if artifacts:
        cursor.executemany(QUERIES["use_artifact"], [(digest, run_key) for digest in artifacts])
