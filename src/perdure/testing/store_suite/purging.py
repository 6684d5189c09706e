"""Purging: what is purged and what is kept, that nothing finds it any more, and that nothing of it is left."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

import os
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from perdure.model.forking import Fork
from perdure.model.payloads import note
from perdure.model.purging import EndedPlace, Purgeable
from perdure.model.records import Artifact, CommitItem, Delivery, InboxKind, Kind, Message, Reuse, Status, Verdict
from perdure.store.protocol import Filter
from perdure.testing.store_suite.bench import SECOND, Bench, Holder, case

if TYPE_CHECKING:
    from typing import Any

ENDED = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)
FAR = 1 << 60
LATER = 3600 * SECOND


def all_ended(**changes: Any) -> Purgeable:
    return replace(Purgeable(ENDED, FAR), **changes)


def ended(bench: Bench, run_id: str = "one", status: Status = Status.COMPLETED, **changes: Any) -> Holder:
    held = bench.hold(run_id, **changes)
    held.commit(held.end(status))
    return held


def purge(bench: Bench, what: Purgeable | None = None) -> list[int]:
    """Purge all of a kind; the keys of those that were."""
    what = what or all_ended()
    done: list[int] = []
    after: EndedPlace | None = None
    while True:
        page = bench.store.list_ended(what, after, 2)
        done += bench.store.purge_runs([run.run_key for run in page.runs], what)
        after = page.after
        if after is None:
            return done


def collect(bench: Bench) -> tuple[int, int, int]:
    """Collect all there is, as if time had passed; runs, rows and artifacts."""
    runs = rows = artifacts = 0
    later = bench.store.now() + LATER
    while True:
        pass_ = bench.store.collect_purged(now=later)
        runs, rows, artifacts = runs + pass_.runs, rows + pass_.rows, artifacts + pass_.artifacts
        if not pass_.more:
            return runs, rows, artifacts


def ids(bench: Bench, **where: Any) -> list[str]:
    return [row.run_id for row in bench.store.list_runs(Filter(**where))]


def artifact(data: bytes) -> Artifact:
    return Artifact(sha256(data).digest(), len(data), data)


@case
def only_what_has_ended_is_purged(bench: Bench) -> None:
    worker = bench.worker()
    bench.create("pending")
    bench.create("delayed", delay_until=bench.store.now() + LATER)
    bench.hold("running", worker)
    for name, status in (("sleeping", Status.SLEEPING), ("waiting", Status.WAITING), ("retrying", Status.RETRYING)):
        held = bench.hold(name, worker)
        held.commit(held.suspend(status, wake_at=bench.store.now() + LATER))
    bench.store.pause_run(bench.create("paused").run_key, "rest")
    held = bench.hold("blocked", worker)
    held.commit(held.end(Status.BLOCKED, reason="drift"))
    gone = [ended(bench, status.word, status, worker=worker).key for status in ENDED]
    kept = ["blocked", "paused", "retrying", "waiting", "sleeping", "running", "delayed", "pending"]
    everything = Purgeable(tuple(Status), FAR)
    assert sorted(purge(bench, everything)) == sorted(gone)
    assert bench.store.purge_runs([bench.store.list_runs(Filter())[0].run_key], everything) == []
    assert ids(bench) == kept
    assert purge(bench, everything) == []


@case
def what_is_purged_goes_by_status_age_workflow_and_namespace(bench: Bench) -> None:
    early = ended(bench, "early")
    failed = ended(bench, "failed", Status.FAILED)
    elsewhere = ended(bench, "elsewhere", namespace="other")
    other = ended(bench, "other", workflow="other")
    before = (bench.row(early.key).ended_at or 0) + 1
    assert purge(bench, all_ended(before=before - 1, workflow="greet", statuses=(Status.COMPLETED,))) == []
    assert purge(bench, all_ended(before=before, workflow="greet", statuses=(Status.COMPLETED,))) == [early.key]
    assert purge(bench, all_ended(besides=("greet",))) == [other.key]
    assert purge(bench, all_ended(statuses=(Status.CANCELLED,))) == []
    assert purge(bench, all_ended(namespace="other")) == [elsewhere.key]
    assert ids(bench) == ["failed"]
    assert purge(bench) == [failed.key]


@case
def those_that_ended_first_come_first_and_pages_leave_out_none(bench: Bench) -> None:
    worker = bench.worker()
    held = [bench.hold(f"run-{number}", worker) for number in range(7)]
    order = [3, 0, 6, 1, 5, 2, 4]
    for place, number in enumerate(order):
        one = held[number]
        one.last = one.last._replace(at=one.last.at + place * SECOND)
        one.commit(one.end())
    found: list[int] = []
    after: EndedPlace | None = None
    while True:
        page = bench.store.list_ended(all_ended(), after, 2)
        assert len(page.runs) <= 2
        found += [run.run_key for run in page.runs]
        after = page.after
        if after is None:
            break
    assert found == [held[number].key for number in order]


@case
def nobody_finds_a_purged_run(bench: Bench) -> None:
    store = bench.store
    held = bench.hold(meta=note(tags={"kind": "old"}), idempotency_key="key")
    store.deliver([Message(InboxKind.SIGNAL, held.key, name="go", dedup="d")])
    held.commit(held.end(Status.FAILED))
    assert purge(bench) == [held.key]
    for _ in range(2):  # also when it is collected
        assert (store.get_run("one"), store.get_runs([held.key])) == (None, [])
        for where in ({}, {"tags": (("kind", "old"),)}, {"status": (Status.FAILED,)}, {"workflow": "greet"}):
            assert ids(bench, **where) == []
        told = store.deliver([
            Message(InboxKind.SIGNAL, held.key, name="go"), Message(InboxKind.SIGNAL, run_id="one", name="go"),
            Message(InboxKind.CANCEL, run_id="one", payload=b'{"reason":""}'),
            Message(InboxKind.CHILD_COMPLETED, held.key, name="child"),
        ])  # fmt: skip
        assert told == [Delivery.UNKNOWN] * 4
        assert bench.claim(held.worker) == []
        assert held.commit(held.steps()) == [Verdict.FENCED]
        collect(bench)
    assert bench.log(held.key) == []


@case
def a_purged_id_is_refused_and_not_begun_anew(bench: Bench) -> None:
    store = bench.store
    held = ended(bench, "one", idempotency_key="key")
    origin = ended(bench, "origin", worker=held.worker)
    what = all_ended()
    assert store.purge_runs([held.key], what) == [held.key]
    for _ in range(2):
        tomb = store.get_tombstone("one")
        assert tomb is not None
        assert (tomb.run_id, tomb.idempotency_key, tomb.workflow, tomb.status) == (
            "one",
            "key",
            "greet",
            Status.COMPLETED,
        )
        assert tomb.ended_at <= tomb.purged_at <= store.now()
        made = store.create_runs(
            [bench.new("two"), bench.new("one"), bench.new("three", idempotency_key="key"), bench.new("four")],
            claim_for=held.worker,
        )
        assert [(one.is_new, one.purged) for one in made][1:3] == [(False, tomb)] * 2
        assert [one.row.run_id for one in made] == ["two", "one", "one", "four"]
        assert store.get_run("one") is None
        assert store.get_run("three") is None
        seq = bench.log(origin.key)[0].seq
        made_of = store.fork_run(Fork(origin.key, seq, "one", os.urandom(16), store.now(), b"{}"))
        assert (made_of.is_new, made_of.purged) == (False, tomb)
        assert store.create_runs([bench.new("one", namespace="other")])[0].purged is None
        collect(bench)
    assert sorted(ids(bench)) == ["four", "origin", "two"]


@case
def a_key_that_stands_for_a_run_for_a_while_only_does_so_for_a_purged_one_too(bench: Bench) -> None:
    store = bench.store
    worker = bench.worker()
    for name, reuse, passes in (
        ("age", Reuse(age=LATER), LATER), ("ended", Reuse(ended=True), 0), ("debounced", Reuse(debounce=SECOND), 0),
    ):  # fmt: skip
        held = ended(bench, name, worker=worker, idempotency_key=name)
        assert purge(bench, all_ended()) == [held.key]
        now = store.now() + passes
        again = bench.new(f"{name}-again", idempotency_key=name)
        assert store.create_runs([again], now=now)[0].purged is not None
        if passes:
            assert store.create_runs([again._replace(reuse=reuse)], now=now - LATER)[0].purged is not None
        assert store.create_runs([again._replace(reuse=reuse)], now=now)[0].is_new
        assert store.create_runs([bench.new(name)], now=now)[0].purged is not None
        collect(bench)


@case
def a_child_under_a_purged_id_is_told_as_one_that_is_taken(bench: Bench) -> None:
    ended(bench, "child")
    purge(bench)
    parent = bench.hold("parent")
    child = bench.new("child", parent_key=parent.key)
    item = CommitItem(parent.key, parent.epoch, [parent.event(Kind.CHILD_STARTED, b"{}", "c#1")], children=[child])
    assert parent.commit(item) == [Verdict.APPLIED]
    assert bench.store.get_run("child") is None
    ((_, _, rows),) = bench.store.unread(parent.worker)
    assert [(row.kind, row.name) for row in rows] == [(InboxKind.CHILD_TAKEN, "child")]
    assert b"purged_at" in (rows[0].payload or b"")


@case
def a_child_is_kept_until_its_parent_has_completed_or_gone(bench: Bench) -> None:
    parent = bench.hold("parent")
    child = ended(bench, "child", Status.FAILED, worker=parent.worker, parent_key=parent.key)
    assert purge(bench) == []
    parent.commit(parent.end(Status.FAILED))
    assert purge(bench, all_ended(statuses=(Status.CANCELLED,))) == []
    assert bench.store.purge_runs([child.key], all_ended()) == []
    other = bench.hold("other", parent.worker)
    second = ended(bench, "second", worker=parent.worker, parent_key=other.key)
    other.commit(other.end())
    assert bench.store.purge_runs([second.key], all_ended()) == [second.key]
    assert sorted(purge(bench) + purge(bench)) == sorted([parent.key, child.key, other.key])


@case
def what_goes_on_by_now_is_not_purged(bench: Bench) -> None:
    held = ended(bench, status=Status.FAILED)
    page = bench.store.list_ended(all_ended())
    bench.resume(held.key)
    assert bench.store.purge_runs([run.run_key for run in page.runs], all_ended()) == []
    again = bench.retake(held.key)
    again.commit(again.end())
    assert purge(bench, all_ended(before=bench.row(held.key).ended_at or 0)) == []
    assert purge(bench) == [held.key]
    assert bench.store.purge_runs([held.key], all_ended()) == []


@case
def nothing_of_a_purged_run_is_left(bench: Bench) -> None:
    mine, shared, late = artifact(b"mine" * 99), artifact(b"shared" * 99), artifact(b"late" * 99)
    worker = bench.worker()
    old = bench.hold("old", worker)
    old.commit(old.keep(mine), old.keep(shared))
    young = bench.hold("young", worker)
    young.commit(young.keep(shared))
    bench.store.deliver(
        [Message(InboxKind.SIGNAL, old.key, name="go", payload=late.hash, artifacts=(late,), dedup="x")]
    )
    old.commit(old.steps(3), old.end(Status.FAILED))
    events = len(bench.log(old.key))
    purge(bench)
    assert bench.store.get_artifact(mine.hash) == mine.data
    assert collect(bench) == (1, events + 1, 2)
    assert bench.log(old.key) == []
    assert [bench.store.get_artifact(one.hash) for one in (mine, shared, late)] == [None, shared.data, None]
    assert collect(bench) == (0, 0, 0)
    young.commit(young.end())
    purge(bench)
    assert collect(bench)[2] == 1
    assert bench.store.get_artifact(shared.hash) is None
    again = bench.hold("again", worker)
    again.commit(again.keep(mine))
    assert bench.store.get_artifact(mine.hash) == mine.data


@case
def a_long_log_is_deleted_piece_by_piece_from_its_end(bench: Bench) -> None:
    held = bench.hold()
    held.commit(held.steps(2500))
    held.commit(held.end())
    whole = bench.log(held.key)
    purge(bench)
    lengths: list[int] = []
    other = bench.open()  # whoever deletes may have another one go on
    while True:
        found = (bench.store if len(lengths) % 2 else other).collect_purged(now=bench.store.now() + LATER)
        assert found.rows <= 1000
        lengths.append(len(bench.log(held.key)))
        assert bench.log(held.key) == whole[: lengths[-1]]
        if not found.more:
            break
    assert lengths == [1503, 503, 0]


@case
def tombstones_are_forgotten_once_they_are_old_enough_and_alone(bench: Bench) -> None:
    ended(bench)
    purge(bench)
    tomb = bench.store.get_tombstone("one")
    assert tomb is not None
    assert bench.store.forget_purged("", FAR) == 0
    collect(bench)
    assert bench.store.forget_purged("other", FAR) == 0
    assert bench.store.forget_purged("", tomb.purged_at) == 0
    assert bench.store.create_runs([bench.new()])[0].purged == tomb
    assert bench.store.forget_purged("", tomb.purged_at + 1) == 1
    assert bench.store.get_tombstone("one") is None
    assert bench.store.create_runs([bench.new()])[0].is_new


@case
def a_chore_is_one_holders_until_it_gives_it_back_or_its_time_is_over(bench: Bench) -> None:
    store, other, now = bench.store, bench.open(), bench.store.now()
    assert store.elect("c", 1, 10 * SECOND, now=now)
    assert not other.elect("c", 2, 10 * SECOND, now=now + 9 * SECOND)
    assert other.elect("d", 2, 10 * SECOND, now=now)
    assert store.elect("c", 1, 10 * SECOND, now=now + 9 * SECOND)
    assert not other.elect("c", 2, 10 * SECOND, now=now + 18 * SECOND)
    assert other.elect("c", 2, 10 * SECOND, now=now + 19 * SECOND)
    assert not store.elect("c", 1, 10 * SECOND, now=now + 19 * SECOND)
    assert not store.elect("c", 1, 0, now=now + 19 * SECOND)
    assert other.elect("c", 2, 0, now=now + 19 * SECOND)
    assert store.elect("c", 1, 10 * SECOND, now=now + 19 * SECOND)
    # A clock that was set back by a day does not leave it to nobody for a day.
    assert other.elect("c", 2, 10 * SECOND, now=now - 24 * LATER)
