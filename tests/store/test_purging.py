"""Purging that is killed, raced and crowded: a run is whole or a tombstone, and nobody ever waits in a circle."""

from __future__ import annotations

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256

import pytest

from perdure.errors import RunNotFound
from perdure.model.chain import seal
from perdure.model.forking import Fork
from perdure.model.payloads import REFERENCE, note
from perdure.model.purging import Purgeable
from perdure.model.records import Artifact, CommitItem, InboxKind, Kind, Message, Status
from perdure.store.open import is_postgres, open_store
from perdure.store.postgres import purging as on_postgres
from perdure.store.postgres.runs import keep
from perdure.store.protocol import Filter
from perdure.store.pruning import Pruning
from perdure.testing.store_suite import Bench
from perdure.testing.store_suite.bench import ROUTE, Holder
from perdure.verifying import verify_run
from tests.store.children import child, integrity

ENDED = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)
ALL = Purgeable(ENDED, 1 << 60)
LATER = 3_600_000_000
STORM = bool(os.environ.get("PERDURE_STORM"))

PURGER = """
import signal
from perdure.model.payloads import note
from perdure.store.pruning import Pruning
from perdure.store import purging
from tests.store.test_purging import ALL, artifact, referring

address, place, number = sys.argv[1:]
bench = Bench(lambda: open_store(address, durability="process"))
worker = bench.worker()
for n in range(130):
    held = bench.hold(f"run-{n}", worker, meta=note(tags={"n": str(n % 3)}), idempotency_key=f"key-{n}")
    one = artifact(n % 7)
    held.commit(held.steps(12), referring(held, one), held.end())
bench.hold("alive", worker)
seen = 0

def die(*_):
    global seen
    seen += 1
    if seen == int(number):
        os.kill(os.getpid(), signal.SIGKILL)

def deadly(function):
    def call(*args):
        die()
        return function(*args)
    return call

module = __import__(f"perdure.store.{'postgres' if is_postgres(address) else 'sqlite'}.purging", fromlist=["x"])
if place in {"weight", "tags_of"}:
    setattr(module, place, deadly(getattr(module, place)))
say("ready")
for _ in Pruning(bench.store, [ALL], reached=lambda point: die() if point == place else None).steps():
    pass
say("unharmed")
"""


def artifact(n):
    data = f"artifact {n}".encode() * 100
    return Artifact(sha256(data).digest(), len(data), data)


def referring(held, one):
    """An item of an event whose payload is an artifact."""
    last = held.last
    held.last = seal(
        last.hash, held.key, last.seq + 1, last.at + 1, held.epoch, Kind.STEP_COMPLETED, f"greet/keep#{last.seq}", 1,
        codec=REFERENCE, payload=one.hash,
    )  # fmt: skip
    return CommitItem(held.key, held.epoch, [held.last], artifacts=[one])


def prune(store):
    """Purge and collect all there is, as if time had passed."""
    for _ in Pruning(store, [ALL]).steps():
        pass
    while store.collect_purged(now=store.now() + LATER).more:
        pass


@pytest.mark.crash
@pytest.mark.parametrize(
    ("place", "number"),
    [("tags_of", 110), ("purged", 1), ("weight", 1), ("collected", 2)]
    + [("purge", 2), ("tags_of", 1), ("collect", 1), ("weight", 3), ("collect", 3)] * STORM,
)
def test_who_dies_while_purging_leaves_whole_runs_and_tombstones_and_the_next_one_goes_on(place, number, new_store):
    store = new_store()
    with child(PURGER, store, place, number) as purger:
        assert purger.hear() == ["ready"]
        purger.process.wait(60)
        assert purger.process.returncode == -9
    if not is_postgres(store):
        assert integrity(store) == ["ok"]
    with Bench(lambda: open_store(store)) as bench:  # which looks through every log that is left, in the end
        names = [f"run-{n}" for n in range(130)]
        left = {row.run_id for row in bench.store.list_runs(Filter(limit=1000))}
        gone = {name for name in names if bench.store.get_tombstone(name)}
        assert left | gone == {*names, "alive"}
        assert left & gone == set()
        tagged = {row.run_id for n in "012" for row in bench.store.list_runs(Filter(tags=(("n", n),), limit=1000))}
        assert tagged == left - {"alive"}
        for row in bench.store.list_runs(Filter(limit=1000)):
            assert verify_run(bench.store, row).damage == []
        prune(bench.store)
        assert [row.run_id for row in bench.store.list_runs(Filter())] == ["alive"]
        made = bench.store.create_runs([bench.new(idempotency_key=f"key-{n}", run_id=f"new-{n}") for n in range(130)])
        assert {one.purged.run_id for one in made} == {*names}
        assert [bench.store.get_artifact(artifact(n).hash) for n in range(7)] == [None] * 7
        assert bench.store.forget_purged("", 1 << 60) == 130
        assert bench.store.list_ended(ALL).runs == []
        run_keys = range(bench.store.list_runs(Filter())[0].run_key + 1)
        assert sum(len(bench.store.read_events(key)) for key in run_keys) == 2  # of the run that lives


@pytest.mark.only("postgres")
def test_who_was_about_to_create_a_run_as_it_was_purged_is_refused_all_the_same(bench):
    """Its statement began before the purge, waits for it, and never looks at the tombstones again."""
    held = bench.hold(idempotency_key="key")
    held.commit(held.end())
    stores = [bench.open(), bench.open()]
    news = [bench.new("one"), bench.new("two", idempotency_key="key")]
    with ThreadPoolExecutor(2) as threads:

        def purge(session):
            assert on_postgres.purge_runs(session, [held.key], ALL, None) == [held.key]
            waiting = [threads.submit(store.create_runs, [new]) for store, new in zip(stores, news, strict=True)]
            _until_two_wait(bench)
            assert on_postgres.collect_purged(session, None).runs == 1
            return waiting

        waiting = bench.store._keeper.write(purge)
        for one in waiting:
            (made,) = one.result(20)
            assert (made.is_new, made.purged.run_id) == (False, "one")
    assert bench.store.list_runs(Filter()) == []
    assert bench.store.collect_purged(now=bench.store.now() + LATER) is not None
    assert [one.purged.run_id for one in bench.store.create_runs(news)] == ["one", "one"]


def _until_two_wait(bench):
    blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"
    with bench.open()._writer._connector.connect() as watching:
        while watching.execute(blocked).fetchone()[0] < 2:
            threading.Event().wait(0.002)


@pytest.mark.only("postgres")
def test_an_artifact_that_somebody_is_about_to_use_is_not_deleted(bench):
    old, alive, one = bench.hold("old"), bench.hold("alive"), artifact(1)
    old.commit(referring(old, one), old.end())
    assert bench.store.purge_runs([old.key], ALL) == [old.key]

    def use(session):
        keep(session, [(alive.key, one)])  # what a commit does; nobody sees that it is used before it has ended
        assert bench.open().collect_purged().artifacts == 0

    bench.store._writer.write(use)
    assert bench.store.collect_purged().artifacts == 0
    assert bench.store.get_artifact(one.hash) == one.data


class Crowd:
    """Commits that share artifacts, messages, cancels, forks and children, of and for runs that are being purged."""

    def __init__(self, bench):
        self.open = bench.open
        self.most = 2000 if STORM else 40
        self.made = []
        self.done = threading.Event()
        self.artifacts = [artifact(n) for n in range(5)]

    def act(self, what, seed):
        chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
        try:
            getattr(self, what)(self.open(), chance, seed)
        except BaseException:
            self.done.set()
            raise

    def works(self, store, chance, seed):
        mine = Bench(lambda: store)
        worker = mine.worker()
        for n in range(self.most):
            parent = mine.hold(f"{seed}-{n}", worker, meta=note(tags={"seed": str(seed)}))
            new = mine.new(f"{seed}-{n}/c", parent_key=parent.key)
            mine.store.commit([replace(parent.steps(2), children=[new])])
            self.made.append((parent.key, new.run_id))
            if chance.random() < 0.8:
                store.commit([referring(parent, chance.choice(self.artifacts)), parent.end(chance.choice(ENDED))])
            for claim in store.claim_runs(worker, [ROUTE], 1, only=store.get_run(new.run_id).run_key):
                held = Holder(store, worker, claim)
                told = Message(InboxKind.CHILD_COMPLETED, parent.key, name=new.run_id, payload=b"{}")
                store.commit([referring(held, chance.choice(self.artifacts)), replace(held.end(), sends=[told])])

    def meddles(self, store, chance, seed):
        while not self.done.is_set():
            keys = [key for key, _ in self.made[-20:]] + [1]
            key, large = chance.choice(keys), chance.choice(self.artifacts)
            store.deliver([
                Message(InboxKind.SIGNAL, one, name="go", codec=REFERENCE, payload=large.hash, artifacts=(large,))
                for one in chance.sample(keys, min(3, len(keys)))
            ])  # fmt: skip
            with suppress(RunNotFound):
                store.request_cancel(key, "meddled with")
            # What is copied may be gone before the copy begins, never while it is made.
            with suppress(RunNotFound):
                store.fork_run(Fork(key, 2, f"fork-{seed}-{chance.random()}", os.urandom(16), store.now(), b"{}"))

    def purges(self, store, _chance, _seed):
        while not self.done.is_set():
            prune(store)


@pytest.mark.slow
@pytest.mark.timeout(600 if STORM else 90)
def test_a_crowd_that_purges_what_others_work_with_waits_in_no_circle_and_loses_nothing(bench, database):
    crowd, store = Crowd(bench), bench.store
    with ThreadPoolExecutor(6) as threads:
        others = [threads.submit(crowd.act, what, seed) for what in ("meddles", "purges") for seed in (8, 9)]
        for worker in [threads.submit(crowd.act, "works", seed) for seed in (1, 2)]:
            worker.result()
        crowd.done.set()
        for other in others:
            other.result()
    for _, run_id in crowd.made:
        for name in (run_id, run_id.removesuffix("/c")):
            assert (store.get_run(name) is None) is (store.get_tombstone(name) is not None), name
    where, seen = Filter(), 0
    while rows := store.list_runs(where):
        where, seen = replace(where, after=where.place(rows[-1])), seen + len(rows)
        assert [verify_run(store, row).damage for row in rows] == [[] for _ in rows]
    assert seen > 0
    if database == "postgres":
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        with store._writer._connector.connect() as watching:
            assert watching.execute(deadlocks).fetchone() == (0,)
