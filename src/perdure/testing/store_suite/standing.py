"""Where runs stand, and what shows that workers live: for whoever asks why a run does not go on."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

import json

from perdure.model.records import InboxKind, Message, Status
from perdure.model.standing import News
from perdure.store.protocol import Route
from perdure.testing.store_suite.bench import ROUTE, SECOND, Bench, case


@case
def a_run_stands_behind_those_of_its_queue_that_come_first(bench: Bench) -> None:
    first = bench.store.now() - SECOND
    for number, run_id in enumerate("abc"):
        bench.create(run_id, queue="slow", workflow="greet" if number else "other", created_at=first + number)
    bench.create("elsewhere", created_at=first)
    row = bench.create("last", queue="slow", created_at=first + 9)
    standing = bench.store.standing(row.run_key)
    assert standing is not None
    assert (standing.claimable, standing.new, standing.ahead) == (True, True, 3)
    assert (standing.refused, standing.awaits, standing.news, standing.partition_held) == ((), None, (), 0)
    assert bench.store.standing(row.run_key + 1000) is None


@case
def what_a_run_waits_for_and_what_lies_unread_is_told_without_what_it_says(bench: Bench) -> None:
    holder = bench.hold()
    bench.store.commit([holder.suspend(Status.WAITING, awaits=["a", "b"])])
    for name in ("c", "c", "d"):
        bench.store.deliver([Message(InboxKind.SIGNAL, holder.key, name=name, payload=b'"secret"')])
    standing = bench.store.standing(holder.key)
    assert standing is not None
    assert (standing.claimable, standing.new, standing.awaits) == (False, False, ("a", "b"))
    assert [(news.kind, news.name, news.times) for news in standing.news] == [
        (InboxKind.SIGNAL, "c", 2),
        (InboxKind.SIGNAL, "d", 1),
    ]
    assert all(isinstance(news, News) and news.sent_at for news in standing.news)


@case
def builds_that_have_refused_a_run_are_told(bench: Bench) -> None:
    holder = bench.hold(worker=bench.worker(build="old"))
    bench.worker(build="new")
    payload = json.dumps({"code": "drift", "reason": "drift: moved", "build": "old"}).encode()
    bench.store.refuse_run(holder.key, holder.epoch, "old", payload)
    standing = bench.store.standing(holder.key)
    assert standing is not None
    assert (standing.claimable, standing.refused) == (True, ("old",))


@case
def what_is_held_with_a_partition_key_is_counted_for_those_that_have_it(bench: Bench) -> None:
    slow = Route("greet", queue="slow")
    worker = bench.worker(routes=[ROUTE, slow])
    for run_id, queue, partition in (("a", "slow", "p"), ("b", "slow", "q"), ("c", "", "p")):
        bench.create(run_id, queue=queue, partition=partition)
    assert len(bench.store.claim_runs(worker, [ROUTE, slow], 10)) == 3
    row = bench.create("waits", queue="slow", partition="p")
    standing = bench.store.standing(row.run_key)
    assert standing is not None
    assert standing.partition_held == 1


@case
def a_living_worker_shows_a_lock_or_a_lease_and_one_whose_lease_has_ended_does_not_look_alive(bench: Bench) -> None:
    alive, late = bench.worker(), bench.worker()
    assert bench.store.renew(late, -SECOND, 2)
    now, signs = bench.store.now(), bench.open().signs_of_life()
    assert signs.keys() == {alive, late}
    assert signs[alive].life(now) == "alive"
    assert signs[late].life(now) != "alive"
    leased = signs[alive].leased_until
    assert leased is not None
    assert now + 50 * SECOND < leased < now + 61 * SECOND


@case
def ids_that_begin_like_one_that_is_not_there_are_found_in_every_namespace(bench: Bench) -> None:
    for run_id, namespace in (("order-41", ""), ("order-42", ""), ("other", ""), ("order-4", "b"), ("order", "b")):
        bench.create(run_id, namespace=namespace)
    assert sorted(bench.store.near_ids("order-4")) == [("", "order-41"), ("", "order-42"), ("b", "order-4")]
    assert len(bench.store.near_ids("order-4", 1)) == 2
    assert bench.store.near_ids("nothing") == []
