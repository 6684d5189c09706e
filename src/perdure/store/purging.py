"""Purging, the same for every store: in which order ended runs are looked through, and how much is done at a time.

A run is purged in two strokes. First, in one short transaction, it becomes a tombstone: no look-up, list or message
finds it any more, and whoever would create it again is refused. What it has left behind is deleted afterwards, a
bounded number of rows at a time, its log from the end, so that a reader who comes too late sees a beginning and never a
hole. Whoever deletes may die at any moment: what is left is found by the tombstone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.model.payloads import note
from perdure.model.purging import EndedPage, EndedRun
from perdure.model.records import FORMAT, Created, InboxKind, Message, RunRow, Status, Tombstone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perdure.model.purging import EndedPlace, Purgeable
    from perdure.store.rows import Row

BURIED: Final = 100
"""Runs that become tombstones in one transaction, at most."""
COLLECTED: Final = 100
"""Purged runs that are looked after in one transaction, at most."""
ROWS: Final = 1000
"""Rows that are deleted for them in one transaction, at most; an artifact counts as more of them if it is large."""
ROW: Final = 65536
"""Bytes of an artifact that count as one more row."""

LAST, MORE = 1, 2
"""What is left of a purged run besides its tombstone: its row; its log and more. Nought: nothing."""

SANE: Final = 3_600_000_000
"""µs that no chore is given for: who has it for longer got it from a clock that has been set back since."""

_FIRST: Final = (-1 << 62, 0)


def ended_page(
    what: Purgeable,
    routes: Iterable[tuple[int, str]],
    after: EndedPlace | None,
    limit: int,
    read: Callable[[int, int, int, int, int, int], Sequence[Row]],
) -> EndedPage:
    """Look at up to ``limit`` ended runs, route by route and status by status, those first that ended first.

    Args:
        what: which ones.
        routes: the numbers of the namespace's routes, and their workflows.
        after: where to go on.
        limit: how many to look at.
        read: gives for a route, a status, an end and a key after which, an instant and a limit: run keys, when they
            ended, and whether their parents keep them.
    """
    lanes = sorted(
        (route, int(status), workflow)
        for route, workflow in routes
        if what.workflow in {None, workflow} and workflow not in what.besides
        for status in what.statuses
        if status.terminal
    )
    found: list[EndedRun] = []
    left = limit
    for route, status, workflow in lanes:
        since = _FIRST
        if after is not None:
            if (route, status) < after[:2]:
                continue
            if (route, status) == after[:2]:
                since = after[2], after[3]
        rows = read(route, status, *since, what.before, left)
        found += (EndedRun(key, workflow, Status(status), ended_at) for key, ended_at, kept in rows if not kept)
        left -= len(rows)
        if left == 0:
            return EndedPage(found, (route, status, rows[-1][1], rows[-1][0]))
    return EndedPage(found, None)


def tombstone(row: Row) -> Tombstone:
    """A row of ``get_tombstone`` or ``find_tombstone``."""
    return Tombstone._make((*row[:4], Status(row[4]), *row[5:7]))


def refused(created_at: int, found: Tombstone) -> Created:
    """What becomes of a run that may not be created, since it was purged."""
    row = RunRow(
        0, found.namespace, found.run_id, b"", found.workflow, "", "", found.status, 0, None, 0, b"", 0, 0, None, None,
        0, None, None, found.idempotency_key, None, None, FORMAT, created_at, found.ended_at,
    )  # fmt: skip
    return Created(row, is_new=False, purged=found)


def told_taken(run_key: int, made: Created) -> Message:
    """Tell a run that the id of a child is taken, and if so by one that has been purged.

    Args:
        run_key: of the parent.
        made: what became of the child.
    """
    gone = made.purged
    said = None if gone is None else note(status=gone.status.word, ended_at=gone.ended_at, purged_at=gone.purged_at)
    return Message(InboxKind.CHILD_TAKEN, run_key=run_key, payload=said)


def weight(size: int) -> int:
    """How many rows the deletion of an artifact counts for."""
    return 1 + size // ROW


__all__ = [
    "BURIED", "COLLECTED", "LAST", "MORE", "ROWS", "SANE", "ended_page", "refused", "told_taken", "tombstone", "weight",
]  # fmt: skip
