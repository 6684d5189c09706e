"""The hot path: one statement for whatever many runs have to write, each fenced by its epoch.

A batch of plain items is one statement and one round trip: it locks the runs in the order of their keys, judges each
item, and writes those that pass. What does not pass, or is not plain, is judged here in a transaction that tells why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from perdure.model.records import Status
from perdure.store.creating import PRIORITY_WEIGHT
from perdure.store.judging import ALREADY, APPLIED, BAD, STALE, due, judge, judge_all, marks, reaches_out
from perdure.store.postgres.arrays import bigints, byteas, nullable_bigints, texts
from perdure.store.postgres.faults import REFUSED, Refused
from perdure.store.postgres.log import append_all, columns
from perdure.store.postgres.runs import keep
from perdure.store.postgres.words import ask
from perdure.store.texts import storable

if TYPE_CHECKING:
    from perdure.model.records import CommitItem, Event, StateChange, Verdict
    from perdure.store.postgres.arrays import Column
    from perdure.store.postgres.connection import Writer
    from perdure.store.postgres.outreach import Outreach
    from perdure.store.postgres.session import Session
    from perdure.store.postgres.words import Words
    from perdure.store.rows import Row


_NO_STATE: Row = (None,) * 8


_Reach = Callable[[Sequence["CommitItem"]], None]
"""Does what items do to other runs."""


class _Gone(Exception):
    """An inbox row that an item takes is not there."""


class _Fence(NamedTuple):
    """What decides whether a run may be written."""

    run_key: int
    epoch: int
    inbox: int
    held: bool
    seq: int


def commit(writer: Writer, outreach: Outreach, items: Sequence[CommitItem]) -> list[Verdict]:
    """Write a batch: together if it can be, else each item alone."""
    if not items:
        return []
    passed = _write_plain(writer, items) if _are_plain(items) else set()
    rest = [item for item in items if item.run_key not in passed]
    if not rest:
        return [APPLIED] * len(items)
    beyond = outreach if any(map(reaches_out, rest)) else None
    if beyond is not None:
        beyond.prepare(rest)
    judged = iter(writer.write(lambda session: _write(session, rest, beyond)))
    return [APPLIED if item.run_key in passed else next(judged) for item in items]


def words(items: Sequence[CommitItem]) -> Words[list[Verdict] | None] | None:
    """What to say to write a batch together, if it can be; else None."""
    return _say_all(items) if items and _are_plain(items) else None


def _say_all(items: Sequence[CommitItem]) -> Words[list[Verdict] | None]:
    passed = yield from _say(items)
    return [APPLIED] * len(items) if len(passed) == len(items) else None


def _say(items: Sequence[CommitItem]) -> Words[set[int]]:
    """Write plain items in one statement; the keys of the runs whose items passed."""
    item = items[0]
    if len(items) == 1 and len(item.events) == 1 and item.state is None and item.inbox_seen is None:
        return {item.run_key} if (yield ask("append_event", *item.events[0])) else set()
    query, values = _statement(items)
    return {key for (key,) in (yield ask(query, *values))}


def _are_plain(items: Sequence[CommitItem]) -> bool:
    return len({item.run_key for item in items}) == len(items) and all(map(_is_plain, items))


def _is_plain(item: CommitItem) -> bool:
    """Whether an item is nothing but well-formed events, and what they make of the run."""
    if item.artifacts or item.take or item.undo is not None or not item.events or reaches_out(item):
        return False
    key, epoch, seq = item.run_key, item.epoch, item.events[0][1]
    for event in item.events:
        if event[0] != key or event[1] != seq or event[3] != epoch:
            return False
        seq += 1
    return True


def _write_plain(writer: Writer, items: Sequence[CommitItem]) -> set[int]:
    """Write them and wait; if the database refuses one, none has passed."""
    try:
        return writer.write_at_once(lambda session: session.hear(_say(items)))
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
    if all(item.state is None and item.inbox_seen is None for item in ordered):
        return "append_items", (*fence, *columns(events))
    seen = nullable_bigints([item.inbox_seen for item in ordered])
    states = [_NO_STATE if item.state is None else _state(item, item.state) for item in ordered]
    return "commit_items", (*fence, seen, *_state_columns(states), PRIORITY_WEIGHT, *columns(events))


def _by_key(item: CommitItem) -> int:
    return item.run_key


def _write(session: Session, items: Sequence[CommitItem], beyond: Outreach | None) -> list[Verdict]:
    """Judge every item, and write what passes: together if it can be, else each in a savepoint of its own.

    ``beyond`` is given if any of them does something to other runs.
    """
    keys = sorted({item.run_key for item in items})
    reach = None if beyond is None else partial(beyond.write, session, now=beyond.lock(session, items, keys))
    fences = _fences(session, keys)
    if len(items) > 1:
        try:
            return session.alone(lambda: _write_together(session, items, fences, reach))
        except (_Gone, *REFUSED):
            pass  # by itself each shows whether it was the one
    failed: dict[int, Verdict] = {}
    verdicts: list[Verdict] = []
    for item in items:
        verdict = failed.get(item.run_key) or _write_one(session, item, reach)
        if verdict > ALREADY:
            failed[item.run_key] = verdict
        verdicts.append(verdict)
    return verdicts


def _write_together(
    session: Session, items: Sequence[CommitItem], fences: dict[int, _Fence], reach: _Reach | None
) -> list[Verdict]:
    verdicts = judge_all(items, fences, partial(_is_there, session))
    passed = [item for item, verdict in zip(items, verdicts, strict=True) if verdict is APPLIED]
    _write_all(session, passed, fences, reach)
    return verdicts


def _write_one(session: Session, item: CommitItem, reach: _Reach | None) -> Verdict:
    # Looked at anew, since an earlier item may have been news to this run.
    fences = _fences(session, [item.run_key])
    verdict = judge(item, fences.get(item.run_key), None, partial(_is_there, session))
    if verdict is not APPLIED:
        return verdict
    try:
        session.alone(lambda: _write_all(session, [item], fences, reach))
    except _Gone:
        return STALE
    except REFUSED:
        return BAD
    return APPLIED


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


def _write_all(session: Session, items: Sequence[CommitItem], fences: dict[int, _Fence], reach: _Reach | None) -> None:
    """Write items that have passed: what they do to their own runs, then what they do to others."""
    append_all(session, [event for item in items for event in item.events])
    kept = [(item.run_key, artifact) for item in items for artifact in item.artifacts]
    if kept:
        keep(session, kept)
    taken = [(inbox_key, item.run_key) for item in items for inbox_key in item.take]
    if taken:
        inbox_keys, run_keys = zip(*taken, strict=True)
        if session.fetch_value("take_inbox", bigints(inbox_keys), bigints(run_keys)) != len(taken):
            raise _Gone
    _change_states(session, items, fences)
    for item in items:
        if item.undo is not None:
            session.change("set_undo", item.run_key, item.undo or None)
    if reach is not None:
        reach(items)


def _change_states(session: Session, items: Sequence[CommitItem], fences: dict[int, _Fence]) -> None:
    changed = [(item, item.state) for item in items if item.state is not None]
    if not changed:
        return
    states = [_state(item, state) for item, state in changed]
    run_keys = bigints([item.run_key for item, _ in changed])
    session.change("change_states", run_keys, *_state_columns(states), PRIORITY_WEIGHT)
    ended = [
        (item.run_key, state.status is Status.COMPLETED)
        for item, state in changed
        if state.status.terminal and fences[item.run_key].inbox and item.successor is None
    ]
    for query, completed in (("empty_inbox", True), ("drop_requests", False)):
        concerned = [run_key for run_key, has_completed in ended if has_completed is completed]
        if concerned:
            session.change(query, bigints(concerned))


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
