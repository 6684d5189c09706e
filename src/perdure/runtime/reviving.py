"""Going on with a child that has failed, because its parent goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.history import RunView, fold
from perdure.model.payloads import note
from perdure.model.records import InboxKind, Message, Opened, Status

if TYPE_CHECKING:
    from perdure.model.records import Event, RunRow
    from perdure.store.protocol import Store


def revive(store: Store, run_id: str, namespace: str) -> None:
    """Resume a run that has failed or was cancelled; one that goes on, or has completed, is left alone.

    One that has undone what it had done cannot go on: its parent is told once more how it has ended.

    Raises:
        StoreError: the store cannot be read or written.
    """
    while (row := store.get_run(run_id, namespace)) is not None and row.status in {Status.FAILED, Status.CANCELLED}:
        view, last = RunView(), 0
        end: Event | None = None
        while events := store.read_events(row.run_key, last):
            view, end = fold(events, view), events[-1]
            last = end.seq
        if view.undone and end is not None:
            store.deliver([_told_again(row, end)])
            return
        payload = note(supersede=view.failed_steps, accept_drift=False)
        if store.resume_run(row.run_key, row.epoch, payload) is not None:
            return


def _told_again(row: RunRow, end: Event) -> Message:
    kind = InboxKind.CHILD_FAILED if row.status is Status.FAILED else InboxKind.CHILD_CANCELLED
    end = end.stored if isinstance(end, Opened) else end
    return Message(kind, row.parent_key, name=row.run_id, codec=end.codec, payload=end.payload)


__all__ = ["revive"]
