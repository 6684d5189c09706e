"""Lists: what is asked for, in whatever combination, in order, and counted; and what became of runs over time."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perdure.model.counting import edges
from perdure.model.payloads import note
from perdure.model.records import Status
from perdure.store.listing import FEW
from perdure.store.protocol import Filter
from perdure.testing.store_suite.bench import Bench, Holder, case
from perdure.testing.store_suite.listed import check_list, meant

if TYPE_CHECKING:
    from perdure.model.records import RunRow

_SECOND = 1_000_000
_COMBINATIONS = 60
_REASONS = (
    "Rejected: no such order", "drift: it moved", "TimeoutError", "Rejected (caused by KeyError: 'x')", None,
    f"{'A' * 300}: long",
)  # fmt: skip


def _populate(bench: Bench, start: int) -> list[RunRow]:
    """Runs that differ in everything that can be asked for; some of them were created at one instant."""
    chance = random.Random(7)  # noqa: S311 - not for secrets
    worker = bench.worker()
    parent = bench.create("parent", workflow="other", created_at=start)
    new = [
        bench.new(
            f"{chance.choice(['order', 'order-é', 'mail'])}-{number}",
            workflow=chance.choice(["greet", "greet", "greet", "other"]),
            version=chance.choice(["", "", "2"]),
            queue=chance.choice(["", "", "slow"]),
            namespace=chance.choice(["", "", "", "n"]),
            created_at=start + chance.randrange(6) * _SECOND,
            parent_key=chance.choice([None, None, parent.run_key]),
            meta=note(tags={"city": chance.choice(["Bern", "Köln"])}) if number % 3 else None,
        )
        for number in range(40)
    ]
    keys = [parent.run_key, *(made.row.run_key for made in bench.store.create_runs(new))]
    mine = [
        row for row in bench.store.get_runs(keys) if (row.workflow, row.version, row.queue, row.namespace) == _ROUTE
    ]
    for number, row in enumerate(mine[1:]):
        held = bench.retake(row.run_key, worker)
        held.last = held.last._replace(at=start + chance.randrange(6) * _SECOND - 1)
        reason = _REASONS[number % len(_REASONS)]
        status = (Status.FAILED, Status.COMPLETED, Status.BLOCKED, Status.CANCELLED, Status.FAILED)[number % 5]
        held.commit(held.end(status, reason=reason))
    return bench.store.get_runs(keys)


_ROUTE = ("greet", "", "", "")


@case
def lists_and_numbers_are_those_that_are_meant_whatever_is_asked_for(bench: Bench) -> None:
    start = bench.store.now() - 60 * _SECOND
    rows = _populate(bench, start)
    parent = rows[0].run_key
    chance = random.Random(11)  # noqa: S311 - not for secrets
    asked: dict[str, list[Any]] = {
        "status": [(Status.FAILED,), (Status.PENDING, Status.BLOCKED), (Status.COMPLETED, Status.CANCELLED), ()],
        "workflow": ["greet", "other", "nobody"],
        "version": ["", "2"],
        "queue": ["", "slow", "none"],
        "namespace": ["n"],
        "id_prefix": ["order", "order-é", "mail-", "zz", "order-é\U0010ffff"],
        "tags": [(("city", "Bern"),), (("city", "Köln"), ("city", "Köln")), (("city", "Rom"),)],
        "parent": [parent],
        "error": ["Rejected", "drift", "TimeoutError", "A" * 200, "KeyError"],
        "created_after": [start + 2 * _SECOND, start],
        "created_before": [start + 4 * _SECOND, start + 3 * _SECOND + 1],
        "ended_after": [start + _SECOND],
        "ended_before": [start + 4 * _SECOND],
    }
    sizes = [check_list(bench.store, rows, Filter(limit=7))]
    sizes += [
        check_list(bench.store, rows, Filter(limit=3, **{name: value})) for name in asked for value in asked[name]
    ]
    for _ in range(_COMBINATIONS):
        names = chance.sample(sorted(asked), chance.choice([2, 2, 3]))
        where: dict[str, Any] = {name: chance.choice(asked[name]) for name in names}
        sizes.append(check_list(bench.store, rows, Filter(limit=chance.choice([2, 5]), **where)))
    assert sum(1 for size in sizes if size) > 50


@case
def what_begins_as_many_ids_do_is_found_just_the_same(bench: Bench) -> None:
    first = bench.create("order-first")
    bench.store.create_runs(
        [bench.new(f"order-{number}", workflow=["greet", "other"][number % 2]) for number in range(FEW)]
    )
    bench.create("order-last")
    bench.create("mail")
    held = bench.retake(first.run_key)
    held.commit(held.end(Status.FAILED, reason="Rejected: no"))
    for where, expected in (
        (Filter(id_prefix="order-", limit=1), ["order-last"]),
        (Filter(id_prefix="order-", status=(Status.FAILED,)), ["order-first"]),
        (Filter(id_prefix="order-", error="Rejected"), ["order-first"]),
        (Filter(id_prefix="order-", ended_after=0), ["order-first"]),
        (Filter(id_prefix="order-l"), ["order-last"]),
    ):
        assert [row.run_id for row in bench.store.list_runs(where)] == expected, where
    number = sum(one.number for one in bench.store.count_runs(Filter(id_prefix="order-")))
    assert number == FEW + 2
    assert sum(one.number for one in bench.store.count_runs(Filter(id_prefix="order-"), 10)) == 10
    assert sum(one.number for one in bench.store.count_runs(Filter(), 10)) == FEW + 3


@case
def the_error_of_a_run_goes_with_its_state(bench: Bench) -> None:
    def found(error: str) -> list[Status]:
        return [row.status for row in bench.store.list_runs(Filter(error=error))]

    worker = bench.worker()
    held = bench.hold()
    item = held.suspend(Status.RETRYING, wake_at=1)
    assert item.state is not None
    held.commit(replace(item, state=item.state._replace(reason="ConnectionError: refused")))
    assert (found("ConnectionError"), found("refused")) == ([Status.RETRYING], [])
    held = bench.retake(held.key, worker)
    assert found("ConnectionError") == []
    held.commit(held.end(Status.FAILED, reason="Rejected: no"))
    assert (found("Rejected"), found("ConnectionError")) == ([Status.FAILED], [])
    bench.resume(held.key)
    assert found("Rejected") == []
    row = bench.row(held.key)
    assert bench.store.block_run(held.key, row.epoch, b'{"reason":"drift: it moved"}', "drift: it moved")
    assert found("drift") == [Status.BLOCKED]
    bench.store.request_cancel(held.key, "drift: enough", force=True)
    assert found("drift") == []


@case
def what_became_of_runs_is_told_by_time(bench: Bench) -> None:
    start = bench.store.now() - 60 * _SECOND
    rows = _populate(bench, start)
    since, until = start + 1, start + 5 * _SECOND
    bounds = edges(since, until, 7)
    for where in (Filter(), Filter(workflow="greet"), Filter(namespace="n"), Filter(workflow="nobody")):
        told = bench.store.traffic(since, until, 7, workflow=where.workflow, namespace=where.namespace)
        assert len(told) == len(bounds) - 1
        mine = meant(rows, where)
        for one, low, high in zip(told, bounds, bounds[1:], strict=False):
            assert one.created == sum(1 for row in mine if low <= row.created_at < high)
            ended = [row for row in mine if row.ended_at is not None and low <= row.ended_at < high]
            assert one.ended == {
                status: number for status in Status if (number := sum(1 for row in ended if row.status is status))
            }
            timed = [row for row in ended if row.status is not Status.CANCELLED]
            took = sorted((row.ended_at or 0) - row.created_at for row in timed)
            assert sorted(waited for waited, _ in one.latencies) == took
            assert one.longest[0] == max(took, default=0)
    assert sum(one.created for one in bench.store.traffic(since, until, 1)) > 10


@case
def a_run_that_comes_in_late_is_where_it_was_created(bench: Bench) -> None:
    start = bench.store.now()
    bench.create("b", created_at=start + 2)
    bench.create("a", created_at=start + 1)
    bench.create("c", created_at=start + 3)
    first = bench.store.list_runs(Filter(limit=1))
    bench.create("late", created_at=start + 2)
    rest = bench.store.list_runs(Filter(after=Filter().place(first[0])))
    assert [row.run_id for row in first + rest] == ["c", "late", "b", "a"]


@case
def no_run_is_missed_while_it_changes(bench: Bench) -> None:
    """A list of several statuses is of one state of the store: who goes from one to the other is in it, once."""
    held = bench.hold()
    done = threading.Event()
    other = bench.open()

    def change(holder: Holder) -> None:
        while not done.is_set():
            holder.commit(holder.suspend(Status.SLEEPING, wake_at=1))
            holder = bench.retake(holder.key, holder.worker)

    thread = threading.Thread(target=change, args=(held,))
    thread.start()
    try:
        for _ in range(200):
            assert [row.run_id for row in other.list_runs(Filter())] == ["one"]
            assert sum(one.number for one in other.count_runs(Filter())) == 1
    finally:
        done.set()
        thread.join()
