"""Verifying: is what a store holds what was written? Hash chains, numbering, artifacts, and rows against their logs."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from perdure.errors import IntegrityError
from perdure.model import chain, payloads
from perdure.model.histories import referenced
from perdure.model.history import RunView, fold
from perdure.model.records import Kind, Status
from perdure.store.coded import stored_by
from perdure.store.protocol import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.model.records import Event, RunRow
    from perdure.store.protocol import Store

_MOVING = frozenset({Status.PENDING, Status.RUNNING, Status.SLEEPING, Status.WAITING, Status.RETRYING})
_DORMANT = frozenset({Status.SLEEPING, Status.WAITING, Status.RETRYING})


class Damage(NamedTuple):
    """Something that is not as it was written; ``seq`` names the event, if it is one."""

    run_id: str
    seq: int | None
    what: str


class Verified(NamedTuple):
    """A run that was looked at."""

    run_id: str
    events: int
    damage: list[Damage]


def verify_run(store: Store, row: RunRow) -> Verified:
    """Check one run: page by page, so that its length does not matter.

    Args:
        store: where it is.
        row: the run.
    """
    store = stored_by(store)  # hashes are over what is stored
    while True:
        found = _verify(store, row)
        again = store.get_runs([row.run_key])
        if not again:
            return Verified(row.run_id, found.events, [])  # purged while it was looked at
        if not found.damage or (again[0].seq, again[0].epoch) == (row.seq, row.epoch):
            return found
        row = again[0]  # it went on while it was looked at: what seemed wrong may only have been new


def _verify(store: Store, row: RunRow) -> Verified:
    view = RunView()
    damage: list[Damage] = []
    last: Event | None = None
    at_row: Event | None = None
    count = 0
    while page := store.read_events(row.run_key, 0 if last is None else last.seq, PAGE):
        try:
            chain.check(row.uid, page, run_id=row.run_id, after=last)
            damage += _artifacts(store, row, page)
            view = fold(page, view)
        except IntegrityError as error:
            seq = error.fields.get("seq")
            return Verified(
                row.run_id, count, [Damage(row.run_id, seq if isinstance(seq, int) else None, error.message)]
            )
        except Exception as error:  # noqa: BLE001 - an intact log whose events say what no event says
            return Verified(
                row.run_id,
                count,
                [Damage(row.run_id, None, f"the log cannot be read: {type(error).__name__}: {error}")],
            )
        at_row = next((event for event in page if event.seq == row.seq), at_row)
        last = page[-1]
        count += len(page)
    return Verified(row.run_id, count, damage + list(_row(row, view, at_row, last)))


def _artifacts(store: Store, row: RunRow, page: list[Event]) -> Iterator[Damage]:
    for digest in sorted(referenced(page)):
        data = store.get_artifact(digest)
        seq = next((event.seq for event in page if digest in referenced([event])), None)
        if data is None:
            yield Damage(row.run_id, seq, f"artifact {digest.hex()[:16]}… is missing")
        elif sha256(data).digest() != digest:
            yield Damage(row.run_id, seq, f"artifact {digest.hex()[:16]}… is not what was written")


def _row(row: RunRow, view: RunView, at_row: Event | None, last: Event | None) -> Iterator[Damage]:
    """Compare a run's row with the fold of its log: what the row says is that of its last change of state."""
    if last is None:
        yield Damage(row.run_id, None, "the run has no log")
        return
    if at_row is None:
        yield Damage(
            row.run_id, row.seq, f"the log ends at {last.seq}, before event {row.seq}, which the run's row names"
        )
        return
    if at_row.hash != row.hash:
        yield Damage(row.run_id, row.seq, "the run's row has another hash than its log")
    if view.status is not row.status:
        yield Damage(row.run_id, last.seq, f"the run's row says {row.status.word}, its log says {view.status.word}")
    if view.epoch != row.epoch:
        yield Damage(row.run_id, last.seq, f"the log is at epoch {view.epoch}, the run's row at {row.epoch}")
    for name, said, logged in _twice(row, view, last):
        if said != logged:
            yield Damage(row.run_id, None, f"the run's row has {name} {said!r}, its log {logged!r}")
    if row.status not in _MOVING and row.seq != last.seq:
        yield Damage(row.run_id, last.seq, f"the run is {row.status.word}, but its log goes on after event {row.seq}")


def _twice(row: RunRow, view: RunView, last: Event) -> Iterator[tuple[str, object, object]]:
    """What both a row and its log say: what it is, what the row has, what the log has."""
    created = payloads.fields(None if view.input is None else view.input.args)
    found = {"run_id": row.run_id, "workflow": row.workflow, "version": row.version}
    if last.kind == Kind.RUN_CONTINUED:  # the one that goes on has its id now
        created["run_id"] = payloads.fields(last.payload).get("renamed", row.run_id)
    for name, value in found.items():
        yield name, value, created.get(name, value)
    yield "created_at", row.created_at, view.created_at
    yield "ended_at", row.ended_at, view.ended_at
    if row.status in _DORMANT:
        yield "wake_at", row.wake_at, view.wake_at


__all__ = ["Damage", "Verified", "verify_run"]
