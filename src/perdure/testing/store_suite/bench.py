"""The bench a store is put on: makes runs, workers and items, and plays the holder of a run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from threading import Event as Signal
from typing import TYPE_CHECKING

from perdure.clock import SystemClock
from perdure.model.chain import check, seal
from perdure.model.history import fold
from perdure.model.records import CommitItem, Event, Kind, NewRun, StateChange, Status, WorkerRow
from perdure.store.protocol import Filter, Route

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any, Self

    from perdure.model.records import Artifact, Claim, Created, RunRow, Verdict
    from perdure.store.protocol import Store

Case = Callable[["Bench"], None]

CASES: list[Case] = []
"""Every case, in the order of a run's life."""

SECOND = 1_000_000
ROUTE = Route("greet")

_ENDS = {
    Status.COMPLETED: Kind.RUN_COMPLETED,
    Status.FAILED: Kind.RUN_FAILED,
    Status.CANCELLED: Kind.RUN_CANCELLED,
    Status.BLOCKED: Kind.RUN_BLOCKED,
    Status.PAUSED: Kind.RUN_PAUSED,
}


def case(function: Case) -> Case:
    """Add a case to the suite."""
    CASES.append(function)
    return function


def soon(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether something comes true before long: for what a store may say a little later."""
    clock, never = SystemClock(), Signal()
    deadline = clock.monotonic() + seconds
    while not condition():
        if clock.monotonic() > deadline:
            return False
        never.wait(0.005)
    return True


class Bench:
    """One store under test, and hands to work it with."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open = open_store
        self._stores: list[Store] = []
        self.store = self.open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.check_folds()
        for store in self._stores:
            store.close()

    def open(self) -> Store:
        """Another handle to the same store."""
        store = self._open()
        self._stores.append(store)
        return store

    # -- runs and workers

    def new(self, run_id: str = "one", **changes: Any) -> NewRun:
        """A run to create."""
        run = NewRun(
            run_id=run_id, uid=os.urandom(16), workflow="greet", version="", created_at=self.store.now(), codec=0,
            payload=b'"input"', origin=b'{"module":"app"}',
        )  # fmt: skip
        return run._replace(**changes)

    def create(self, run_id: str = "one", **changes: Any) -> RunRow:
        """Create one run."""
        return self.store.create_runs([self.new(run_id, **changes)])[0].row

    def create_many(self, count: int, prefix: str = "run") -> list[Created]:
        """Create ``prefix-0`` and so on."""
        return self.store.create_runs([self.new(f"{prefix}-{number}") for number in range(count)])

    def worker(self, store: Store | None = None, *, build: str = "", routes: Sequence[Route] = (ROUTE,)) -> int:
        """Register a worker that lives; its key."""
        key = int.from_bytes(os.urandom(8), "big") >> 2
        store = store or self.store
        store.register_worker(WorkerRow(
            worker_key=key, name=f"worker-{key % 1000}", host="bench", pid=os.getpid(), pid_started=0, boot="",
            build=build, sidecar="", started_at=store.now(), lease_until=60 * SECOND, beat=0,
        ), routes)  # fmt: skip
        assert store.renew(key, 60 * SECOND, 1)
        return key

    def claim(self, worker: int, limit: int = 10, **options: Any) -> list[Claim]:
        """Claim on the suite's usual route."""
        return self.store.claim_runs(worker, [ROUTE], limit, **options)

    def hold(self, run_id: str = "one", worker: int | None = None, **changes: Any) -> Holder:
        """Create a run and claim it."""
        worker = self.worker() if worker is None else worker
        made = self.store.create_runs([self.new(run_id, **changes)], claim_for=worker)[0]
        assert made.claim is not None
        return Holder(self.store, worker, made.claim)

    def retake(self, run_key: int, worker: int | None = None, **options: Any) -> Holder:
        """Claim a run that is there."""
        worker = self.worker() if worker is None else worker
        (claim,) = self.claim(worker, only=run_key, **options)
        return Holder(self.store, worker, claim)

    def resume(self, run_key: int, payload: bytes = b"{}") -> RunRow:
        """Resume a run as it is now."""
        row = self.store.resume_run(run_key, self.row(run_key).epoch, payload)
        assert row is not None
        return row

    def row(self, run_key: int) -> RunRow:
        """A run's row as it is now."""
        (row,) = self.store.get_runs([run_key])
        return row

    def log(self, run_key: int) -> list[Event]:
        """A run's whole log."""
        log: list[Event] = []
        while page := self.store.read_events(run_key, log[-1].seq if log else 0):
            log += page
        return log

    def kinds(self, run_key: int) -> list[Kind]:
        """The kinds of a run's events."""
        return [Kind(event.kind) for event in self.log(run_key)]

    # -- the law over all cases

    def check_folds(self) -> None:
        """Every log is whole, and every row is the fold of its log."""
        where = Filter()
        while rows := self.store.list_runs(where):
            where = replace(where, after=where.place(rows[-1]))
            for row in rows:
                log = self.log(row.run_key)
                check(row.uid, log, run_id=row.run_id)
                view = fold(log)
                assert (view.status, view.epoch, view.ended_at) == (row.status, row.epoch, row.ended_at), row.run_id
                assert log[row.seq - 1].hash == row.hash, row.run_id
                if row.worker_key is None:
                    assert (row.seq, row.hash) == (view.seq, view.hash), row.run_id


class Holder:
    """Who holds a run: makes items whose events continue its log."""

    def __init__(self, store: Store, worker: int, claim: Claim) -> None:
        self.store = store
        self.worker = worker
        self.key = claim.row.run_key
        self.epoch = claim.row.epoch
        self.last = claim.events[-1]
        self.seq = self.last.seq

    def event(self, kind: Kind, payload: bytes = b"null", key: str | None = None) -> Event:
        """The next event of the log."""
        last = self.last
        self.last = seal(
            last.hash, self.key, last.seq + 1, last.at + 1, self.epoch, kind, key, None if key is None else 1,
            payload=payload,
        )  # fmt: skip
        return self.last

    def steps(self, count: int = 1, **changes: Any) -> CommitItem:
        """An item with some finished steps."""
        events = [self.event(Kind.STEP_COMPLETED, key=f"greet/say#{self.last.seq}") for _ in range(count)]
        return replace(CommitItem(self.key, self.epoch, events), **changes)

    def end(self, status: Status = Status.COMPLETED, *, reason: str | None = None, **more: Any) -> CommitItem:
        """An item that ends the run or parks it; with more than that."""
        state = StateChange(status, reason=reason)
        return CommitItem(self.key, self.epoch, [self.event(_ENDS[status], b"{}")], state=state, **more)

    def suspend(
        self,
        status: Status = Status.SLEEPING,
        *,
        wake_at: int | None = None,
        awaits: Sequence[str] | None = None,
        **more: Any,
    ) -> CommitItem:
        """An item with which the run waits, for an instant or for signals; with more than that."""
        state = StateChange(status, wake_at=wake_at, awaits=None if awaits is None else json.dumps(awaits))
        wake = "null" if state.wake_at is None else str(state.wake_at)
        payload = f'{{"status":"{status.word}","wake_at":{wake}}}'.encode()
        return CommitItem(self.key, self.epoch, [self.event(Kind.RUN_SUSPENDED, payload)], state=state, **more)

    def commit(self, *items: CommitItem) -> list[Verdict]:
        """Commit items of this run."""
        return self.store.commit(items)

    def keep(self, artifact: Artifact) -> CommitItem:
        """A step that keeps an artifact."""
        return self.steps(artifacts=[artifact])
