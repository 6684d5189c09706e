"""Reading: every function fetches all it returns, so that no cursor stays open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.records import FORMAT
from perdure.store import queueing, rows
from perdure.store.creating import URGENT
from perdure.store.postgres import queues
from perdure.store.postgres.arrays import bigints
from perdure.store.postgres.words import ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import Event, RunRow
    from perdure.store.postgres.session import Session
    from perdure.store.postgres.words import Words
    from perdure.store.protocol import Outlook


def held(session: Session, worker_key: int) -> dict[int, int]:
    """Epoch by run_key of everything the worker holds."""
    return dict(session.fetch("held", worker_key))


def outlook(session: Session, routes: Sequence[int], worker_key: int, now: int) -> Outlook:
    """When there is something to claim of these routes next."""

    def waiting(full: set[int]) -> tuple[int | None, bool]:
        ((due, suspect),) = session.fetch("next_due", bigints([r for r in routes if r not in full]))
        return due, suspect

    seen = session.hear(queues.look(routes, worker_key, now))
    return queueing.outlook(seen, waiting, lambda row: queues.rate_opens_at(session, row, now))


def urgent(routes: Sequence[int], limit: int) -> Words[list[int]]:
    """Keys of claimable runs of these routes that are to be cancelled."""
    return [key for (key,) in (yield ask("urgent", bigints(routes), URGENT, FORMAT, limit))]


def over(run_keys: Sequence[int], limit: int) -> Words[list[tuple[int, RunRow | None]]]:
    """Those of these runs that have ended, are blocked, or are not there."""
    found = yield ask("over", bigints(run_keys), limit)
    return [(row[0], None if row[1] is None else rows.run_row(row[1:])) for row in found]


def overdue(session: Session, limit: int, now: int | None) -> list[tuple[int, int]]:
    """Keys and deadlines of runs whose deadline has passed."""
    instant = session.fetch_value("clock") if now is None else now
    return [(key, deadline) for key, deadline in session.fetch("overdue", instant, limit)]


def get_run(session: Session, run_id: str, namespace: str) -> RunRow | None:
    """The run of this id."""
    found = session.fetch("get_run", namespace, run_id)
    return rows.run_row(found[0]) if found else None


def read_events(session: Session, run_key: int, after: int, limit: int) -> list[Event]:
    """A page of a run's log."""
    return rows.events(session.fetch("read_events", run_key, after, limit))


def list_namespaces(session: Session) -> list[str]:
    """Every namespace there is."""
    return [name for (name,) in session.fetch("list_namespaces")]


def get_artifact(session: Session, digest: bytes) -> bytes | None:
    """An artifact's bytes."""
    found = session.fetch("get_artifact", digest)
    return found[0][0] if found else None
