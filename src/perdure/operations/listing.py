"""Runs as they are listed: of one kind, newest first, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.operations.coding import codeless
from perdure.store.protocol import Filter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from perdure.model.records import RunRow, Status
    from perdure.operations.verbs import Operations


class Runs:
    """Runs of one kind, newest first: ``async for row in …``, or page by page."""

    def __init__(
        self,
        operations: Operations,
        status: Sequence[Status] | None,
        workflow: str | None,
        *,
        codeless: bool | None = None,
    ) -> None:
        self._operations = operations
        self._codeless = codeless
        self._status = None if status is None else tuple(status)
        self._workflow = workflow

    async def __aiter__(self) -> AsyncIterator[RunRow]:
        cursor: int | None = None
        while True:
            rows, cursor = await self.page(cursor)
            for row in rows:
                yield row
            if cursor is None:
                return

    async def page(self, cursor: int | None = None, *, limit: int = 100) -> tuple[list[RunRow], int | None]:
        """Return up to ``limit`` runs after ``cursor``, and the cursor of the next page; None if this is the last."""
        operations = self._operations
        store = operations.store
        where = Filter(self._status, self._workflow, operations.namespace, cursor, limit)
        rows = await operations.call(lambda: store.list_runs(where))
        following = rows[-1].run_key if len(rows) == limit else None
        if self._codeless is not None:
            without = await operations.call(lambda: codeless(store, rows))
            rows = [row for row in rows if (row.run_key in without) is self._codeless]
        return rows, following
