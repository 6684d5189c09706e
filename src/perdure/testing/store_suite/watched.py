"""The machine's hands and eyes: what its rules work with, and what must be so after each of them."""

# ruff: noqa: D102 - an invariant's name is what it says

from __future__ import annotations

import itertools
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from hypothesis.stateful import RuleBasedStateMachine, invariant

from perdure.model.chain import check
from perdure.model.history import fold
from perdure.model.records import CommitItem, Event, InboxKind, Status, Verdict
from perdure.store.protocol import Filter, Route
from perdure.testing.store_suite.claimants import Claimant
from perdure.testing.store_suite.listed import check_list, error_of
from perdure.testing.store_suite.model import Letter, Model, Run, Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import NewRun
    from perdure.store.protocol import Store
    from perdure.testing.store_suite.bench import Bench

SECOND: Final = 1_000_000
BEGINNING: Final = 4_102_444_800 * SECOND
"""2100: far from the store's own clock, so that which of two instants is later does not hang on the hour of the day."""
BUILDS: Final = ("a", "b")
_numbers = itertools.count(1)


class Watched(RuleBasedStateMachine):
    """A machine without rules: a store, a model of it, and whoever works with both."""

    bench: ClassVar[Bench]
    clients: ClassVar[Sequence[Store]]

    def __init__(self) -> None:
        super().__init__()
        # Every example works on runs, a route and workers of its own, in a store that has those of the others too.
        self.tag = f"{os.getpid()}-{next(_numbers)}-{os.urandom(3).hex()}"
        self.route = Route(self.tag)
        self.now = BEGINNING
        self.model = Model(self._told, self._key_of)
        self.claimants: list[Claimant] = []
        self.stranded: list[int] = []
        self.ordinals: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.checked: dict[int, int] = {}
        self.turn = 0
        for number, build in enumerate(BUILDS):
            self.join(build, number)
        self.begin(self.new("run-0", 0), None)
        for number in (1, 2):
            child = self.new(f"run-{number}", number, parent_key=self.run_at(0).row.run_key)
            self.begin(child, self.worker_at(number))

    def _told(self, run_key: int, seq: int) -> Event:
        found = self.store.read_events(run_key, seq - 1, 1)
        assert found, f"event {seq} is missing"
        return found[0]

    def _key_of(self, run_id: str) -> int:
        found = self.store.get_run(run_id)
        assert found is not None, f"run {run_id} is missing"
        return found.run_key

    @property
    def store(self) -> Store:
        """One client after the other."""
        self.turn += 1
        return self.clients[self.turn % len(self.clients)]

    def run_at(self, index: int) -> Run:
        """One of the runs."""
        runs = list(self.model.runs.values())
        return runs[index % len(runs)]

    def worker_at(self, index: int) -> int:
        """One of the workers: now and then one that has stopped."""
        if not self.model.workers:
            self.join(BUILDS[index % 2], index)
        workers = [*self.model.workers]  # their keys are random, and what is drawn must not depend on that
        working = [key for key in workers if self.model.workers[key].is_working]
        among = working if working and index % 4 else workers
        return among[index % len(among)]

    def claimant_at(self, index: int, *, stale: bool = False) -> Claimant:
        """One who holds a run; for ``stale`` one who may have lost it."""
        if not stale and not any(map(self.holds, self.claimants)):
            self.claim_as(self.worker_at(index), 50, None)
            self.every_worker_holds_and_hears_what_the_model_says()
        current = [claimant for claimant in self.claimants if self.holds(claimant)]
        among = self.claimants if stale or not current else current
        return among[-1 - index % len(among)]

    def number(self, claimant: Claimant) -> int:
        """Which run it is of those that were made."""
        return self.ordinals.setdefault(claimant.key, len(self.ordinals))

    def holds(self, claimant: Claimant) -> bool:
        """Whether a claimant still holds its run."""
        row = self.model.runs[claimant.key].row
        return row.worker_key is not None and row.epoch == claimant.epoch

    def look(self, claimant: Claimant) -> None:
        """Let a claimant look into its inbox."""
        for key, counter, rows in self.store.unread(claimant.worker):
            if key == claimant.key:
                claimant.seen, claimant.letters = counter, [row.inbox_key for row in rows]

    def submit(self, *pairs: tuple[Claimant, CommitItem]) -> list[Verdict]:
        """Commit items, and tell their senders."""
        items = [item for _, item in pairs]
        verdicts = self.store.commit(items)
        expected = self.model.commit(items)
        assert verdicts == expected, (verdicts, expected, items)
        for (claimant, item), verdict in zip(pairs, verdicts, strict=True):
            if verdict <= Verdict.ALREADY and item.events and item.events[-1].seq > claimant.last.seq:
                claimant.last = item.events[-1]
            claimant.sent.append(item)
        return verdicts

    # -- what rules do with store and model alike

    def join(self, build: str, client: int) -> None:
        """A worker comes."""
        worker = self.bench.worker(
            self.clients[client % len(self.clients)], build=self.tag + build, routes=[self.route]
        )
        self.model.workers[worker] = Worker(self.tag + build)

    def stop(self, key: int) -> None:
        """A worker stops; what it holds stays with it."""
        self.model.workers[key].is_working, self.model.workers[key].has_stopped = False, True
        self.store.retire_worker(key)
        if not self.model.held(key):
            del self.model.workers[key]

    def new(self, name: str, number: int, **changes: Any) -> NewRun:
        """A run to create."""
        run_id = f"{self.tag}-{name}"
        origin = json.dumps({"run_id": run_id, "module": "app"}).encode()
        run = self.bench.new(run_id, workflow=self.tag, created_at=self.now + number, origin=origin, payload=b'"in"')
        return run._replace(**changes)

    def begin(self, run: NewRun, worker: int | None) -> None:
        """Create a run, or find it."""
        (made,) = self.store.create_runs([run], claim_for=worker, facts=b'{"worker":1}', now=self.now)
        there = self.model.find(run.run_id, run.idempotency_key)
        grave = None if there is not None else self.model.grave(run.run_id, run.idempotency_key)
        assert made.is_new is (there is None and grave is None)
        if grave is not None:
            assert (made.purged, made.claim) == (grave, None)
            return
        if there is not None:
            assert made.row == there.row
            assert made.claim is None
            return
        created = self.model.create(run, made.row.run_key, self.now, worker=worker, facts=b'{"worker":1}')
        assert made.row == created.row
        assert (made.claim is not None) is created.is_held
        if made.claim is not None:
            self.take_over(made.claim.row.worker_key or 0, made.row.run_key)

    def claim_as(self, worker: int, limit: int, key: int | None) -> None:
        """Let a worker claim, one run or some."""
        # Who has stopped is given nothing, whatever is due.
        now = self.now if self.model.workers[worker].is_working else 0
        is_vague = any(run.is_vague for run in self.model.runs.values())
        if is_vague and key is None:
            limit = 50  # in which order they come, only the store knows
        claims = self.store.claim_runs(worker, [self.route], limit, facts=b"{}", only=key, now=now)
        expected = self.model.claim(worker, limit, now, b"{}", key)
        found = [claim.row.run_key for claim in claims]
        assert (sorted(found) == sorted(expected)) if is_vague else (found == expected)
        for claim in claims:
            run = self.model.runs[claim.row.run_key]
            assert claim.row == run.row
            assert claim.complete
            assert claim.events == run.log
            self.take_over(worker, claim.row.run_key)

    def take_over(self, worker: int, key: int) -> None:
        """Somebody has claimed a run."""
        run = self.model.runs[key]
        self.claimants.append(Claimant(worker, key, run.row.epoch, run.log[-1]))

    # -- what is so

    @invariant()
    def rows_are_the_models(self) -> None:
        rows = {row.run_key: row for row in self.store.get_runs([*self.model.runs])}
        assert rows == {key: run.row for key, run in self.model.runs.items()}
        for key, row in rows.items():
            assert row.epoch >= self.epochs.get(key, 0), "an epoch fell"
            self.epochs[key] = row.epoch

    @invariant()
    def logs_are_what_was_acknowledged_and_fold_to_their_rows(self) -> None:
        for key, run in self.model.runs.items():
            if self.checked.get(key) != len(run.log):
                self.check_log(run)
                self.checked[key] = len(run.log)

    def check_log(self, run: Run) -> None:
        """Compare a log with the model's, and its fold with the row."""
        row = run.row
        log = self.store.read_events(row.run_key)
        assert log == run.log
        check(row.uid, log)
        view = fold(log)
        assert (view.status, view.epoch, view.ended_at) == (row.status, row.epoch, row.ended_at)
        assert log[row.seq - 1].hash == row.hash

    @invariant()
    def every_worker_holds_and_hears_what_the_model_says(self) -> None:
        store = self.store
        for worker in self.model.workers:
            held = self.model.held(worker)
            assert store.held(worker) == {run.row.run_key: run.row.epoch for run in held}
            unread = {key: (counter, rows) for key, counter, rows in store.unread(worker)}
            assert unread.keys() == {run.row.run_key for run in held if run.inbox}
            for key, (counter, rows) in unread.items():
                run = self.model.runs[key]
                assert counter == run.row.inbox
                told = [Letter(InboxKind(row.kind), row.name, None, row.payload) for row in rows]
                known = [replace(letter, dedup=None, key=None) for letter in run.inbox]
                assert told == known
                for letter, row in zip(run.inbox, rows, strict=True):
                    letter.key = row.inbox_key

    @invariant()
    def what_is_due_and_what_is_urgent_are_found(self) -> None:
        runs, store = self.model.runs, self.store
        due = [run.row.wake_at for run in runs.values() if run.row.wake_at is not None and run.rank is None]
        assert store.next_due([self.route]).due == min(due, default=None)
        urgent = {key for key, run in runs.items() if run.rank is not None and run.rank <= -(1 << 61)}
        assert set(store.urgent([self.route], 100)) == urgent
        late = [
            (run.row.deadline_at, key) for key, run in runs.items()
            if run.row.deadline_at is not None and run.row.deadline_at <= self.now and run.row.ended_at is None
            and not run.is_held and run.row.status is not Status.BLOCKED and not run.has(InboxKind.CANCEL)
        ]  # fmt: skip
        found = [pair for pair in store.overdue(1000, now=self.now) if pair[0] in runs]
        assert found == [(key, deadline) for deadline, key in sorted(late)]

    def teardown(self) -> None:
        """Look at every run by its id and in the lists, and let the workers go."""
        store = self.store
        for grave in self.model.graves:
            assert store.get_run(grave.run_id) is None
            assert store.get_tombstone(grave.run_id) == grave
        for key, run in self.model.runs.items():
            found = store.get_run(run.row.run_id)
            assert found is not None
            assert found.run_key == key
        rows = [run.row for run in self.model.runs.values()]
        mine = Filter(workflow=self.tag, limit=4)
        check_list(store, rows, mine)
        check_list(store, rows, replace(mine, ended_after=0))
        for status in {row.status for row in rows}:
            check_list(store, rows, replace(mine, status=(status,)))
        for error in {error_of(row) for row in rows}.difference({None}):
            check_list(store, rows, replace(mine, error=error))
        for parent in {row.parent_key for row in rows if row.parent_key is not None}:
            check_list(store, rows, replace(mine, parent=parent))
        for worker in self.model.workers:
            store.release(worker, [*self.model.runs])
            store.retire_worker(worker)
        for key, run in self.model.runs.items():  # or they are in the way of what comes next
            if run.row.deadline_at is not None:
                store.request_cancel(key, "over", force=True)


__all__ = ["BUILDS", "SECOND", "Watched"]
