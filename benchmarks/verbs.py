"""How long the verbs of a worker's hot path take on several stores.

Each call is made on one store after the other, so that what else the machine does hits all of them alike.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

from benchmarks.driving import WORKFLOWS
from benchmarks.workloads import five_steps
from perdure.model.records import Status
from perdure.store.open import open_store
from perdure.store.protocol import Filter, Route
from perdure.testing.store_suite.bench import Bench, Holder

READY = 100
"""Runs that can be claimed when the claims begin."""
LEASE = 600_000_000

Script = Generator[tuple[str, Callable[[], Any]], Any, None]
"""Says what is to be called next, under which name, and is sent the answer."""


class Side:
    """One store, opened as a worker has it."""

    def __init__(self, target: str) -> None:
        self._bench = Bench(lambda: open_store(target))
        self.store = self._bench.store
        self._routes = [Route(workflow.name, workflow.version) for workflow in WORKFLOWS]
        self._worker = self._bench.worker(routes=self._routes)
        self.taken: dict[str, list[float]] = {}
        """Milliseconds by name of a call."""

    def close(self) -> None:
        """Leave the store."""
        self.store.retire_worker(self._worker)
        self.store.close()

    def call(self, name: str, verb: Callable[[], Any]) -> Any:
        """Call a verb, and note how long it took."""
        began = time.perf_counter()
        answer = verb()
        self.taken.setdefault(name, []).append((time.perf_counter() - began) * 1000)
        return answer

    def script(self, number: int) -> Script:
        """A round: create runs, claim them, write to their logs, look around, end them, find nothing more."""
        store, worker, routes = self.store, self._worker, self._routes
        assert store.renew(worker, LEASE, number + 2)
        new = [
            self._bench.new(f"round-{number}-{n}", workflow=five_steps.name, version=five_steps.version)
            for n in range(READY)
        ]
        yield "create_runs, 1", partial(store.create_runs, new[:1])
        yield f"create_runs, {READY - 1}", partial(store.create_runs, new[1:])
        held: list[Holder] = []
        for limit in [1] * 20 + [10] * 8:
            claims = yield f"claim_runs, {limit} of {READY}", partial(store.claim_runs, worker, routes, limit)
            assert len(claims) == limit
            held += [Holder(store, worker, claim) for claim in claims]
        for one in held[:20]:
            yield "commit, 1 event", partial(store.commit, [one.steps()])
        yield f"commit, 1 event of {READY}", partial(store.commit, [one.steps() for one in held])
        for _ in range(10):
            yield from self._look(held[0].key, new[0].run_id)
        yield f"commit, {READY} ends", partial(store.commit, [one.end(Status.COMPLETED) for one in held])
        for _ in range(10):
            nothing = yield "claim_runs, none there", partial(store.claim_runs, worker, routes, 10)
            assert nothing == []

    def _look(self, run_key: int, run_id: str) -> Script:
        store = self.store
        yield "next_due", partial(store.next_due, self._routes)
        yield "unread", partial(store.unread, self._worker)
        yield "held", partial(store.held, self._worker)
        yield "dead_workers", partial(store.dead_workers, self._worker, grace=LEASE)
        yield "block_stranded", partial(store.block_stranded, ())
        yield "get_run", partial(store.get_run, run_id)
        yield "read_events", partial(store.read_events, run_key)
        yield "list_runs", partial(store.list_runs, Filter())
        yield "list_runs, by status", partial(store.list_runs, Filter(status=(Status.RUNNING,)))
        yield "list_runs, by workflow", partial(store.list_runs, Filter(workflow=five_steps.name))


def measure(sides: Sequence[Side], rounds: int) -> None:
    """Play rounds on all sides, each call on one after the other; who comes first changes with each call of a verb."""
    made: Counter[str] = Counter()
    for number in range(rounds):
        scripts = [side.script(number) for side in sides]
        wanted = [next(script) for script in scripts]
        while wanted:
            (name,) = {name for name, _ in wanted}
            first, answers = made[name] % len(sides), [None] * len(sides)
            made[name] += 1
            for place in (*range(first, len(sides)), *range(first)):
                answers[place] = sides[place].call(*wanted[place])
            try:
                wanted = [script.send(answer) for script, answer in zip(scripts, answers, strict=True)]
            except StopIteration:
                wanted = []
