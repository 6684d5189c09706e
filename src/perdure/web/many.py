"""What can be done with all runs of a kind at once: shown first, with their number, and done to no other.

The filter stands in the address, with the instant at which it was shown: what was created since is left alone, and no
more runs are dealt with than were counted then. Each run is dealt with alone; doing it again does the rest. For people
it is a job, which goes on without them; a program waits for it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from perdure import describe
from perdure.model.durations import to_datetime
from perdure.model.records import Status
from perdure.operations import CANCELLABLE, RESUMABLE, Runs
from perdure.operations.holding import take_all_back
from perdure.signals import message
from perdure.store.controlling import PAUSABLE
from perdure.telemetry import lines
from perdure.telemetry.logs import say
from perdure.web.actions import ACTIONS
from perdure.web.asking import Whole
from perdure.web.changes import Change, Changed
from perdure.web.jobs import AT_ONCE
from perdure.web.problems import Problem
from perdure.web.runs import CHOSEN, COUNTED, asked_of, where_of
from perdure.web.working import new_job

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from perdure.operations import Tally
    from perdure.store.protocol import Filter, Store
    from perdure.web.changes import Asking, Order
    from perdure.web.jobs import Job

MOST: Final = 2_000
"""Runs that a program's request deals with by default: it is answered when it is done."""


@dataclass(frozen=True, slots=True)
class Bulk:
    """Something that can be done with many runs.

    Attributes:
        verb: its name.
        among: in which statuses it can be done.
        act: does it to them.
    """

    verb: str
    among: frozenset[Status]
    act: Callable[[Order, Runs], Awaitable[Tally]]


def narrowed(namespace: str, query: Mapping[str, Any], among: frozenset[Status]) -> Filter:
    """Return which runs are meant: those of the filter in whose status it can be done.

    Raises:
        Problem: the filter says nothing.
    """
    chosen = {one.name for one in CHOSEN if query[one.name]} - {"created_before"}
    if not chosen:
        raise Problem(422, "no_filter", "this would be about all runs there are", "say which ones, by their filter")
    where = where_of(namespace, query)
    statuses = among if where.status is None else among.intersection(where.status)
    return replace(where, status=tuple(sorted(statuses)))


async def _show(asking: Asking, bulk: Bulk, **more: Any) -> dict[str, Any]:
    """Return what is asked: how many runs there are of the filter, and the address at which it is done to them."""

    def read(store: Store) -> dict[str, Any]:
        now = store.now()
        until = to_datetime(now)
        before = asking.query["created_before"]
        query = {**asking.query, "created_before": until if before is None else min(before, until)}
        where = narrowed(asking.namespace, query, bulk.among)
        number = 0 if not where.status else sum(one.number for one in store.count_runs(where, COUNTED))
        sample = store.list_runs(replace(where, limit=5)) if where.status else []
        return {
            "number": number,
            "exact": number < COUNTED,
            "most": min(number, COUNTED),
            "statuses": [one.word for one in Status if one in (where.status or ())],
            "sample": [describe.row(one) for one in sample],
            "asked": asked_of(query),
            "listed": asked_of(asking.query),
            "key": f"dashboard-{secrets.token_hex(8)}",
            "tally": None,
            "job": None,
        }

    return {**await asking.reader.read(read), **more}


def _change(bulk: Bulk) -> Change:
    action = next(one for one in ACTIONS if one.verb == bulk.verb)

    async def ask(asking: Asking) -> dict[str, Any]:
        return await _show(asking, bulk, do=bulk.verb, about=action.summary)

    async def act(order: Order) -> Changed:
        where = narrowed(order.namespace, order.query, bulk.among)
        if missing := [name for name in action.required if not order.given.text(name)]:
            raise Problem(422, "bad_field", f"{missing[0]} is missing", "")
        await order.reader.read(take_all_back)
        most: int = order.query["most"]

        def said(tally: Tally) -> None:
            say(
                lines.DASHBOARD_MANY, verb=bulk.verb, visitor=order.by.name, number=tally.done,
                unchanged=tally.unchanged, failed=len(tally.failures), namespace=order.namespace,
            )  # fmt: skip

        if order.given.is_form:
            job = new_job(order, bulk.verb, most, asked_of(order.query))

            def work(job: Job) -> Awaitable[Tally]:
                return bulk.act(order, Runs(order.operations, where, most=most, watch=job.watch))

            if not await order.reader.jobs.begin(job, work, said):
                raise Problem(429, "too_many_jobs", f"{AT_ONCE} of these are under way", "let one end, or stop it")
            return Changed("", {}, "/jobs", job.job)
        tally = await bulk.act(order, Runs(order.operations, where, most=most))
        said(tally)
        with describe.redacting(order.reader.redaction):
            return Changed("", {"tally": describe.tally(tally.done, tally.unchanged, tally.failures, more=tally.more)})

    return Change(
        f"many/{bulk.verb}",
        f"{bulk.verb}Runs",
        f"For all runs of a filter that are in a state for it: {action.summary[0].lower()}{action.summary[1:]}",
        {name: one for name, one in action.fields.items() if name != "run_id"},
        (),
        "ManyDone",
        act,
        parameters=(*CHOSEN, Whole("most", least=1, most=COUNTED, default=MOST)),
        ask=ask,
        template="many.html",
    )


async def _cancel(order: Order, runs: Runs) -> Tally:
    return await runs.cancel(order.reason(), force=order.given.flag("force"))


async def _pause(order: Order, runs: Runs) -> Tally:
    return await runs.pause(order.reason())


async def _resume(order: Order, runs: Runs) -> Tally:
    return await runs.resume(accept_drift=order.given.flag("accept_drift"), reason=order.reason())


async def _fork(order: Order, runs: Runs) -> Tally:
    return await runs.fork(order.given.text("from_step"), keep_keys=order.given.flag("keep_keys"))


async def _signal(order: Order, runs: Runs) -> Tally:
    given = order.given
    what = message(given.text("signal"), given.value("value"), given.text("idempotency_key") or None)
    return await runs.send(what)


BULKS: Final = (
    Bulk("cancel", CANCELLABLE, _cancel),
    Bulk("pause", PAUSABLE, _pause),
    Bulk("resume", frozenset(RESUMABLE), _resume),
    Bulk("fork", frozenset(Status), _fork),
    Bulk("signal", CANCELLABLE, _signal),
)
CHANGES: Final = tuple(map(_change, BULKS))

__all__ = ["CHANGES", "MOST"]
