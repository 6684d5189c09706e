"""SIGKILL in the middle of commits: the store is sound, and what was acknowledged is there."""

from __future__ import annotations

import pytest

from perdure.model.records import Kind, Status
from perdure.store.open import is_postgres, open_store
from perdure.testing.store_suite import Bench
from tests.store.children import child, found_dead, integrity

WRITER = """
bench = Bench(lambda: open_store(sys.argv[1]))
worker = bench.worker()
holders = [bench.hold(f"{worker}-{number}", worker) for number in range(20)]
say("ready")
while True:
    bench.store.commit([held.steps(3) for held in holders])
    bench.create(f"{worker}-new-{holders[0].last.seq}")
    say(holders[0].last.seq)
"""


@pytest.mark.crash
@pytest.mark.parametrize("commits", [1, 17])
def test_a_killed_writer_leaves_a_sound_store_and_all_it_acknowledged(commits, new_store):
    store = new_store()
    with child(WRITER, store) as one, child(WRITER, store) as two:
        for process in (one, two):
            assert process.hear() == ["ready"]
        for _ in range(commits):
            acknowledged = [int(process.hear()[0]) for process in (one, two)]
        one.kill()
        assert int(two.hear()[0]) > acknowledged[1]
        two.kill()
    if not is_postgres(store):
        assert integrity(store) == ["ok"]
    with Bench(lambda: open_store(store)) as bench:
        observer = bench.worker()
        dead = found_dead(bench.store, observer, 2)
        assert len(dead) == 2
        lengths = {key: len(bench.log(run)) for key in dead for run in bench.store.held(key)}
        assert sorted(lengths.values()) >= sorted(acknowledged)
        taken = bench.store.reclaim(observer, dead, cap=5)
        assert len(taken) == 40
        assert {bench.row(reclaimed.run_key).status for reclaimed in taken} == {Status.RUNNING}
        assert {bench.kinds(reclaimed.run_key)[-1] for reclaimed in taken} == {Kind.RUN_RECLAIMED}
