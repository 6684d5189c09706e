"""Taking runs from dead workers: who is counted a crash, who is suspected, who is blocked."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

from perdure.model.records import CommitItem, Kind, Status, Verdict
from perdure.testing.store_suite.bench import ROUTE, Bench, Holder, case

CAP = 5


def crash(bench: Bench, worker: int, cap: int = CAP) -> dict[int, bool]:
    """Declare a worker dead; what became of its runs, by key: blocked or not."""
    done = bench.store.reclaim(bench.worker(), [worker], cap=cap)
    return {reclaimed.run_key: reclaimed.blocked for reclaimed in done}


def started(held: Holder) -> CommitItem:
    """A step that has started is no progress: it may be what kills."""
    return CommitItem(held.key, held.epoch, [held.event(Kind.STEP_STARTED, key="greet/say#1")])


def hold_all(bench: Bench, *run_keys: int) -> dict[int, Holder]:
    """One new worker claims runs."""
    worker = bench.worker()
    return {key: bench.retake(key, worker) for key in run_keys}


def make_suspect(bench: Bench, run_id: str) -> int:
    """A run that has crashed twice by itself."""
    row = bench.create(run_id)
    for _ in range(2):
        crash(bench, bench.retake(row.run_key).worker)
    assert bench.row(row.run_key).crashes == 2
    return row.run_key


@case
def a_dead_workers_run_is_claimable_at_once_under_a_new_epoch(bench: Bench) -> None:
    held = bench.hold()
    assert crash(bench, held.worker) == {held.key: False}
    row = bench.row(held.key)
    assert (row.status, row.worker_key, row.epoch, row.crashes) == (Status.RUNNING, None, held.epoch + 1, 1)
    last = bench.log(held.key)[-1]
    assert (last.kind, last.epoch) == (Kind.RUN_RECLAIMED, row.epoch)
    assert held.commit(held.steps()) == [Verdict.FENCED]
    assert bench.retake(held.key).epoch == held.epoch + 2


@case
def who_shows_life_after_it_was_taken_for_dead_keeps_its_runs(bench: Bench) -> None:
    held = bench.hold()
    observer = bench.worker()
    bench.store.dead_workers(observer, grace=1)  # whatever it judges, this is what it has seen
    assert bench.store.renew(held.worker, 10**9, 77)
    bench.store.dead_workers(0, grace=1)  # what others see changes nothing
    assert bench.store.reclaim(observer, [held.worker], cap=CAP) == []
    assert held.commit(held.steps()) == [Verdict.APPLIED]
    bench.store.dead_workers(observer, grace=1)
    assert [taken.run_key for taken in bench.store.reclaim(observer, [held.worker], cap=CAP)] == [held.key]


@case
def a_worker_that_is_registered_is_not_in_doubt(bench: Bench) -> None:
    worker = bench.worker()
    assert not bench.store.doubtful(worker)
    assert bench.store.renew(worker, 10**9, 1)
    assert not bench.store.doubtful(worker)


@case
def a_reclaim_that_finds_nothing_does_nothing(bench: Bench) -> None:
    held = bench.hold()
    observer = bench.worker()
    assert bench.store.reclaim(observer, [], cap=CAP) == []
    assert bench.store.reclaim(observer, [12345], cap=CAP) == []
    assert bench.store.reclaim(held.worker, [held.worker], cap=CAP) == []
    assert crash(bench, held.worker) == {held.key: False}
    log = bench.log(held.key)
    assert crash(bench, held.worker) == {}
    assert bench.log(held.key) == log


@case
def who_was_declared_dead_is_so_for_good(bench: Bench) -> None:
    held = bench.hold()
    crash(bench, held.worker)
    assert not bench.store.renew(held.worker, 60_000_000, 2)
    assert bench.claim(held.worker) == []
    assert held.worker not in [worker.worker_key for worker in bench.store.list_workers()]


@case
def only_runs_of_the_dead_are_taken(bench: Bench) -> None:
    dead, alive = bench.hold("dead"), bench.hold("alive")
    waiting = bench.hold("waiting", dead.worker)
    waiting.commit(waiting.suspend(Status.WAITING))
    assert crash(bench, dead.worker) == {dead.key: False}
    assert alive.commit(alive.steps()) == [Verdict.APPLIED]


@case
def crashes_without_progress_are_counted_until_the_run_is_blocked(bench: Bench) -> None:
    row = bench.create()
    for number in range(1, CAP):
        held = bench.retake(row.run_key)
        held.commit(started(held))
        assert crash(bench, held.worker) == {row.run_key: False}
        assert bench.row(row.run_key).crashes == number
    assert crash(bench, bench.retake(row.run_key).worker) == {row.run_key: True}
    blocked = bench.row(row.run_key)
    assert (blocked.status, blocked.crashes, blocked.worker_key) == (Status.BLOCKED, CAP, None)
    assert blocked.reason is not None
    assert bench.kinds(row.run_key)[-2:] == [Kind.RUN_RECLAIMED, Kind.RUN_BLOCKED]
    assert bench.claim(bench.worker()) == []
    assert bench.resume(row.run_key).crashes == 0


@case
def what_a_step_reports_and_emits_before_it_ends_is_no_progress(bench: Bench) -> None:
    """Else a step that says something and then kills its worker would do so for ever."""
    row = bench.create()
    for number in range(1, 3):
        held = bench.retake(row.run_key)
        held.commit(started(held))
        for kind in (Kind.PROGRESS, Kind.EMITTED):
            said = CommitItem(held.key, held.epoch, [held.event(kind, key="greet/say#1")])
            assert held.commit(said) == [Verdict.APPLIED]
        crash(bench, held.worker)
        assert bench.row(row.run_key).crashes == number


@case
def progress_wipes_the_count(bench: Bench) -> None:
    row = bench.create()
    for _ in range(2):
        crash(bench, bench.retake(row.run_key).worker)
    held = bench.retake(row.run_key)
    held.commit(held.steps())
    crash(bench, held.worker)
    assert bench.row(row.run_key).crashes == 0
    crash(bench, bench.retake(row.run_key).worker)
    assert bench.row(row.run_key).crashes == 1


@case
def a_run_that_came_to_rest_is_no_suspect(bench: Bench) -> None:
    key = make_suspect(bench, "one")
    held = bench.retake(key)
    held.commit(held.suspend(wake_at=0))
    assert bench.row(key).crashes == 0


@case
def a_worker_is_given_one_suspect_at_a_time(bench: Bench) -> None:
    suspects = {make_suspect(bench, run_id) for run_id in ("a", "b")}
    innocent = bench.create("c").run_key
    worker = bench.worker()
    claims = [claim.row.run_key for claim in bench.claim(worker)]
    assert len(claims) == 2
    assert innocent in claims
    (held,) = suspects & set(claims)
    (other,) = suspects - {held}
    assert bench.claim(worker) == []
    assert bench.claim(worker, only=other) == []
    assert bench.store.next_due([ROUTE], worker_key=worker).is_limited
    assert {worker.worker_key: worker.suspect for worker in bench.store.list_workers()}[worker] == held
    assert [claim.row.run_key for claim in bench.claim(bench.worker())] == [other]
    assert not bench.store.next_due([ROUTE], worker_key=worker).is_limited


@case
def a_crash_is_laid_to_the_suspect_and_not_to_its_neighbours(bench: Bench) -> None:
    suspect = make_suspect(bench, "suspect")
    innocent, busy = bench.create("innocent").run_key, bench.create("busy").run_key
    for count in (3, 4):
        held = hold_all(bench, suspect, innocent, busy)
        held[busy].commit(held[busy].steps())
        crash(bench, held[suspect].worker)
        assert [bench.row(key).crashes for key in (suspect, innocent, busy)] == [count, 0, 0]
    held = hold_all(bench, suspect, innocent)
    assert crash(bench, held[suspect].worker) == {suspect: True, innocent: False}
    assert bench.row(innocent).crashes == 0


@case
def before_anyone_is_suspected_all_are_counted(bench: Bench) -> None:
    keys = [bench.create(run_id).run_key for run_id in ("a", "b")]
    held = hold_all(bench, *keys)
    crash(bench, held[keys[0]].worker)
    assert [bench.row(key).crashes for key in keys] == [1, 1]


@case
def a_suspect_that_made_progress_shields_nobody(bench: Bench) -> None:
    suspect, other = make_suspect(bench, "suspect"), bench.create("other").run_key
    held = hold_all(bench, suspect, other)
    held[suspect].commit(held[suspect].steps())
    crash(bench, held[suspect].worker)
    assert (bench.row(suspect).crashes, bench.row(other).crashes) == (0, 1)


@case
def what_a_retired_worker_left_is_taken_and_no_crash_is_counted(bench: Bench) -> None:
    held = bench.hold()
    bench.store.retire_worker(held.worker)
    assert crash(bench, held.worker, cap=1) == {held.key: False}
    assert bench.row(held.key).crashes == 0
    assert bench.claim(bench.worker())[0].row.run_key == held.key


@case
def a_run_whose_cancel_was_asked_for_is_cancelled_rather_than_blocked(bench: Bench) -> None:
    held = bench.hold()
    bench.store.request_cancel(held.key, "enough")
    assert crash(bench, held.worker, cap=1) == {held.key: False}
    row = bench.row(held.key)
    assert (row.status, row.reason) == (Status.CANCELLED, "enough")


@case
def a_cancel_survives_the_worker_it_was_asked_of(bench: Bench) -> None:
    held = bench.hold()
    bench.store.request_cancel(held.key, "enough")
    crash(bench, held.worker)
    successor = bench.retake(held.key)
    ((run_key, _, requests),) = bench.store.unread(successor.worker)
    assert (run_key, len(requests)) == (held.key, 1)
