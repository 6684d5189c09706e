"""Messages, cancels and pauses against a model: what each run has in its inbox, and who may be claimed, at any time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from perdure.model.records import Delivery, InboxKind, Message, Status, Verdict
from perdure.store.protocol import Filter
from perdure.testing.store_suite import Holder
from perdure.testing.store_suite.bench import ROUTE

NAMES = ("a", "b")
SUSPENDED = {Status.SLEEPING, Status.WAITING, Status.RETRYING}


@dataclass
class Run:
    """What is so of one run."""

    key: int
    parent: Run | None
    status: Status = Status.PENDING
    holder: Holder | None = None
    claimable: bool = True
    begun: bool = False
    counter: int = 0
    awaits: tuple[str, ...] = ()
    inbox: list[tuple[InboxKind, str | None, str | None]] = field(default_factory=list)
    taken: set[tuple[str | None, str]] = field(default_factory=set)

    def has(self, kind):
        return any(row[0] is kind for row in self.inbox)

    def put(self, kind, name=None, dedup=None):
        self.inbox.append((kind, name, dedup))
        self.counter += 1

    def ask(self, kind):
        if not self.has(kind):
            self.put(kind)

    def forget(self, *kinds):
        self.inbox = [row for row in self.inbox if row[0] not in kinds]

    def hear(self, kind, name, dedup):
        known = self.taken | {row[1:] for row in self.inbox}
        if dedup is not None and (name, dedup) in known:
            return Delivery.DUPLICATE
        of_child = kind is not InboxKind.SIGNAL
        if self.status is Status.COMPLETED or (self.status.terminal and not of_child):
            return Delivery.ENDED
        self.put(kind, name, dedup)
        if of_child:
            self.claimable |= self.status is Status.WAITING and self.holder is None
        else:
            self.claimable |= self.status in SUSPENDED and self.holder is None and name in self.awaits
        return Delivery.DELIVERED

    def end(self, status):
        self.status, self.holder, self.claimable, self.awaits = status, None, False, ()
        if status is Status.COMPLETED:
            self.inbox.clear()
            self.taken.clear()
        elif status.terminal:
            self.forget(InboxKind.CANCEL, InboxKind.PAUSE)


class Model:
    """Runs of one route, and one worker that serves it."""

    def __init__(self, bench, rng):
        self.bench, self.store, self.rng = bench, bench.store, rng
        self.worker = bench.worker()
        self.runs: list[Run] = []

    def pick(self, wanted=None):
        found = [run for run in self.runs if wanted is None or wanted(run)]
        return self.rng.choice(found) if found else None

    def held(self):
        return self.pick(lambda run: run.holder is not None)

    def commit(self, item):
        assert self.store.commit([item]) == [Verdict.APPLIED]

    # -- what happens

    def create(self):
        if len(self.runs) < 6:
            parent = self.pick()
            row = self.bench.create(f"run-{len(self.runs)}", parent_key=None if parent is None else parent.key)
            self.runs.append(Run(row.run_key, parent))

    def claim(self):
        run = self.pick(lambda run: run.claimable)
        if run is not None:
            (claim,) = self.store.claim_runs(self.worker, [ROUTE], 1, only=run.key)
            run.holder, run.status, run.claimable, run.begun = (
                Holder(self.store, self.worker, claim),
                Status.RUNNING,
                False,
                True,
            )
            run.awaits = ()

    def send(self):
        run = self.pick()
        if run is not None:
            name, dedup = self.rng.choice(NAMES), self.rng.choice([None, None, "x", "y"])
            expected = run.hear(InboxKind.SIGNAL, name, dedup)
            assert self.store.deliver([Message(InboxKind.SIGNAL, run.key, name=name, dedup=dedup)]) == [expected]

    def send_from_a_run(self):
        run, target = self.held(), self.pick()
        if run is not None:
            name = self.rng.choice(NAMES)
            item = run.holder.steps(
                sends=[Message(InboxKind.SIGNAL, run_id=f"run-{self.runs.index(target)}", name=name)]
            )
            self.commit(item)
            target.hear(InboxKind.SIGNAL, name, None)

    def take(self):
        run = self.held()
        if run is not None and run.inbox:
            rows = next(rows for key, _, rows in self.store.unread(self.worker) if key == run.key)
            place = self.rng.randrange(len(rows))
            self.commit(run.holder.steps(take=[rows[place].inbox_key]))
            _, name, dedup = run.inbox.pop(place)
            if dedup is not None:
                run.taken.add((name, dedup))

    def suspend(self):
        run = self.held()
        if run is not None:
            status = self.rng.choice(sorted(SUSPENDED))
            awaits = tuple(self.rng.sample(NAMES, self.rng.randrange(3)))
            seen = run.counter if self.rng.random() < 0.8 else run.counter - 1
            holder = run.holder
            last, seq = holder.last, holder.seq
            verdict = self.store.commit([holder.suspend(status, awaits=awaits, inbox_seen=seen)])[0]
            if seen != run.counter:
                assert verdict is Verdict.STALE
                holder.last, holder.seq = last, seq
            else:
                assert verdict is Verdict.APPLIED
                run.holder, run.status, run.awaits = None, status, awaits

    def end(self):
        run = self.held()
        if run is not None:
            status = self.rng.choice([Status.COMPLETED, Status.FAILED, Status.PAUSED, Status.BLOCKED])
            kind = {Status.COMPLETED: InboxKind.CHILD_COMPLETED, Status.FAILED: InboxKind.CHILD_FAILED}.get(status)
            name = f"run-{self.runs.index(run)}"
            told = run.parent if kind is not None else None
            sends = [] if told is None else [Message(kind, told.key, name=name)]
            self.commit(run.holder.end(status, sends=sends))
            run.end(status)
            if told is not None:
                told.hear(kind, name, None)

    def release(self):
        run = self.held()
        if run is not None:
            assert self.store.release(self.worker, [run.key]) == 1
            run.holder, run.claimable = None, True

    def cancel(self):
        run = self.pick()
        if run is None:
            return
        found = self.store.request_cancel(run.key, "enough")
        if run.status.terminal:
            assert found is run.status
        elif run.holder is not None or (run.begun and run.status is not Status.BLOCKED):
            assert found is run.status
            run.ask(InboxKind.CANCEL)
            run.claimable |= run.holder is None
        else:
            assert found is Status.CANCELLED
            run.end(Status.CANCELLED)
            if run.parent is not None:
                run.parent.hear(InboxKind.CHILD_CANCELLED, f"run-{self.runs.index(run)}", None)

    def pause(self):
        run = self.pick()
        if run is None:
            return
        found = self.store.pause_run(run.key, "lunch")
        if run.status.terminal or run.status in (Status.BLOCKED, Status.PAUSED):
            assert found is run.status
        elif run.holder is not None:
            assert found is run.status
            run.ask(InboxKind.PAUSE)
        elif not run.has(InboxKind.CANCEL):
            assert found is Status.PAUSED
            run.end(Status.PAUSED)
            run.forget(InboxKind.PAUSE)
            run.begun = True  # as far as a cancel knows: it has an epoch
        else:
            assert found is run.status

    def resume(self):
        run = self.pick(
            lambda run: (
                run.holder is None and run.status in (Status.PAUSED, Status.BLOCKED, Status.FAILED, Status.CANCELLED)
            )
        )
        if run is not None:
            self.bench.resume(run.key)
            run.status, run.claimable, run.begun = Status.PENDING, True, True
            run.forget(InboxKind.PAUSE)

    # -- what is so

    def check(self):
        unread = {key: (counter, rows) for key, counter, rows in self.store.unread(self.worker)}
        for run in self.runs:
            row = self.bench.row(run.key)
            assert (row.status, row.inbox) == (run.status, run.counter)
            assert (row.worker_key is not None) == (run.holder is not None)
            if run.holder is not None:
                counter, rows = unread.get(run.key, (run.counter, []))
                assert counter == run.counter
                assert [(row.kind, row.name) for row in rows] == [(kind, name) for kind, name, _ in run.inbox]
        urgent = {run.key for run in self.runs if run.claimable and run.has(InboxKind.CANCEL)}
        assert set(self.store.urgent([ROUTE], 100)) <= urgent
        children = {run.key for run in self.runs if run.parent is self.runs[0]} if self.runs else set()
        assert {
            row.run_key for row in self.store.list_runs(Filter(parent=self.runs[0].key if self.runs else 0))
        } == children


@pytest.mark.parametrize("seed", range(8))
def test_messages_and_requests_do_as_their_model(bench, seed):
    rng = random.Random(seed)  # noqa: S311 - no secret
    model = Model(bench, rng)
    events = [
        model.create, model.create, model.claim, model.claim, model.claim, model.send, model.send,
        model.send_from_a_run, model.take, model.suspend, model.suspend, model.end, model.release, model.cancel,
        model.pause, model.resume,
    ]  # fmt: skip
    for _ in range(120):
        rng.choice(events)()
        model.check()
    claimable = {run.key for run in model.runs if run.claimable}
    assert {claim.row.run_key for claim in bench.claim(model.worker, 100)} == claimable
