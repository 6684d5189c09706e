"""A primary that dies, and a synchronous standby that goes on: nothing that was acknowledged is lost or done twice."""

from __future__ import annotations

import threading

import pytest

from perdure.errors import StoreError
from perdure.model.records import Verdict
from perdure.store.open import open_store
from perdure.testing.store_suite import Bench
from perdure.testing.store_suite.bench import soon

pytestmark = [pytest.mark.postgres, pytest.mark.crash, pytest.mark.slow]


class Writer(threading.Thread):
    """Appends to a run, sending again what was not acknowledged, until it is told to stop."""

    def __init__(self, held):
        super().__init__(daemon=True)
        self.held, self.acknowledged, self.verdicts = held, [], set()
        self.ending = threading.Event()
        self.grown = threading.Condition()

    def run(self):
        nobody = threading.Event()
        while not self.ending.is_set():
            item = self.held.steps()
            while (verdict := self.send(item)) is None:
                nobody.wait(0.05)
            self.verdicts.add(verdict)
            with self.grown:
                self.acknowledged += item.events
                self.grown.notify_all()

    def send(self, item):
        try:
            return self.held.commit(item)[0]
        except StoreError:
            return None

    def until(self, count):
        with self.grown:
            return self.grown.wait_for(lambda: len(self.acknowledged) >= count, 30)


def test_a_promoted_standby_has_all_that_was_acknowledged(servers):
    primary = servers.server()
    open_store(primary.url("perdure")).close()
    standby = servers.standby(primary)
    with Bench(lambda: open_store(primary.url("perdure", standby))) as bench:
        observer, other = bench.worker(), bench.worker(bench.open())
        writers = [Writer(bench.hold(f"run-{number}", other)) for number in range(3)]
        for writer in writers:
            writer.start()
        assert all(writer.until(100) for writer in writers)
        primary.kill_hard()
        standby.promote()
        standby.reload(synchronous_standby_names="")
        counts = [len(writer.acknowledged) for writer in writers]
        assert all(writer.until(count + 50) for writer, count in zip(writers, counts, strict=True))
        # Another server: its locks say nothing of workers that had theirs at the first.
        for _ in range(50):
            assert looked(bench, observer) in ([], None)
        for writer in writers:
            writer.ending.set()
        for writer in writers:
            writer.join(30)
            assert bench.log(writer.held.key)[2:] == writer.acknowledged
            assert writer.verdicts <= {Verdict.APPLIED, Verdict.ALREADY}
        assert soon(lambda: bench.store.renew(other, 60_000_000, 5))


def looked(bench, observer):
    try:
        return bench.store.dead_workers(observer, grace=10**7)
    except StoreError:
        return None
