"""What comes for an executing run from outside: that it is to end, or to rest, and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model import payloads
from perdure.model.records import InboxKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import InboxRow
    from perdure.runtime.run import Run

_CONTROL = frozenset({InboxKind.CANCEL, InboxKind.PAUSE})


def hear(run: Run, inbox: int, rows: Sequence[InboxRow]) -> None:
    """Take in what a run's inbox holds; ``inbox`` is its counter."""
    run.inbox = inbox
    run.deaf = 0
    run.listening = run.listening or bool(rows)
    cancels = [row for row in rows if row.kind == InboxKind.CANCEL]
    pauses = [row for row in rows if row.kind == InboxKind.PAUSE]
    if cancels and run.cancel_request is None:
        run.cancel_request = _asked(cancels)
        run.stopping = False  # a cancelled run ends here rather than elsewhere, or later
        run.pausing = None
    elif pauses and run.pausing is None and run.cancel_request is None:
        run.pausing = _asked(pauses)
        run.stopping = True
    for row in rows:
        if row.kind not in _CONTROL:
            run.waiting().hear(row)


def _asked(rows: list[InboxRow]) -> tuple[str, list[int]]:
    """Why something is asked for, and the inbox rows that ask for it."""
    return payloads.fields(rows[0].payload).get("reason", ""), [row.inbox_key for row in rows]


__all__ = ["hear"]
