"""Relaying what transactions of the user's have left in an outbox: runs are created, signals sent, entries deleted.

Nothing is lost: an entry is deleted only once the store has what it asks for. Nothing comes twice: a run has its id and
uid from the entry, a signal its idempotency key, so that who does it again finds it done. One at a time relays what is
in an outbox, in the order in which it was written, so what one transaction has sent arrives in its order.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from perdure.errors import DefinitionError, IntegrityError, PerdureError, RunPurged, StoreError, WrongState
from perdure.model.outbox import Entry, read_entry
from perdure.model.records import Delivery, Message, NewRun, Status
from perdure.operations.missing import missing
from perdure.runtime import points
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from perdure.model.records import Created
    from perdure.operations import Operations
    from perdure.transactional.source import Source
    from perdure.transactional.transaction import Transaction

T = TypeVar("T")

BATCH: Final = 100
"""Entries in one transaction."""
FIRST: Final = 0.02
"""Seconds until the next look, after a look that has found something, or something was written here; then doubled."""
EVERY: Final = 1.0
"""Seconds between looks where nothing is found."""
LONGEST: Final = 30.0
"""The same where the user's database, or the store, is away."""
IDLE: Final = 30.0
"""Seconds after which the server ends the transaction of a relay that was frozen, so that others can go on."""
LOCKS: Final = 5.0
"""Seconds that a relay waits for locks."""


class Due(NamedTuple):
    """An entry, and what it asks for; or why that cannot be."""

    id: int
    run_id: str
    asks: NewRun | Message | PerdureError


class Relay:
    """Relays what is in one outbox, as a task on the engine's loop; what blocks is done on a thread of its own."""

    def __init__(
        self,
        source: Source[Any],
        operations: Operations,
        *,
        sent: Callable[[], object],
        reached: Callable[[str], None] | None = None,
    ) -> None:
        self._source = source
        self._sent = sent
        self._operations = operations
        self._reached = reached
        self._thread: ThreadPoolExecutor | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._asked = asyncio.Event()
        self._away = 0
        """How often in a row a look has failed."""

    def start(self) -> None:
        """Look from now on, now and then."""
        self._task = asyncio.get_running_loop().create_task(self._serve(), name=f"perdure relay of {self._source!r}")

    async def stop(self, patience: float) -> None:
        """Look no more; a look that is under way has so many seconds to come to its end."""
        self._stopping = True
        self._asked.set()
        task, self._task = self._task, None
        if task is not None:
            _, left = await asyncio.wait([task], timeout=patience)
            for one in left:
                one.cancel()
            await asyncio.wait([task], timeout=1.0)
        self.abandon()

    def abandon(self) -> None:
        """End as if the process had died."""
        if self._task is not None:
            self._task.cancel()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=False, cancel_futures=True)

    def poke(self) -> None:
        """There is something to relay, or will be once the transaction that it is written in has committed."""
        self._asked.set()

    async def ready(self) -> None:
        """See to it that the tables are there, if that can be; else it is tried again with each look."""
        try:
            await self._do(self._source.ready())
        except Exception as error:  # noqa: BLE001 - whatever the driver raises
            self._failed(error)

    async def look(self) -> int:
        """Relay what is there, one batch; returns how many entries those were."""
        await self._do(self._source.ready())
        transaction = self._source.transaction()
        try:
            due = await self._do(self._take(transaction))
            if not due:
                return 0
            if self._reached is not None:
                self._reached(points.RELAY)
            aside = await self._send(due)
            self._sent()
            if self._reached is not None:
                self._reached(points.RELAYED)
            if self._source.dialect == "sqlite":
                transaction = self._source.transaction()
            await self._do(self._settle(transaction, due, aside))
            return len(due)
        finally:
            await asyncio.shield(self._do(transaction.rollback()))

    # -- in the user's database

    async def _take(self, transaction: Transaction[Any]) -> list[Due]:
        await transaction.begin()
        if self._source.dialect == "postgres":
            await transaction.execute("bounds", idle=str(round(IDLE * 1000)), lock=str(round(LOCKS * 1000)))
            free = await transaction.execute("relay_alone", schema=self._source.schema or "")
            if free != [(True,)]:
                return []
        store_id = self._operations.store.store_id
        rows = await transaction.execute("due", store=store_id, limit=BATCH)
        if self._source.dialect == "sqlite":
            # Others want to write meanwhile, who may be what this loop waits for. Who else relays sends the same in the
            # same order, and one of the two finds it done.
            await transaction.rollback()
        return [_read(row[0], Entry(row[1], row[2], *map(bytes, row[3:])), store_id) for row in rows]

    async def _settle(self, transaction: Transaction[Any], due: Iterable[Due], aside: dict[int, PerdureError]) -> None:
        if self._source.dialect == "sqlite":
            await transaction.begin()
        for one in due:
            error = aside.get(one.id)
            if error is None:
                await transaction.execute("sent", id=one.id)
            else:
                await transaction.execute("set_aside", id=one.id, code=error.code, reason=error.headline)
        await transaction.commit()
        for one in due:
            if one.id in aside:
                say(
                    lines.ENTRY_SET_ASIDE,
                    error=aside[one.id],
                    source=repr(self._source),
                    entry=one.id,
                    run_id=one.run_id,
                )

    # -- in the store

    async def _send(self, due: Sequence[Due]) -> dict[int, PerdureError]:
        """Create and send what is asked for, in order; returns what cannot be, and why."""
        aside: dict[int, PerdureError] = {}
        for kind, group in groupby(due, lambda one: type(one.asks)):
            several = list(group)
            if kind is NewRun:
                await self._each(several, self._create, aside)
            elif kind is Message:
                await self._each(several, self._deliver, aside)
            else:
                aside.update((one.id, one.asks) for one in several if isinstance(one.asks, PerdureError))
        return aside

    async def _each(
        self,
        several: list[Due],
        work: Callable[[list[Due], dict[int, PerdureError]], Coroutine[Any, Any, None]],
        aside: dict[int, PerdureError],
    ) -> None:
        """Do them together; if that fails for a reason of one of them, each by itself."""
        try:
            await work(several, aside)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one
            if len(several) == 1:
                aside[several[0].id] = error if isinstance(error, PerdureError) else _cannot(error)
                return
            for one in several:
                await self._each([one], work, aside)

    async def _create(self, several: list[Due], aside: dict[int, PerdureError]) -> None:
        operations = self._operations
        runs = [one.asks for one in several if isinstance(one.asks, NewRun)]
        created: list[Created] = await operations.call(lambda: operations.store.create_runs(runs))
        for one, run, found in zip(several, runs, created, strict=True):
            if found.is_new or found.purged is not None:  # what is purged was delivered before
                continue
            try:
                await operations.check_same(found.row, operations.definitions.get((run.workflow, run.version)), run)
            except (StoreError, RunPurged) as error:
                if isinstance(error, StoreError):
                    raise
            except PerdureError as error:
                aside[one.id] = error

    async def _deliver(self, several: list[Due], aside: dict[int, PerdureError]) -> None:
        operations = self._operations
        messages = [one.asks for one in several if isinstance(one.asks, Message)]
        told = await operations.call(lambda: operations.store.deliver(messages))
        for one, message, delivery in zip(several, messages, told, strict=True):
            if delivery in {Delivery.UNKNOWN, Delivery.ENDED} and (error := await self._unheard(one, message)):
                aside[one.id] = error

    async def _unheard(self, one: Due, message: Message) -> PerdureError | None:
        """Why nobody hears a signal; None if it may have been heard: what a completed run was sent is forgotten."""
        operations = self._operations
        store, namespace = operations.store, message.namespace
        row = await operations.call(lambda: store.get_run(one.run_id, namespace))
        if row is None:
            error = await operations.call(lambda: missing(store, one.run_id, namespace))
            return None if isinstance(error, RunPurged) else error
        if row.status is Status.COMPLETED:
            say(lines.SIGNAL_UNHEARD, source=repr(self._source), entry=one.id, run_id=one.run_id)
            return None
        return WrongState(
            f"run {one.run_id!r} is {row.status.word}, and hears no signal any more",
            run_id=one.run_id,
            status=row.status.word,
        )

    # -- its own life

    async def _serve(self) -> None:
        pause = FIRST
        while not self._stopping:
            try:
                found = await self.look()
            except Exception as error:  # noqa: BLE001 - the worker goes on with what it can do
                pause = self._failed(error)
            else:
                if self._away:
                    say(lines.OUTBOX_BACK, source=repr(self._source))
                self._away = 0
                pause = 0.0 if found == BATCH else FIRST if found else min(2 * (pause or FIRST), EVERY)
            if pause:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._asked.wait()
                if self._asked.is_set():
                    pause = FIRST / 2
                self._asked.clear()

    def _failed(self, error: Exception) -> float:
        if self._source.may_pass(error):
            return FIRST
        self._away += 1
        if self._away == 1:
            say(lines.OUTBOX_AWAY, error=error, source=repr(self._source), reason=_headline(error))
        return min(FIRST * 2.0**self._away, LONGEST)

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the user's database: on the loop, or where the driver blocks, on a thread."""
        if self._source.is_async:
            return await work
        from perdure.transactional.source import drive

        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "perdure-relay")  # one: some connections are a thread's
        return await asyncio.get_running_loop().run_in_executor(self._thread, drive, work)


class Relays:
    """What an engine relays: one ``Relay`` for each of its outboxes."""

    def __init__(self, sources: Iterable[Source[Any]]) -> None:
        self.sources = _checked(tuple(sources))
        self._relays: list[Relay] = []

    async def open(
        self, operations: Operations, *, sent: Callable[[], object], reached: Callable[[str], None] | None = None
    ) -> None:
        """Let transactions write into them; ``sent`` is told whenever there may be something to claim."""
        loop = asyncio.get_running_loop()
        operations.outboxes, operations.written = self.sources, lambda: loop.call_soon_threadsafe(self._poke)
        if not self._relays:
            self._relays = [Relay(source, operations, sent=sent, reached=reached) for source in self.sources]
            for relay in self._relays:
                await relay.ready()

    def start(self) -> None:
        """Relay what is written into them, until ``stop``."""
        for relay in self._relays:
            relay.start()

    def _poke(self) -> None:
        for relay in self._relays:
            relay.poke()

    async def tick(self) -> None:
        """Relay what is there now."""
        for relay in self._relays:
            while await relay.look() == BATCH:
                pass

    async def stop(self, patience: float) -> None:
        """Relay no more."""
        relays, self._relays = self._relays, []
        if relays:
            await asyncio.gather(*(relay.stop(patience) for relay in relays))

    def abandon(self) -> None:
        """End as if the process had died."""
        relays, self._relays = self._relays, []
        for relay in relays:
            relay.abandon()


def _checked(sources: tuple[Source[Any], ...]) -> tuple[Source[Any], ...]:
    if sources:
        from perdure.transactional.source import Source  # it loads SQLite's drivers

        for source in sources:
            if not isinstance(source, Source):
                raise DefinitionError(
                    f"{source!r} is no outbox",
                    advice="give sources of perdure.transactional: Engine(outboxes=[source])",
                )
    return sources


def _read(number: int, entry: Entry, store_id: str) -> Due:
    try:
        return Due(number, entry.run, read_entry(entry, store_id))
    except PerdureError as error:
        return Due(number, entry.run, error)
    except Exception as error:  # noqa: BLE001 - its seal fits, yet nobody can make anything of it
        return Due(number, entry.run, _cannot(error))


def _cannot(error: Exception) -> PerdureError:
    return IntegrityError(f"it cannot be made anything of: {type(error).__name__}")


def _headline(error: BaseException) -> str:
    return error.headline if isinstance(error, PerdureError) else f"{type(error).__name__}: {error}".partition("\n")[0]


__all__ = ["Relay", "Relays"]
