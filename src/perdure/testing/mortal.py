"""A store as seen by a process that is going to die: up to its death all is as ever, from then on there is nothing."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeVar

from perdure.errors import StoreError
from perdure.model.records import Kind, Verdict
from perdure.store.talk import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.model.forking import Fork
    from perdure.model.records import Claim, CommitItem, Created, Event, NewRun
    from perdure.store.protocol import Store

T = TypeVar("T")

Place = Literal["before", "after", "inside"]


class Death(SystemExit):
    """The process is gone. The event loop lets a ``SystemExit`` through from wherever it is raised, at once."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a process is to die: before or after its ``number``-th write, or inside the ``number``-th body."""

    place: Place
    number: int


class Began(NamedTuple):
    """A body that began."""

    key: str
    attempt: int
    idempotency_key: str


class Doom(NamedTuple):
    """The body in which a process is to die."""

    step: tuple[str, str]
    """The run's id and the step's key."""
    what: str


class Witness:
    """What is known, from outside, of a run and its children over all the processes that execute them.

    It notes what breaks a promise. A step is known by its run's key and its own.
    """

    def __init__(self) -> None:
        self.bodies: list[Began] = []
        self.settled: dict[tuple[int, str], str] = {}
        """Steps whose outcome is committed: never to begin again. With the kind of the outcome."""
        self.broken: list[str] = []
        self._failed: dict[tuple[int, str], int] = {}
        self._keys: dict[tuple[int, str], str] = {}
        self._here: set[tuple[int, str, int]] = set()

    def new_process(self) -> None:
        """Another process takes over."""
        self._here.clear()

    def began(self, began: Began, run_key: int, *, at_most_once: bool = False) -> None:
        """A body is about to begin."""
        key, attempt, idempotency_key = began
        step = run_key, key
        if at_most_once and began in self.bodies:
            self.broken.append(f"{key} began again although it is to begin at most once")
        self.bodies.append(began)
        if step in self.settled:
            self.broken.append(f"{key} began again although its {self.settled[step]} had been committed")
        elif (*step, attempt) in self._here:
            self.broken.append(f"{key} began twice in one process as attempt {attempt}")
        elif attempt != (expected := self._failed.get(step, 0) + 1):
            self.broken.append(f"{key} began as attempt {attempt}, but attempt {expected} was due")
        self._here.add((*step, attempt))
        first = self._keys.setdefault(step, idempotency_key)
        if first != idempotency_key:
            self.broken.append(f"{key} began with the idempotency key {idempotency_key}, but it had {first} before")

    def committed(self, events: Sequence[Event]) -> None:
        """The store has acknowledged events."""
        for event in events:
            if event.key is None:
                continue
            if event.kind == Kind.STEP_FAILED and (event.payload or b"").startswith(b'{"next_at":'):
                self._failed[event.run_key, event.key] = event.attempt or 0
            elif event.kind in {Kind.STEP_COMPLETED, Kind.STEP_FAILED, Kind.STEP_CANCELLED}:
                self.settled[event.run_key, event.key] = event.word


class MortalStore(Silent):
    """Passes everything on to a store that outlives it, counts the writes of the run, and dies as planned.

    A run's uid is made of its id, so that different lives of it can be compared to the byte; not that of a run which
    another goes on as: it has the same id.
    """

    def __init__(self, inner: Store, witness: Witness, plan: Plan | None, die: Callable[[str], NoReturn]) -> None:
        self.inner = inner
        self.alive = True
        self.writes = 0
        self.claims: set[int] = set()
        self._witness = witness
        self._plan = plan
        self._die = die
        self.doomed: Doom | None = None
        """Set while the body is under way in which the process is to die: it does not get to write anything more."""

    @property
    def hasty(self) -> bool:
        """As of the store."""
        return self.inner.hasty

    @hasty.setter
    def hasty(self, hasty: bool) -> None:
        self.inner.hasty = hasty

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if not callable(value):
            return value

        def verb(*args: Any, **options: Any) -> Any:
            self._look()
            return value(*args, **options)

        return verb

    def _look(self) -> None:
        if not self.alive:
            raise Death

    def create_runs(self, new: Sequence[NewRun], /, **options: Any) -> list[Created]:
        """Create the run."""
        new = [_with_uid(run) for run in new]
        return self._write(lambda: "the run is created", lambda: self.inner.create_runs(new, **options))

    def fork_run(self, fork: Fork) -> Created:
        """Fork a run, and tell the witness what the fork begins with."""
        made = self._write(lambda: "the run is forked", lambda: self.inner.fork_run(fork))
        self._witness.committed(self.inner.read_events(made.row.run_key, 0, fork.seq))
        return made

    def commit(self, items: Sequence[CommitItem], **options: Any) -> list[Verdict]:
        """Write events, and tell the witness what is acknowledged."""
        for item in items:
            item.children = [_with_uid(child) for child in item.children]

        def commit() -> list[Verdict]:
            verdicts = self.inner.commit(items, **options)
            for item, verdict in zip(items, verdicts, strict=True):
                if verdict <= Verdict.ALREADY:
                    self._witness.committed(item.events)
            return verdicts

        return self._write(lambda: "commit of " + ", ".join(_said(e) for item in items for e in item.events), commit)

    def claim_runs(self, *args: Any, **options: Any) -> list[Claim]:
        """Claim; it counts if it finds something. Before it, all is as it was after the last write."""
        self._look()
        claims = self.inner.claim_runs(*args, **options)
        if claims:
            self.writes += 1
            self.claims.add(self.writes)
            self._dies_here("after", lambda: "the run is claimed")
        return claims

    def _write(self, what: Callable[[], str], verb: Callable[[], T]) -> T:
        self._look()
        self.writes += 1
        if self.doomed is not None:
            self._die(self.doomed.what)
        self._dies_here("before", what)
        try:
            result = verb()
        except StoreError:
            self.writes -= 1  # it comes again
            raise
        self._dies_here("after", what)
        return result

    def _dies_here(self, place: Place, what: Callable[[], str]) -> None:
        plan = self._plan
        if plan is not None and plan.place == place and plan.number == self.writes:
            self._die(what())


def _with_uid(run: NewRun) -> NewRun:
    return run._replace(uid=sha256(run.run_id.encode()).digest()[: len(run.uid)])


def _said(event: Event) -> str:
    word = event.word
    return word if event.key is None else f"{word} {event.key}"


__all__ = ["Began", "Death", "Doom", "MortalStore", "Place", "Plan", "Witness"]
