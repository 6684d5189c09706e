"""How a schedule is defined, paused, resumed and removed: pure functions from what there is to a change of it.

Which of two definitions holds: one of a higher revision, whenever it comes. Of equal revisions the one that comes
later, unless it comes from another build whose engine was opened before that of the definition there is: then it is
the older build that speaks again.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from perdure.errors import DefinitionError
from perdure.model import cadence
from perdure.model.builds import is_superseded
from perdure.model.firing import PAUSED, REMOVED, REPLACED, due, leave_out, stamped
from perdure.model.schedules import (
    Occurrence,
    OccurrenceKind,
    ScheduleChange,
    ScheduleState,
    decode_policy,
    listed,
    numbers,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.model.schedules import ScheduleRow


class Defined(Enum):
    """What a definition came to."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"
    """It is what there is."""
    OLDER = "older"
    """What there is holds."""


def define(
    old: ScheduleRow | None, new: ScheduleRow, now: int, random: Callable[[int], bytes]
) -> tuple[Defined, ScheduleChange | None]:
    """Return what becomes of a schedule that is defined (anew): its cadence goes on if it is the same.

    Args:
        old: what there is, also if it is removed.
        new: the definition, as the row it would be if there were nothing.
        now: the instant.
        random: source of random bytes.
    """
    if old is None:
        return Defined.NEW, ScheduleChange(_settled(stamped(new._replace(change=0), random)))
    if old.state == ScheduleState.REMOVED:
        back = new._replace(
            schedule_key=old.schedule_key, change=old.change, recorded=old.recorded, active=old.active,
            watermark=max(old.watermark, now),
        )  # fmt: skip
        return Defined.NEW, ScheduleChange(_settled(stamped(back, random)))
    same = _same_recurrence(old, new)
    is_same = same and _what(old) == _what(new)
    if not is_same and _is_older(new, old):
        return Defined.OLDER, None
    made, skipped = (old, ()) if same else leave_out(old, now, REPLACED)
    made = made._replace(fault=None)
    if not is_same:
        made = made._replace(
            workflow=new.workflow, version=new.version, queue=new.queue, policy=new.policy, codec=new.codec,
            payload=new.payload, origin=new.origin,
        )  # fmt: skip
    if not same:
        made = made._replace(cadence=new.cadence, watermark=max(made.watermark, now))
    if not _is_older(new, old):
        made = made._replace(revision=new.revision)
        if new.build != old.build:
            made = made._replace(build=new.build, since=new.since)
    made = _settled(made)
    if made == old:
        return Defined.SAME, None
    return Defined.SAME if is_same else Defined.CHANGED, ScheduleChange(stamped(made, random), skipped)


def pause(row: ScheduleRow, random: Callable[[int], bytes]) -> ScheduleChange | None:
    """Return what becomes of a schedule that is to fire no more for a while; None if it is paused already."""
    if row.state == ScheduleState.PAUSED:
        return None
    return ScheduleChange(stamped(row._replace(state=ScheduleState.PAUSED, next_at=None), random))


def resume(row: ScheduleRow, now: int, random: Callable[[int], bytes]) -> ScheduleChange | None:
    """Return what becomes of a schedule that is to go on with what comes next; None if it is not paused.

    Raises:
        DefinitionError: its zone is not known here.
    """
    if row.state != ScheduleState.PAUSED:
        return None
    kept, skipped = leave_out(row, now, PAUSED)
    return ScheduleChange(stamped(_settled(kept._replace(state=ScheduleState.ACTIVE, fault=None)), random), skipped)


def remove(row: ScheduleRow, now: int, random: Callable[[int], bytes]) -> ScheduleChange:
    """Return what becomes of a schedule that is to be no more: only its watermark stays."""
    kept, skipped = leave_out(row, now, REMOVED) if row.state == ScheduleState.ACTIVE else (row, ())
    waited = tuple(Occurrence(OccurrenceKind.SKIPPED, one, one, 1, now, None, REMOVED) for one in numbers(row.waiting))
    gone = kept._replace(
        state=ScheduleState.REMOVED, next_at=None, waiting=listed([]), payload=b"", codec=0, fault=None
    )
    return ScheduleChange(stamped(gone, random), (*waited, *skipped))


def _settled(row: ScheduleRow) -> ScheduleRow:
    return row._replace(next_at=due(row, cadence.decode(row.cadence), decode_policy(row.policy)))


def _same_recurrence(old: ScheduleRow, new: ScheduleRow) -> bool:
    try:
        return cadence.decode(old.cadence).same_recurrence(cadence.decode(new.cadence))
    except (ValueError, LookupError, TypeError, DefinitionError):
        return old.cadence == new.cadence


def _what(row: ScheduleRow) -> tuple[object, ...]:
    """What a schedule does, besides when."""
    return row.workflow, row.version, row.queue, row.policy, row.codec, row.payload


def _is_older(new: ScheduleRow, old: ScheduleRow) -> bool:
    if new.revision != old.revision:
        return new.revision < old.revision
    return is_superseded(old, new)


__all__ = ["Defined", "define", "pause", "remove", "resume"]
