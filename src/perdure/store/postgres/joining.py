"""Creating runs in a transaction of somebody else's, who has a connection to the very same database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus

from perdure.store.postgres import reading
from perdure.store.postgres.runs import Creation
from perdure.store.postgres.session import Session
from perdure.store.protocol import PAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from perdure.model.records import Created, Event, NewRun, RunRow
    from perdure.store.postgres.routes import Routes


def join(connection: object, texts: dict[str, bytes]) -> Session | None:
    """Return a session on a connection that is in a transaction; None if it cannot be spoken to as ours are.

    That is so where it is not psycopg's, or in pipeline mode, or texts go over it in another encoding than UTF-8.
    """
    if not isinstance(connection, (psycopg.Connection, psycopg.AsyncConnection)):
        return None
    if connection.info.transaction_status != TransactionStatus.INTRANS or connection.info.encoding != "utf-8":
        return None
    if connection.pgconn.pipeline_status != PipelineStatus.OFF:
        return None
    # The session is not ours, so nothing is prepared in it; nor are its adapters, so psycopg's read what comes back.
    return Session(_Bare(connection), texts, prepares=False)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class _Bare:
    """A connection as a session uses it, without what its owner has made of its types."""

    def __init__(self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
        self.pgconn = connection.pgconn
        self.adapters = psycopg.adapters
        self.connection = connection


@dataclass(frozen=True, slots=True)
class JoinedStore:
    """The verbs by which runs are created, on a session of somebody else's. See ``perdure.store.protocol.Joined``.

    Routes get their numbers from the store, not from this transaction: a number that is known must be on disk.
    """

    url: str
    _session: Session
    _routes: Routes
    _now: Callable[[], int]

    def create_runs(self, new: Sequence[NewRun], /, *, claim_for: None = None, facts: bytes = b"") -> list[Created]:
        """Create runs, or find those that are there under the same id (or idempotency key)."""
        numbers = [self._routes.number((run.namespace, run.queue, run.workflow, run.version)) for run in new]
        return Creation(new, numbers, claim_for=claim_for, facts=facts, now=self._now()).create(self._session)

    def get_run(self, run_id: str, namespace: str = "") -> RunRow | None:
        """The run of this id."""
        return reading.get_run(self._session, run_id, namespace)

    def read_events(self, run_key: int, after: int = 0, limit: int = PAGE) -> list[Event]:
        """The log after seq ``after``, at most ``limit`` events."""
        return reading.read_events(self._session, run_key, after, limit)

    def get_artifact(self, digest: bytes) -> bytes | None:
        """An artifact's bytes."""
        return reading.get_artifact(self._session, digest)


__all__ = ["JoinedStore", "join"]
