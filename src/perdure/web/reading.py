"""The store that a dashboard shows, opened when it is first asked for, and again after it was away.

Verbs of stores block, so they are called on threads. Nothing is created, and no workflow is executed.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from perdure import describe
from perdure.clock import SystemClock
from perdure.codecs import check_codecs
from perdure.config import default_codecs, default_namespace, default_store
from perdure.diagnosis.doctor import doctor
from perdure.engine import Engine
from perdure.errors import StoreGone, StoreUnreachable
from perdure.model.deeds import Author
from perdure.model.ids import valid_namespace
from perdure.operations import Operations
from perdure.store.coded import coded
from perdure.store.open import is_postgres, open_store, store_name, store_path
from perdure.sync import Engine as SyncEngine
from perdure.web.jobs import Jobs
from perdure.web.lately import Lately
from perdure.web.logs import Logs
from perdure.workflow import collect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from perdure.diagnosis.doctor import Report
    from perdure.model.coding import Codec
    from perdure.model.redaction import Redaction
    from perdure.store.protocol import Store
    from perdure.web.settings import Visitor
    from perdure.workflow import Workflow

T = TypeVar("T")

THREADS = 4
"""Reads of the store at a time."""
LISTED = 2_000_000
"""µs between two looks at which namespaces there are."""


class Reader:
    """Reads from a store, and changes what is in it by the operations that engines use as well.

    Args:
        target: an engine, whose store and namespace are meant; an open store; or the address of one.
        namespace: the namespace shown.
        redaction: what is left out of all that is read.
        codecs: what stored values go through; by default the engine's, else what ``perdure.config`` says.
        workflows: workflows whose code is here, besides the engine's.

    Attributes:
        changes: how often the store was seen to have changed.
        definitions: the workflows whose code is here, by name and version.
        is_fixed: whether it shows one namespace and no other.
        namespaces: those of the store, when it was last looked.
    """

    def __init__(
        self,
        target: Engine | SyncEngine | Store | str | Path | None,
        namespace: str | None,
        redaction: Redaction,
        codecs: Iterable[Codec] | None = None,
        workflows: Iterable[Workflow[Any, Any]] = (),
    ) -> None:
        if isinstance(target, SyncEngine):
            target = target._engine  # noqa: SLF001 - the engine behind the blocking one
        self.definitions: Mapping[tuple[str, str], Workflow[Any, Any]] = collect(workflows)
        if isinstance(target, Engine):
            # The same names are a user's own business on an engine, so they are no part of its interface.
            self.definitions = {**target._definitions, **self.definitions}  # noqa: SLF001
            codecs = target._codecs if codecs is None else codecs  # noqa: SLF001
            namespace = target._namespace or None if namespace is None else namespace  # noqa: SLF001
            target = target._target  # noqa: SLF001
        self.is_fixed = namespace is not None
        self.namespace = default_namespace() if namespace is None else valid_namespace(namespace)
        self.namespaces: tuple[str, ...] = ()
        self._clock = SystemClock()
        self._listed_at = 0
        self.redaction = redaction
        self._codecs = default_codecs() if codecs is None else check_codecs(codecs)
        self.logs = Logs()
        self.lately = Lately()
        self.jobs = Jobs()
        self.changes = 0
        self._given: Store | None = None
        self._store: Store | None = None
        self._address: str | Path = ""
        if target is None or isinstance(target, (str, Path)):
            self._address = default_store() if target is None else target
            self.name = store_name(self._address)
        else:
            self._given = target
            self.name = target.url
        self._opening = threading.Lock()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="perdure-web")
        self._examiner = ThreadPoolExecutor(1, thread_name_prefix="perdure-web-doctor")
        self._examinations: dict[bool, Future[Report]] = {}

    async def read(self, read: Callable[[Store], T]) -> T:
        """Read from the store on a thread.

        Raises:
            StoreError: it cannot be opened or reached; it is opened anew at the next read.
        """
        return await asyncio.wrap_future(self._submit(read))

    def _submit(self, read: Callable[[Store], T]) -> Any:
        def task() -> T:
            with describe.redacting(self.redaction):
                store = self._opened()
                try:
                    self._look(store)
                    self._list_namespaces(store)
                    return read(store)
                except StoreGone:
                    self._let_go(store)
                    raise

        return self._pool.submit(contextvars.copy_context().run, task)

    def _look(self, store: Store) -> None:
        """Note whether the store has changed; raises ``StoreGone`` if it is another's by now, which no read would."""
        # Of a store that is somebody else's, word of changes is theirs: it is given once.
        if self._given is not None or store.changed():
            self.changes += 1

    def _list_namespaces(self, store: Store) -> None:
        now = self._clock.now()
        if not self.is_fixed and abs(now - self._listed_at) >= LISTED:
            self._listed_at = now
            self.namespaces = tuple(store.list_namespaces())

    async def examined(self, *, deep: bool) -> Report | None:
        """Examine the store, on a thread of its own and once for all who ask meanwhile; None: that needs its address.

        Args:
            deep: whether to read all of it.
        """
        target = self._address
        if self._given is not None:
            target = self._given.url
            if is_postgres(target):  # a URL without the password, if there is one
                return None
        known = self._examinations.get(deep)
        if known is None or known.done():
            known = self._examinations[deep] = self._examiner.submit(doctor, target, deep=deep)
        return await asyncio.shield(asyncio.wrap_future(known))

    async def operations(self, namespace: str, visitor: Visitor | None = None) -> Operations:
        """Return what can be done with runs of a namespace, on the loop that runs now; ``visitor``: by whom.

        Raises:
            StoreError: the store cannot be opened.
        """

        def call(
            verb: Callable[[], T], /, *, then: Callable[[T], object] | None = None, **_start: object
        ) -> asyncio.Future[T]:
            def task(_: Store) -> T:
                result = verb()
                if then is not None:
                    then(result)
                return result

            return asyncio.wrap_future(self._submit(task))

        store = await self.read(lambda store: store)
        operations = Operations(store, call, self._clock, namespace, self.definitions)
        operations.author = None if visitor is None else Author("dashboard", visitor.name)
        return operations

    def _opened(self) -> Store:
        with self._opening:
            if self._store is None:
                opened = self._open() if self._given is None else self._given
                self._store = coded(opened, self._codecs, may_be_locked=True)
            return self._store

    def _open(self) -> Store:
        if not is_postgres(self._address):
            path = store_path(self._address)
            if not path.exists() or path.stat().st_size == 0:
                raise StoreUnreachable(
                    f"there is no store at {path}",
                    store=str(path),
                    advice="it is made by the first run, engine or worker that uses it; this page looks for it again",
                )
        return open_store(self._address, create=False)

    def _let_go(self, store: Store) -> None:
        with self._opening:
            if self._store is store:
                self._store = None
                self.lately.forget()
                if self._given is None:
                    store.close()

    def close(self) -> None:
        """Let go of the store, unless it was given open."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._examiner.shutdown(wait=False, cancel_futures=True)
        if self._store is not None:
            self._let_go(self._store)


__all__ = ["Reader"]
