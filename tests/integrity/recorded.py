"""Stores with runs of every kind in them, and hands that change them behind their backs."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field

import perdure
from perdure import INJECTED, Engine, Retry, Signal, StepContext, continue_as_new, patched, saga, sleep, step, workflow
from perdure.errors import PerdureError
from perdure.model.records import Status
from perdure.store.open import is_postgres
from tests.engine.desk import PATIENCE

go = Signal[str]("go")


@dataclass
class Tools:
    """What the bodies of steps have done."""

    ran: list[tuple[str, str]] = field(default_factory=list)
    fails: int = 1


Ctx = StepContext[Tools]


@step
async def pack(n: int, *, ctx: Ctx = INJECTED) -> str:
    ctx.tools.ran.append((ctx.run_id, ctx.key))
    ctx.progress({"packed": n})
    ctx.emit(n)
    ctx.artifact("label", b"to whom it may concern")
    return f"parcel {n}"


@step(retry=Retry(max_attempts=2, initial_delay="1ms", jitter=False))
async def post(n: int, *, ctx: Ctx = INJECTED) -> list[int]:
    ctx.tools.ran.append((ctx.run_id, ctx.key))
    if ctx.attempt == 1:
        raise ConnectionError(n)
    return [n] * 40_000  # too long for the log: kept as an artifact


@step
async def take_back(n: int, *, ctx: Ctx = INJECTED) -> None:
    ctx.tools.ran.append((ctx.run_id, ctx.key))


@workflow
async def errand(n: int) -> int:
    return len(await pack(n))


@workflow
async def everything(n: int) -> int:
    """Say as many words as there are in a short life."""
    parcel = await pack(n)
    posted = await post(n)
    await sleep("1ms")
    told = await go.wait(timeout="1h")
    if patched("twice"):
        perdure.emit(told)
    return len(parcel) + len(posted) + await errand(n)


@workflow
async def sinks(n: int) -> None:
    async with saga() as undo:
        undo.push(take_back, n)
        await pack(n)
        raise LookupError(n)


@workflow
async def turns(n: int) -> int:
    await pack(n)
    if n:
        continue_as_new(n - 1)
    return n


@workflow
async def patient(n: int) -> str:
    """Wait in the middle for as long as it takes."""
    first = await pack(n)
    told = await go.wait(timeout="1h")
    return f"{first} {told} {len(await pack(n + 1))}"


@workflow
async def impostor(n: int) -> str:
    """Another workflow that would take the same input."""
    return await pack(-n)


WORKFLOWS = [errand, everything, sinks, turns, patient, impostor]


def engine_on(store: str, tools: Tools) -> Engine:
    return Engine(store, workflows=WORKFLOWS, tools=tools, durability="process")


async def settle(engine: Engine, run_id: str, *statuses: Status) -> None:
    """Wait until a run has one of these statuses."""
    async with asyncio.timeout(PATIENCE):
        while (await engine.get(run_id).row()).status not in statuses:  # noqa: ASYNC110 - others write it
            await asyncio.sleep(0.001)


async def record(store: str) -> None:
    """Have runs that say every word: completed, failed, cancelled, continued, forked, paused and waiting."""
    async with engine_on(store, Tools()) as engine:
        run = await engine.enqueue(everything, 3, run_id="everything")
        await run.signal(go, "on", idempotency_key="once")
        for waiting in ("cancelled", "paused", "waiting"):
            await engine.enqueue(patient, 1, run_id=waiting)
            await settle(engine, waiting, Status.WAITING)
        await engine.get("cancelled").cancel("enough")
        await engine.get("paused").pause("lunch")
        await engine.enqueue(turns, 1, run_id="turns")
        await engine.enqueue(sinks, 1, run_id="failed")
        for run_id in ("everything", "cancelled", "turns", "failed"):
            try:
                await engine.get(run_id).result(PATIENCE)
            except (LookupError, PerdureError):
                continue
        fork = await run.fork("post", run_id="fork")
        await fork.signal(go, "on")
        await fork.result(PATIENCE)
        await settle(engine, "paused", Status.PAUSED)


@contextmanager
def behind(store: str):
    """A connection of one's own to a store's tables; every statement is committed as it is executed."""
    if is_postgres(store):
        import psycopg

        from perdure.store.postgres.address import parse_address

        address = parse_address(store)
        options = f"-c search_path={address.schema} -c synchronous_commit=off"
        with psycopg.connect(address.conninfo, options=options, autocommit=True) as connection:
            yield lambda sql, *values: connection.execute(sql.replace("?", "%s"), values)
        return
    import apsw

    connection = apsw.Connection(store)
    connection.set_busy_timeout(5000)
    connection.pragma("synchronous", "off")
    try:
        yield lambda sql, *values: connection.execute(sql, values)
    finally:
        connection.close()
