"""Runs as they are listed: of one kind, newest first, page by page; and what can be done to all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perdure.errors import DefinitionError
from perdure.model.counting import Counted, counts
from perdure.model.places import cursor_of, place_at
from perdure.model.records import Status
from perdure.operations.bulk import Tally, do_to
from perdure.operations.coding import codeless
from perdure.operations.forking import fork, lineage_of
from perdure.operations.signalling import send
from perdure.signals import message
from perdure.store.controlling import RESUMABLE
from perdure.store.listing import is_counted_by_index

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from perdure.model.counting import Counts
    from perdure.model.places import Place
    from perdure.model.records import Message, RunRow
    from perdure.operations.verbs import Operations
    from perdure.signals import Signal
    from perdure.store.protocol import Filter

MOST = 10_000
"""Runs that are looked at one by one, and found, to tell how many there are."""
CANCELLABLE = frozenset(status for status in Status if not status.terminal)


class Runs:
    """Runs of one kind, newest first: ``async for row in …``, page by page, or all of them at once.

    What is done to all of them is done to each alone: one that fails stops no other. Doing it again does the rest.
    """

    def __init__(
        self,
        operations: Operations,
        where: Filter,
        *,
        codeless: bool | None = None,
        changed: Callable[[], object] | None = None,
        most: int | None = None,
        watch: Callable[[Tally], bool] | None = None,
    ) -> None:
        self._operations = operations
        self._codeless = codeless
        self._where = where
        self._changed = changed
        self._most = most
        """How many of them anything is done to; None: all."""
        self._watch = watch
        """Told how far that is; False stops it."""

    async def __aiter__(self) -> AsyncIterator[RunRow]:
        after: Place | None = None
        while True:
            rows, after = await self._page(self._where.status, after, 100)
            for row in rows:
                yield row
            if after is None:
                return

    async def page(self, cursor: str | None = None, *, limit: int = 100) -> tuple[list[RunRow], str | None]:
        """Return up to ``limit`` runs after ``cursor``, and the cursor of the next page; None if this is the last.

        A cursor stays valid whatever happens to runs: what is created meanwhile comes before it, and shifts nothing. It
        is of letters, digits and a hyphen, so that it can be put into a URL as it is.

        Raises:
            DefinitionError: no such cursor, or one of a list in another order; or the limit is no number from 1.
        """
        by_end = self._where.by_end
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise DefinitionError(f"limit is a whole number from 1, not {limit!r}")
        after = None if cursor is None else place_at(cursor, by_end=by_end)
        rows, following = await self._page(self._where.status, after, limit)
        return rows, None if following is None else cursor_of(following, by_end=by_end)

    async def count(self) -> int:
        """Return how many there are: all of them are counted, see ``counts``."""
        return (await self.counts(most=None)).total

    async def counts(self, *, most: int | None = MOST) -> Counts:
        """Return how many there are, by status and by workflow.

        Those chosen by status, workflow, version, queue, and when they were created or else when they ended, are
        counted in an index, however many there are. By anything else runs must be looked at; then it is enough to know
        that there are ``most``, 10,000 by default (None: count all), and ``exact`` says whether there may be more.
        """
        operations, store = self._operations, self._operations.store
        if self._codeless is None:
            found = await operations.call(lambda: store.count_runs(self._where, most))
        else:
            found = []
            async for row in self:
                found.append(Counted(row.workflow, row.status, 1))
                if len(found) == most:
                    break
        exact = most is None or sum(one.number for one in found) < most or self._is_counted_by_index()
        return counts(found, exact=exact)

    def _is_counted_by_index(self) -> bool:
        return self._codeless is None and is_counted_by_index(self._where)

    async def cancel(self, reason: str = "", *, force: bool = False) -> Tally:
        """Cancel those that have not ended; see ``Handle.cancel``.

        Raises:
            StoreError: the store has failed; what was done stays.
        """
        operations = self._operations

        async def act(row: RunRow) -> bool:
            await operations.cancel(row.run_id, reason, force=force)
            return True

        return await self._all(CANCELLABLE, act)

    async def signal(
        self, signal: Signal[Any] | str, value: object = None, *, idempotency_key: str | None = None
    ) -> Tally:
        """Send a signal to those that have not ended; see ``Handle.signal``.

        Raises:
            NotSerializable, DefinitionError: as there; nothing was sent.
            StoreError: the store has failed; what was done stays.
        """
        return await self.send(message(signal, value, idempotency_key))

    async def send(self, what: Message) -> Tally:
        """Send a message to those that have not ended.

        Raises:
            StoreError: the store has failed; what was done stays.
        """
        operations = self._operations

        async def act(row: RunRow) -> bool:
            return await send(operations, row.run_id, what)

        return await self._all(CANCELLABLE, act)

    async def pause(self, reason: str = "") -> Tally:
        """Let those rest that have not ended and are not blocked; see ``Handle.pause``.

        Raises:
            StoreError: the store has failed; what was done stays.
        """
        operations = self._operations

        async def act(row: RunRow) -> bool:
            await operations.pause(row.run_id, reason)
            return True

        return await self._all(CANCELLABLE, act)

    async def resume(self, *, accept_drift: bool = False, reason: str = "") -> Tally:
        """Let those go on that have failed, were cancelled, or are blocked or paused; see ``Handle.resume``.

        Raises:
            StoreError: the store has failed; what was done stays.
        """
        operations = self._operations

        async def act(row: RunRow) -> bool:
            await operations.resume(row.run_id, accept_drift=accept_drift, reason=reason)
            return True

        return await self._all(RESUMABLE, act)

    async def fork(self, from_step: str, *, suffix: str | None = None, keep_keys: bool = False) -> Tally:
        """Fork each of them from a step; see ``Handle.fork``.

        A fork is named after its origin, so that nothing is forked twice when this is done again.

        Args:
            from_step: the first step to be done anew.
            suffix: what is added to a run's id to name its fork; by default ``-from-`` and the step.
            keep_keys: let forks have the idempotency keys of their origins.

        Raises:
            StoreError: the store has failed; what was done stays.
        """
        operations = self._operations
        ending = f"-from-{from_step}" if suffix is None else suffix

        async def act(row: RunRow) -> bool:
            there = await lineage_of(operations, row)
            if there is not None and row.run_id == there.run_id + ending:
                return False  # what this has made may well be of the same kind
            new_id = row.run_id + ending
            return (await fork(operations, row.run_id, from_step, new_id=new_id, keep_keys=keep_keys)).is_new

        return await self._all(frozenset(Status), act)

    async def _all(self, among: frozenset[Status], act: Callable[[RunRow], Awaitable[bool]]) -> Tally:
        wanted = self._where.status
        given = among if wanted is None else among.intersection(wanted)
        status = None if given == frozenset(Status) else tuple(sorted(given))
        tally = Tally()
        after: Place | None = None
        left = self._most
        while True:
            rows, after = await self._page(status, after, 100)
            if left is not None and len(rows) > left:
                rows, after, tally.more = rows[:left], None, True
            goes_on = await do_to(rows, act, tally, self._watch)
            if self._changed is not None:
                self._changed()
            if after is None or not goes_on:
                return tally
            left = None if left is None else left - len(rows)

    async def _page(
        self, status: tuple[Status, ...] | None, after: Place | None, limit: int
    ) -> tuple[list[RunRow], Place | None]:
        operations = self._operations
        store = operations.store
        where = replace(self._where, status=status, after=after, limit=limit)
        rows = await operations.call(lambda: store.list_runs(where))
        following = where.place(rows[-1]) if len(rows) == limit else None
        if self._codeless is not None:
            without = await operations.call(lambda: codeless(store, rows))
            rows = [row for row in rows if (row.run_key in without) is self._codeless]
        return rows, following


__all__ = ["CANCELLABLE", "Runs"]
