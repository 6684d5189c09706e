"""What a commit does beyond its own run: children are created, messages sent, and a successor takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import StoreBusy
from perdure.store.purging import told_taken
from perdure.store.sqlite.messages import deliver
from perdure.store.sqlite.runs import create_runs, get_runs
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import apsw

    from perdure.model.records import CommitItem, Created, NewRun, Successor
    from perdure.store.sqlite.routes import Names, Routes


class Outreach:
    """Writes what items do beyond their own runs, inside the transaction of their events.

    Args:
        routes: the store's.
        now: the clock that judges.
    """

    def __init__(self, routes: Routes, now: Callable[[], int]) -> None:
        self._routes = routes
        self._now = now

    def prepare(self, items: Iterable[CommitItem], *, wait: bool) -> None:
        """Number the routes of all runs that are to be created: in a transaction of its own, before the batch's.

        Raises:
            StoreBusy: one is new to this process, and ``wait`` is False.
        """
        wanted = {_route(run) for item in items for run in _new(item)}
        if not wait and not self._routes.know(wanted):
            raise StoreBusy("a route has to be numbered first", advice="let a thread wait for it")
        self._routes.numbers(wanted)

    def write(self, cursor: apsw.Cursor, item: CommitItem) -> None:
        """Write what one item does beyond its own run; its events are written.

        Raises:
            ValueError: its successor cannot be created.
        """
        now = self._now()
        if item.successor is not None:
            self._succeed(cursor, item.run_key, item.successor, now)
        if item.children:
            made = self._create(cursor, item.children, now)
            # Their ids are other runs', which the parent has not begun and must not wait for.
            taken = [
                told_taken(item.run_key, created)._replace(name=run.run_id)
                for run, created in zip(item.children, made, strict=True)
                if run.parent_key is not None and created.row.uid != run.uid
            ]
            deliver(cursor, taken, now=now)
        if item.sends:
            deliver(cursor, item.sends, now=now)

    def _create(self, cursor: apsw.Cursor, runs: Sequence[NewRun], now: int) -> list[Created]:
        numbers = [self._routes.number(_route(run)) for run in runs]
        return create_runs(cursor, runs, numbers, claim_for=None, facts=b"", now=now)

    def _succeed(self, cursor: apsw.Cursor, run_key: int, successor: Successor, now: int) -> None:
        """Let a new run go on under the id of one that has ended, with its inbox, parent and idempotency key."""
        old, run = get_runs(cursor, [run_key])[run_key], successor.run
        if (run.namespace, run.run_id) != (old.namespace, old.run_id):
            raise ValueError(f"the successor of run {old.run_id!r} is called {run.run_id!r}")
        cursor.execute(QUERIES["rename_run"], (run_key, successor.renamed))
        run = run._replace(parent_key=old.parent_key, idempotency_key=run.idempotency_key or old.idempotency_key)
        (made,) = self._create(cursor, [run], now)
        if not made.is_new:
            raise ValueError(f"the successor of run {run.run_id!r} cannot be created: its idempotency key is taken")
        key = made.row.run_key
        moved = cursor.execute(QUERIES["move_inbox"], (run_key, key)).connection.changes()
        if moved:
            cursor.execute(QUERIES["count_moved"], (key, moved))
            cursor.execute(QUERIES["move_uses"], (run_key, key))


def _new(item: CommitItem) -> Sequence[NewRun]:
    return item.children if item.successor is None else [*item.children, item.successor.run]


def _route(run: NewRun) -> Names:
    return run.namespace, run.queue, run.workflow, run.version


__all__ = ["Outreach"]
