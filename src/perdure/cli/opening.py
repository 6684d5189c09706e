"""The store that a command works on, and what is read from it."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

from perdure.cli.options import namespace
from perdure.clock import SystemClock
from perdure.config import default_codecs, default_store
from perdure.errors import RunNotFound, RunPurged, StoreUnreachable
from perdure.model.deeds import Author
from perdure.operations import Operations
from perdure.operations.missing import missing
from perdure.store.coded import coded
from perdure.store.open import is_postgres, open_store, store_path
from perdure.store.protocol import PAGE, Filter

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterator
    from typing import Any

    from perdure.model.records import Event, RunRow
    from perdure.store.protocol import Store

T = TypeVar("T")
V = TypeVar("V")

LOOKED_THROUGH = 1000
"""Runs among which similar ids are looked for."""


@contextmanager
def existing_store(target: str | None) -> Generator[Store, None, None]:
    """Open a store that is there; none is made.

    Args:
        target: as ``--store`` was given; by default see ``perdure.config``.

    Raises:
        StoreUnreachable: there is none.
        StoreError: it cannot be opened.
    """
    address = target or default_store()
    if not is_postgres(address):
        path = store_path(address)
        if not path.exists() or path.stat().st_size == 0:
            raise StoreUnreachable(
                f"there is no store at {path}",
                store=str(path),
                advice="name one with --store or PERDURE_STORE; "
                "it is made by the first run, engine or worker that uses it",
            )
    opened = open_store(address, create=False)
    try:
        store = coded(opened, default_codecs(), may_be_locked=True)
        yield store
    finally:
        opened.close()


def find_run(store: Store, run_id: str) -> RunRow:
    """Return a run's row.

    Raises:
        RunNotFound: no such run; the advice names similar ids.
    """
    row = store.get_run(run_id, namespace())
    if row is not None:
        return row
    why = missing(store, run_id, namespace())
    if isinstance(why, RunPurged):
        raise why
    known = [run.run_id for run in store.list_runs(Filter(namespace=namespace(), limit=LOOKED_THROUGH))]
    near = [one for one in known if one.startswith(run_id) or run_id in one][:3] or get_close_matches(
        run_id, known, n=3
    )
    advice = f"did you mean {' or '.join(near)}?" if near else "`perdure runs` lists what is there"
    raise RunNotFound(f"no run {run_id!r} in {store.url}", run_id=run_id, advice=advice)


def log_pages(store: Store, run: RunRow, after: int = 0) -> Iterator[list[Event]]:
    """Iterate over a run's log, or what follows a seq, page by page."""
    while page := store.read_events(run.run_key, after, PAGE):
        after = page[-1].seq
        yield page


def read_log(store: Store, run: RunRow, after: int = 0) -> list[Event]:
    """Return a run's log, or what follows a seq.

    Raises:
        RunPurged: it was purged while it was read.
    """
    found = [event for page in log_pages(store, run, after) for event in page]
    if (found[-1].seq if found else after) < run.seq and not store.get_runs([run.run_key]):
        raise missing(store, run.run_id, run.namespace)
    return found


def all_runs(store: Store, where: Filter) -> Iterator[RunRow]:
    """Iterate over runs, newest first."""
    for page in pages(store, where):
        yield from page


def pages(store: Store, where: Filter) -> Iterator[list[RunRow]]:
    """Iterate over pages of runs, newest first."""
    while page := store.list_runs(where):
        yield page
        where = replace(where, after=where.place(page[-1]))


def author() -> Author:
    """Return who uses the command line: the user of the system, and the host."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # nobody of that number is known
        user = str(os.getuid()) if hasattr(os, "getuid") else "unknown"
    return Author("cli", f"{user}@{socket.gethostname()}")


def operate(store: Store, act: Callable[[Operations], Coroutine[Any, Any, T]]) -> T:
    """Do something with runs through the operations that engines use as well."""

    def call(
        verb: Callable[[], V], /, *, then: Callable[[V], object] | None = None, **_start: object
    ) -> asyncio.Future[V]:
        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        try:
            result = verb()
            if then is not None:
                then(result)
            future.set_result(result)
        except Exception as error:  # noqa: BLE001 - raised to whoever awaits
            future.set_exception(error)
        return future

    async def main() -> T:
        operations = Operations(store, call, SystemClock(), namespace())
        operations.author = author()
        return await act(operations)

    return asyncio.run(main())
