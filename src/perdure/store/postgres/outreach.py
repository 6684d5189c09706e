"""What a commit does beyond its own run: children are created, messages sent, and a successor takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.store.postgres.messages import deliver, lock
from perdure.store.postgres.runs import Creation, get_runs
from perdure.store.purging import told_taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perdure.model.records import CommitItem, Created, Message, NewRun, Successor
    from perdure.store.postgres.routes import Names, Routes
    from perdure.store.postgres.session import Session


class Outreach:
    """Writes what items do beyond their own runs, inside the transaction of their events.

    Args:
        routes: the store's.
        now: the clock that judges; None: the server's.
    """

    def __init__(self, routes: Routes, now: Callable[[], int | None]) -> None:
        self._routes = routes
        self._now = now

    def prepare(self, items: Iterable[CommitItem]) -> None:
        """Number the routes of all runs that are to be created: in a transaction of its own, before the batch's."""
        self._routes.numbers({_route(run) for item in items for run in _new(item)})

    def lock(self, session: Session, items: Sequence[CommitItem], run_keys: Iterable[int]) -> int:
        """Lock all runs that items concern, in the order in which all lock them; returns the instant."""
        lock(session, [message for item in items for message in item.sends], run_keys)
        now = self._now()
        instant: int = session.fetch_value("clock") if now is None else now
        return instant

    def write(self, session: Session, items: Sequence[CommitItem], *, now: int) -> None:
        """Write what items do beyond their own runs, whose events and states are written.

        Raises:
            ValueError: a successor cannot be created.
        """
        for item in items:
            if item.successor is not None:
                self._succeed(session, item.run_key, item.successor, now)
        messages: list[Message] = []
        started = [(item.run_key, run) for item in items for run in item.children]
        if started:
            made = self._create(session, [run for _, run in started], now)
            # Their ids are other runs', which the parent has not begun and must not wait for.
            messages += (
                told_taken(run_key, created)._replace(name=run.run_id)
                for (run_key, run), created in zip(started, made, strict=True)
                if run.parent_key is not None and created.row.uid != run.uid
            )
        messages += (message for item in items for message in item.sends)
        if messages:
            deliver(session, messages, now=now)

    def _create(self, session: Session, runs: Sequence[NewRun], now: int) -> list[Created]:
        numbers = [self._routes.number(_route(run)) for run in runs]
        return Creation(runs, numbers, claim_for=None, facts=b"", now=now).create(session)

    def _succeed(self, session: Session, run_key: int, successor: Successor, now: int) -> None:
        """Let a new run go on under the id of one that has ended, with its inbox, parent and idempotency key."""
        old, run = get_runs(session, [run_key])[run_key], successor.run
        if (run.namespace, run.run_id) != (old.namespace, old.run_id):
            raise ValueError(f"the successor of run {old.run_id!r} is called {run.run_id!r}")
        session.change("rename_run", run_key, successor.renamed)
        run = run._replace(parent_key=old.parent_key, idempotency_key=run.idempotency_key or old.idempotency_key)
        (made,) = self._create(session, [run], now)
        if not made.is_new:
            raise ValueError(f"the successor of run {run.run_id!r} cannot be created: its idempotency key is taken")
        if session.change("move_inbox", run_key, made.row.run_key):
            session.change("move_uses", run_key, made.row.run_key)


def _new(item: CommitItem) -> Sequence[NewRun]:
    return item.children if item.successor is None else [*item.children, item.successor.run]


def _route(run: NewRun) -> Names:
    return run.namespace, run.queue, run.workflow, run.version


__all__ = ["Outreach"]
