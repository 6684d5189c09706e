"""Whoever waits for its turn to claim from a queue with a rate begins when it has it, not when it asked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from perdure.model.queues import Limits, QueueRow
from perdure.store.open import is_postgres
from perdure.store.postgres.arrays import bigints
from perdure.store.protocol import Route
from perdure.testing.store_suite.bench import SECOND

HELD = 0.3
"""Seconds for which another claim is under way."""
SLOW = Route("greet", queue="slow")


def claim_slowly(store, key, begun, enough):
    """Hold what every claim from the queue waits for."""
    if is_postgres(store.url):
        store._writer.write(
            lambda session: (session.fetch("lock_queues", bigints([key])), begun.set(), enough.wait(10))
        )
    else:
        with store._writer:
            begun.set()
            enough.wait(10)


def test_a_run_begins_when_its_queue_is_free_and_not_when_it_was_asked_for(bench):
    bench.store.define_queues([QueueRow(0, "", "slow", Limits(starts=5, period=60 * SECOND))])
    bench.create(queue="slow")
    (usage,) = bench.store.list_queues()
    other, worker = bench.open(), bench.worker(routes=[SLOW])
    begun, enough = Event(), Event()
    with ThreadPoolExecutor(2) as two:
        slow = two.submit(claim_slowly, other, usage.row.queue_key, begun, enough)
        assert begun.wait(10)
        asked = bench.store.now()
        waiting = two.submit(bench.store.claim_runs, worker, [SLOW], 1)
        assert not Event().wait(HELD)
        enough.set()
        slow.result()
        (claim,) = waiting.result()
    assert claim.events[-1].at >= asked + HELD / 2 * SECOND
    (usage,) = bench.store.list_queues(now=claim.events[-1].at + 60 * SECOND - 1)
    assert usage.begun == 1
