"""The first life of a run in a process of its own, which is ended by SIGKILL where a plan says."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from functools import partial
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from perdure.config import default_codecs
from perdure.errors import DefinitionError
from perdure.model.durations import to_datetime
from perdure.store.coded import coded
from perdure.store.open import open_store
from perdure.store.protocol import PAGE
from perdure.testing.clock import ManualClock
from perdure.testing.family import family
from perdure.testing.mortal import Began, Plan, Witness
from perdure.testing.order import Order
from perdure.testing.process import Process, Setting
from perdure.testing.script import Script

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

    from perdure.model.records import Event
    from perdure.store.protocol import Store
    from perdure.workflow import Workflow

GRACE = 30.0
"""Seconds that a process gets beyond the time its run may take, to import what it needs and to end."""
_ADVICE = "kill=True starts processes that import the workflow anew: define it, and what tools= names, in a module"


class Name(NamedTuple):
    """Where something is found in another process."""

    module: str
    path: str

    @classmethod
    def of(cls, workflow: Workflow[Any, Any]) -> Name:
        """Return the name of a workflow.

        Raises:
            DefinitionError: it has none that can be imported.
        """
        name = cls(workflow.fn.__module__, workflow.fn.__qualname__)
        try:
            found = name.find()
        except (ImportError, AttributeError, KeyError):
            found = None
        if found is not workflow:
            raise DefinitionError(f"{workflow!r} cannot be imported as {name.module}.{name.path}", advice=_ADVICE)
        return name

    def find(self) -> Any:
        """Return what has this name here."""
        __import__(self.module)
        return attrgetter(self.path)(sys.modules[self.module])


class Life(NamedTuple):
    """What a process needs to know of the run that it is to execute until it dies."""

    workflow: Name
    others: tuple[Name, ...]
    signals: tuple[tuple[str, Any], ...]
    value: Any
    tools: Any
    opening: Any
    start: int
    """What the clock shows (µs UTC)."""
    run_id: str
    namespace: str
    timeout: float
    plan: Plan
    lot: str | None
    forked: tuple[str, str] | None


class Executioner:
    """Lets runs begin in processes of their own, and has them killed.

    Args:
        workflow: what they execute.
        workflows: children that its code does not name.
        opening: opens the store in another process; can be pickled.

    Raises:
        DefinitionError: a workflow cannot be imported.
    """

    def __init__(
        self,
        workflow: Workflow[Any, Any],
        workflows: Sequence[Workflow[Any, Any]],
        opening: Any,
    ) -> None:
        self._workflow = Name.of(workflow)
        self._others = tuple(Name.of(one) for one in workflows)
        self._opening = opening
        # Each child is forked from one server, which has imported everything and has neither threads nor locks.
        self._context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
        if hasattr(os, "fork"):
            self._context.set_forkserver_preload([__name__, self._workflow.module])

    def process(self, setting: Setting, plan: Plan, lot: str | None) -> Killed:
        """Return a process that is to die as planned."""
        life = Life(
            self._workflow,
            self._others,
            setting.script.left,
            setting.value,
            setting.tools,
            self._opening,
            setting.clock.now(),
            setting.run_id,
            setting.namespace,
            setting.timeout,
            plan,
            lot,
            setting.forked,
        )
        return Killed(self._context, setting, life)


class Killed:
    """One process that is killed, as the one that watches it knows it.

    Attributes:
        died: what it was doing when it was killed; None if it was not.
        stuck: whether it was killed because it took too long.
        error: always None: what its waiter was told died with it.
        worker: the key of its worker.
    """

    def __init__(self, context: Any, setting: Setting, life: Life) -> None:
        self._context, self._setting, self._life = context, setting, life
        self.died: str | None = None
        self.stuck = False
        self.error: BaseException | None = None
        self.worker = 0

    def live(self) -> None:
        """Start it, hear what it does, and wait for its end.

        Raises:
            DefinitionError: it ended by itself and not with the run.
        """
        self._setting.witness.new_process()
        hears, says = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_live, args=(says, self._life), daemon=True)
        try:
            process.start()
        except (TypeError, AttributeError, ValueError) as error:  # what pickle raises, and what objects raise in it
            raise DefinitionError(
                f"what the workflow needs cannot go to another process: {error}", advice=_ADVICE
            ) from error
        says.close()
        try:
            while hears.poll(self._setting.timeout + GRACE):
                self._hear(*hears.recv())
        except EOFError:
            pass
        finally:
            hears.close()
            process.join(1)
            if process.exitcode is None:
                self.stuck = True
                process.kill()
                process.join()
        if self.died is None and not self.stuck and process.exitcode != 0:
            raise DefinitionError(
                f"a process that was to be killed ended by itself, with exit code {process.exitcode}",
                advice=f"its traceback is above. {_ADVICE}",
            )
        store = self._setting.store
        self.worker = next((one.worker_key for one in store.list_workers() if one.pid == process.pid), 0)
        self._catch_up(store)
        process.close()

    def bury(self) -> None:
        """Nothing is left of it."""

    def _hear(self, what: str, *said: Any) -> None:
        if what == "began":
            began, run_key, at_most_once = said
            self._setting.witness.began(began, run_key, at_most_once=at_most_once)
        elif what == "committed":
            self._setting.witness.committed(said[0])
        else:
            self.died, self.stuck = said

    def _catch_up(self, store: Store) -> None:
        """Let the clock show here what it showed there."""
        row = store.get_run(self._setting.run_id, self._setting.namespace)
        if row is not None:
            last = store.read_events(row.run_key, row.seq - 1, PAGE)  # the row knows of the last change of state
            self._setting.clock.set(to_datetime(max([self._setting.clock.now(), *(event.at for event in last)])))


class _Told(Witness):
    """Tells another process what it sees."""

    def __init__(self, says: Connection) -> None:
        super().__init__()
        self._says = says
        self._lock = Lock()

    def say(self, *what: object) -> None:
        """Tell; returns when it has been handed over, so that no death takes it back."""
        with self._lock:
            self._says.send(what)

    def began(self, began: Began, run_key: int, *, at_most_once: bool = False) -> None:
        """A body is about to begin."""
        self.say("began", began, run_key, at_most_once)

    def committed(self, events: Sequence[Event]) -> None:
        """The store has acknowledged events."""
        self.say("committed", list(events))


class _Doomed(Process):
    """A process that kills itself where it is to die."""

    def _die(self, what: str) -> NoReturn:
        told = self.setting.witness
        assert isinstance(told, _Told)
        told.say("died", what, self.stuck)
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        while True:
            signal.pause()


def _live(says: Connection, life: Life) -> None:
    """Execute a run, in a process of its own, until that is killed."""
    clock = ManualClock(to_datetime(life.start))
    store = life.opening(clock)
    workflow = life.workflow.find()
    setting = Setting(
        store,
        clock,
        workflow,
        life.value,
        life.tools,
        life.run_id,
        life.namespace,
        _Told(says),
        life.timeout,
        family(workflow, [other.find() for other in life.others]),
        Script(life.signals),
        life.forked,
    )
    _Doomed(setting, life.plan, Order(life.lot)).live()
    store.close()


def opening_of(path: Path) -> Callable[[ManualClock], Store]:
    """Return what opens a temporary store of this path, in any process."""
    return partial(_open, str(path))


def _open(path: str, clock: ManualClock) -> Store:
    return coded(open_store(path, durability="process", clock=clock), default_codecs())


__all__ = ["Executioner", "Killed", "opening_of"]
