"""Builds: who serves which route, who refuses which run, and what becomes of runs that nobody is left for."""

# ruff: noqa: D103 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

import json

from perdure.model.records import Kind, Status
from perdure.store.protocol import Route
from perdure.testing.store_suite.bench import ROUTE, SECOND, Bench, Holder, case


def misfit(build: str, reason: str = "drift: it moved") -> bytes:
    return json.dumps({"code": "drift", "reason": reason, "build": build}).encode()


def refuse(bench: Bench, held: Holder, build: str) -> list[Kind]:
    """The holder's build refuses its run; the kinds of what was appended."""
    return [Kind(event.kind) for event in bench.store.refuse_run(held.key, held.epoch, build, misfit(build))]


def claimed(bench: Bench, worker: int) -> list[int]:
    return [claim.row.run_key for claim in bench.claim(worker)]


def refused_by_old(bench: Bench) -> tuple[Holder, int]:
    """A run that build ``old`` has refused while ``new`` lived: its last holder, and the worker of ``new``."""
    new = bench.worker(build="new")
    held = bench.hold(worker=bench.worker(build="old"))
    assert refuse(bench, held, "old") == [Kind.DRIFT_FOUND, Kind.RUN_RELEASED]
    return held, new


@case
def a_living_worker_serves_its_routes(bench: Bench) -> None:
    other = Route("greet", "2", "slow")
    assert bench.store.served() == set()
    one, two = bench.worker(routes=[ROUTE, other]), bench.worker(routes=[ROUTE])
    bench.worker(routes=[])
    assert bench.store.served() == {ROUTE, other}
    served = {key: set(routes) for key, routes in bench.store.serving().items()}
    assert served == {one: {ROUTE, other}, two: {ROUTE}}
    bench.store.retire_worker(one)
    assert bench.store.served() == {ROUTE}
    assert bench.store.serving() == {two: [ROUTE]}
    bench.store.leave_worker(two)
    assert bench.store.served() == set()


@case
def a_dead_worker_serves_nothing(bench: Bench) -> None:
    held = bench.hold()
    assert bench.store.served() == {ROUTE}
    bench.store.reclaim(bench.worker(routes=[]), [held.worker], cap=5)
    assert bench.store.served() == set()


@case
def a_refused_run_is_left_to_other_builds(bench: Bench) -> None:
    held, new = refused_by_old(bench)
    row = bench.row(held.key)
    assert (row.status, row.worker_key, row.epoch, row.reason) == (Status.RUNNING, None, held.epoch + 1, None)
    found, released = bench.log(held.key)[-2:]
    assert (found.epoch, found.payload, released.epoch) == (held.epoch, misfit("old"), row.epoch)
    assert claimed(bench, held.worker) == []
    assert bench.claim(held.worker, only=held.key) == []
    assert claimed(bench, bench.worker(build="old")) == []
    assert claimed(bench, new) == [held.key]


@case
def a_build_that_joins_later_may_claim_it(bench: Bench) -> None:
    held, _ = refused_by_old(bench)
    assert claimed(bench, bench.worker(build="newer")) == [held.key]


@case
def a_run_that_no_other_build_serves_is_blocked(bench: Bench) -> None:
    held = bench.hold(worker=bench.worker(build="old"))
    bench.worker(build="old")
    bench.worker(build="new", routes=[Route("other")])
    bench.store.leave_worker(bench.worker(build="new"))
    assert refuse(bench, held, "old") == [Kind.DRIFT_FOUND, Kind.RUN_BLOCKED]
    row = bench.row(held.key)
    assert (row.status, row.worker_key, row.epoch, row.reason) == (
        Status.BLOCKED,
        None,
        held.epoch + 1,
        "drift: it moved",
    )
    assert json.loads(bench.log(held.key)[-1].payload or b"") == {"code": "drift", "reason": "drift: it moved"}
    assert claimed(bench, bench.worker(build="newest")) == []


@case
def a_worker_whose_lease_has_ended_is_no_build_that_is_left(bench: Bench) -> None:
    held, frozen = bench.hold(worker=bench.worker(build="old")), bench.worker(build="new")
    assert bench.store.renew(frozen, 0, 2)
    assert refuse(bench, held, "old") == [Kind.DRIFT_FOUND, Kind.RUN_BLOCKED]


@case
def a_run_that_all_builds_refuse_is_blocked_with_the_names_of_all(bench: Bench) -> None:
    held, new = refused_by_old(bench)
    again = bench.retake(held.key, new)
    assert refuse(bench, again, "new") == [Kind.DRIFT_FOUND, Kind.RUN_BLOCKED]
    reason = bench.row(held.key).reason or ""
    assert reason.startswith("drift: it moved")
    assert "new, old" in reason


@case
def every_build_is_asked_once(bench: Bench) -> None:
    workers = {name: bench.worker(build=name) for name in ("a", "b", "c", "d")}
    row = bench.create()
    asked: list[str] = []
    while bench.row(row.run_key).status is not Status.BLOCKED:
        name = min(workers.keys() - {*asked})
        assert [claimed(bench, workers[before]) for before in asked] == [[] for _ in asked]
        refuse(bench, bench.retake(row.run_key, workers[name]), name)
        asked.append(name)
    assert asked == ["a", "b", "c", "d"]


@case
def a_refusal_that_is_sent_again_changes_nothing(bench: Bench) -> None:
    held, new = refused_by_old(bench)
    log = bench.log(held.key)
    assert bench.store.refuse_run(held.key, held.epoch, "old", misfit("old")) == log[-2:]
    again = bench.retake(held.key, new)
    assert bench.store.refuse_run(held.key, held.epoch, "old", misfit("old")) == log[-2:]
    blocked = bench.store.refuse_run(again.key, again.epoch, "new", misfit("new"))
    log = bench.log(held.key)
    assert bench.store.refuse_run(again.key, again.epoch, "new", misfit("new")) == blocked == log[-2:]
    assert bench.log(held.key) == log


@case
def who_lost_a_run_refuses_nothing(bench: Bench) -> None:
    held = bench.hold(worker=bench.worker(build="old"))
    bench.store.reclaim(bench.worker(build="new"), [held.worker], cap=5)
    again = bench.retake(held.key, bench.worker(build="new"))
    log = bench.log(held.key)
    assert refuse(bench, held, "old") == []
    assert bench.store.refuse_run(10**9, 1, "old", misfit("old")) == []
    assert bench.log(held.key) == log
    assert bench.row(held.key).worker_key == again.worker


@case
def a_run_whose_cancel_was_asked_for_is_cancelled_rather_than_left(bench: Bench) -> None:
    bench.worker(build="new")
    held = bench.hold(worker=bench.worker(build="old"))
    bench.store.request_cancel(held.key, "enough")
    assert refuse(bench, held, "old") == [Kind.DRIFT_FOUND, Kind.RUN_CANCELLED]
    assert (bench.row(held.key).status, bench.row(held.key).reason) == (Status.CANCELLED, "enough")


@case
def a_refused_run_is_cancelled_by_a_build_that_has_not_refused_it(bench: Bench) -> None:
    held, new = refused_by_old(bench)
    assert bench.store.request_cancel(held.key, "enough") is Status.RUNNING
    assert bench.row(held.key).inbox == 1
    assert bench.store.urgent([ROUTE], 10) == [held.key]
    assert claimed(bench, held.worker) == []
    bench.store.retire_worker(new)
    assert bench.store.request_cancel(held.key, "enough") is Status.CANCELLED


@case
def a_refusal_is_remembered_until_the_run_is_resumed(bench: Bench) -> None:
    held, new = refused_by_old(bench)
    again = bench.retake(held.key, new)
    again.commit(again.suspend(wake_at=0))
    assert claimed(bench, held.worker) == []
    again = bench.retake(held.key, new)
    again.commit(again.end(Status.FAILED))
    bench.resume(held.key)
    assert claimed(bench, held.worker) == [held.key]


@case
def refusals_concern_their_run_only(bench: Bench) -> None:
    held, _ = refused_by_old(bench)
    other = bench.create("other").run_key
    assert claimed(bench, held.worker) == [other]


@case
def a_refused_suspect_is_not_given_to_who_refused_it(bench: Bench) -> None:
    row = bench.create()
    for _ in range(2):
        bench.store.reclaim(bench.worker(), [bench.retake(row.run_key).worker], cap=5)
    new = bench.worker(build="new")
    held = bench.retake(row.run_key, bench.worker(build="old"))
    refuse(bench, held, "old")
    assert bench.row(row.run_key).crashes > 1
    assert claimed(bench, held.worker) == []
    assert claimed(bench, new) == [row.run_key]


@case
def a_run_is_blocked_when_the_last_build_it_was_left_to_is_gone(bench: Bench) -> None:
    held, new = refused_by_old(bench)
    assert bench.store.block_stranded([held.key]) == []
    bench.store.retire_worker(new)
    assert bench.store.block_stranded([]) == [held.key]
    assert bench.row(held.key).status is Status.RUNNING
    assert bench.store.block_stranded([held.key]) == []
    row = bench.row(held.key)
    assert (row.status, row.reason) == (Status.BLOCKED, "drift: it moved")
    assert bench.kinds(held.key)[-1] is Kind.RUN_BLOCKED
    log = bench.log(held.key)
    assert bench.store.block_stranded([held.key]) == []
    assert bench.log(held.key) == log


@case
def of_stranded_runs_those_seen_before_are_blocked(bench: Bench) -> None:
    new = bench.worker(build="new")
    old = bench.worker(build="old")
    first, second = bench.hold("first", old), bench.hold("second", old)
    for held in (first, second):
        refuse(bench, held, "old")
    bench.store.leave_worker(new)
    assert bench.store.block_stranded([first.key]) == [second.key]
    assert [bench.row(held.key).status for held in (first, second)] == [Status.BLOCKED, Status.RUNNING]


@case
def a_build_that_comes_back_in_time_saves_it(bench: Bench) -> None:
    held, new = refused_by_old(bench)
    bench.store.retire_worker(new)
    seen = bench.store.block_stranded([])
    back = bench.worker(build="new")
    assert bench.store.block_stranded(seen) == []
    assert claimed(bench, back) == [held.key]


@case
def a_run_that_is_held_or_waits_is_not_stranded(bench: Bench) -> None:
    held, new = refused_by_old(bench)
    again = bench.retake(held.key, new)
    bench.store.leave_worker(new)
    assert bench.store.block_stranded([held.key]) == []
    again.commit(again.suspend(wake_at=bench.store.now() + 60 * SECOND))
    assert bench.store.block_stranded([held.key]) == []
    assert bench.row(held.key).status is Status.SLEEPING


@case
def a_run_that_nobody_serves_at_all_is_left_alone(bench: Bench) -> None:
    held, new = refused_by_old(bench)
    for worker in (held.worker, new):
        bench.store.retire_worker(worker)
    bench.worker(build="other", routes=[Route("other")])
    assert bench.store.block_stranded([held.key]) == []
    assert bench.row(held.key).status is Status.RUNNING
    assert claimed(bench, bench.worker(build="new")) == [held.key]


@case
def a_stranded_run_whose_cancel_was_asked_for_is_cancelled(bench: Bench) -> None:
    held, new = refused_by_old(bench)
    bench.retake(held.key, new)
    bench.store.request_cancel(held.key, "enough")
    bench.store.reclaim(held.worker, [new], cap=5)
    assert bench.store.block_stranded([held.key]) == []
    assert (bench.row(held.key).status, bench.row(held.key).reason) == (Status.CANCELLED, "enough")
