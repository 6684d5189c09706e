"""Reading: lists, pages, and the hint that something changed."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

from dataclasses import replace

from perdure.model.records import Status
from perdure.store.protocol import Filter
from perdure.testing.store_suite.bench import SECOND, Bench, case, soon


@case
def runs_are_read_by_key_in_the_order_asked_for(bench: Bench) -> None:
    a, b, c = (created.row for created in bench.create_many(3))
    assert bench.store.get_runs([c.run_key, 10**9, a.run_key]) == [c, a]
    assert bench.store.get_runs([]) == []
    assert bench.store.get_run("run-1") == b
    assert bench.store.get_run("nobody") is None
    assert bench.store.read_events(10**9) == []


@case
def lists_are_paged_newest_first(bench: Bench) -> None:
    made = [created.row for created in bench.create_many(25)]
    found = []
    where = Filter(limit=10)
    while page := bench.store.list_runs(where):
        assert len(page) <= 10
        found += page
        where = replace(where, after=where.place(page[-1]))
    assert found == made[::-1]


@case
def a_run_that_comes_in_while_paging_shifts_nothing(bench: Bench) -> None:
    bench.create_many(4)
    first = bench.store.list_runs(Filter(limit=2))
    bench.create("late")
    second = bench.store.list_runs(Filter(limit=2, after=Filter().place(first[-1])))
    assert [row.run_id for row in first + second] == ["run-3", "run-2", "run-1", "run-0"]


@case
def lists_are_filtered(bench: Bench) -> None:
    bench.store.create_runs([
        bench.new("a"), bench.new("b", workflow="other"), bench.new("c", version="2"), bench.new("d", namespace="n"),
        bench.new("e", queue="slow"), bench.new("f"),
    ])  # fmt: skip
    worker = bench.worker()
    for run_id in ("a", "f"):
        row = bench.store.get_run(run_id)
        assert row is not None
        held = bench.retake(row.run_key, worker)
        if run_id == "f":
            held.commit(held.end(Status.FAILED))

    def listed(where: Filter) -> str:
        return "".join(row.run_id for row in bench.store.list_runs(where))

    assert listed(Filter()) == "fecba"
    assert listed(Filter(namespace="n")) == "d"
    assert listed(Filter(workflow="greet")) == "feca"
    assert listed(Filter(workflow="greet", limit=2)) == "fe"
    newest = Filter().place(bench.store.list_runs(Filter(limit=1))[0])
    assert listed(Filter(workflow="greet", limit=2, after=newest)) == "ec"
    assert listed(Filter(workflow="never")) == ""
    assert listed(Filter(status=(Status.PENDING,))) == "ecb"
    assert listed(Filter(status=(Status.FAILED, Status.RUNNING))) == "fa"
    assert listed(Filter(status=(Status.PENDING,), workflow="greet")) == "ec"
    assert listed(Filter(status=(Status.PENDING, Status.FAILED), limit=3)) == "fec"
    assert listed(Filter(status=())) == ""


@case
def of_many_runs_those_that_are_over_are_told_with_their_rows(bench: Bench) -> None:
    waits = bench.create("waits")
    runs = [bench.hold(name) for name in ("runs", "ends", "fails", "stops")]
    for held, status in zip(runs[1:], (Status.COMPLETED, Status.FAILED, Status.BLOCKED), strict=True):
        held.commit(held.end(status))
    over = [held.key for held in runs[1:]]
    nobody = 1 + max(over)
    asked = [waits.run_key, nobody, *reversed([held.key for held in runs])]
    found = dict(bench.store.over(asked, 10))
    assert found == {nobody: None} | {key: bench.row(key) for key in over}
    assert [key for key, _ in bench.store.over(asked, 10)] == [key for key in asked if key in found]
    assert [key for key, _ in bench.store.over(asked, 2)] == asked[1:3]
    assert bench.store.over([waits.run_key, runs[0].key], 10) == []
    assert bench.store.over([], 10) == []


@case
def a_log_is_read_in_pages(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.steps(20))
    log = bench.log(held.key)
    assert [event.seq for event in log] == list(range(1, 23))
    assert bench.store.read_events(held.key, after=5, limit=3) == log[5:8]
    assert bench.store.read_events(held.key, after=22) == []


@case
def what_another_handle_wrote_is_news(bench: Bench) -> None:
    other = bench.open()
    bench.store.changed()
    other.create_runs([bench.new()])
    assert soon(bench.store.changed)


@case
def what_one_handle_wrote_the_other_reads(bench: Bench) -> None:
    other = bench.open()
    row = other.create_runs([bench.new()])[0].row
    assert bench.store.get_run("one") == row


@case
def reading_never_holds_a_run_up(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.steps(10))
    reader = bench.open()
    page = reader.read_events(held.key, limit=1)
    held.commit(held.steps())
    assert len(page) == 1
    assert len(reader.read_events(held.key)) == 13


@case
def what_metrics_show_is_counted_over_all_namespaces_and_by_route(bench: Bench) -> None:
    now = bench.store.now()
    bench.create("first", created_at=now - 3 * SECOND)
    bench.create("second", created_at=now - SECOND)
    bench.create("elsewhere", created_at=now, namespace="n", queue="q")
    held = bench.hold("held", queue="none")
    held.commit(held.end())
    seen = bench.store.gauge()
    assert seen.counts == {Status.PENDING: 3, Status.COMPLETED: 1}
    assert {(one.namespace, one.queue): (one.runs, one.run_id, one.since) for one in seen.backlogs} == {
        ("", ""): (2, "first", now - 3 * SECOND),
        ("n", "q"): (1, "elsewhere", now),
    }
    assert seen.now >= now
    assert seen.reconnects == 0
