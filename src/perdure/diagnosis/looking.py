"""Reads from a store what there is to know of a run and of what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perdure.diagnosis.situations import Explanation, Holder, Situation
from perdure.diagnosis.why import explain
from perdure.errors import RunNotFound
from perdure.model.history import RunView, fold
from perdure.model.purging import purged
from perdure.model.records import Kind
from perdure.model.standing import Sign
from perdure.store.protocol import PAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perdure.model.queues import QueueUsage
    from perdure.model.records import Event, RunRow, WorkerRow
    from perdure.store.protocol import Store

DEEPEST: Final = 8
"""How far down children are followed."""
WIDEST: Final = 5
"""How many children of a run are followed."""
_COUNTED: Final = 50
"""Workers of which it is counted what they hold."""
_GONE = Sign("free", None)


class Told(NamedTuple):
    """What a run's log says, as far as that matters here.

    Attributes:
        view: its fold.
        last: its last event.
        drifts: what builds have refused the run for, since it was last resumed.
        claimed_at: when it was last claimed.
        is_whole: whether it could be understood to its end.
    """

    view: RunView
    last: Event | None
    drifts: tuple[Event, ...]
    claimed_at: int | None
    is_whole: bool


def why(
    store: Store, run_id: str, namespace: str = "", *, read: Callable[[Store, RunRow], Told] | None = None
) -> Explanation:
    """Say why a run is where it is.

    Args:
        store: where it is.
        run_id: the run.
        namespace: its namespace.
        read: gives what logs say, for who has read them already.

    Raises:
        RunNotFound: no such run; the advice names ids that are like it. Or it was purged: ``RunPurged``.
        StoreError: the store has failed.
    """
    row = store.get_run(run_id, namespace)
    if row is None:
        gone = store.get_tombstone(run_id, namespace)
        if gone is not None:
            raise purged(gone.run_id, gone.status.word, gone.ended_at, gone.purged_at)
        raise RunNotFound(f"no run {run_id!r}", run_id=run_id, advice=_near(store, run_id, namespace))
    return explain(Looking(store, read or told).at(row))


def _near(store: Store, run_id: str, namespace: str) -> str:
    found = store.near_ids(run_id)
    here = [near for place, near in found if place == namespace]
    elsewhere = [(place, near) for place, near in found if place != namespace]
    if here:
        return f"did you mean {' or '.join(here)}?"
    if elsewhere:
        return " and ".join(f"{near} is in namespace {place!r}" for place, near in elsewhere[:WIDEST])
    return "`perdure runs` lists what is there"


def holders(store: Store, rows: Iterable[WorkerRow], now: int) -> dict[int, Holder]:
    """Return workers by their keys as they look at this moment."""
    signs = store.signs_of_life()
    found: dict[int, Holder] = {}
    for row in rows:
        sign = signs.get(row.worker_key, _GONE)
        holds = len(store.held(row.worker_key)) if len(found) < _COUNTED else 0
        found[row.worker_key] = Holder(
            row.name, row.host, row.pid, row.build, sign.leased_until, sign.life(now), holds, not row.stopped
        )
    return found


class Looking:
    """One look at a store: what several runs share is read once."""

    def __init__(self, store: Store, read: Callable[[Store, RunRow], Told]) -> None:
        self._store = store
        self._read = read
        self._now = store.now()
        self._holders = holders(store, store.list_workers(), self._now)
        self._served = frozenset(store.served())
        self._queues: dict[str, dict[str, QueueUsage]] = {}
        self._seen: set[int] = set()

    def at(self, row: RunRow, depth: int = 0) -> Situation:
        """Read a run, and its children unless that goes too deep."""
        store = self._store
        self._seen.add(row.run_key)
        log = self._read(store, row)
        view = log.view
        standing = store.standing(row.run_key)
        if standing is None:
            raise RunNotFound(f"run {row.run_id!r} is gone", run_id=row.run_id)
        children, more = self._children(row, view, depth) if not row.status.terminal else ((), 0)
        return Situation(
            row,
            view,
            log.last,
            log.drifts,
            standing,
            self._now,
            log.claimed_at,
            None if row.worker_key is None else self._holders.get(row.worker_key),
            tuple(self._holders.values()),
            self._served,
            self._queue(row),
            children,
            more if depth < DEEPEST else 0,
            is_followed=depth < DEEPEST or not more,
            is_readable=log.is_whole,
        )

    def _children(self, row: RunRow, view: RunView, depth: int) -> tuple[tuple[Situation, ...], int]:
        """Those that have not ended, as far as they are followed, and how many more there are."""
        ids = [child.run_id for child in view.children.values() if child.status == "running"]
        if depth >= DEEPEST:
            return (), len(ids)
        found: list[Situation] = []
        for run_id in ids[:WIDEST]:
            child = self._store.get_run(run_id, row.namespace)
            # No run is its own child's child; but what a store says is not taken on trust.
            if child is not None and child.run_key not in self._seen:
                found.append(self.at(child, depth + 1))
        return tuple(found), max(0, len(ids) - WIDEST)

    def _queue(self, row: RunRow) -> QueueUsage | None:
        if row.namespace not in self._queues:
            usages = self._store.list_queues(row.namespace)
            self._queues[row.namespace] = {one.row.name: one for one in usages}
        return self._queues[row.namespace].get(row.queue)


def told(store: Store, row: RunRow) -> Told:
    """Read a run's log."""
    log: list[Event] = []
    while page := store.read_events(row.run_key, log[-1].seq if log else 0, PAGE):
        log += page
    view, is_whole = _fold(log)
    return Told(view, log[-1] if log else None, drifts(log), claimed_at(log), is_whole)


def claimed_at(events: Iterable[Event]) -> int | None:
    """Return when a run was last claimed, by its log or what that has of claims."""
    return max((event.at for event in events if event.kind == Kind.RUN_CLAIMED), default=None)


def _fold(events: Iterable[Event]) -> tuple[RunView, bool]:
    """Fold a log as far as that goes, and say whether it went to the end: what is damaged is told of as well."""
    view = RunView()
    try:
        fold(events, view)
    except Exception:  # noqa: BLE001 - whatever a store holds
        return view, False
    return view, True


def drifts(events: Iterable[Event]) -> tuple[Event, ...]:
    """Return what builds have refused a run for since it was last resumed, by its log or what that has of both."""
    found: list[Event] = []
    for event in events:
        if event.kind == Kind.RUN_RESUMED:
            found = []
        elif event.kind == Kind.DRIFT_FOUND:
            found.append(event)
    return tuple(found)


__all__ = ["DEEPEST", "WIDEST", "Looking", "Told", "claimed_at", "drifts", "holders", "told", "why"]
