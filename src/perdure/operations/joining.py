"""Starting runs and sending signals in a transaction of the caller's, on his connection.

Where that is a connection to the store's own database, runs are created there and then. All else is written into an
outbox beside the user's tables, which workers relay (see ``perdure.relaying``). Signals always are: delivering one
locks its run, and whoever executes that would wait, with all else that he commits, for the end of the caller's
transaction.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from perdure.errors import ColourError, DefinitionError, StepsTable
from perdure.model.outbox import run_entry, signal_entry
from perdure.operations.verbs import Operations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.model.outbox import Entry
    from perdure.model.records import Message, NewRun
    from perdure.store.protocol import Store
    from perdure.transactional.guests import Guest
    from perdure.workflow import Workflow

T = TypeVar("T")

_cancelling: set[asyncio.Future[object]] = set()


class Started(NamedTuple):
    """A run that is there once the caller's transaction has committed."""

    run_id: str
    run_key: int | None = None


async def create(
    operations: Operations, connection: object, runs: Sequence[NewRun], workflow: Workflow[Any, Any]
) -> list[Started]:
    """Create runs in the caller's transaction, or write them into its outbox. Of a sync driver, never suspends.

    Raises:
        RunConflict: an id (or idempotency key) is taken by another workflow or another input, as far as that is seen.
        NoTransaction: the connection is in none.
        DefinitionError: it is none that is known, or there is no outbox for it.
        StepsTable: the outbox has no table in its database.
    """
    visitor = await _begun(connection)
    store, call = operations.store, _calls(visitor)
    joined = await call(lambda: store.joined(visitor.raw)) if visitor.dialect == "postgres" else None
    if joined is not None:
        there = Operations(
            cast("Store", joined), call, operations.clock, operations.namespace, operations.definitions,
            reached=operations.reached,
        )  # fmt: skip
        created = await there.create(runs, workflow)
        return [Started(one.row.run_id, one.row.run_key) for one in created]
    if any(run.reuse is not None and run.reuse.debounce is not None for run in runs):
        raise DefinitionError(
            "debounce does not go through an outbox: what was put off there twice could begin twice",
            advice="enqueue it without within=, or where the store is the connection's own database",
        )
    await _put(operations, visitor, [run_entry(run, store.store_id, operations.codecs) for run in runs])
    return [Started(run.run_id) for run in runs]


async def send(operations: Operations, connection: object, run_id: str, what: Message) -> None:
    """Write a signal into the outbox of the caller's transaction. Of a sync driver, never suspends.

    Raises:
        NoTransaction, DefinitionError, StepsTable: as for ``create``.
    """
    visitor = await _begun(connection)
    dedup = os.urandom(16).hex() if what.dedup is None else what.dedup
    message = what._replace(run_id=run_id, namespace=operations.namespace, dedup=dedup)
    await _put(operations, visitor, [signal_entry(message, operations.store.store_id, operations.codecs)])


async def _begun(connection: object) -> Guest:
    from perdure.transactional.guests import guest  # it loads SQLite's drivers

    visitor = guest(connection)
    if visitor.is_async and asyncio._get_running_loop() is None:
        raise ColourError(
            f"{type(connection).__name__} works on an event loop",
            advice="await perdure.Engine's methods there, or give a connection of a driver that blocks",
        )
    await visitor.begin()
    return visitor


async def _put(operations: Operations, visitor: Guest, entries: Sequence[Entry]) -> None:
    from perdure.transactional.statements import OUTBOX

    fitting = [source for source in operations.outboxes if source.dialect == visitor.dialect]
    if not fitting:
        raise DefinitionError(
            "nobody would relay it: the engine has no outbox in such a database",
            advice="give Engine(outboxes=[source]) a source of perdure.transactional, here and in the workers",
        )
    for schema in dict.fromkeys(source.schema for source in fitting):
        if await visitor.execute("is_there", schema, table=OUTBOX, schema=schema or ""):
            break
    else:
        raise StepsTable(
            f"{OUTBOX} is not in the connection's database",
            found=0,
            advice="a worker with outboxes=[source] makes it; or call source.migrate(), or execute source.sql()",
        )
    at, store_id, namespace = operations.clock.now(), operations.store.store_id, operations.namespace
    for entry in entries:
        await visitor.execute("put", schema, store=store_id, namespace=namespace, at=at, **entry._asdict())
    operations.written()


def _calls(visitor: Guest) -> Any:
    """Return how verbs are called that use the visitor's connection: nobody else uses it meanwhile.

    They wait for the database, so they do it on a thread where there is a loop that others use.
    """
    raw = visitor.raw

    def locked(verb: Callable[[], T]) -> T:
        if not hasattr(raw, "pgconn"):
            return verb()
        with raw.lock:
            return verb()

    async def call(verb: Callable[[], T], /, *, then: Callable[[T], object] | None = None, **_start: object) -> T:
        if asyncio._get_running_loop() is None:
            done = locked(verb)
        elif visitor.is_async and hasattr(raw, "pgconn"):
            async with raw.lock:
                done = await _on_thread(verb, raw.cancel)
        else:
            done = await _on_thread(lambda: locked(verb), getattr(raw, "cancel", None))
        if then is not None:
            then(done)
        return done

    return call


async def _on_thread(work: Callable[[], T], cancel: Callable[[], object] | None) -> T:
    """Do some work on a thread; a caller who is cancelled asks the database to cancel too, and waits until it has."""
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(None, work)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            if cancelled is None and cancel is not None:
                _cancelling.add(asked := loop.run_in_executor(None, cancel))
                asked.add_done_callback(_cancelling.discard)
            cancelled = error
    if cancelled is not None:
        future.exception()
        raise cancelled
    return future.result()


__all__ = ["Started", "create", "send"]
