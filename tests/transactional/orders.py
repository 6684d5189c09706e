"""What child processes execute: orders that are taken in a transaction of a user's, with the runs that ship them."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import closing
from typing import Any

import perdure.sync
from perdure import INJECTED, Engine, Signal, StepContext, step, workflow
from perdure.transactional import AsyncPsycopg, Psycopg, SQLite
from tests.crash import apps
from tests.crash.ledger import Ledger
from tests.crash.procs import FAST, Announced
from tests.transactional.databases import open_database

paid = Signal[int]("paid")
HERE: dict[str, Any] = {}
"""Of this process: the address of the user's database, and the engine."""

remote = AsyncPsycopg(lambda: HERE["address"])
local = SQLite(lambda: open_database(HERE["address"]))


@step
async def pack(order: str, *, ctx: StepContext[Any] = INJECTED) -> str:
    ctx.tools.ledger.note("begin", ctx)
    return order


@workflow
async def ship(order: str) -> str:
    return f"{await pack(order)} {await paid.wait()} {await paid.wait()} {await paid.wait()}"


@workflow
async def deliver(order: str) -> str:
    return await pack(order)


@step(transactional=remote)
async def take_remote(order: str) -> str:
    connection = remote.connection()
    await connection.execute("INSERT INTO ledger VALUES (%s, 1)", (order,))
    # The id is another one each time: nothing but the transaction makes it one run.
    handle = await HERE["engine"].enqueue(deliver, order, run_id=os.urandom(8).hex(), within=connection)
    return str(handle.run_id)


@step(transactional=local)
def take_local(order: str) -> str:
    connection = local.connection()
    connection.execute("INSERT INTO ledger VALUES (?, 1)", (order,))
    return str(HERE["desk"].enqueue(deliver, order, run_id=os.urandom(8).hex(), within=connection).run_id)


@workflow
async def trade(order: str) -> str:
    is_remote = HERE["address"].startswith("postgresql:")
    return await (take_remote(order) if is_remote else take_local.aio(order))


WORKFLOWS: list[Any] = [ship, deliver, trade]


def outbox(address: str) -> Psycopg[Any] | SQLite:
    """The source that is relayed."""
    return Psycopg(address) if address.startswith("postgresql:") else SQLite(address)


def work(store: str, ledger: Ledger, address: str, options: dict[str, Any]) -> None:
    """Be a worker that relays, until it is killed."""
    HERE["address"] = address
    relayed = [outbox(address)]
    engine = Announced(
        store, workflows=WORKFLOWS, tools=apps.Tools(ledger), outboxes=relayed, crash_cap=100_000, **(FAST | options)
    )
    engine.ledger, HERE["engine"] = ledger, engine
    with perdure.sync.Engine(store, outboxes=relayed).client() as HERE["desk"]:
        asyncio.run(engine.serve())


def take(store: str, ledger: Ledger, address: str, orders: list[str], point: str) -> None:
    """Take orders, one transaction each, and die at a point of the last one's."""
    with perdure.sync.Engine(store, outboxes=[outbox(address)]).client() as desk:
        for order in orders:
            with closing(open_database(address)) as connection:
                connection.execute("BEGIN")
                connection.execute(f"INSERT INTO ledger VALUES ('{order}', 1)")  # noqa: S608 - a name of ours
                handle = desk.enqueue(ship, order, run_id=order, within=connection)
                for number in (1, 2):
                    handle.signal(paid, number, within=connection)
                if order == orders[-1] and point == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                connection.execute("COMMIT")
        if point == "after":
            os.kill(os.getpid(), signal.SIGKILL)
    ledger.write("taken")


async def rows(store: str) -> dict[str, Any]:
    """The runs in a store, by id."""
    async with Engine(store).client() as client:
        return {row.run_id: row async for row in client.runs()}
