"""A fork is whole or not there, and what is damaged is not copied."""

from __future__ import annotations

import os
from hashlib import sha256

import pytest

from perdure.errors import IntegrityError
from perdure.model import forking
from perdure.model.chain import check, seal
from perdure.model.forking import Fork, Lineage
from perdure.model.payloads import REFERENCE, note
from perdure.model.records import Artifact, Kind, Verdict
from perdure.store.open import is_postgres, open_store
from perdure.store.protocol import PAGE, Filter
from perdure.testing.store_suite import Bench
from tests.servers import behind
from tests.store.children import child, integrity

FORKS = """
import signal
from perdure.store import copying
from tests.store.test_forking import order

def deadly(function, number):
    calls = 0
    def call(*args, **options):
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **options)
    return call

address, place, number = sys.argv[1:]
bench = Bench(lambda: open_store(address))
held = bench.hold()
held.commit(held.steps(2500))
say(held.key)
assert hear() == "fork"
if place == "page":
    copying.chain.check = deadly(copying.chain.check, int(number))
elif place == "end":
    copying.follow = deadly(copying.follow, 1)
bench.store.fork_run(order(bench.store, held.key, 2400))
say("done")
hear()
"""


def order(store, run_key, seq):
    (origin,) = store.get_runs([run_key])
    first = store.read_events(run_key, 0, 1)[0]
    lineage = Lineage(origin.run_id, origin.uid, seq, "say#1", origin.uid)
    return Fork(run_key, seq, "fork", os.urandom(16), store.now(), forking.origin("fork", first, lineage))


@pytest.mark.crash
@pytest.mark.parametrize(("place", "number"), [("page", 1), ("page", 3), ("end", 1), ("after", 1)])
def test_a_fork_whose_process_is_killed_is_whole_or_not_there(new_store, place, number):
    store = new_store()
    with child(FORKS, store, place, number) as process:
        run_key = int(process.hear()[0])
        process.say("fork")
        if place == "after":
            assert process.hear() == ["done"]
            process.kill()
        else:
            assert process.process.wait(timeout=30) == -9
    if not is_postgres(store):
        assert integrity(store) == ["ok"]
    with Bench(lambda: open_store(store)) as bench:
        found = bench.store.get_run("fork")
        assert (found is None) is (place != "after")
        made = bench.store.fork_run(order(bench.store, run_key, 2400)).row
        log = bench.log(made.run_key)
        check(made.uid, log)
        assert (len(log), log[-1].kind) == (2401, Kind.RUN_FORKED)
        assert [row.run_id for row in bench.store.list_runs(Filter())] == ["fork", "one"]


@pytest.mark.parametrize(
    "sql",
    [
        "update events set payload = x'2231' where seq = 4",
        "update events set took = 5 where seq = 1200",
        "delete from events where seq = 1300",
        "update runs set uid = zeroblob(16)",
    ],
)
def test_a_log_that_was_changed_is_not_copied(new_store, sql):
    store = new_store()
    with Bench(lambda: open_store(store)) as bench:
        held = bench.hold()
        held.commit(held.steps(PAGE + 500))
        wanted = order(bench.store, held.key, PAGE + 400)
    behind.vandalise(store, sql)
    opened = open_store(store)
    with pytest.raises(IntegrityError):
        opened.fork_run(wanted)
    assert [row.run_id for row in opened.list_runs(Filter())] == ["one"]
    opened.close()


def test_what_was_changed_after_the_part_that_is_copied_does_not_matter(new_store):
    store = new_store()
    with Bench(lambda: open_store(store)) as bench:
        held = bench.hold()
        held.commit(held.steps(10))
        wanted = order(bench.store, held.key, 6)
    behind.vandalise(store, "update events set took = 5 where seq = 9")
    opened = open_store(store)
    assert opened.fork_run(wanted).is_new
    opened.close()


def test_a_fork_refers_to_the_artifacts_of_what_is_copied(new_store):
    store = new_store()
    data = {name: Artifact(sha256(name).digest(), len(name), name) for name in (b"result", b"named", b"later")}
    with Bench(lambda: open_store(store)) as bench:
        held = bench.hold()
        events = []
        for codec, payload, kind in (
            (REFERENCE, data[b"result"].hash, Kind.STEP_COMPLETED),
            (0, note(name="x", hash=data[b"named"].hash.hex(), size=5), Kind.ARTIFACT_KEPT),
            (REFERENCE, data[b"later"].hash, Kind.STEP_COMPLETED),
        ):
            last = events[-1] if events else held.last
            events.append(
                seal(last.hash, held.key, last.seq + 1, last.at, held.epoch, kind, "say#1", 1, None, codec, payload)
            )
        item = held.steps(0, artifacts=list(data.values()))
        item.events = events
        assert held.commit(item) == [Verdict.APPLIED]
        fork = bench.store.fork_run(order(bench.store, held.key, 4)).row
    kept = behind.contents(store)
    assert all(one.hash in kept for one in data.values())
    behind.vandalise(store, "delete from events")
    behind.vandalise(store, "delete from artifacts")
    behind.vandalise(store, "delete from artifact_uses where run_key <> ?", fork.run_key)
    if not is_postgres(store):
        behind.vandalise(store, "pragma wal_checkpoint(truncate)")
        behind.vandalise(store, "vacuum")
    kept = behind.contents(store)
    assert {name for name, one in data.items() if one.hash in kept} == {b"result", b"named"}
