"""Which runs no living worker has the code for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.records import RunRow, Status
from perdure.store.protocol import Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.store.protocol import Store

_NO_GRACE = 1 << 62
"""Nobody who has only come to look calls a frozen worker dead."""
_GOING = frozenset({Status.PENDING, Status.RUNNING, Status.SLEEPING, Status.RETRYING})
"""In these, a run goes on as soon as it is due."""


def codeless(store: Store, rows: Sequence[RunRow]) -> set[int]:
    """Return the keys of those runs that could go on now, but no living worker executes them or has their code.

    They are left alone until somebody who has it comes, or cancels them.
    """
    now = store.now()
    stay = [row for row in rows if row.status in _GOING and (row.wake_at is None or row.wake_at <= now)]
    if not stay:
        return set()
    served = store.served()
    stay = [row for row in stay if Route(row.workflow, row.version, row.queue, row.namespace) not in served]
    if any(row.worker_key is not None for row in stay):
        dead = store.dead_workers(0, grace=_NO_GRACE)
        alive = {worker.worker_key for worker in store.list_workers()}.difference(dead)
        stay = [row for row in stay if row.worker_key not in alive]
    return {row.run_key for row in stay}
