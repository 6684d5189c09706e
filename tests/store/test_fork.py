"""A store that was opened before a fork is the parent's alone."""

from __future__ import annotations

from perdure.store.open import open_store
from perdure.store.protocol import Filter
from perdure.testing.store_suite import Bench
from tests.store.children import child, integrity, run

PARENT = """
import sys
from perdure.errors import StoreUnsafe

bench = Bench(lambda: open_store(sys.argv[1], durability="process"))
held = bench.hold("parent")
say(held.worker)

def be_child(name):
    for use in (lambda: bench.store.get_run("parent"), lambda: bench.create(name), lambda: held.commit(held.steps()),
                lambda: bench.store.renew(held.worker, 10**6, 9)):
        try:
            use()
        except StoreUnsafe as error:
            assert "re-open it after the fork" in error.advice
        else:
            raise AssertionError("an inherited store was used")
    bench.store.close()
    with open_store(sys.argv[1], durability="process") as own:
        own.create_runs([bench.new(name)])
    del bench._stores[:]
    sys.exit(0)

for number in range(5):
    children = []
    for twin in "ab":
        pid = os.fork()
        if pid == 0:
            be_child(f"{number}{twin}")
        children.append(pid)
        held.commit(held.steps())
    for pid in children:
        held.commit(held.steps())
        assert os.waitpid(pid, 0)[1] == 0
say("done")
hear()
"""


def test_children_re_open_and_parents_go_on(tmp_path):
    path = tmp_path / "store.db"
    with child(PARENT, path) as parent:
        worker = int(parent.hear()[0])
        assert parent.hear() == ["done"]
        with Bench(lambda: open_store(path, durability="process")) as bench:
            # No child's exit has dropped the parent's lock.
            assert bench.store.dead_workers(bench.worker(), grace=10**6) == []
            assert len(bench.store.list_runs(Filter())) == 1 + 2 * 5
            (key,) = bench.store.held(worker)
            assert len(bench.log(key)) == 2 + 5 * 4
        parent.kill()
    assert integrity(path) == ["ok"]


BUSY = """
import sys
from threading import Thread

bench = Bench(lambda: open_store(sys.argv[1], durability="process"))
held = bench.hold()
say("ready"); hear()
verdicts = []
waiting = Thread(target=lambda: verdicts.extend(held.commit(held.steps())))
waiting.start()
waiting.join(0.3)
assert waiting.is_alive()
pid = os.fork()
if pid == 0:
    bench.store.close()
    sys.exit(0)
say("forked", os.waitpid(pid, 0)[1])
waiting.join()
say(*map(int, verdicts))
"""


def test_a_child_ends_whatever_the_parents_threads_were_doing(store_path):
    lock = """
import apsw
db = apsw.Connection(sys.argv[1])
db.execute("BEGIN IMMEDIATE")
say("locked"); hear()
db.execute("ROLLBACK")
say("unlocked")
"""
    with child(BUSY, store_path) as parent:
        assert parent.hear() == ["ready"]
        with child(lock, store_path) as locker:
            assert locker.hear() == ["locked"]
            parent.say("go")
            assert parent.hear() == ["forked", "0"]
            locker.say("go")
            assert locker.hear() == ["unlocked"]
        assert parent.hear() == ["1"]


FORGETFUL = """
import gc, weakref
store = open_store(sys.argv[1])
link = weakref.ref(store._writer)
pid = os.fork()
if pid == 0:
    del store
    gc.collect()
    os._exit(int(link() is None))
say(os.waitpid(pid, 0)[1])
del store
gc.collect()
say(int(link() is None))
"""


def test_a_child_never_closes_what_it_inherited(store_path):
    assert run(FORGETFUL, store_path) == ["0", "1"]
