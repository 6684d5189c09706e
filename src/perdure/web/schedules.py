"""Schedules: what recurs, what comes next and what became of it; pausing, resuming, triggering and removing one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perdure import describe
from perdure.errors import ScheduleNotFound
from perdure.model.deeds import SCHEDULE as NOUN
from perdure.model.schedules import ScheduleState
from perdure.operations.scheduling import Scheduling
from perdure.schedules import upcoming
from perdure.store.protocol import Route
from perdure.web.asking import Text, Whole
from perdure.web.changes import Change, Changed
from perdure.web.logs import run_of
from perdure.web.pages import Page

if TYPE_CHECKING:
    from collections.abc import Collection

    from perdure.model.schedules import ScheduleRow
    from perdure.store.protocol import Store
    from perdure.web.asking import Asked
    from perdure.web.changes import Asking, Order

PAGE: Final = 50
MOST: Final = 200
SHOWN: Final = 20
"""Occurrences and deeds that are shown, the latest."""
AHEAD: Final = 5


def is_served(row: ScheduleRow, served: Collection[Route]) -> bool:
    """Whether some living worker would run it."""
    return Route(row.workflow, row.version, row.queue, row.namespace) in served


def summary(store: Store, row: ScheduleRow, served: Collection[Route]) -> dict[str, Any]:
    """Return a schedule, its latest occurrence, and whether somebody would run it."""
    last = store.list_occurrences(row.schedule_key, 1)
    return {
        **describe.schedule(row),
        "is_served": is_served(row, served),
        "last": describe.occurrence(last[0]) if last else None,
    }


def read(asked: Asked) -> dict[str, Any]:
    """Return schedules by key, page by page."""
    store, query = asked.store, asked.query
    rows = store.list_schedules(asked.namespace, query["after"] or "", query["limit"] + 1)
    shown, served = rows[: query["limit"]], store.served()
    return {
        "now": describe.instant(store.now()),
        "schedules": [summary(store, row, served) for row in shown],
        "next": shown[-1].key if len(rows) > len(shown) else None,
        "deeds": list(map(describe.deed, store.list_deeds(NOUN, None, asked.namespace, SHOWN))),
    }


def row_of(store: Store, key: str, namespace: str) -> ScheduleRow:
    """Return a schedule.

    Raises:
        ScheduleNotFound: there is none of this key.
    """
    row = store.get_schedule(key, namespace)
    if row is None or row.state == ScheduleState.REMOVED:
        raise ScheduleNotFound(f"no schedule {key!r}", key=key, advice="the page of schedules lists what there is")
    return row


def read_one(asked: Asked) -> dict[str, Any]:
    """Return a schedule, what comes next, and what became of its latest occurrences."""
    store = asked.store
    row = row_of(store, asked.about, asked.namespace)
    return {
        "now": describe.instant(store.now()),
        "schedule": summary(store, row, store.served()),
        "upcoming": _ahead(row),
        "history": [describe.occurrence(one) for one in store.list_occurrences(row.schedule_key, SHOWN)],
        "deeds": list(map(describe.deed, store.list_deeds(NOUN, row.key, asked.namespace, SHOWN))),
    }


def _ahead(row: ScheduleRow) -> list[str | None] | None:
    """Return when it fires next; None if that cannot be known here."""
    try:
        return list(map(describe.instant, upcoming(row, AHEAD)))
    except Exception:  # noqa: BLE001 - its fault is shown
        return None


SCHEDULES: Final = Page(
    "/schedules",
    "listSchedules",
    "Schedules by key: when each fires next, and what became of its latest occurrence.",
    read,
    "Schedules",
    "schedules.html",
    parameters=(Text("after", 400), Whole("limit", least=1, most=MOST, default=PAGE)),
)
SCHEDULE: Final = Page(
    "/schedules",
    "getSchedule",
    "A schedule: what comes next, and what became of its latest occurrences.",
    read_one,
    "SchedulePage",
    "schedule.html",
    of="key",
)


async def _after(order: Order, said: str) -> Changed:
    key, namespace = order.about, order.namespace
    told = await order.reader.read(lambda store: summary(store, row_of(store, key, namespace), store.served()))
    return Changed(said, {"schedule": told}, "/schedules", key)


async def _pause(order: Order) -> Changed:
    await Scheduling(order.operations).pause(order.about)
    return await _after(order, "schedule-paused")


async def _resume(order: Order) -> Changed:
    await Scheduling(order.operations).resume(order.about)
    return await _after(order, "schedule-resumed")


async def _trigger(order: Order) -> Changed:
    _, run_id = await Scheduling(order.operations).trigger(order.about)
    namespace = order.namespace
    told = await order.reader.read(lambda store: describe.row(run_of(store, run_id, namespace)))
    return Changed("triggered", {"run": told}, "/runs", run_id)


async def _remove(order: Order) -> Changed:
    scheduling = Scheduling(order.operations)
    row = await scheduling.row(order.about)
    told = await order.reader.read(lambda store: summary(store, row, store.served()))
    await scheduling.remove(order.about)
    return Changed("schedule-removed", {"schedule": told}, "/schedules")


async def _ask(asking: Asking) -> dict[str, Any]:
    def read(store: Store) -> dict[str, Any]:
        return {"schedule": describe.schedule(row_of(store, asking.about, asking.namespace))}

    return await asking.reader.read(read)


CHANGES: Final = (
    Change(
        "pause-schedule", "pauseSchedule",
        "Let a schedule fire no more until it is resumed; its runs go on.",
        {}, (), "ScheduleDone", _pause, of="key",
    ),
    Change(
        "resume-schedule", "resumeSchedule",
        "Let a paused schedule go on with what comes next; what was due meanwhile is skipped.",
        {}, (), "ScheduleDone", _resume, of="key",
    ),
    Change(
        "trigger-schedule", "triggerSchedule",
        "Create a run of a schedule now, besides its cadence and whatever its overlap says.",
        {}, (), "Done", _trigger, of="key", ask=_ask, template="change.html",
    ),
    Change(
        "remove-schedule", "removeSchedule",
        "Remove a schedule for everybody. Its runs stay; a program that defines it brings it back.",
        {}, (), "ScheduleDone", _remove, of="key", ask=_ask, template="change.html",
    ),
)  # fmt: skip

__all__ = ["CHANGES", "SCHEDULE", "SCHEDULES", "is_served", "row_of", "summary"]
