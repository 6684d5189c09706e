"""Whether what a holder sends may be written: the fence, the same for every store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.model.records import Status, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perdure.model.records import CommitItem, StateChange

APPLIED, ALREADY, FENCED, STALE, BAD = Verdict.APPLIED, Verdict.ALREADY, Verdict.FENCED, Verdict.STALE, Verdict.BAD
_CLAIMABLE = frozenset({Status.PENDING, Status.RUNNING})


def judge(
    item: CommitItem, fence: tuple[Any, ...] | None, before: int | None, is_there: Callable[[CommitItem], bool]
) -> Verdict:
    """Judge an item by what the store says of its run.

    Args:
        item: what is sent.
        fence: the run's key, epoch, inbox counter, whether it is held, and the seq of its last event; None if it is
            not there.
        before: seq of the last event that an earlier item of the batch appends, 0 if it ends the hold; None if there
            is no earlier one.
        is_there: whether the item's very events are in the log.
    """
    if fence is None:
        return FENCED
    _, epoch, inbox, held, stored = fence
    events = item.events
    valid = held and epoch == item.epoch and before != 0
    if events:
        first = events[0][1]
        if first <= stored and is_there(item):
            return ALREADY
        if not valid:
            return FENCED
        seq = (stored if before is None else before) + 1
        for event in events:
            if event[1] != seq or event[0] != item.run_key or event[3] != epoch:
                return BAD
            seq += 1
    elif not valid:
        return FENCED
    elif reaches_out(item):
        return BAD
    if item.inbox_seen is not None and item.inbox_seen != inbox:
        return STALE
    return APPLIED


def judge_all(
    items: Sequence[CommitItem], fences: Mapping[int, tuple[Any, ...]], is_there: Callable[[CommitItem], bool]
) -> list[Verdict]:
    """Judge a batch against one look at the store, as if each item were written before the next is judged.

    Args:
        items: what is sent.
        fences: by run key, what ``judge`` takes for those that are there.
        is_there: whether an item's very events are in the log.
    """
    last: dict[int, int] = {}
    """Seq of the last event of runs that have an earlier item in this batch; 0 for those whose hold has ended in it."""
    failed: dict[int, Verdict] = {}
    verdicts: list[Verdict] = []
    for item in items:
        key = item.run_key
        verdict = failed.get(key) if failed else None
        if verdict is None:
            verdict = judge(item, fences.get(key), last.get(key), is_there)
            if verdict is APPLIED:
                if item.events:
                    last[key] = item.events[-1][1]
                if item.state is not None:
                    last[key] = 0
            elif verdict is not ALREADY:
                failed[key] = verdict
        verdicts.append(verdict)
    return verdicts


def reaches_out(item: CommitItem) -> bool:
    """Whether an item does anything to other runs: only with events, by which a resend is recognised."""
    return bool(item.sends or item.children or item.successor)


def marks(item: CommitItem) -> list[tuple[int, int, bytes]]:
    """What the log says of the item's events if they are there: written under this very epoch."""
    return [(event.seq, item.epoch, event.hash) for event in item.events]


def due(item: CommitItem, state: StateChange) -> int | None:
    """From when on a run can be claimed in its new state; None if it cannot."""
    if state.status not in _CLAIMABLE:
        return None
    return item.events[-1].at if item.events else 0


__all__ = ["ALREADY", "APPLIED", "BAD", "FENCED", "STALE", "due", "judge", "judge_all", "marks", "reaches_out"]
