"""The logs of several runs at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.store.postgres.arrays import bigints
from perdure.store.postgres.words import ask
from perdure.store.protocol import PAGE
from perdure.store.rows import event_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import Event
    from perdure.store.postgres.words import Words


def histories(run_keys: Sequence[int]) -> Words[dict[int, list[Event]]]:
    """Return the first page of each log."""
    logs: dict[int, list[Event]] = {key: [] for key in run_keys}
    if run_keys:
        for event in map(event_of, (yield ask("read_logs", bigints(run_keys), PAGE))):
            logs[event[0]].append(event)
        for log in logs.values():
            log.sort(key=lambda event: event.seq)
    return logs


__all__ = ["histories"]
