"""Perdure in a Django project: settings, a client for views, runs that begin when a transaction commits, commands."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, overload

from perdure import Engine, sync
from perdure.clock import SystemClock
from perdure.extras import extra
from perdure.finding import workflows_of
from perdure.model import ids

with extra("django"):
    from django.apps import apps as installed  # `apps` is a module of this package
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.db import connections, transaction
    from django.utils.module_loading import autodiscover_modules, import_string

if TYPE_CHECKING:
    from typing import Unpack

    from perdure.options import EnqueueOptions
    from perdure.transactional.guests import Connection
    from perdure.workflow import Workflow

InputT = TypeVar("InputT")

KNOWN: Final = ("STORE", "WORKFLOWS", "TOOLS", "OPTIONS")
"""What the setting ``PERDURE`` may have."""


def configured() -> dict[str, Any]:
    """Return the setting ``PERDURE``.

    Raises:
        ImproperlyConfigured: it has something that it may not.
    """
    given = getattr(settings, "PERDURE", {})
    unknown = sorted(set(given) - set(KNOWN))
    if unknown:
        raise ImproperlyConfigured(f"PERDURE has {', '.join(unknown)}; it may have {', '.join(KNOWN)}")
    return dict(given)


def workflows() -> list[Workflow[Any, Any]]:
    """Return the project's workflows: of the modules that ``WORKFLOWS`` names, else of each app's ``workflows``."""
    named = configured().get("WORKFLOWS")
    if named is None:
        autodiscover_modules("workflows")
        names = [f"{app.name}.workflows" for app in installed.get_app_configs()]
        modules = [sys.modules[name] for name in names if name in sys.modules]
    else:
        modules = [import_module(name) for name in named]
    found: dict[int, Workflow[Any, Any]] = {}
    for module in modules:
        found.update({id(one): one for one in workflows_of(module)})
    return list(found.values())


def options() -> dict[str, Any]:
    """Return what an engine of the project is made with, besides its store."""
    given = configured()
    made = {"workflows": workflows(), **given.get("OPTIONS", {})}
    if (tools := given.get("TOOLS")) is not None:
        made["tools"] = import_string(tools) if isinstance(tools, str) else tools
    return made


def worker_engine(**more: Any) -> Engine:
    """Return an engine with the project's settings, as ``manage.py perdure_worker`` starts one."""
    return Engine(configured().get("STORE"), **(options() | more))


class _Client:
    """The client of a process: opened when it is first asked for, closed when the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: tuple[int, sync.Engine] | None = None

    def get(self) -> sync.Engine:
        opened = self._opened
        # A process that was forked has its parent's client, whose thread it has not.
        if opened is None or opened[0] != os.getpid():
            with self._lock:
                opened = self._opened
                if opened is None or opened[0] != os.getpid():
                    opened = self._opened = (os.getpid(), self._open())
        return opened[1]

    @staticmethod
    def _open() -> sync.Engine:
        made = sync.Engine(configured().get("STORE"), **options())
        stack = ExitStack()
        stack.enter_context(made.client())
        atexit.register(stack.close)
        return made

    def after_fork(self) -> None:
        """Forget what belongs to the parent, in a process that was forked."""
        self._lock = threading.Lock()
        self._opened = None


_client: Final = _Client()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_client.after_fork)


def engine() -> sync.Engine:
    """Return the process's client: a ``perdure.sync.Engine`` that enqueues, signals and reads, and executes nothing.

    It is opened by the first call, in each process that is forked anew, and may be used from any thread. Async
    views call its methods through ``awaited``.
    """
    return _client.get()


async def awaited(call: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a method of ``engine()``, or of one of its handles, from an async view, without blocking its loop."""
    return await asyncio.to_thread(partial(call, *args, **kwargs))


def within(using: str | None = None) -> Connection:
    """Return the connection of the ``atomic`` block that is open, for ``engine().enqueue(…, within=within())``.

    The run is there once the block has committed, and never was if it is rolled back. Where Django's database is the
    store's own (PostgreSQL), the run is created in it; else the engine needs an outbox in ``OPTIONS``.

    Args:
        using: the alias of the database; by default ``default``.

    Raises:
        TransactionManagementError: no ``atomic`` block is open.
    """
    connection = connections[using or "default"]
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("within() is for code in a transaction.atomic() block")
    connection.ensure_connection()
    return cast("Connection", connection.connection)


@overload
def enqueue_on_commit(
    workflow: Workflow[None, Any], /, *, using: str | None = None, **given: Unpack[EnqueueOptions]
) -> str: ...
@overload
def enqueue_on_commit(
    workflow: Workflow[InputT, Any], value: InputT, /, *, using: str | None = None, **given: Unpack[EnqueueOptions]
) -> str: ...
def enqueue_on_commit(
    workflow: Workflow[Any, Any], value: Any = None, /, *, using: str | None = None, **given: Unpack[EnqueueOptions]
) -> str:
    """Enqueue a run once the transaction has committed, at once where there is none; return the run's id.

    If the process dies between the commit and that, the run is lost: ``within()`` leaves no such gap.

    Args:
        workflow: what to run.
        value: its input, taken as it is now.
        using: the alias of the database whose transaction it is.
        given: as for ``Engine.enqueue``; without ``run_id`` a new id is chosen.
    """
    run_id = given.get("run_id") or ids.run_id(SystemClock().now(), os.urandom)
    given["run_id"] = run_id
    enqueue: Any = engine().enqueue
    transaction.on_commit(partial(enqueue, workflow, value, **given), using=using)
    return run_id


__all__ = [
    "awaited", "configured", "engine", "enqueue_on_commit", "options", "within", "worker_engine", "workflows",
]  # fmt: skip
