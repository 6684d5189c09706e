"""The hot path: one transaction for whatever many runs have to write, each fenced by its epoch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import apsw

from perdure.errors import StoreError
from perdure.model.records import Status
from perdure.store.creating import PRIORITY_WEIGHT
from perdure.store.judging import ALREADY, APPLIED, BAD, STALE, due, judge, judge_all, marks
from perdure.store.sqlite.faults import REFUSED, OutcomeUnknown
from perdure.store.sqlite.rows import fetch, json_list
from perdure.store.sqlite.sql import QUERIES
from perdure.store.texts import storable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import CommitItem, StateChange, Verdict
    from perdure.store.rows import Row
    from perdure.store.sqlite.connection import Writer
    from perdure.store.sqlite.outreach import Outreach

_FENCE, _FENCE_BATCH, _EVENT = QUERIES["fence"], QUERIES["fence_batch"], QUERIES["insert_event"]
_KEEP, _USE, _MARKS = QUERIES["keep_artifact"], QUERIES["use_artifact"], QUERIES["read_marks"]
_TAKE, _KEEP_TAKEN = QUERIES["take_inbox"], QUERIES["keep_taken"]
_STATE, _EMPTY, _DROP = QUERIES["change_state"], QUERIES["empty_inbox"], QUERIES["drop_requests"]
_UNDO = QUERIES["set_undo"]


class _Gone(Exception):
    """An inbox row that an item takes is not there."""


def commit(writer: Writer, outreach: Outreach, items: Sequence[CommitItem], *, wait: bool) -> list[Verdict]:
    """Write a batch: together if it can be, else each item in a transaction of its own."""
    if not items:
        return []
    beyond = None
    for item in items:
        if item.sends or item.children or item.successor is not None:
            beyond = outreach
            beyond.prepare(items, wait=wait)
            break
    writer.acquire(wait=wait)
    try:
        verdicts = _transaction(writer, items, beyond)
        if verdicts is None:
            verdicts = _one_by_one(writer, items, beyond)
        if wait:
            writer.checkpoint_if_due()
        return verdicts
    finally:
        writer.release()


def _transaction(writer: Writer, items: Sequence[CommitItem], beyond: Outreach | None) -> list[Verdict] | None:
    """Write items in one transaction; None if a value among several was refused, and then nothing is written.

    ``beyond`` is given if any of them does something to other runs.
    """
    cursor = writer.begin()
    try:
        if len(items) == 1:
            verdicts = [_write_one(cursor, items[0], beyond)]
        else:
            verdicts = _write(cursor, items) if beyond is None else _write_each(cursor, items, beyond)
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


def _one_by_one(writer: Writer, items: Sequence[CommitItem], beyond: Outreach | None) -> list[Verdict]:
    verdicts: list[Verdict] = []
    failed: dict[int, Verdict] = {}
    for item in items:
        verdict = failed.get(item.run_key)
        if verdict is None:
            done = _transaction(writer, (item,), beyond)
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
    verdicts = judge_all(items, fences, partial(_is_there, cursor))
    passed = [item for item, verdict in zip(items, verdicts, strict=True) if verdict is APPLIED]
    cursor.executemany(_EVENT, [event for item in passed for event in item.events])
    _write_more(cursor, passed, fences)
    return verdicts


def _write_more(cursor: apsw.Cursor, items: list[CommitItem], fences: dict[int, Row]) -> None:
    """Write what items have besides events."""
    states: list[Row] = []
    undo: list[Row] = []
    completed: list[Row] = []
    ended: list[Row] = []
    for item in items:
        if item.artifacts or item.take:
            _write_rest(cursor, item)
        if item.undo is not None:
            undo.append((item.run_key, item.undo or None))
        if item.state is not None:
            states.append(_state(item, item.state))
            if item.state.status.terminal and fences[item.run_key][2]:
                (completed if item.state.status is Status.COMPLETED else ended).append((item.run_key,))
    if states:
        cursor.executemany(_STATE, states)
    if undo:
        cursor.executemany(_UNDO, undo)
    if completed:
        cursor.executemany(_EMPTY, completed)
    if ended:
        cursor.executemany(_DROP, ended)


def _write_each(cursor: apsw.Cursor, items: Sequence[CommitItem], beyond: Outreach) -> list[Verdict]:
    """Judge and write one item after the other, since what one does to other runs may concern the next."""
    failed: dict[int, Verdict] = {}
    verdicts: list[Verdict] = []
    for item in items:
        verdict = failed.get(item.run_key) or _write_one(cursor, item, beyond)
        if verdict > ALREADY:
            failed[item.run_key] = verdict
        verdicts.append(verdict)
    return verdicts


def _write_one(cursor: apsw.Cursor, item: CommitItem, beyond: Outreach | None) -> Verdict:
    """Judge and write one item, without what only batches need: a lone run waits for every microsecond of this."""
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
            if item.state.status.terminal and found[0][2] and item.successor is None:
                cursor.execute(_EMPTY if item.state.status is Status.COMPLETED else _DROP, (item.run_key,))
        if item.undo is not None:
            cursor.execute(_UNDO, (item.run_key, item.undo or None))
        if beyond is not None:
            beyond.write(cursor, item)
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
        for query in (_TAKE, _KEEP_TAKEN):
            if cursor.execute(query, (inbox_key, key)).connection.changes():
                break
        else:
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
