"""Long logs: a claim brings the first page, and the rest is read before the run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.store.protocol import PAGE

if TYPE_CHECKING:
    from perdure.runtime.journal import Journal
    from perdure.runtime.run import Run
    from perdure.store.protocol import Store


def read_on(run: Run, store: Store, journal: Journal) -> None:
    """Read the rest of a run's log, page by page, and have the run begin."""

    def read() -> None:
        events = run.events
        while len(page := store.read_events(run.run_key, events[-1].seq, PAGE)) > 0:
            events.extend(page)

    future = journal.call(read, background=True)
    future.add_done_callback(lambda done: run.unwritable(error) if (error := done.exception()) else run.loaded())


__all__ = ["read_on"]
