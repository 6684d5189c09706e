"""Refusals against a model: who may claim what, and what is blocked when, after any sequence of events."""

from __future__ import annotations

import json
import random

import pytest

from perdure.model.records import Status
from perdure.testing.store_suite import Holder
from perdure.testing.store_suite.bench import ROUTE

BUILDS = ("a", "b", "c")


class Model:
    """Runs of one route, and the workers that serve it."""

    def __init__(self, bench, rng):
        self.bench, self.rng = bench, rng
        self.workers = {}
        self.refused = {}
        self.held = {}
        self.open = set()
        self.seen = []

    def living(self):
        return set(self.workers.values())

    # -- what happens

    def join(self):
        build = self.rng.choice(BUILDS)
        self.workers[self.bench.worker(build=build)] = build

    def stop(self):
        idle = sorted(self.workers.keys() - {held.worker for held in self.held.values()})
        if idle:
            worker = self.rng.choice(idle)
            self.bench.store.retire_worker(worker)
            del self.workers[worker]

    def create(self):
        key = self.bench.create(f"run-{len(self.refused)}").run_key
        self.refused[key] = set()
        self.open.add(key)

    def claim(self):
        if not self.workers:
            return
        worker = self.rng.choice(sorted(self.workers))
        may = {key for key in self.open - self.held.keys() if self.workers[worker] not in self.refused[key]}
        claims = self.bench.store.claim_runs(worker, [ROUTE], 2)
        assert len(claims) == min(2, len(may))
        for claim in claims:
            assert claim.row.run_key in may
            self.held[claim.row.run_key] = Holder(self.bench.store, worker, claim)

    def refuse(self):
        if not self.held:
            return
        key = self.rng.choice(sorted(self.held))
        held = self.held.pop(key)
        build = self.workers[held.worker]
        payload = json.dumps({"code": "drift", "reason": "drift", "build": build}).encode()
        assert self.bench.store.refuse_run(key, held.epoch, build, payload)
        self.refused[key].add(build)
        if not self.living() - self.refused[key]:
            self.block(key)

    def release(self):
        if self.held:
            key = self.rng.choice(sorted(self.held))
            assert self.bench.store.release(self.held.pop(key).worker, [key]) == 1

    def resume(self):
        blocked = sorted(self.refused.keys() - self.open)
        if blocked:
            key = self.rng.choice(blocked)
            self.bench.resume(key)
            self.refused[key].clear()
            self.open.add(key)

    def look(self):
        stranded = {
            key
            for key in self.open - self.held.keys()
            if self.refused[key] and self.living() and self.living() <= self.refused[key]
        }
        seen, self.seen = self.seen, self.bench.store.block_stranded(self.seen)
        assert set(self.seen) == stranded - set(seen)
        for key in stranded & set(seen):
            self.block(key)

    def block(self, key):
        self.open.discard(key)
        reason = self.bench.row(key).reason
        assert reason is not None
        assert len(self.refused[key]) == 1 or all(build in reason for build in self.refused[key])

    # -- what is so

    def check(self):
        for key in self.refused:
            row = self.bench.row(key)
            assert (row.status is not Status.BLOCKED) == (key in self.open)
            assert (row.worker_key is not None) == (key in self.held)


@pytest.mark.parametrize("seed", range(12))
def test_refusals_do_as_their_model(bench, seed):
    rng = random.Random(seed)  # noqa: S311 - no secret
    model = Model(bench, rng)
    events = [
        model.join, model.stop, model.create, model.claim, model.claim, model.refuse, model.refuse, model.release,
        model.resume, model.look, model.look,
    ]  # fmt: skip
    for _ in range(120):
        rng.choice(events)()
        model.check()
