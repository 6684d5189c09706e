"""Logs of runs, folded as far as they have been read: a page that is looked at again reads only what came since."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from perdure.diagnosis.looking import Told, claimed_at, drifts
from perdure.errors import RunNotFound
from perdure.model.history import RunView, apply
from perdure.model.records import Event, Kind
from perdure.model.timeline import Timeline
from perdure.operations.missing import missing
from perdure.store.protocol import PAGE

if TYPE_CHECKING:
    from perdure.model.records import RunRow
    from perdure.store.protocol import Store

KEPT: Final = 32
"""Logs that are kept folded."""
_TOLD: Final = frozenset({Kind.RUN_CLAIMED, Kind.RUN_RESUMED, Kind.DRIFT_FOUND})
"""Events that a run is described by besides its fold."""
_MOST_TOLD: Final = 1000


@dataclass(slots=True)
class Log:
    """What a run's log says, as far as it has been read.

    Attributes:
        view: its fold.
        timeline: what happened when.
        told: the events by which a run is described besides.
        last: the last event.
        is_readable: whether it could be understood to its end.
        guard: held by whoever reads on, or describes what is here.
    """

    view: RunView = field(default_factory=RunView)
    timeline: Timeline = field(default_factory=Timeline)
    told: list[Event] = field(default_factory=list)
    last: Event | None = None
    is_readable: bool = True
    guard: threading.RLock = field(default_factory=threading.RLock)

    def read_on(self, store: Store, run_key: int) -> None:
        """Read what came since; what is damaged ends it."""
        while self.is_readable and (page := store.read_events(run_key, self.view.seq, PAGE)):
            try:
                for event in page:
                    apply(self.view, event)
            except Exception:  # noqa: BLE001 - whatever a store holds is shown, be it damaged
                self.is_readable = False
                return
            self.timeline.feed(page)
            self.last = page[-1]
            self.told = [*self.told, *(event for event in page if event.kind in _TOLD)][-_MOST_TOLD:]


class Logs:
    """The logs that were looked at last."""

    def __init__(self) -> None:
        self._logs: OrderedDict[tuple[int, bytes], Log] = OrderedDict()
        self._guard = threading.Lock()

    def of(self, store: Store, row: RunRow) -> Log:
        """Return a run's log, read to its end; use it with its ``guard``."""
        with self._guard:
            log = self._logs.setdefault((row.run_key, row.uid), Log())
            self._logs.move_to_end((row.run_key, row.uid))
            if len(self._logs) > KEPT:
                self._logs.popitem(last=False)
        with log.guard:
            log.read_on(store, row.run_key)
        return log

    def told(self, store: Store, row: RunRow) -> Told:
        """Return what a run's log says of why the run is where it is."""
        log = self.of(store, row)
        with log.guard:
            # A copy: others may read on while it is looked at.
            view = replace(log.view, steps=dict(log.view.steps), children=dict(log.view.children))
            return Told(view, log.last, drifts(log.told), claimed_at(log.told), log.is_readable)


def run_of(store: Store, run_id: str, namespace: str) -> RunRow:
    """Return a run's row.

    Raises:
        RunNotFound: no such run, or it was purged; the advice names similar ids.
    """
    row = store.get_run(run_id, namespace)
    if row is not None:
        return row
    why = missing(store, run_id, namespace)
    near = [found for place, found in store.near_ids(run_id) if place == namespace]
    if type(why) is RunNotFound and near:
        raise RunNotFound(why.message, run_id=run_id, advice=f"did you mean {' or '.join(near)}?")
    raise why


__all__ = ["Log", "Logs", "run_of"]
