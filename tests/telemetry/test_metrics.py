"""Metrics: what an engine counts and what a scrape reads of the store, as Prometheus's own parser understands it."""

from __future__ import annotations

import asyncio
import socket
import urllib.request

import prometheus_client
import pytest

from perdure import INJECTED, Engine, StepContext, step, workflow
from perdure.errors import DefinitionError
from perdure.model.records import Status
from perdure.observing import FRESH
from perdure.telemetry.metrics import ATTEMPTS, METRICS, MOST, OTHER, STEP_TIME, Numbers
from tests.engine.desk import (
    Desk,
    Order,
    Refused,
    chore,
    engine_at,
    errand,
    in_loop,
    in_status,
    job,
)  # fmt: skip
from tests.telemetry.listening import samples


def scrape(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return answer.read().decode()


@in_loop
async def test_what_happens_is_counted_by_workflow_step_and_outcome_and_what_waits_is_read_of_the_store(
    path, desk, clock
):
    desk.fails = {"second": [Refused("no")], "7": Refused("no")}
    async with engine_at(path, errand, job, desk=desk, clock=clock, metrics=True, concurrency=7) as engine:
        assert await engine.run(job, 1) == 2
        with pytest.raises(Refused):
            await engine.run(job, 7)
        naps = await engine.enqueue(errand, Order("1", naps=True))
        await in_status(engine, naps.run_id, Status.SLEEPING)
        await engine.enqueue(job, 3, queue="nobodys")
        clock.advance("1h")
        await in_status(engine, naps.run_id, Status.RETRYING)
        said = samples(await engine.metrics())
        clock.advance("1h")
        await naps.result()
        later = samples(await engine.metrics())

    def counted(of, name, **labels):
        return of.get((f"perdure_{name}", *sorted(labels.items())))

    errands, jobs = {"queue": "", "workflow": "errand"}, {"queue": "", "workflow": "job"}
    assert [counted(said, "runs_claimed_total", **one) for one in (errands, jobs)] == [2, 2]
    assert [counted(later, "runs_claimed_total", **one) for one in (errands, jobs)] == [3, 2]
    assert [counted(later, "runs_started_total", **one) for one in (errands, jobs)] == [1, 2]
    assert counted(later, "runs_suspended_total", **errands) == 2
    ended = [("completed", errands), ("completed", jobs), ("failed", jobs), ("failed", errands)]
    assert [counted(later, "runs_ended_total", outcome=how, **one) for how, one in ended] == [1, 1, 1, None]
    attempts = [
        ("work", "completed", "errand"),
        ("work_twice", "retried", "errand"),
        ("work_twice", "completed", "errand"),
        ("work", "failed", "job"),
    ]
    assert [
        counted(later, "step_attempts_total", step=step, outcome=how, workflow=workflow)
        for step, how, workflow in attempts
    ] == [1, 1, 1, 1]
    assert counted(later, "step_seconds_count", step="work_twice", workflow="errand") == 2
    assert counted(later, "step_seconds_bucket", step="work_twice", workflow="errand", le="+Inf") == 2
    assert counted(later, "claim_wait_seconds_count", queue="") == 3
    assert counted(later, "commit_events_sum") >= 10
    assert counted(later, "commit_seconds_count") == counted(later, "commit_events_count")
    assert (counted(said, "slots"), counted(said, "slots_in_use")) == (7, 0)

    assert counted(said, "store_up") == 1
    assert [counted(said, "runs", status=one) for one in ("completed", "failed", "retrying", "pending")] == [1, 1, 1, 1]
    assert counted(said, "runs", status="sleeping") == 0
    assert (counted(said, "queue_ready", queue="nobodys"), counted(said, "queue_oldest_seconds", queue="nobodys")) == (
        1,
        3600,
    )
    assert counted(said, "queue_ready", queue="") == 0
    assert (counted(said, "sqlite_wal_bytes") is None) == path.startswith("postgres")
    ends = ("", "_total", "_bucket", "_sum", "_count")
    known = {name.removesuffix("_total") + end for name in METRICS for end in ends}
    assert {name for name, *_ in [*said, *later]} <= known
    labels = {label for _, *labels in later for label, _ in labels}
    assert labels <= {"workflow", "step", "queue", "outcome", "status", "le"}, "never a run"


@in_loop
async def test_the_store_is_read_once_for_all_scrapes_of_ten_seconds(path, clock):
    async with engine_at(path, job, clock=clock, metrics=True, only_queues=["served"]) as engine:

        async def ready():
            return samples(await engine.metrics()).get(("perdure_queue_ready", ("queue", "")))

        assert await ready() is None
        await engine.enqueue(job, 1)
        assert await ready() is None
        clock.lapse(FRESH)
        assert await ready() == 1
        assert samples(await engine.metrics())[("perdure_queue_ready", ("queue", "served"))] == 0
        engine._store._measuring.close()
        clock.lapse(FRESH)
        blind = samples(await engine.metrics())
        assert blind[("perdure_store_up",)] == 0
        assert ("perdure_queue_ready", ("queue", "")) not in blind
    assert ("perdure_store_up",) not in samples(await engine.metrics())


@step
async def blocks(*, ctx: StepContext[Desk] = INJECTED) -> bool:
    return "perdure_slots_in_use 1.0" in scrape(ctx.tools.address)


@workflow
async def blocked_loop() -> bool:
    return await blocks()


@pytest.mark.only("sqlite")
@in_loop
async def test_scrapes_are_answered_on_the_loopback_interface_also_while_the_loop_is_blocked(path, desk):
    async with engine_at(path, blocked_loop, desk=desk, metrics="0") as engine:
        desk.address = engine.metrics_at
        assert desk.address.startswith("127.0.0.1:")
        assert await engine.run(blocked_loop)
        other = engine_at(path, chore, metrics=desk.address)
        with pytest.raises(DefinitionError, match=f"cannot be served at {desk.address}.*in use"):
            await other.start()
        await other.stop()
    assert engine.metrics_at is None
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(desk.address.split(":"))
    async with engine:
        assert "perdure_runs_ended_total" in await asyncio.to_thread(scrape, engine.metrics_at), "it goes on counting"


@pytest.mark.only("sqlite")
@in_loop
async def test_an_engine_joins_the_registry_of_its_app(path, desk):
    engine = Engine(path, workflows=[chore], tools=desk, metrics=True, durability="process")
    registry = prometheus_client.CollectorRegistry()
    registry.register(engine.collector())
    async with engine:
        await engine.run(chore)
        text = await asyncio.to_thread(prometheus_client.generate_latest, registry)
    assert ("perdure_slots",) in samples(text.decode())


@pytest.mark.parametrize("address", ["x", "127.0.0.1", "127.0.0.1:", "1.2.3.4:99999", "127.0.0.1:-1"])
@pytest.mark.only("sqlite")
@in_loop
async def test_what_is_no_address_is_refused(path, address):
    with pytest.raises(DefinitionError, match="no address for metrics"):
        await engine_at(path, chore, metrics=address).start()


def test_an_engine_without_metrics_says_how_to_get_them():
    with pytest.raises(DefinitionError, match="keeps no metrics"):
        Engine("nowhere.db").collector()


def test_names_without_bound_become_one_series():
    numbers = Numbers()
    for n in range(MOST + 500):
        numbers.count(ATTEMPTS, ("w", f"step-{n}", "completed"))
        numbers.observe(STEP_TIME, 0.01, ("w", f"step-{n}"))
    attempts, times = numbers.counts[ATTEMPTS.name], numbers.times[STEP_TIME.name]
    assert (len(attempts), attempts[OTHER, OTHER, OTHER]) == (MOST + 1, 500)
    assert (len(times), sum(times[OTHER, OTHER].counts)) == (MOST + 1, 500)
