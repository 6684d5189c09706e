"""A state machine that drives a store beside a model of it: whatever happens in whatever order, both say the same.

Needs hypothesis::

    def test_store_does_as_its_model(tmp_path):
        with Bench(lambda: open_store(tmp_path / "store.db")) as bench:
            run_state_machine_as_test(store_machine(bench))

Several clients have the store open, as several processes would; workers of two builds come and go; holders that have
lost their runs go on writing, and send again what they have sent; the clock that judges jumps, also back. After each
rule every row, what is claimable, what is due and what was not read yet is compared with the model, and every log that
may have changed with what was acknowledged.
"""

# ruff: noqa: D102, FBT001, PLR2004 - a rule's name is what happens, its arguments are drawn, and its numbers are chances

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from perdure.errors import WrongState
from perdure.model import forking
from perdure.model.forking import Fork, Lineage
from perdure.model.purging import Purgeable
from perdure.model.records import CommitItem, Delivery, InboxKind, Kind, Message, Status, Successor, Verdict
from perdure.testing.store_suite.claimants import ENDINGS, Claimant
from perdure.testing.store_suite.watched import BUILDS, SECOND, Watched

if TYPE_CHECKING:
    from perdure.testing.store_suite.bench import Bench
    from perdure.testing.store_suite.model import Run

HOUR: Final = 3600 * SECOND
CAP: Final = 3
FAR: Final = 1 << 60
SIGNALS: Final = ("go", "stop")
MOST: Final = 4
"""Runs that are created by id; forks come beside them."""

_index = st.integers(0, 11)
_LISTENING = {Status.SLEEPING, Status.WAITING, Status.FAILED}
_STOPPED = {Status.FAILED, Status.CANCELLED, Status.BLOCKED, Status.PAUSED}
_rarely = st.sampled_from([False, False, False, True])


class StoreMachine(Watched):
    """Drives the store of a bench; ``store_machine`` makes one that has it."""

    # -- the clock and the workers

    @rule(by=st.sampled_from([-24 * HOUR, -HOUR, -SECOND, 0, 1, SECOND, HOUR, 24 * HOUR]))
    def the_clock_jumps(self, by: int) -> None:
        self.now += by

    @rule(index=_index, what=st.sampled_from(["joins", "leaves", "stops"]))
    def a_worker_comes_or_goes(self, index: int, what: str) -> None:
        key = self.worker_at(index)
        if len(self.model.workers) < 2 or what == "joins":
            self.join(BUILDS[index % 2], index)
        elif what == "leaves":
            self.model.workers[key].is_working, self.model.workers[key].has_stopped = False, True
            self.store.leave_worker(key)
        else:
            self.stop(key)

    @rule(index=_index, times=st.integers(1, CAP))
    def workers_die(self, index: int, times: int) -> None:
        """One after the other, each of which has claimed what the one before has left."""
        for _ in range(times):
            holders = [key for key in self.model.workers if self.model.held(key)] or [self.worker_at(index)]
            dead = holders[index % len(holders)]
            self.join(self.model.workers[dead].build.removeprefix(self.tag), index)
            observer = [*self.model.workers][-1]
            found = self.store.reclaim(observer, [dead], cap=CAP)
            assert [(one.run_key, one.blocked) for one in found] == self.model.reclaim(dead, CAP)
            if times > 1:
                self.claim_as(observer, 50, None)

    # -- creating and claiming

    @rule(
        number=st.integers(0, MOST - 1),
        idempotency=st.sampled_from([None, None, "x", "y"]),
        delay=st.sampled_from([None, None, None, 0, HOUR]),
        deadline=st.sampled_from([None, None, 2 * HOUR]),
        priority=st.sampled_from([0, 0, 1, -1]),
        parent=st.none() | _index,
        worker=st.none() | _index,
    )
    def create(
        self,
        number: int,
        idempotency: str | None,
        delay: int | None,
        deadline: int | None,
        priority: int,
        parent: int | None,
        worker: int | None,
    ) -> None:
        run = self.new(
            f"run-{number}", number, priority=priority,
            idempotency_key=None if idempotency is None else f"{self.tag}-{idempotency}",
            delay_until=None if delay is None else self.now + delay + number,
            deadline_at=None if deadline is None else self.now + deadline + number,
            parent_key=self.run_at(parent).row.run_key if parent is not None else None,
        )  # fmt: skip
        self.begin(run, None if worker is None else self.worker_at(worker))

    @rule(index=_index, limit=st.sampled_from([1, 2, 50]), only=st.none() | _index)
    def claim(self, index: int, limit: int, only: int | None) -> None:
        self.claim_as(self.worker_at(index), limit, self.run_at(only).row.run_key if only is not None else None)

    # -- what holders write

    @precondition(lambda self: self.claimants)
    @rule(
        index=_index,
        stale=_rarely,
        count=st.integers(1, 3),
        undo=st.sampled_from([None, None, None, "", '["w/undo#1"]']),
    )
    def a_holder_writes_steps(self, index: int, stale: bool, count: int, undo: str | None) -> None:
        claimant = self.claimant_at(index, stale=stale)
        self.submit((claimant, claimant.steps(count, undo=undo)))

    @precondition(lambda self: self.claimants)
    @rule(index=_index, wrong=st.sampled_from(["seq", "epoch", "no events", None, None]))
    def a_holder_starts_a_step_or_writes_nonsense(self, index: int, wrong: str | None) -> None:
        claimant = self.claimant_at(index)
        if wrong is None:
            self.submit((claimant, claimant.item(claimant.step(Kind.STEP_STARTED))))
        elif wrong == "no events":
            message = Message(InboxKind.SIGNAL, claimant.key, name="go")
            self.submit((claimant, claimant.item(sends=[message])))
        elif wrong == "seq":
            self.submit((claimant, claimant.item(claimant.step(gap=1))))
        else:
            other = replace(claimant, epoch=claimant.epoch + 1, sent=[])
            assert self.submit((other, other.steps(1))) == [Verdict.FENCED]

    @precondition(lambda self: self.claimants)
    @rule(index=_index, place=_index, stale=_rarely, looks=st.booleans())
    def a_holder_consumes_news(self, index: int, place: int, stale: bool, looks: bool) -> None:
        claimant = self.claimant_at(index, stale=stale)
        if looks:
            self.look(claimant)
        if claimant.letters:
            take = [claimant.letters[place % len(claimant.letters)]]
            event = claimant.event(Kind.SIGNAL_RECEIVED, key=f"w/@signal#{claimant.last.seq}")
            self.submit((claimant, claimant.item(event, take=take)))

    @precondition(lambda self: self.claimants)
    @rule(
        index=_index,
        stale=_rarely,
        status=st.sampled_from([Status.SLEEPING, Status.WAITING, Status.WAITING, Status.RETRYING]),
        wake=st.sampled_from([None, 0, SECOND, HOUR]),
        awaits=st.lists(st.sampled_from(SIGNALS), unique=True),
    )
    def a_run_waits(self, index: int, stale: bool, status: Status, wake: int | None, awaits: list[str]) -> None:
        claimant = self.claimant_at(index, stale=stale)
        if index % 3:
            self.look(claimant)
        self.submit((claimant, claimant.suspension(status, self.instant(claimant, wake), awaits)))

    def instant(self, claimant: Claimant, wake: int | None) -> int | None:
        """When a run is to be woken: no two at the same instant, so that it is clear which comes first."""
        return None if wake is None else self.now + wake + self.number(claimant)

    @precondition(lambda self: self.claimants)
    @rule(index=_index, stale=_rarely, looks=st.sampled_from([True, False, None]), status=st.sampled_from([*ENDINGS]))
    def a_run_ends_or_is_parked(self, index: int, stale: bool, looks: bool | None, status: Status) -> None:
        claimant = self.claimant_at(index, stale=stale)
        if looks:
            self.look(claimant)
        row = self.model.runs[claimant.key].row
        self.submit((claimant, claimant.end(status, row, inbox_seen=None if looks is None else claimant.seen)))

    @precondition(lambda self: self.claimants)
    @rule(index=_index, stale=_rarely)
    def a_run_goes_on_as_another_one(self, index: int, stale: bool) -> None:
        claimant = self.claimant_at(index, stale=stale)
        row = self.model.runs[claimant.key].row
        if self.find_name(row.run_id) is not None:
            self.look(claimant)
            run = self.new(row.run_id.removeprefix(f"{self.tag}-"), self.number(claimant))
            successor = Successor(run, f"{row.run_id}@{claimant.key}")
            self.submit((claimant, claimant.end(Status.COMPLETED, row, inbox_seen=claimant.seen, successor=successor)))

    def find_name(self, run_id: str) -> str | None:
        """The id, unless it is one that a run was given when another one went on under its own."""
        return None if "@" in run_id else run_id

    @precondition(lambda self: self.claimants)
    @rule(index=_index, stale=_rarely, number=st.integers(0, MOST - 1), waits=st.booleans())
    def a_run_starts_a_child(self, index: int, stale: bool, number: int, waits: bool) -> None:
        claimant = self.claimant_at(index, stale=stale)
        child = self.new(f"child-{number}" if number else "run-0", number, parent_key=claimant.key)
        item = claimant.suspension(Status.WAITING, None, ()) if waits else claimant.steps(1)
        self.submit((claimant, replace(item, children=[child])))

    @precondition(lambda self: any(claimant.sent for claimant in self.claimants))
    @rule(index=_index, back=st.integers(0, 3))
    def a_holder_sends_the_same_again(self, index: int, back: int) -> None:
        senders = [claimant for claimant in self.claimants if claimant.sent]
        claimant = senders[-1 - index % len(senders)]
        self.submit((claimant, claimant.sent[-1 - back % len(claimant.sent)]))

    @precondition(lambda self: len(self.claimants) > 1)
    @rule(chosen=st.lists(_index, min_size=2, max_size=4))
    def several_write_at_once(self, chosen: list[int]) -> None:
        pairs: list[tuple[Claimant, CommitItem]] = []
        ahead: dict[int, Claimant] = {}
        for index in chosen:
            claimant = self.claimant_at(index, stale=index > MOST)
            # What it sends next follows what it sends now, whatever becomes of that.
            sender = ahead.setdefault(id(claimant), replace(claimant, sent=[]))
            item = sender.suspension(Status.WAITING, None, SIGNALS) if index % 5 == 4 else sender.steps(1 + index % 2)
            others = [run for run in self.model.runs.values() if not run.is_held]
            if others and index % 3 == 0:  # not to one of the same batch: whether that had looked before is open
                key = others[index % len(others)].row.run_key
                item = replace(item, sends=[Message(InboxKind.SIGNAL, key, name="go", payload=b"3")])
            sender.last = item.events[-1]
            pairs.append((claimant, item))
        self.submit(*pairs)

    @precondition(lambda self: self.claimants)
    @rule(index=_index, to=_index, stale=_rarely, what=st.sampled_from(["signal", "signal", "cancel", "pause"]))
    def a_run_tells_another(self, index: int, to: int, stale: bool, what: str) -> None:
        claimant = self.claimant_at(index, stale=stale)
        kind, name, payload = {
            "signal": (InboxKind.SIGNAL, "go", b"2"),
            "cancel": (InboxKind.CANCEL, None, b'{"reason":"told"}'),
            "pause": (InboxKind.PAUSE, None, b'{"reason":"told"}'),
        }[what]
        message = Message(kind, run_id=self.run_at(to).row.run_id, name=name, payload=payload)
        self.submit((claimant, claimant.steps(1, sends=[message])))

    # -- what others do

    @rule(data=st.data())
    def news_comes_in(self, data: st.DataObject) -> None:
        messages = []
        for _ in range(data.draw(st.integers(1, 2))):
            index = data.draw(_index)
            attentive = [run for run in self.model.runs.values() if run.is_held or run.row.status in _LISTENING]
            run = attentive[index % len(attentive)] if attentive and index % 3 else self.run_at(index)
            kind = data.draw(st.sampled_from([InboxKind.SIGNAL, InboxKind.SIGNAL, InboxKind.CHILD_FAILED]))
            name, dedup = data.draw(st.sampled_from(SIGNALS)), data.draw(st.sampled_from([None, "1", "1", "2"]))
            messages.append(Message(kind, run.row.run_key, name=name, dedup=dedup, payload=b"1"))
        if data.draw(_rarely):
            messages.append(Message(InboxKind.SIGNAL, run_id=f"{self.tag}-nobody", name="go"))
        found = self.store.deliver(messages, now=self.now)
        assert found == [self.model.deliver(message, self.now) for message in messages]

    @rule(
        index=_index,
        what=st.sampled_from(["cancel", "force", "pause", "block", "resume", "resume", "resume"]),
        off=_rarely,
    )
    def a_person(self, index: int, what: str, off: bool) -> None:
        run = self.run_at(index)
        if what == "resume":  # what it is for, rather than something to be told that it is not
            stopped = [run for run in self.model.runs.values() if run.row.status in _STOPPED]
            run = stopped[index % len(stopped)] if stopped and index % 4 else run
        key, epoch = run.row.run_key, run.row.epoch - off
        if what in {"cancel", "force"}:
            found = self.store.request_cancel(key, "enough", force=what == "force", now=self.now)
            assert found is self.model.request_cancel(run, "enough", self.now, force=what == "force")
        elif what == "pause":
            assert self.store.pause_run(key, "lunch", now=self.now) is self.model.pause(run, "lunch", self.now)
        elif what == "block":
            blocked = self.store.block_run(key, epoch, b'{"reason":"drift"}', "drift")
            assert blocked is self.model.block(run, epoch, b'{"reason":"drift"}', "drift")
        else:
            self.resume(run, epoch)

    def resume(self, run: Run, epoch: int) -> None:
        """Resume a run, if that is possible."""
        row, refused = None, False
        try:
            row = self.store.resume_run(run.row.run_key, epoch, b"{}", now=self.now)
        except WrongState:
            refused = True
        done = self.model.resume(run, epoch, b"{}", self.now)
        assert refused is (done is None)
        assert row == (run.row if done else None)

    @precondition(lambda self: self.claimants)
    @rule(index=_index, stale=_rarely)
    def a_build_refuses_its_run(self, index: int, stale: bool) -> None:
        claimant = self.claimant_at(index, stale=stale)
        worker = self.model.workers.get(claimant.worker)
        build = self.tag + "a" if worker is None else worker.build
        payload = json.dumps({"code": "drift", "reason": "drift", "build": build}).encode()
        run = self.model.runs[claimant.key]
        found = self.store.refuse_run(claimant.key, claimant.epoch, build, payload)
        assert found == self.model.refuse(run, claimant.epoch, build, payload)

    @precondition(lambda self: any(run.refused and not run.is_held for run in self.model.runs.values()))
    @rule(index=_index, all_others_stop=st.booleans(), looks=st.integers(1, 2))
    def somebody_looks_for_stranded_runs(self, index: int, all_others_stop: bool, looks: int) -> None:
        refused = [run for run in self.model.runs.values() if run.refused and not run.is_held]
        left = refused[index % len(refused)].refused
        for key, worker in [*self.model.workers.items()] if all_others_stop else []:
            if worker.build not in left:
                self.stop(key)
        for _ in range(looks):
            self.look_for_stranded()

    def look_for_stranded(self) -> None:
        """Block what was stranded at the last look, and still is."""
        found = self.store.block_stranded(self.stranded)
        assert found == self.model.block_stranded(self.stranded)
        self.stranded = found

    @rule(index=_index, which=st.integers(0, 2))
    def a_worker_gives_runs_back(self, index: int, which: int) -> None:
        worker = self.worker_at(index)
        keys = [*self.model.runs][:: 1 + which // 2]
        assert self.store.release(worker, keys) == self.model.release(worker, keys)

    @precondition(lambda self: len(self.model.runs) < 2 * MOST)
    @rule(index=_index, number=st.integers(0, 1), seq=st.integers(1, 30))
    def a_run_is_forked(self, index: int, number: int, seq: int) -> None:
        origin = self.run_at(index)
        seq = 1 + seq % len(origin.log)
        uid = os.urandom(16)
        run_id = f"{self.tag}-fork-{number}"
        lineage = Lineage(origin.row.run_id, origin.row.uid, seq, "w/say#1", origin.row.uid)
        args = forking.origin(run_id, origin.log[0], lineage)
        fork = Fork(origin.row.run_key, seq, run_id, uid, self.now, args)
        made = self.store.fork_run(fork)
        there = self.model.find(run_id)
        grave = self.model.grave(run_id)
        assert made.purged == grave
        assert made.is_new is (there is None and grave is None)
        if grave is not None:
            return
        assert made.row == (there or self.model.fork(fork, made.row.run_key)).row

    # -- purging

    @precondition(lambda self: len(self.model.runs) > 1)
    @rule(index=_index, collects=st.booleans())
    def a_run_is_purged(self, index: int, collects: bool) -> None:
        run = self.run_at(index)
        ended = [run for run in self.model.runs.values() if run.row.status.terminal]
        key = (ended[index % len(ended)] if ended and index % 4 else run).row.run_key
        what = Purgeable(tuple(Status), FAR, workflow=self.tag)
        purgeable = self.model.purgeable()
        assert [one.run_key for one in self.store.list_ended(what).runs] == purgeable
        found = self.store.purge_runs([key], what, now=self.now)
        assert found == ([key] if key in purgeable else [])
        if found:
            self.bury(key)
        if collects:
            self.collect()

    def bury(self, key: int) -> None:
        """A run was purged: whoever held it once can write nothing, and nobody finds it."""
        claimants = [claimant for claimant in self.claimants if claimant.key == key]
        self.claimants = [claimant for claimant in self.claimants if claimant.key != key]
        self.stranded = [one for one in self.stranded if one != key]
        grave = self.model.purge(key, self.now)
        for claimant in claimants:
            assert self.store.commit([claimant.steps(1)]) == [Verdict.FENCED]
        message = Message(InboxKind.SIGNAL, run_id=grave.run_id, name="go")
        assert self.store.deliver([message, message._replace(run_key=key)]) == [Delivery.UNKNOWN] * 2
        assert self.store.get_runs([key]) == []
        assert self.store.get_tombstone(grave.run_id) == grave

    def collect(self) -> None:
        """Delete what purged runs have left behind, as if time had passed."""
        while self.store.collect_purged(now=FAR).more:
            pass

    @precondition(lambda self: self.model.graves)
    @rule()
    def purged_runs_are_forgotten(self) -> None:
        self.collect()
        assert self.store.forget_purged("", FAR) >= len(self.model.graves)
        self.model.graves.clear()


def store_machine(bench: Bench, clients: int = 2) -> type[StoreMachine]:
    """Make the machine that drives the store of a bench.

    Args:
        bench: the store; every example works on runs of its own in it.
        clients: how many have it open, as many processes would.
    """
    opened = [bench.store, *(bench.open() for _ in range(clients - 1))]
    return type("StoreMachine", (StoreMachine,), {"bench": bench, "clients": opened})


__all__ = ["StoreMachine", "store_machine"]
