"""The hot path: one transaction for whatever many runs have to write, each fenced by its epoch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import apsw

from perdure.errors import StoreError
from perdure.store.creating import PRIORITY_WEIGHT
from perdure.store.judging import ALREADY, APPLIED, BAD, STALE, due, judge, marks
from perdure.store.sqlite.faults import REFUSED, OutcomeUnknown
from perdure.store.sqlite.rows import fetch, json_list
from perdure.store.sqlite.sql import QUERIES
from perdure.store.texts import storable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import CommitItem, Event, StateChange, Verdict
    from perdure.store.rows import Row
    from perdure.store.sqlite.connection import Writer

_FENCE, _FENCE_BATCH, _EVENT = QUERIES["fence"], QUERIES["fence_batch"], QUERIES["insert_event"]
_KEEP, _USE, _TAKE = QUERIES["keep_artifact"], QUERIES["use_artifact"], QUERIES["take_inbox"]
_STATE, _EMPTY, _MARKS = QUERIES["change_state"], QUERIES["empty_inbox"], QUERIES["read_marks"]


class _Gone(Exception):
    """An inbox row that an item takes is not there."""


def commit(writer: Writer, items: Sequence[CommitItem], *, wait: bool) -> list[Verdict]:
    """Write a batch: together if it can be, else each item in a transaction of its own."""
    if not items:
        return []
    writer.acquire(wait=wait)
    try:
        verdicts = _transaction(writer, items)
        if verdicts is None:
            verdicts = _one_by_one(writer, items)
        if wait:
            writer.checkpoint_if_due()
        return verdicts
    finally:
        writer.release()


def _transaction(writer: Writer, items: Sequence[CommitItem]) -> list[Verdict] | None:
    """Write items in one transaction; None if a value among several was refused, and then nothing is written."""
    cursor = writer.begin()
    try:
        verdicts = [_write_one(cursor, items[0])] if len(items) == 1 else _write(cursor, items)
    except (*REFUSED, _Gone) as error:
        writer.rollback()
        if len(items) == 1:
            return [STALE if isinstance(error, _Gone) else BAD]
        return None
    except apsw.Error as error:
        writer.rollback()
        raise writer.fault(error) from error
    except BaseException:
        writer.rollback()
        raise
    try:
        writer.commit()
    except OutcomeUnknown as error:
        _decide(writer, items, verdicts, error)
    return verdicts


def _decide(writer: Writer, items: Sequence[CommitItem], verdicts: list[Verdict], unknown: OutcomeUnknown) -> None:
    """After an I/O error at COMMIT a new connection says what is there: all of the transaction, or nothing of it."""
    cursor = writer.begin()
    try:
        for item, verdict in zip(items, verdicts, strict=True):
            if verdict is APPLIED and item.events:
                if _is_there(cursor, item):
                    return
                break
    finally:
        writer.rollback()
    raise StoreError(
        f"the disk failed during a commit, and nothing was written: {writer.path}",
        store=str(writer.path),
        advice="look into the system's log",
    ) from unknown


def _one_by_one(writer: Writer, items: Sequence[CommitItem]) -> list[Verdict]:
    verdicts: list[Verdict] = []
    failed: dict[int, Verdict] = {}
    for item in items:
        verdict = failed.get(item.run_key)
        if verdict is None:
            done = _transaction(writer, (item,))
            assert done is not None
            verdict = done[0]
            if verdict > ALREADY:
                failed[item.run_key] = verdict
        verdicts.append(verdict)
    return verdicts


def _write(cursor: apsw.Cursor, items: Sequence[CommitItem]) -> list[Verdict]:
    """Judge every item against one look at the store, then write what passed."""
    keys = json_list({item.run_key: None for item in items})
    fences = {row[0]: row for row in fetch(cursor, _FENCE_BATCH, (keys,))}
    last: dict[int, int] = {}
    """Seq of the last event of runs that have an earlier item in this batch; 0 for those whose hold has ended in it."""
    failed: dict[int, Verdict] = {}
    verdicts: list[Verdict] = []
    events: list[Event] = []
    is_there = partial(_is_there, cursor)
    for item in items:
        key = item.run_key
        verdict = failed.get(key) if failed else None
        if verdict is None:
            verdict = judge(item, fences.get(key), last.get(key), is_there)
            if verdict is APPLIED:
                if item.events:
                    events += item.events
                    last[key] = item.events[-1][1]
                if item.state is not None:
                    last[key] = 0
            elif verdict is not ALREADY:
                failed[key] = verdict
        verdicts.append(verdict)
    cursor.executemany(_EVENT, events)
    _write_more(cursor, [item for item, verdict in zip(items, verdicts, strict=True) if verdict is APPLIED], fences)
    return verdicts


def _write_more(cursor: apsw.Cursor, items: list[CommitItem], fences: dict[int, Row]) -> None:
    """Write what items have besides events."""
    states: list[Row] = []
    ended: list[Row] = []
    for item in items:
        if item.artifacts or item.take:
            _write_rest(cursor, item)
        if item.state is not None:
            states.append(_state(item, item.state))
            if item.state.status.terminal and fences[item.run_key][2]:
                ended.append((item.run_key,))
    if states:
        cursor.executemany(_STATE, states)
    if ended:
        cursor.executemany(_EMPTY, ended)


def _write_one(cursor: apsw.Cursor, item: CommitItem) -> Verdict:
    """The same for one item, without what only batches need: a lone run waits for every microsecond of this."""
    found = cursor.execute(_FENCE, (item.run_key,)).fetchall()
    verdict = judge(item, found[0] if found else None, None, partial(_is_there, cursor))
    if verdict is APPLIED:
        events = item.events
        if len(events) == 1:
            cursor.execute(_EVENT, events[0])
        else:
            cursor.executemany(_EVENT, events)
        if item.artifacts or item.take:
            _write_rest(cursor, item)
        if item.state is not None:
            cursor.execute(_STATE, _state(item, item.state))
            if item.state.status.terminal and found[0][2]:
                cursor.execute(_EMPTY, (item.run_key,))
    return verdict


def _is_there(cursor: apsw.Cursor, item: CommitItem) -> bool:
    """Whether these very events are in the log already, written under this very epoch."""
    sent = marks(item)
    return sent == fetch(cursor, _MARKS, (item.run_key, sent[0][0], sent[-1][0]))


def _write_rest(cursor: apsw.Cursor, item: CommitItem) -> None:
    key = item.run_key
    if item.artifacts:
        cursor.executemany(_KEEP, item.artifacts)
        cursor.executemany(_USE, [(artifact.hash, key) for artifact in item.artifacts])
    for inbox_key in item.take:
        cursor.execute(_TAKE, (inbox_key, key))
        if cursor.connection.changes() != 1:
            raise _Gone


def _state(item: CommitItem, state: StateChange) -> Row:
    """What a state makes of the run's row."""
    event = item.events[-1] if item.events else None
    return (
        item.run_key, state.status, None if event is None else event.seq, None if event is None else event.hash,
        due(item, state), PRIORITY_WEIGHT, state.wake_at, None if state.reason is None else storable(state.reason),
        state.awaits,
        event.at if event is not None and state.status.terminal else None,
    )  # fmt: skip
