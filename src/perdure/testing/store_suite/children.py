"""Children and successors: runs that are made by the commit of another one."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from perdure.model.records import Artifact, Claim, Delivery, InboxKind, Kind, Message, Status, Successor, Verdict
from perdure.store.protocol import Filter, Route
from perdure.testing.store_suite.bench import ROUTE, SECOND, Bench, Holder, case
from perdure.testing.store_suite.concurrency import at_once
from perdure.testing.store_suite.messaging import inbox, signal

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.model.records import NewRun

APPLIED, ALREADY, BAD = Verdict.APPLIED, Verdict.ALREADY, Verdict.BAD


def child(bench: Bench, parent: Holder, run_id: str = "child", **changes: Any) -> NewRun:
    """A child to create."""
    return bench.new(run_id, **{"parent_key": parent.key, **changes})


@case
def children_are_created_with_the_events_that_start_them(bench: Bench) -> None:
    parent = bench.hold()
    data = b"c" * 100_000
    artifact = Artifact(sha256(data).digest(), len(data), data)
    late = bench.store.now() + 3600 * SECOND
    item = parent.steps(children=[
        child(bench, parent, "a"), child(bench, parent, "b", workflow="other", version="2", queue="slow"),
        child(bench, parent, "c", delay_until=late), child(bench, parent, "d", artifacts=(artifact,)),
        child(bench, parent, "e", parent_key=None),
    ])  # fmt: skip
    assert parent.commit(item) == [APPLIED]
    a, b, c, d, e = (bench.store.get_run(run_id) for run_id in "abcde")
    assert a is not None
    assert b is not None
    assert c is not None
    assert d is not None
    assert e is not None
    assert [row.parent_key for row in (a, b, c, d, e)] == [parent.key] * 4 + [None]
    assert (a.status, a.worker_key, a.epoch) == (Status.PENDING, None, 0)
    assert (b.workflow, b.version, b.queue, c.wake_at) == ("other", "2", "slow", late)
    assert bench.kinds(a.run_key) == [Kind.RUN_CREATED]
    assert bench.store.get_artifact(artifact.hash) == data
    worker = bench.worker()
    assert {claim.row.run_id for claim in bench.claim(worker)} == {"a", "d", "e"}
    assert [claim.row.run_id for claim in bench.store.claim_runs(worker, [Route("other", "2", "slow")], 9)] == ["b"]


@case
def children_are_created_once_and_only_with_the_events(bench: Bench) -> None:
    parent, broken = bench.hold(), bench.hold("broken")
    item = parent.steps(children=[child(bench, parent)])
    assert parent.commit(item) == [APPLIED]
    assert parent.commit(item) == [ALREADY]
    no_bytes: Any = {"no": "bytes"}
    bad = broken.steps(children=[child(bench, broken, "two"), child(bench, broken, "three", payload=no_bytes)])
    good = parent.steps(children=[child(bench, parent, "four")])
    assert bench.store.commit([bad, good]) == [BAD, APPLIED]
    assert len(bench.log(broken.key)) == 2
    assert [row.run_id for row in bench.store.list_runs(Filter(parent=parent.key))] == ["four", "child"]
    assert bench.store.list_runs(Filter(parent=broken.key)) == []
    bench.store.release(parent.worker, [parent.key])
    assert parent.commit(parent.steps(children=[child(bench, parent, "late")])) == [Verdict.FENCED]
    assert bench.store.get_run("late") is None


@case
def a_parent_is_told_that_the_id_of_a_child_is_taken(bench: Bench) -> None:
    parent, stranger = bench.hold(), bench.create("taken")
    item = parent.suspend(Status.WAITING, children=[child(bench, parent, "taken"), child(bench, parent, "free")])
    assert parent.commit(item) == [APPLIED]
    assert bench.row(stranger.run_key) == stranger
    assert [row.run_id for row in bench.store.list_runs(Filter(parent=parent.key))] == ["free"]
    again = bench.retake(parent.key)
    assert [(row.kind, row.name) for row in inbox(bench, again)] == [(InboxKind.CHILD_TAKEN, "taken")]


@case
def who_has_no_parent_is_found_and_nobody_is_told(bench: Bench) -> None:
    parent, stranger = bench.hold(), bench.create("taken", idempotency_key="key")
    news = [
        child(bench, parent, "taken", parent_key=None),
        child(bench, parent, "other", parent_key=None, idempotency_key="key"),
    ]
    assert parent.commit(parent.steps(children=news)) == [APPLIED]
    assert inbox(bench, parent) == []
    assert bench.store.get_run("other") is None
    assert bench.row(stranger.run_key) == stranger


@case
def a_child_that_is_there_already_is_its_parents(bench: Bench) -> None:
    parent = bench.hold()
    new = child(bench, parent)
    assert parent.commit(parent.steps(children=[new])) == [APPLIED]
    assert parent.commit(parent.steps(children=[new])) == [APPLIED]
    assert inbox(bench, parent) == []
    assert len(bench.store.list_runs(Filter(parent=parent.key))) == 1


@case
def of_two_children_under_one_id_the_first_is_created(bench: Bench) -> None:
    parent = bench.hold()
    pair = [child(bench, parent), child(bench, parent)]
    assert parent.commit(parent.steps(children=pair)) == [APPLIED]
    (row,) = bench.store.list_runs(Filter(parent=parent.key))
    assert row.uid == pair[0].uid
    assert [row.kind for row in inbox(bench, parent)] == [InboxKind.CHILD_TAKEN]


@case
def an_id_that_two_parents_want_at_once_goes_to_one_of_them(bench: Bench) -> None:
    stores = [bench.store, bench.open(), bench.open()]
    parents = [bench.hold(f"parent-{number}") for number in range(3)]
    items = [
        parent.suspend(Status.WAITING, children=[child(bench, parent, run_id) for run_id in ids])
        for parent, ids in zip(parents, ("abc", "cba", "bca"), strict=True)
    ]
    verdicts = at_once([partial(store.commit, [item]) for store, item in zip(stores, items, strict=True)])
    assert verdicts == [[APPLIED]] * 3
    rows = [bench.store.get_run(run_id) for run_id in "abc"]
    for parent in parents:
        own = {row.run_id for row in rows if row is not None and row.parent_key == parent.key}
        told = {row.name for row in inbox(bench, bench.retake(parent.key))} if len(own) < 3 else set()
        assert own | told == {"a", "b", "c"}
        assert not own & told


@case
def children_are_listed_newest_first_in_pages(bench: Bench) -> None:
    parent, other = bench.hold(), bench.hold("other")
    parent.commit(parent.steps(children=[child(bench, parent, f"child-{number}") for number in range(7)]))
    other.commit(other.steps(children=[child(bench, other, "foreign", workflow="other")]))
    found: list[str] = []
    where = Filter(parent=parent.key, limit=3)
    while page := bench.store.list_runs(where):
        found += [row.run_id for row in page]
        where = replace(where, after=where.place(page[-1]))
    assert found == [f"child-{number}" for number in reversed(range(7))]
    first = bench.store.get_run("child-0")
    assert first is not None
    done = bench.retake(first.run_key)
    done.commit(done.end())

    def listed(**where: Any) -> int:
        return len(bench.store.list_runs(Filter(parent=parent.key, **where)))

    assert listed(status=(Status.PENDING,)) == 6
    assert listed(status=(Status.COMPLETED, Status.FAILED)) == 1
    assert listed(status=()) == listed(workflow="other") == listed(namespace="n") == 0
    assert listed(workflow="greet", status=(Status.PENDING,), limit=4) == 4


@case
def a_parent_is_told_when_a_child_is_cancelled_from_outside(bench: Bench) -> None:
    parent = bench.hold()
    children = [child(bench, parent, "pending"), child(bench, parent, "other")]
    parent.commit(parent.suspend(Status.WAITING, children=children))
    one = bench.store.get_run("pending")
    assert one is not None
    assert bench.store.request_cancel(one.run_key, "enough") is Status.CANCELLED
    assert bench.store.request_cancel(one.run_key, "again") is Status.CANCELLED
    again = bench.retake(parent.key)
    (row,) = inbox(bench, again)
    assert (row.kind, row.name, json.loads(row.payload or b"")) == (
        InboxKind.CHILD_CANCELLED, "pending", {"reason": "enough"},
    )  # fmt: skip


@case
def a_parent_is_told_when_the_store_ends_a_child_that_was_to_be_cancelled(bench: Bench) -> None:
    parent = bench.hold("parent", bench.worker(routes=()))
    refused = bench.hold("refused", bench.worker(build="old"), parent_key=parent.key)
    bench.store.request_cancel(refused.key, "enough")
    bench.store.refuse_run(refused.key, refused.epoch, "old", b'{"code":"drift","reason":"drift"}')
    poisoned = bench.hold("poisoned", parent_key=parent.key)
    bench.store.request_cancel(poisoned.key, "enough")
    bench.store.reclaim(parent.worker, [poisoned.worker], cap=1)
    for held in (refused, poisoned):
        assert bench.row(held.key).status is Status.CANCELLED
    assert [(row.kind, row.name) for row in inbox(bench, parent)] == [
        (InboxKind.CHILD_CANCELLED, "refused"), (InboxKind.CHILD_CANCELLED, "poisoned"),
    ]  # fmt: skip


@case
def a_parent_is_not_told_of_a_child_that_is_blocked_or_paused(bench: Bench) -> None:
    parent = bench.hold()
    blocked = bench.create("blocked", parent_key=parent.key)
    paused = bench.create("paused", parent_key=parent.key)
    assert bench.store.block_run(blocked.run_key, 0, b"{}", "drift")
    assert bench.store.pause_run(paused.run_key, "lunch") is Status.PAUSED
    assert inbox(bench, parent) == []


@case
def the_end_of_a_child_reaches_its_parent_in_the_same_commit(bench: Bench) -> None:
    worker = bench.worker()
    parent = bench.hold("parent", worker)
    parent.commit(parent.suspend(Status.WAITING, children=[child(bench, parent, f"c-{n}") for n in range(5)]))
    ended = [Holder(bench.store, worker, claim) for claim in bench.claim(worker)]
    assert len(ended) == 5
    batch = [
        held.end(sends=[Message(InboxKind.CHILD_COMPLETED, parent.key, name=f"c-{n}", payload=b"%d" % n)])
        for n, held in enumerate(ended)
    ]
    assert bench.store.commit(batch) == [APPLIED] * 5
    assert bench.store.commit(batch) == [ALREADY] * 5
    again = bench.retake(parent.key, worker)
    assert [(row.name, row.payload) for row in inbox(bench, again)] == [(f"c-{n}", b"%d" % n) for n in range(5)]


@case
def children_that_end_at_once_are_all_heard(bench: Bench) -> None:
    stores = [bench.store, bench.open(), bench.open(), bench.open()]
    for number in range(5):
        parent = bench.hold(f"parent-{number}")
        held = [bench.hold(f"child-{number}-{n}", parent_key=parent.key) for n in range(3)]
        calls: list[Callable[[], Any]] = [
            partial(
                store.commit, [one.end(sends=[Message(InboxKind.CHILD_COMPLETED, parent.key, name=f"c-{one.key}")])]
            )
            for store, one in zip(stores[1:], held, strict=True)
        ]
        calls.append(partial(stores[0].commit, [parent.suspend(Status.WAITING, inbox_seen=0)]))
        *_, (suspended,) = at_once(calls)
        if suspended is APPLIED:
            parent = bench.retake(parent.key)
        assert len(inbox(bench, parent)) == bench.row(parent.key).inbox == 3


@case
def a_cancel_of_parent_and_child_at_once_comes_to_an_end(bench: Bench) -> None:
    other = bench.open()
    for number in range(10):
        parent = bench.hold(f"parent-{number}")
        row = bench.create(f"child-{number}", parent_key=parent.key)
        cancel = Message(InboxKind.CANCEL, row.run_key, payload=b'{"reason":"parent"}')
        both: list[Callable[[], Any]] = [
            partial(parent.commit, parent.steps(sends=[cancel])), partial(other.request_cancel, row.run_key, "enough"),
        ]  # fmt: skip
        assert at_once(both) == [[APPLIED], Status.CANCELLED]
        assert [row.kind for row in inbox(bench, parent)] == [InboxKind.CHILD_CANCELLED]


# -- successors


def successor(bench: Bench, held: Holder, run_id: str = "one", **changes: Any) -> tuple[NewRun, Any]:
    """A run's successor, and the item that ends the run with it."""
    new = bench.new(run_id, payload=b'"next"', **changes)
    return new, held.end(successor=Successor(new, f"{run_id}@{held.key}"), inbox_seen=bench.row(held.key).inbox)


@case
def a_successor_goes_on_under_the_runs_id(bench: Bench) -> None:
    parent = bench.hold("parent")
    held = bench.hold(parent_key=parent.key, idempotency_key="key")
    new, item = successor(bench, held, workflow="greet", version="2")
    assert held.commit(item) == [APPLIED]
    assert held.commit(item) == [ALREADY]
    old, row = bench.row(held.key), bench.store.get_run("one")
    assert (old.run_id, old.status, old.idempotency_key, old.parent_key) == (
        f"one@{held.key}", Status.COMPLETED, None, None,
    )  # fmt: skip
    assert row is not None
    assert (row.uid, row.status, row.version, row.parent_key, row.idempotency_key, row.inbox) == (
        new.uid, Status.PENDING, "2", parent.key, "key", 0,
    )  # fmt: skip
    assert bench.kinds(row.run_key) == [Kind.RUN_CREATED]
    assert bench.store.create_runs([bench.new("two", idempotency_key="key")])[0].row == row
    assert [row.uid for row in bench.store.list_runs(Filter(parent=parent.key))] == [new.uid]


@case
def a_successor_takes_the_inbox_over(bench: Bench) -> None:
    held = bench.hold()
    data = b"s" * 100_000
    artifact = Artifact(sha256(data).digest(), len(data), data)
    bench.store.deliver([
        signal(held.key, "taken", dedup="a"), signal(held.key, "first", dedup="b"),
        signal(held.key, "large", payload=artifact.hash, codec=1, artifacts=(artifact,)),
        Message(InboxKind.CHILD_FAILED, held.key, name="child"), signal(held.key, "eaten"),
    ])  # fmt: skip
    bench.store.request_cancel(held.key, "enough")
    taken = [row.inbox_key for row in inbox(bench, held) if row.name in ("taken", "eaten")]
    assert held.commit(held.steps(take=taken)) == [APPLIED]
    _, item = successor(bench, held)
    assert held.commit(item) == [APPLIED]
    row = bench.store.get_run("one")
    assert row is not None
    assert row.inbox == 5
    again = bench.retake(row.run_key)
    assert [(row.kind, row.name) for row in inbox(bench, again)] == [
        (InboxKind.SIGNAL, "first"), (InboxKind.SIGNAL, "large"), (InboxKind.CHILD_FAILED, "child"),
        (InboxKind.CANCEL, None),
    ]  # fmt: skip
    to_new = signal(None, run_id="one")
    told = bench.store.deliver([to_new._replace(name="taken", dedup="a"), to_new._replace(name="first", dedup="b")])
    assert told == [Delivery.DUPLICATE] * 2
    assert bench.store.deliver([to_new, signal(held.key)]) == [Delivery.DELIVERED, Delivery.ENDED]


@case
def a_successor_that_cannot_be_changes_nothing(bench: Bench) -> None:
    bench.create("taken", idempotency_key="key")
    wrong = [
        bench.new("other"), bench.new("one", namespace="n"), bench.new("one", idempotency_key="key"),
    ]  # fmt: skip
    held = bench.hold()
    bench.store.deliver([signal(held.key)])
    for new in wrong:
        again = Holder(bench.store, held.worker, _as_held(bench, held))
        assert again.commit(again.end(successor=Successor(new, "renamed"))) == [BAD]
    again = Holder(bench.store, held.worker, _as_held(bench, held))
    assert again.commit(again.end(successor=Successor(bench.new("one"), "taken"))) == [BAD]
    assert bench.row(held.key).run_id == "one"
    assert len(inbox(bench, held)) == 1
    assert len(bench.log(held.key)) == 2


def _as_held(bench: Bench, held: Holder) -> Claim:
    """The claim of a run that has written nothing since."""
    return Claim(bench.row(held.key), bench.log(held.key))


@case
def a_signal_to_a_run_that_goes_on_reaches_one_of_the_two(bench: Bench) -> None:
    other = bench.open()
    for number in range(10):
        run_id = f"run-{number}"
        held = bench.hold(run_id)
        _, item = successor(bench, held, run_id)
        by_id = signal(None, run_id=run_id)
        both: list[Callable[[], Any]] = [partial(held.commit, item), partial(other.deliver, [by_id])]
        (verdict,), told = at_once(both)
        assert told == [Delivery.DELIVERED]
        row = bench.store.get_run(run_id)
        assert row is not None
        assert row.inbox == 1
        assert (row.run_key == held.key) is (verdict is Verdict.STALE)
        assert bench.store.urgent([ROUTE], 1) == []
