"""Queues: their limits, how much of them is in use, and pausing and resuming them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perdure import describe
from perdure.errors import DefinitionError
from perdure.model.deeds import QUEUE
from perdure.queues import queue_name
from perdure.store.queueing import COUNTED
from perdure.web.changes import Change, Changed
from perdure.web.pages import Page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.store.protocol import Store
    from perdure.web.asking import Asked
    from perdure.web.changes import Order


SHOWN: Final = 20
"""Deeds that are shown, the latest."""


def read(asked: Asked) -> dict[str, Any]:
    """Return the queues of a namespace by name."""
    return {
        "now": describe.instant(asked.store.now()),
        "queues": [describe.queue(one) for one in asked.store.list_queues(asked.namespace)],
        "deeds": list(map(describe.deed, asked.store.list_deeds(QUEUE, None, asked.namespace, SHOWN))),
    }


def _draw(data: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    return {"queues": [{**one, "state": _state(one), "use": _use(one)} for one in data["queues"]], "counted": COUNTED}


def _state(queue: Mapping[str, Any]) -> str:
    if queue["paused"]:
        return "paused"
    if queue["opens_at"] is not None and queue["ready"]:
        return "rate"
    is_full = queue["concurrency"] is not None and queue["running"] >= queue["concurrency"]
    return "full" if is_full else "open"


def _use(queue: Mapping[str, Any]) -> int | None:
    """Return how many percent of a queue's slots are taken; None: it has no limit."""
    if queue["concurrency"] is None:
        return None
    return min(100, 100 * int(queue["running"]) // int(queue["concurrency"]))


QUEUES: Final = Page(
    "/queues",
    "listQueues",
    "The queues of a namespace: their limits, and how much of each is in use.",
    read,
    "Queues",
    "queues.html",
    draw=_draw,
)


async def _pause(order: Order) -> Changed:
    return await _set(order, paused=True)


async def _resume(order: Order) -> Changed:
    return await _set(order, paused=False)


async def _set(order: Order, *, paused: bool) -> Changed:
    name, namespace, by = queue_name(order.given.text("queue")), order.namespace, order.operations.by

    def change(store: Store) -> dict[str, Any]:
        store.pause_queue(name, namespace, paused=paused, author=by)
        for one in store.list_queues(namespace):
            if one.row.name == name:
                return describe.queue(one)
        raise DefinitionError(f"there is no queue {name!r}", advice="the page of queues lists what there is")

    told = await order.reader.read(change)
    return Changed(
        "queue-paused" if paused else "queue-resumed", {"queue": told}, "/queues", what=name or "the default queue"
    )


_QUEUE: Final = {"queue": {"type": "string", "maxLength": 200, "description": "Its name; empty: the default queue."}}

CHANGES: Final = (
    Change(
        "pause-queue",
        "pauseQueue",
        "Let no worker claim anything from a queue until it is resumed; runs under way go on.",
        _QUEUE,
        ("queue",),
        "QueueDone",
        _pause,
    ),
    Change(
        "resume-queue",
        "resumeQueue",
        "Let workers claim from a paused queue again.",
        _QUEUE,
        ("queue",),
        "QueueDone",
        _resume,
    ),
)

__all__ = ["CHANGES", "QUEUES"]
