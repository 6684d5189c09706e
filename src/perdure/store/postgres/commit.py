"""The hot path: one statement for whatever many runs have to write, each fenced by its epoch.

A batch of plain items is one statement and one round trip: it locks the runs in the order of their keys, judges each
item, and writes those that pass. What does not pass, or is not plain, is judged here in a transaction that tells why.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from perdure.store.creating import PRIORITY_WEIGHT
from perdure.store.judging import ALREADY, APPLIED, BAD, STALE, due, judge, marks
from perdure.store.postgres.arrays import bigints, byteas, nullable_bigints, texts
from perdure.store.postgres.faults import REFUSED, Refused
from perdure.store.postgres.log import append_all, columns
from perdure.store.postgres.runs import keep
from perdure.store.texts import storable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import CommitItem, Event, StateChange, Verdict
    from perdure.store.postgres.arrays import Column
    from perdure.store.postgres.connection import Writer
    from perdure.store.postgres.session import Session
    from perdure.store.rows import Row


_NO_STATE: Row = (None,) * 8


class _Gone(Exception):
    """An inbox row that an item takes is not there."""


class _Fence(NamedTuple):
    """What decides whether a run may be written."""

    run_key: int
    epoch: int
    inbox: int
    held: bool
    seq: int


def commit(writer: Writer, items: Sequence[CommitItem]) -> list[Verdict]:
    """Write a batch: together if it can be, else each item alone."""
    if not items:
        return []
    plain = len({item.run_key for item in items}) == len(items) and all(map(_is_plain, items))
    passed = _write_plain(writer, items) if plain else set()
    rest = [item for item in items if item.run_key not in passed]
    if not rest:
        return [APPLIED] * len(items)
    judged = iter(writer.write(lambda session: _write(session, rest)))
    return [APPLIED if item.run_key in passed else next(judged) for item in items]


def _is_plain(item: CommitItem) -> bool:
    """Whether an item is nothing but well-formed events, and what they make of the run."""
    if item.artifacts or item.take or not item.events:
        return False
    key, epoch, seq = item.run_key, item.epoch, item.events[0][1]
    for event in item.events:
        if event[0] != key or event[1] != seq or event[3] != epoch:
            return False
        seq += 1
    return True


def _write_plain(writer: Writer, items: Sequence[CommitItem]) -> set[int]:
    """Write plain items in one statement; the keys of the runs whose items passed. If one is refused, none are."""
    try:
        if len(items) == 1 and len(items[0].events) == 1 and items[0].state is None:
            event = items[0].events[0]
            appended = writer.write_at_once(lambda session: session.change("append_event", *event))
            return {event[0]} if appended else set()
        query, values = _statement(items)
        return {key for (key,) in writer.write_at_once(lambda session: session.fetch(query, *values))}
    except (Refused, *REFUSED):
        return set()


def _statement(items: Sequence[CommitItem]) -> tuple[str, tuple[object, ...]]:
    ordered = sorted(items, key=_by_key) if len(items) > 1 else items
    events = ordered[0].events if len(ordered) == 1 else [event for item in ordered for event in item.events]
    fence = (
        bigints([item.run_key for item in ordered]),
        bigints([item.epoch for item in ordered]),
        bigints([item.events[0][1] for item in ordered]),
    )
    if all(item.state is None for item in ordered):
        return "append_items", (*fence, *columns(events))
    seen = nullable_bigints([None if item.state is None else item.state.inbox_seen for item in ordered])
    states = [_NO_STATE if item.state is None else _state(item, item.state) for item in ordered]
    return "commit_items", (*fence, seen, *_state_columns(states), PRIORITY_WEIGHT, *columns(events))


def _by_key(item: CommitItem) -> int:
    return item.run_key


def _write(session: Session, items: Sequence[CommitItem]) -> list[Verdict]:
    """Judge every item against one look at the store, and write what passes, each in a savepoint of its own."""
    keys = sorted({item.run_key for item in items})
    fences = _fences(session, keys)
    failed: dict[int, Verdict] = {}
    verdicts: list[Verdict] = []
    for item in items:
        verdict = failed.get(item.run_key)
        if verdict is None:
            verdict = judge(item, fences.get(item.run_key), None, partial(_is_there, session))
            if verdict is APPLIED:
                verdict = _write_one(session, item, fences)
            if verdict > ALREADY:
                failed[item.run_key] = verdict
        verdicts.append(verdict)
    return verdicts


def _fences(session: Session, keys: Sequence[int]) -> dict[int, _Fence]:
    wanted = bigints(keys)
    # Asked for in a second statement, which sees what was committed while the first one waited for its locks.
    locked = {key: (epoch, inbox, held) for key, epoch, inbox, held in session.fetch("fence", wanted)}
    return {
        key: _Fence(key, *locked[key], seq or 0) for key, seq in session.fetch("last_seqs", wanted) if key in locked
    }


def _is_there(session: Session, item: CommitItem) -> bool:
    """Whether these very events are in the log already, written under this very epoch."""
    sent = marks(item)
    return sent == session.fetch("read_marks", item.run_key, sent[0][0], sent[-1][0])


def _write_one(session: Session, item: CommitItem, fences: dict[int, _Fence]) -> Verdict:
    fence = fences[item.run_key]
    try:
        session.alone(lambda: _write_all(session, item, fence))
    except _Gone:
        return STALE
    except REFUSED:
        return BAD
    ended = item.state is not None
    seq = item.events[-1].seq if item.events else fence.seq
    fences[item.run_key] = fence._replace(seq=seq, held=fence.held and not ended)
    return APPLIED


def _write_all(session: Session, item: CommitItem, fence: _Fence) -> None:
    append_all(session, item.events)
    if item.artifacts:
        keep(session, [(item.run_key, artifact) for artifact in item.artifacts])
    if item.take and session.change("take_inbox", bigints(item.take), item.run_key) != len(item.take):
        raise _Gone
    if item.state is not None:
        state = _state(item, item.state)
        session.change("change_states", bigints([item.run_key]), *_state_columns([state]), PRIORITY_WEIGHT)
        if item.state.status.terminal and fence.inbox:
            session.change("empty_inbox", bigints([item.run_key]))


def _state(item: CommitItem, state: StateChange) -> Row:
    """What a state makes of the run's row."""
    event: Event | None = item.events[-1] if item.events else None
    return (
        state.status, None if event is None else event.seq, None if event is None else event.hash,
        due(item, state), state.wake_at, None if state.reason is None else storable(state.reason), state.awaits,
        event.at if event is not None and state.status.terminal else None,
    )  # fmt: skip


def _state_columns(states: Sequence[Row]) -> tuple[Column, ...]:
    status, seq, hash_, due, wake_at, reason, awaits, ended_at = zip(*states, strict=True)
    return (
        nullable_bigints(status), nullable_bigints(seq), byteas(hash_), nullable_bigints(due),
        nullable_bigints(wake_at), texts(reason), texts(awaits), nullable_bigints(ended_at),
    )  # fmt: skip
