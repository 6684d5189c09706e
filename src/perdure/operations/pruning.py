"""Pruning by hand: what is old enough is purged now, and what purged runs have left behind is deleted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from perdure.errors import DefinitionError
from perdure.model.durations import micros
from perdure.model.purging import Purgeable
from perdure.model.records import Status
from perdure.store.pruning import Pruned, Pruning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.durations import Duration
    from perdure.model.retention import Retention
    from perdure.operations.verbs import Operations

ENDED = tuple(status for status in Status if status.terminal)


def chosen(
    operations: Operations, older_than: Duration, statuses: Sequence[Status] | None, workflow: str | None
) -> list[Purgeable]:
    """Return which runs are meant.

    Raises:
        DefinitionError: that is no duration, or runs in one of the statuses have not ended.
    """
    going_on = [status.word for status in statuses or () if not status.terminal]
    if going_on:
        raise DefinitionError(
            f"runs that are {', '.join(going_on)} have not ended, and are never purged",
            advice=f"say {', '.join(status.word for status in ENDED)}",
        )
    before = operations.store.now() - micros(older_than, what="older_than")
    # What ends in this very instant has ended before it is looked for.
    return [Purgeable(tuple(statuses or ENDED), before + 1, operations.namespace, workflow)]


async def prune(
    operations: Operations,
    rules: Sequence[Purgeable],
    *,
    limit: int | None = None,
    retention: Retention | None = None,
    dry_run: bool = False,
) -> Pruned:
    """Purge runs, a short transaction at a time, off the loop; then delete what purged runs have left behind.

    Args:
        operations: what is done with runs.
        rules: which runs.
        limit: how many at most.
        retention: says for how long purged runs are remembered.
        dry_run: only count them.

    Raises:
        DefinitionError: that is no limit.
        StoreError: the store has failed; what was done stays.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise DefinitionError(f"a limit is a whole number from 1, not {limit!r}")
    before = None if retention is None else retention.forgets_before(operations.store.now())
    pruning = Pruning(
        operations.store,
        rules,
        limit=limit,
        forget=None if before is None else (operations.namespace, before),
        dry=dry_run,
        reached=operations.reached,
    )
    steps = pruning.steps()
    end: Any = object()
    while await asyncio.to_thread(next, steps, end) is not end:
        pass
    return pruning.pruned


__all__ = ["ENDED", "chosen", "prune"]
