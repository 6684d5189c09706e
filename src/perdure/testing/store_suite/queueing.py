"""Queues: their limits, counted over claims, whoever claims."""

# ruff: noqa: D103, PLR2004 - a case's name is its law, and its numbers are expectations

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import TYPE_CHECKING

from perdure.model.deeds import KEPT, QUEUE, SCHEDULE
from perdure.model.payloads import fields
from perdure.model.queues import Limits, QueueRow, QueueUsage
from perdure.model.records import Artifact, Reuse, Status
from perdure.store.protocol import Filter, Route
from perdure.testing.store_suite.bench import ROUTE, SECOND, Bench, Holder, case

if TYPE_CHECKING:
    from typing import Any

    from perdure.model.records import Claim, Created, NewRun
    from perdure.store.protocol import Store

SLOW = Route("greet", queue="slow")
OTHER = Route("other", queue="slow")


def _define(bench: Bench, name: str = "slow", *, build: str = "", since: int = 0, **limits: int) -> None:
    bench.store.define_queues([QueueRow(0, "", name, Limits(**limits), build=build, since=since)])


def _enqueue(bench: Bench, *run_ids: str, **changes: Any) -> None:
    first = bench.store.now() - SECOND
    for number, run_id in enumerate(run_ids):
        bench.create(run_id, **({"queue": "slow", "created_at": first + number} | changes))


def _claim(bench: Bench, worker: int, limit: int = 10, store: Store | None = None, **options: Any) -> list[Claim]:
    return (store or bench.store).claim_runs(worker, [ROUTE, SLOW, OTHER], limit, **options)


def _ids(claims: list[Claim]) -> list[str]:
    return [claim.row.run_id for claim in claims]


def _usage(bench: Bench, name: str = "slow", **options: Any) -> QueueUsage:
    (found,) = (one for one in bench.store.list_queues(**options) if one.row.name == name)
    return found


def _end(bench: Bench, worker: int, claim: Claim) -> None:
    bench.store.commit([Holder(bench.store, worker, claim).end()])


@case
def no_more_runs_of_a_queue_are_under_way_than_it_allows(bench: Bench) -> None:
    _define(bench, concurrency=3)
    _enqueue(bench, *"abcde")
    bench.create("elsewhere")
    bench.create("f", workflow="other", queue="slow")
    a, b = bench.worker(), bench.worker(bench.open())
    first = _claim(bench, a, 2)
    assert _ids(first) == ["a", "b"]
    assert sorted(_ids(_claim(bench, b))) == ["c", "elsewhere"]
    assert _claim(bench, a) == []
    assert bench.store.next_due([SLOW], worker_key=a).is_limited
    assert not bench.store.next_due([ROUTE], worker_key=a).is_limited
    _end(bench, a, first[0])
    assert _ids(_claim(bench, b)) == ["d"]
    assert (_usage(bench).held, _usage(bench).ready) == (3, 2)


@case
def a_workers_own_limit_holds_beside_that_of_all(bench: Bench) -> None:
    _define(bench, concurrency=3, per_worker=2)
    _enqueue(bench, *"abcdef")
    a, b = bench.worker(), bench.worker()
    assert _ids(_claim(bench, a)) == ["a", "b"]
    assert _claim(bench, a) == []
    assert _ids(_claim(bench, b)) == ["c"]
    assert _claim(bench, b) == []


@case
def limits_hold_when_many_claim_at_once(bench: Bench) -> None:
    _define(bench, concurrency=7, per_worker=4, per_partition=2)
    for number in range(60):
        _enqueue(bench, f"r{number}", partition=f"p{number % 6}")
    handles = [(store, bench.worker(store)) for store in (bench.open() for _ in range(3))]
    with ThreadPoolExecutor(3) as pool:
        claimed = list(pool.map(lambda one: _claim(bench, one[1], store=one[0]), handles))
    assert sum(map(len, claimed)) == 7
    assert max(map(len, claimed)) <= 4
    keys = [claim.row.partition for claims in claimed for claim in claims]
    assert max(map(keys.count, keys)) <= 2


@case
def partition_keys_come_in_turn_however_much_one_has_enqueued(bench: Bench) -> None:
    _define(bench, per_partition=2, concurrency=4)
    _enqueue(bench, *(f"big-{number}" for number in range(8)), partition="big")
    _enqueue(bench, "mid-0", "mid-1", partition="mid", created_at=bench.store.now())
    _enqueue(bench, "small", partition="small", created_at=bench.store.now())
    worker = bench.worker()
    first = _claim(bench, worker, 3)
    assert _ids(first) == ["big-0", "mid-0", "small"]
    assert _ids(_claim(bench, worker)) == ["big-1"]
    for claim in first:
        _end(bench, worker, claim)
    # "big" was served last, so "mid" is next; then it is the turn of "big" again, which has one under way.
    assert _ids(_claim(bench, worker)) == ["mid-1", "big-2"]
    assert _claim(bench, worker) == []


@case
def runs_without_a_partition_key_are_under_the_other_limits_only(bench: Bench) -> None:
    _define(bench, per_partition=1, concurrency=5)
    _enqueue(bench, "a", "b", "c", partition=None)
    _enqueue(bench, "x", "y", partition="p")
    worker = bench.worker()
    assert sorted(_ids(_claim(bench, worker))) == ["a", "b", "c", "x"]
    assert _claim(bench, worker) == []


@case
def a_slot_comes_free_with_the_claim(bench: Bench) -> None:
    _define(bench, concurrency=1)
    _enqueue(bench, "a", "b")
    dying, next_one = bench.worker(bench.open()), bench.worker()
    (held,) = _claim(bench, dying)
    assert _claim(bench, next_one) == []
    bench.store.reclaim(next_one, [dying], cap=5)
    assert _ids(_claim(bench, next_one)) == [held.row.run_id]
    assert _claim(bench, next_one) == []


@case
def a_run_that_sleeps_takes_no_slot_and_needs_one_to_go_on(bench: Bench) -> None:
    _define(bench, concurrency=1)
    _enqueue(bench, "a", "b")
    worker, now = bench.worker(), bench.store.now()
    (claim,) = _claim(bench, worker)
    bench.store.commit([Holder(bench.store, worker, claim).suspend(Status.SLEEPING, wake_at=now + SECOND)])
    (other,) = _claim(bench, worker)
    assert other.row.run_id == "b"
    assert _claim(bench, worker, now=now + 2 * SECOND) == []
    # Nothing is due of a queue that is full, or whoever looks ahead would look all the time.
    assert bench.store.next_due([SLOW], worker_key=worker).due is None
    _end(bench, worker, other)
    assert bench.store.next_due([SLOW], worker_key=worker).due is not None
    assert _ids(_claim(bench, worker, now=now + 2 * SECOND)) == ["a"]


@case
def in_no_period_do_more_runs_begin_than_a_rate_allows(bench: Bench) -> None:
    period = 10 * SECOND
    _define(bench, starts=3, period=period)
    _enqueue(bench, *"abcdefgh")
    worker, now = bench.worker(), bench.store.now()
    assert _ids(_claim(bench, worker, 1, now=now)) == ["a"]
    assert _ids(_claim(bench, worker, now=now + 9 * SECOND)) == ["b", "c"]
    assert _claim(bench, worker, now=now + period - 1) == []
    opens = bench.store.next_due([SLOW], worker_key=worker, now=now + period - 1)
    assert opens.due == now + period
    assert _ids(_claim(bench, worker, now=now + period)) == ["d"]
    # A bucket of tokens would let three through here, and so five within the last two seconds.
    assert _claim(bench, worker, now=now + 11 * SECOND) == []
    assert _usage(bench, now=now + 11 * SECOND).opens_at == now + 19 * SECOND
    assert _ids(_claim(bench, worker, now=now + 19 * SECOND)) == ["e", "f"]
    assert _usage(bench, now=now + 19 * SECOND).begun == 3


@case
def what_has_begun_before_goes_on_whatever_the_rate(bench: Bench) -> None:
    _define(bench, starts=1, period=1000 * SECOND)
    _enqueue(bench, *"abc")
    worker = bench.worker()
    (claim,) = _claim(bench, worker)
    bench.store.release(worker, [claim.row.run_key])
    assert _ids(_claim(bench, worker)) == ["a"]
    assert _claim(bench, worker) == []


@case
def a_clock_that_is_set_back_stops_no_queue_for_longer_than_a_period(bench: Bench) -> None:
    _define(bench, starts=1, period=10 * SECOND)
    _enqueue(bench, *"abc")
    worker, now = bench.worker(), bench.store.now()
    assert _ids(_claim(bench, worker, now=now + 3600 * SECOND)) == ["a"]
    assert _claim(bench, worker, now=now) == []
    assert _ids(_claim(bench, worker, now=now + 10 * SECOND)) == ["b"]


@case
def a_run_that_is_wanted_waits_for_a_slot_too_but_not_to_be_cancelled(bench: Bench) -> None:
    _define(bench, concurrency=1)
    _enqueue(bench, "a", "b")
    worker = bench.worker(routes=[ROUTE, SLOW])
    (held,) = _claim(bench, worker)
    b = bench.store.get_run("b")
    assert b is not None
    assert _claim(bench, worker, only=b.run_key) == []
    _end(bench, worker, held)
    assert _ids(_claim(bench, worker, only=b.run_key)) == ["b"]
    bench.store.release(worker, [b.run_key])
    _enqueue(bench, "c")
    c = bench.store.get_run("c")
    assert c is not None
    assert _ids(_claim(bench, worker, only=c.run_key)) == ["c"]
    bench.store.request_cancel(b.run_key, "enough")
    assert bench.store.urgent([SLOW], 10) == [b.run_key]
    assert _ids(_claim(bench, worker, only=b.run_key)) == ["b"]


@case
def what_is_created_for_a_worker_waits_in_its_queue_like_all_else(bench: Bench) -> None:
    _define(bench, concurrency=5)
    worker = bench.worker()
    new = [bench.new("a", queue="slow"), bench.new("b")]
    limited, free = bench.store.create_runs(new, claim_for=worker)
    assert limited.claim is None
    assert limited.row.status is Status.PENDING
    assert free.claim is not None
    assert _ids(_claim(bench, worker)) == ["a"]


@case
def nothing_is_claimed_from_a_queue_that_is_paused(bench: Bench) -> None:
    _enqueue(bench, "a")
    assert bench.store.pause_queue("slow", paused=True)
    assert not bench.store.pause_queue("slow", paused=True)
    _define(bench, concurrency=5)
    worker = bench.worker()
    assert _claim(bench, worker) == []
    assert _usage(bench).row.paused
    assert bench.store.pause_queue("slow", paused=False)
    assert _ids(_claim(bench, worker)) == ["a"]
    assert not bench.store.pause_queue("never seen", paused=False)


@case
def who_pauses_queues_by_hand_is_noted_and_the_latest_of_each_are_kept(bench: Bench) -> None:
    store = bench.store
    for number in range(KEPT + 3):
        assert store.pause_queue("slow", paused=not number % 2, author=f"cli {number}")
        assert not store.pause_queue("slow", paused=not number % 2, author="cli late")
    assert store.pause_queue("other", paused=True, author="dashboard ada")
    assert store.pause_queue("other", paused=False)
    found = store.list_deeds(QUEUE, "slow", limit=KEPT + 9)
    assert [one.author for one in found] == [f"cli {number}" for number in range(KEPT + 2, 2, -1)]
    assert [one.what for one in found[:2]] == ["paused", "resumed"]
    assert abs(found[0].at - store.now()) < 60 * SECOND
    assert [(one.name, one.author) for one in store.list_deeds(QUEUE, limit=2)] == [
        ("other", "dashboard ada"), ("slow", f"cli {KEPT + 2}"),
    ]  # fmt: skip
    assert store.list_deeds(QUEUE, namespace="elsewhere") == store.list_deeds(SCHEDULE) == []


@case
def a_queue_is_defined_by_the_youngest_engine(bench: Bench) -> None:
    _define(bench, build="new", since=20, concurrency=2)
    _define(bench, build="old", since=10, concurrency=1)
    assert _usage(bench).row.limits == Limits(concurrency=2)
    _define(bench, build="new", since=15, concurrency=3)
    _define(bench, build="newer", since=30, per_worker=4, starts=5, period=6)
    row = _usage(bench).row
    assert (row.limits, row.build, row.since) == (Limits(None, 4, None, 5, 6), "newer", 30)
    _define(bench, build="newer", since=31)
    assert _usage(bench).row.limits.is_unlimited


@case
def queues_are_listed_by_name_whether_or_not_they_are_defined(bench: Bench) -> None:
    bench.create("a")
    bench.create("b", queue="used")
    bench.create("c", queue="used", workflow="other")
    _define(bench, "defined", concurrency=1)
    bench.store.define_queues([QueueRow(0, "elsewhere", "hidden", Limits(concurrency=1))])
    found = bench.store.list_queues()
    assert [(one.row.name, one.ready, one.held) for one in found] == [("", 1, 0), ("defined", 0, 0), ("used", 2, 0)]
    assert [one.row.name for one in bench.store.list_queues("elsewhere")] == ["hidden"]


@case
def a_limit_of_one_namespace_is_none_of_anothers(bench: Bench) -> None:
    _define(bench, concurrency=1)
    _enqueue(bench, "a", "b", namespace="n")
    routes = [Route("greet", queue="slow", namespace="n")]
    assert len(bench.store.claim_runs(bench.worker(routes=routes), routes, 10)) == 2


# -- keys that stand for a run for a while


def _keyed(bench: Bench, run_id: str, reuse: Reuse, **changes: Any) -> NewRun:
    return bench.new(run_id, idempotency_key="key", reuse=reuse, **changes)


def _create(bench: Bench, run: NewRun, now: int | None = None) -> Created:
    (made,) = bench.store.create_runs([run], now=now)
    return made


@case
def a_key_stands_for_a_run_for_as_long_as_is_asked(bench: Bench) -> None:
    reuse, now = Reuse(age=10 * SECOND), bench.store.now()
    first = _create(bench, _keyed(bench, "a", reuse, created_at=now))
    found = _create(bench, _keyed(bench, "b", reuse), now=now + 10 * SECOND - 1)
    assert (found.is_new, found.row.run_id) == (False, "a")
    second = _create(bench, _keyed(bench, "c", reuse), now=now + 10 * SECOND)
    assert (second.is_new, second.row.idempotency_key) == (True, "key")
    assert bench.row(first.row.run_key).idempotency_key is None
    # Who asks for ever finds the one that has the key now.
    assert _create(bench, bench.new("d", idempotency_key="key")).row.run_id == "c"


@case
def a_key_may_stand_for_a_run_until_that_has_ended(bench: Bench) -> None:
    reuse = Reuse(ended=True)
    _create(bench, _keyed(bench, "a", reuse))
    assert _create(bench, _keyed(bench, "b", reuse)).row.run_id == "a"
    worker = bench.worker()
    (claim,) = bench.claim(worker)
    assert _create(bench, _keyed(bench, "c", reuse)).row.run_id == "a"
    bench.store.commit([Holder(bench.store, worker, claim).end()])
    assert _create(bench, _keyed(bench, "d", reuse)).is_new


@case
def a_debounced_run_is_put_off_and_takes_what_was_said_last(bench: Bench) -> None:
    reuse, now = Reuse(debounce=25 * SECOND), bench.store.now()
    tags = (b'{"tags":{"n":"1"}}', b'{"tags":{"n":"2"}}')

    def call(run_id: str, after: int, **changes: Any) -> Created:
        at = now + after * SECOND
        run = _keyed(bench, run_id, reuse, created_at=at, delay_until=at + 10 * SECOND)
        return _create(bench, run._replace(**changes), now=at)

    first = call("a", 0, meta=tags[0])
    second = call("b", 9, payload=b'"second"', meta=tags[1], priority=2)
    assert (second.is_new, second.row.run_id, second.row.uid) == (False, "a", first.row.uid)
    row = bench.row(first.row.run_key)
    assert (row.wake_at, row.priority, row.created_at) == (now + 19 * SECOND, 2, now)
    (event,) = bench.log(row.run_key)
    assert (event.payload, event.hash) == (b'"second"', row.hash)
    assert fields(event.args)["run_id"] == "a"
    assert [one.run_id for one in bench.store.list_runs(Filter(tags=(("n", "2"),)))] == ["a"]
    assert bench.store.list_runs(Filter(tags=(("n", "1"),))) == []
    # Not for ever: at most until 25 s after the first call.
    call("c", 18)
    assert bench.row(row.run_key).wake_at == now + 25 * SECOND
    worker = bench.worker()
    assert bench.claim(worker, now=now + 25 * SECOND - 1) == []
    (claim,) = bench.claim(worker, now=now + 25 * SECOND)
    assert claim.row.run_id == "a"
    # It has begun: the next call is another run's.
    assert call("d", 26).is_new


@case
def of_inputs_that_were_replaced_nothing_is_kept(bench: Bench) -> None:
    reuse, later = Reuse(debounce=60 * SECOND), bench.store.now() + 30 * SECOND
    old, new = (Artifact(sha256(data).digest(), len(data), data) for data in (b"old", b"new"))
    first = _create(bench, _keyed(bench, "a", reuse, artifacts=(old,), delay_until=later))
    _create(bench, _keyed(bench, "b", reuse, artifacts=(new,), delay_until=later))
    assert bench.store.get_artifact(old.hash) is None
    assert bench.store.get_artifact(new.hash) == b"new"
    assert bench.row(first.row.run_key).status is Status.PENDING


@case
def what_is_of_another_workflow_is_not_put_off(bench: Bench) -> None:
    reuse = Reuse(debounce=SECOND)
    first = _create(bench, _keyed(bench, "a", reuse))
    other = _create(bench, _keyed(bench, "b", reuse, workflow="other", payload=b"2"))
    assert (other.is_new, other.row) == (False, first.row)
    assert bench.log(first.row.run_key)[0].payload == b'"input"'


@case
def of_many_that_debounce_at_once_one_run_comes(bench: Bench) -> None:
    now = bench.store.now()
    runs = [
        _keyed(bench, f"r{n}", Reuse(debounce=60 * SECOND), delay_until=now + 30 * SECOND, payload=b"%d" % n)
        for n in range(12)
    ]
    stores = [bench.open() for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda one: stores[one[0] % 3].create_runs([one[1]])[0], enumerate(runs)))
    assert sum(one.is_new for one in made) == 1
    (row,) = bench.store.list_runs(Filter())
    assert bench.log(row.run_key)[0].payload in {run.payload for run in runs}
