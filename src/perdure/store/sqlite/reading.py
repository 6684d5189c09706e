"""Reading: every function fetches all it returns, so that no cursor stays open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.records import FORMAT
from perdure.store import queueing, rows
from perdure.store.creating import URGENT
from perdure.store.sqlite import queues
from perdure.store.sqlite.rows import fetch, fetch_value, json_list
from perdure.store.sqlite.runs import get_runs
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from perdure.model.records import Event, RunRow
    from perdure.store.protocol import Outlook
    from perdure.store.sqlite.connection import Reader


def version(reader: Reader, cursor: apsw.Cursor) -> tuple[int, int]:
    """What changes when another connection has committed, or when the reader has a new one, which counts anew."""
    return reader.opened, fetch_value(cursor, QUERIES["data_version"])


def held(cursor: apsw.Cursor, worker_key: int) -> dict[int, int]:
    """Epoch by run_key of everything the worker holds."""
    return dict(fetch(cursor, QUERIES["held"], (worker_key,)))


def outlook(cursor: apsw.Cursor, routes: Sequence[int], worker_key: int, now: int) -> Outlook:
    """When there is something to claim of these routes next."""

    def waiting(full: set[int]) -> tuple[int | None, bool]:
        listed = json_list(r for r in routes if r not in full)
        ((due, suspect),) = fetch(cursor, QUERIES["next_due"], (listed,))
        return due, bool(suspect)

    gated = queues.gates(cursor, routes, worker_key, now)
    return queueing.outlook(gated, waiting, lambda row: queues.rate_opens_at(cursor, row, now))


def urgent(cursor: apsw.Cursor, routes: Sequence[int], limit: int) -> list[int]:
    """Keys of claimable runs of these routes that are to be cancelled."""
    found: list[int] = []
    for query in ("urgent", "urgent_refused"):
        for route in routes:
            found += (key for (key,) in fetch(cursor, QUERIES[query], (route, URGENT, FORMAT, limit - len(found))))
    return found


def overdue(cursor: apsw.Cursor, limit: int, now: int) -> list[tuple[int, int]]:
    """Keys and deadlines of runs whose deadline has passed."""
    return [(key, deadline) for key, deadline in fetch(cursor, QUERIES["overdue"], (now, limit))]


def get_run(cursor: apsw.Cursor, run_id: str, namespace: str) -> RunRow | None:
    """The run of this id."""
    found = fetch(cursor, QUERIES["get_run"], (namespace, run_id))
    return rows.run_row(found[0]) if found else None


def over(cursor: apsw.Cursor, run_keys: Sequence[int], limit: int) -> list[tuple[int, RunRow | None]]:
    """Those of these runs that have ended, are blocked, or are not there."""
    keys: list[int] = [key for (key,) in fetch(cursor, QUERIES["over"], (json_list(run_keys), limit))]
    found = get_runs(cursor, keys) if keys else {}
    return [(key, found.get(key)) for key in keys]


def read_events(cursor: apsw.Cursor, run_key: int, after: int, limit: int) -> list[Event]:
    """A page of a run's log."""
    return rows.events(fetch(cursor, QUERIES["read_events"], (run_key, after, limit)))


def list_namespaces(cursor: apsw.Cursor) -> list[str]:
    """Every namespace there is."""
    return [name for (name,) in fetch(cursor, QUERIES["list_namespaces"])]


def get_artifact(cursor: apsw.Cursor, digest: bytes) -> bytes | None:
    """An artifact's bytes."""
    found = fetch(cursor, QUERIES["get_artifact"], (digest,))
    return found[0][0] if found else None
