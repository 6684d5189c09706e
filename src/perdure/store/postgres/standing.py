"""Where a run stands, for whoever asks why it does not go on; and which ids are like one that is not there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perdure.model.standing import Sign, Standing, news_of
from perdure.store.postgres.liveness import Sight
from perdure.store.queueing import COUNTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.store.postgres.session import Session


def standing(session: Session, run_key: int) -> Standing | None:
    """Where a run stands; None if it is not there."""
    found = session.fetch("standing", run_key, COUNTED)
    if not found:
        return None
    claimable, new, ahead, refused, awaits, partition_held = found[0]
    return Standing(
        claimable=claimable,
        new=new,
        ahead=min(ahead, COUNTED),
        refused=tuple(refused),
        awaits=None if awaits is None else tuple(json.loads(awaits)),
        news=news_of(session.fetch("list_news", run_key, COUNTED)),
        partition_held=partition_held,
    )


def signs(session: Session) -> dict[int, Sign]:
    """What shows of each worker that it lives."""
    leases = {row[0]: row[9] for row in session.fetch("list_workers")}
    found: dict[int, Sign] = {}
    for sight in (Sight(*row) for row in session.fetch("watch_workers")):
        if sight.worker_key not in leases:
            continue
        # A session of an earlier start of the server says nothing: its lock ended with it.
        if sight.session == "" or sight.server != sight.up_since:
            found[sight.worker_key] = Sign("unknowable", leases[sight.worker_key])
        else:
            found[sight.worker_key] = Sign("held" if sight.locked else "free", leases[sight.worker_key])
    return found


def near_ids(session: Session, run_id: str, limit: int) -> Iterator[tuple[str, str]]:
    """Runs that have the id, or one that begins with it, in every namespace: namespace and id."""
    for (namespace,) in session.fetch("namespaces"):
        for (near,) in session.fetch("ids_from", namespace, run_id, limit):
            if near.startswith(run_id):
                yield namespace, near


__all__ = ["near_ids", "signs", "standing"]
