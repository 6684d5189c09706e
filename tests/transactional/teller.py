"""What child processes execute: transfers in two databases of a user's, which say in the ledger that they begin.

Where the databases are stands in a file beside the ledger, one address a line.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from perdure import INJECTED, Retry, StepContext, step, step_context, workflow
from perdure.transactional import AsyncPsycopg, SQLite
from perdure.workflow import Workflow
from tests.transactional.databases import open_database

Ctx = StepContext[Any]
PLACE = "databases"
DECLINE = "decline"
"""While there is a file of this name beside the ledger, ``deciding`` declines."""


FREEZE = "freeze"
"""A file of this name beside the ledger, with a store's path in it: the next body at the gate freezes its process."""


def freeze(store: str) -> None:
    """Stop this process, at a moment at which it does not hold the store's write lock: else nobody could take over."""
    with closing(apsw.Connection(store)) as connection:
        connection.set_busy_timeout(5000)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    os.kill(os.getpid(), signal.SIGSTOP)


def _freeze_once(ctx: Ctx) -> None:
    wish = Path(ctx.tools.ledger.file).with_name(FREEZE)
    if wish.exists():
        store = wish.read_text()
        wish.unlink()
        ctx.tools.ledger.write("frozen")
        freeze(store)


def _place(line: int) -> str:
    ledger = step_context().tools.ledger
    return (Path(ledger.file).with_name(PLACE)).read_text().splitlines()[line]


remote = AsyncPsycopg(lambda: _place(0), settle="20s")
local = SQLite(lambda: open_database(_place(1)), settle="20s")
AGAIN = Retry(max_attempts=5, initial_delay=0.01, jitter=False)


class Declined(Exception):
    pass


@step(transactional=remote, retry=AGAIN)
async def send(entry: str, amount: int, *, ctx: Ctx = INJECTED) -> str:
    ctx.tools.ledger.note("begin", ctx)
    connection = remote.connection()
    await connection.execute("INSERT INTO ledger VALUES (%s, %s)", (entry, amount))
    if entry.endswith("again") and ctx.attempt == 1:
        raise Declined(entry)
    await connection.execute("UPDATE accounts SET balance = balance - %s WHERE name = 'here'", (amount,))
    await connection.execute("UPDATE accounts SET balance = balance + %s WHERE name = 'there'", (amount,))
    return f"sent {entry}"


@step(transactional=local, retry=AGAIN)
def note(entry: str, amount: int, *, ctx: Ctx = INJECTED) -> str:
    ctx.tools.ledger.note("begin", ctx)
    connection = local.connection()
    connection.execute("INSERT INTO ledger VALUES (?, ?)", (entry, amount))
    if entry.endswith("again") and ctx.attempt == 1:
        raise Declined(entry)
    connection.execute("UPDATE accounts SET balance = balance - ? WHERE name = 'here'", (amount,))
    connection.execute("UPDATE accounts SET balance = balance + ? WHERE name = 'there'", (amount,))
    return f"noted {entry}"


@workflow
async def banking(name: str) -> list[str]:
    one = await asyncio.gather(send(f"{name}-1", 1), note.aio(f"{name}-1", 1))
    return [*one, await send(f"{name}-again", 1), await note.aio(f"{name}-again", 1)]


def expected(name: str) -> list[str]:
    """What ``banking`` returns."""
    return [f"sent {name}-1", f"noted {name}-1", f"sent {name}-again", f"noted {name}-again"]


@step(transactional=remote, retry=AGAIN)
async def send_at_gate(entry: str, *, ctx: Ctx = INJECTED) -> str:
    await remote.connection().execute("INSERT INTO ledger VALUES (%s, 1)", (entry,))
    ctx.tools.ledger.note("begin", ctx)
    _freeze_once(ctx)
    await ctx.tools.ledger.pass_gate()
    return entry


@step(transactional=local, retry=AGAIN)
def note_at_gate(entry: str, *, ctx: Ctx = INJECTED) -> str:
    local.connection().execute("INSERT INTO ledger VALUES (?, 1)", (entry,))
    ctx.tools.ledger.note("begin", ctx)
    _freeze_once(ctx)
    asyncio.run(ctx.tools.ledger.pass_gate())
    return entry


@workflow
async def sending(entry: str) -> str:
    return await send_at_gate(entry)


@workflow
async def noting(entry: str) -> str:
    return await note_at_gate.aio(entry)


def _decide(ctx: Ctx) -> None:
    ctx.tools.ledger.note("begin", ctx)
    if Path(ctx.tools.ledger.file).with_name(DECLINE).exists():
        raise Declined


@step(transactional=remote)
async def send_or_decline(entry: str, *, ctx: Ctx = INJECTED) -> str:
    await remote.connection().execute("INSERT INTO ledger VALUES (%s, 1)", (entry,))
    _decide(ctx)
    return entry


@step(transactional=local)
def note_or_decline(entry: str, *, ctx: Ctx = INJECTED) -> str:
    local.connection().execute("INSERT INTO ledger VALUES (?, 1)", (entry,))
    _decide(ctx)
    return entry


@workflow
async def deciding(which: str) -> str:
    try:
        return await (send_or_decline("x") if which == "sending" else note_or_decline.aio("x"))
    except Declined:
        return "declined"


@workflow
async def impatient(entry: str) -> str:
    try:
        return await asyncio.wait_for(note_at_gate.aio(entry), 0.05)
    except TimeoutError:
        return "late"


WORKFLOWS: list[Workflow[Any, Any]] = [banking, sending, noting, deciding, impatient]
