"""Forking: a run's beginning becomes that of another run, whole or not at all."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from perdure.model.forking import ORIGIN_TAG
from perdure.model.records import Created, Status
from perdure.store.copying import Copy, no_origin, taken
from perdure.store.creating import PRIORITY_WEIGHT
from perdure.store.postgres.arrays import bigints, byteas
from perdure.store.postgres.burial import get_tombstone
from perdure.store.postgres.log import append_all
from perdure.store.postgres.reading import get_run, read_events
from perdure.store.postgres.runs import get_runs
from perdure.store.postgres.tags import tag

if TYPE_CHECKING:
    from perdure.model.forking import Fork
    from perdure.model.records import Event
    from perdure.store.postgres.session import Session


def fork_run(session: Session, fork: Fork) -> Created:
    """Make a fork, or find the run that has its id; done again it finds the fork that it has made."""
    origin = get_runs(session, [fork.origin_key]).get(fork.origin_key)
    if origin is None:
        raise no_origin(fork)
    values = (fork.origin_key, fork.run_id, fork.uid, int(Status.PENDING), fork.created_at)
    made = session.fetch("fork_run", *values)
    if not made:
        found = get_run(session, fork.run_id, origin.namespace)
        if found is None:
            return taken(fork, get_tombstone(session, fork.run_id, origin.namespace))
        return Created(found, found.uid == fork.uid)
    key = made[0][0]
    end = Copy(fork, key, origin.uid).copy(partial(read_events, session), partial(_append, session, key))
    tag(session, [(key, origin.meta)], {ORIGIN_TAG: str(fork.origin_key)})
    session.change("complete_fork", key, end.epoch, end.seq, end.hash, end.at, PRIORITY_WEIGHT)
    return Created(get_runs(session, [key])[key], is_new=True)


def _append(session: Session, run_key: int, events: list[Event], artifacts: list[bytes]) -> None:
    append_all(session, events)
    if artifacts:
        session.change("use_artifacts", byteas(artifacts), bigints([run_key] * len(artifacts)))
