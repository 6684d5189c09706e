"""What a store's verbs do to runs, as plain data and plain rules: what the machine compares a store with.

Nothing here is shared with a store. What a store is free to choose (the instant of an event that it writes by its own
clock, the spelling of a reason) the model takes from the event, after having checked the rest of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perdure.model.chain import genesis, seal
from perdure.model.records import FORMAT, Delivery, Event, InboxKind, Kind, Message, RunRow, Status, Tombstone, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perdure.model.forking import Fork
    from perdure.model.records import CommitItem, NewRun, StateChange, Successor

WEIGHT: Final = 3_600_000_000
"""How much waiting, in µs, one level of priority is worth."""
URGENT: Final = -(1 << 62)
SUSPECT: Final = 2
"""Crashes in a row from which a run is a suspect."""

_NO_PROGRESS = {Kind.RUN_CLAIMED, Kind.STEP_STARTED, Kind.PROGRESS, Kind.RUN_RECLAIMED, Kind.EMITTED}
_DORMANT = {Status.SLEEPING, Status.WAITING, Status.RETRYING}
_STOPPED = {Status.FAILED, Status.CANCELLED, Status.BLOCKED, Status.PAUSED}
_OF_CHILDREN = {InboxKind.CHILD_COMPLETED, InboxKind.CHILD_FAILED, InboxKind.CHILD_CANCELLED, InboxKind.CHILD_TAKEN}


@dataclass
class Letter:
    """News in a run's inbox; ``key`` is what the store calls it, once somebody has seen it."""

    kind: InboxKind
    name: str | None = None
    dedup: str | None = None
    payload: bytes | None = None
    key: int | None = None


@dataclass
class Worker:
    """A worker as the others see it."""

    build: str
    is_working: bool = True
    has_stopped: bool = False
    """It said so: its end is no crash."""


@dataclass
class Run:
    """What is so of one run, besides what its row says."""

    row: RunRow
    log: list[Event]
    rank: int | None = None
    """Its place in the order of claiming; None: it cannot be claimed."""
    is_vague: bool = False
    """Its rank is known to the store only, whose clock decided it."""
    awaits: list[str] = field(default_factory=list)
    refused: frozenset[str] = frozenset()
    inbox: list[Letter] = field(default_factory=list)
    taken: set[tuple[str | None, str]] = field(default_factory=set)

    @property
    def is_held(self) -> bool:
        """Whether somebody holds it."""
        return self.row.worker_key is not None

    def change(self, **changes: Any) -> None:
        """Change the row."""
        self.row = self.row._replace(**changes)

    def rest(self, rank: int | None = None, *, is_vague: bool = False) -> None:
        """Make it claimable at a rank, or not claimable."""
        self.rank, self.is_vague = rank, is_vague and rank is not None

    def rank_at(self, instant: int) -> int:
        """The rank of what became claimable at an instant."""
        return instant - self.row.priority * WEIGHT

    def has(self, kind: InboxKind) -> bool:
        """Whether there is news of a kind."""
        return any(letter.kind is kind for letter in self.inbox)

    def drop(self, *kinds: InboxKind) -> None:
        """Forget news of some kinds."""
        self.inbox = [letter for letter in self.inbox if letter.kind not in kinds]


class Model:
    """Runs of one route, and workers that serve it.

    Args:
        told: gives the event that the store has at a run's key and a seq.
        key_of: gives the key that the store has given the run of an id.
    """

    def __init__(self, told: Callable[[int, int], Event], key_of: Callable[[str], int]) -> None:
        self._told = told
        self._key_of = key_of
        self.runs: dict[int, Run] = {}
        self.graves: list[Tombstone] = []
        self.workers: dict[int, Worker] = {}

    # -- creating and claiming

    def find(self, run_id: str, idempotency_key: str | None = None) -> Run | None:
        """The run that has an id, else the one that has an idempotency key."""
        for run in self.runs.values():
            if run.row.run_id == run_id:
                return run
        wanted = [run for run in self.runs.values() if run.row.idempotency_key == idempotency_key is not None]
        return wanted[0] if wanted else None

    def create(self, new: NewRun, key: int, now: int, *, worker: int | None = None, facts: bytes = b"") -> Run:
        """Create a run that is not there, under the key that the store gave it; claimed, if it is due, by a worker."""
        is_delayed = new.delay_until is not None and new.delay_until > now
        first = seal(
            genesis(new.uid), key, 1, new.created_at, 0, Kind.RUN_CREATED, codec=new.codec, payload=new.payload,
            args=new.origin,
        )  # fmt: skip
        row = RunRow(
            run_key=key, namespace=new.namespace, run_id=new.run_id, uid=new.uid, workflow=new.workflow,
            version=new.version, queue=new.queue, status=Status.PENDING, epoch=0, worker_key=None, seq=1,
            hash=first.hash, inbox=0, crashes=0, wake_at=new.delay_until if is_delayed else None,
            deadline_at=new.deadline_at, priority=new.priority, partition=new.partition, parent_key=new.parent_key,
            idempotency_key=new.idempotency_key, reason=None, meta=new.meta, format=FORMAT,
            created_at=new.created_at, ended_at=None,
        )  # fmt: skip
        run = self.runs[key] = Run(row, [first])
        if not is_delayed:
            run.rest(run.rank_at(new.delay_until or new.created_at))
            if worker is not None and self._is_working(worker):
                self._hold(run, worker, now, facts)
        return run

    def claim(self, worker: int, limit: int, now: int, facts: bytes, only: int | None = None) -> list[int]:
        """Let a worker claim; the keys of what it is given."""
        if not self._is_working(worker):
            return []
        due = [
            run for run in self.runs.values()
            if run.rank is None and run.row.wake_at is not None and run.row.wake_at <= now
            and only in {None, run.row.run_key}
        ]  # fmt: skip
        for run in sorted(due, key=lambda run: run.row.wake_at or 0)[:limit]:
            run.rest(run.rank_at(run.row.wake_at or 0))
        chosen = self.open_to(worker, only)[:limit]
        for run in chosen:
            self._hold(run, worker, now, facts)
        return [run.row.run_key for run in chosen]

    def open_to(self, worker: int, only: int | None = None) -> list[Run]:
        """What a worker could claim now, in that order: at most one suspect, and none if it holds one."""
        build = self.workers[worker].build
        among = [
            run for run in self.runs.values()
            if run.rank is not None and build not in run.refused and only in {None, run.row.run_key}
        ]  # fmt: skip
        among.sort(key=lambda run: (run.rank, run.row.run_key))
        suspects = [run for run in among if run.row.crashes >= SUSPECT]
        allowed = [] if any(run.row.crashes >= SUSPECT for run in self.held(worker)) else suspects[:1]
        return [run for run in among if run not in suspects or run in allowed]

    def held(self, worker: int) -> list[Run]:
        """What a worker holds."""
        return [run for run in self.runs.values() if run.row.worker_key == worker]

    def _is_working(self, worker: int) -> bool:
        return worker in self.workers and self.workers[worker].is_working

    def _hold(self, run: Run, worker: int, now: int, facts: bytes) -> None:
        event = self._append(run, Kind.RUN_CLAIMED, run.row.epoch + 1, facts, now)
        run.change(
            status=Status.RUNNING, worker_key=worker, epoch=event.epoch, seq=event.seq, hash=event.hash, wake_at=None,
            reason=None,
        )  # fmt: skip
        run.awaits = []
        run.rest()

    # -- what its holder writes

    def commit(self, items: Sequence[CommitItem]) -> list[Verdict]:
        """Write items, each after the one before; what follows an item of its run that is not written fails alike."""
        failed: dict[int, Verdict] = {}
        verdicts: list[Verdict] = []
        for item in items:
            verdict = failed.get(item.run_key) or self._judge(item)
            if verdict is Verdict.APPLIED:
                self._write(self.runs[item.run_key], item)
            elif verdict is not Verdict.ALREADY:
                failed[item.run_key] = verdict
            verdicts.append(verdict)
        return verdicts

    def _judge(self, item: CommitItem) -> Verdict:
        run = self.runs[item.run_key]
        last = len(run.log)
        if item.events and item.events[0].seq <= last:
            there = run.log[item.events[0].seq - 1 : item.events[-1].seq]
            if there == item.events and all(event.epoch == item.epoch for event in there):
                return Verdict.ALREADY
        if not run.is_held or run.row.epoch != item.epoch:
            return Verdict.FENCED
        if not item.events and (item.sends or item.children or item.successor):
            return Verdict.BAD
        if [event.seq for event in item.events] != list(range(last + 1, last + 1 + len(item.events))):
            return Verdict.BAD
        if item.inbox_seen is not None and item.inbox_seen != run.row.inbox:
            return Verdict.STALE
        if not set(item.take) <= {letter.key for letter in run.inbox}:
            return Verdict.STALE
        return Verdict.APPLIED

    def _write(self, run: Run, item: CommitItem) -> None:
        run.log += item.events
        for letter in [letter for letter in run.inbox if letter.key in item.take]:
            run.inbox.remove(letter)
            if letter.dedup is not None:
                run.taken.add((letter.name, letter.dedup))
        left = run.inbox, run.taken
        if item.state is not None:
            self._let_go(run, item.events[-1], item.state)
        if item.undo is not None:
            run.change(undo=item.undo or None)
        if item.successor is not None:
            self._succeed(run, item.successor, *left)
        for child in item.children:
            there = self.find(child.run_id, child.idempotency_key)
            grave = self.grave(child.run_id)
            if there is None and grave is None:
                self.create(child, self._key_of(child.run_id), child.created_at)
                continue
            told = Message(InboxKind.CHILD_TAKEN, item.run_key, name=child.run_id)
            if there is None and grave is not None:
                said = {"status": grave.status.word, "ended_at": grave.ended_at, "purged_at": grave.purged_at}
                told = told._replace(payload=json.dumps(said, separators=(",", ":")).encode())
            self.deliver(told, None)
        for message in item.sends:
            self.deliver(message, None)

    def _succeed(self, old: Run, successor: Successor, inbox: list[Letter], taken: set[tuple[str | None, str]]) -> None:
        new = successor.run._replace(
            parent_key=old.row.parent_key, idempotency_key=successor.run.idempotency_key or old.row.idempotency_key
        )
        old.change(run_id=successor.renamed, parent_key=None, idempotency_key=None)
        run = self.create(new, self._key_of(new.run_id), new.created_at)
        run.inbox, run.taken = inbox, taken
        run.change(inbox=len(inbox) + len(taken))

    def _let_go(self, run: Run, last: Event, state: StateChange) -> None:
        is_over = state.status.terminal
        run.change(
            status=state.status, seq=last.seq, hash=last.hash, wake_at=state.wake_at, reason=state.reason,
            ended_at=last.at if is_over else None, worker_key=None, crashes=0, undo=None if is_over else run.row.undo,
        )  # fmt: skip
        run.awaits = json.loads(state.awaits or "[]")
        run.rest(run.rank_at(last.at) if state.status in {Status.PENDING, Status.RUNNING} else None)
        if state.status is Status.COMPLETED:
            run.inbox, run.taken = [], set()
        elif is_over:
            run.drop(InboxKind.CANCEL, InboxKind.PAUSE)

    # -- what comes in

    def deliver(self, message: Message, now: int | None) -> Delivery:
        """Deliver a message, at an instant of the store's choice if None is given."""
        run = self.runs.get(message.run_key or 0) or self.find(message.run_id or "")
        if run is None:
            return Delivery.UNKNOWN
        if message.kind in {InboxKind.CANCEL, InboxKind.PAUSE}:
            if run.row.status.terminal:
                return Delivery.ENDED
            ask = self.request_cancel if message.kind is InboxKind.CANCEL else self.pause
            ask(run, json.loads(message.payload or b"{}")["reason"], now)
            return Delivery.DELIVERED
        of_child, status = message.kind in _OF_CHILDREN, run.row.status
        known = run.taken | {(letter.name, letter.dedup) for letter in run.inbox if letter.dedup is not None}
        if message.dedup is not None and (message.name, message.dedup) in known:
            return Delivery.DUPLICATE
        if status is Status.COMPLETED or (status.terminal and not of_child):
            return Delivery.ENDED
        run.inbox.append(Letter(message.kind, message.name, message.dedup, message.payload))
        run.change(inbox=run.row.inbox + 1)
        is_awaited = status is Status.WAITING if of_child else message.name in run.awaits
        if is_awaited and not run.is_held and run.rank is None and status in _DORMANT:
            run.rest(run.rank_at(now or 0), is_vague=now is None)
        return Delivery.DELIVERED

    def request_cancel(self, run: Run, reason: str, now: int | None, *, force: bool = False) -> Status:
        """Cancel a run, or ask for it; the status found or made."""
        if run.row.status.terminal:
            return run.row.status
        begun = run.row.epoch > 0 and run.row.status is not Status.BLOCKED
        has_helpers = begun and bool(self._living() - run.refused)
        if not run.is_held and (force or (run.row.undo is None and not has_helpers)):
            said: dict[str, Any] = {"reason": reason}
            if force:
                said |= {"forced": True, "not_undone": json.loads(run.row.undo or "[]")}
            self._end(run, Status.CANCELLED, said, now)
            return Status.CANCELLED
        self._ask(run, InboxKind.CANCEL, reason)
        if not run.is_held and run.row.status is not Status.BLOCKED:
            run.rest(URGENT)
        return run.row.status

    def pause(self, run: Run, reason: str, now: int | None) -> Status:
        """Pause a run, or ask for it; the status found or made."""
        status = run.row.status
        if status.terminal or status in {Status.BLOCKED, Status.PAUSED}:
            return status
        if run.is_held:
            self._ask(run, InboxKind.PAUSE, reason)
        elif not run.has(InboxKind.CANCEL):
            self._end(run, Status.PAUSED, {"reason": reason}, now)
        return run.row.status

    def resume(self, run: Run, epoch: int, payload: bytes, now: int) -> bool | None:
        """Resume a run; False if it is at another epoch, None if there is nothing to resume."""
        if run.is_held or run.row.status not in _STOPPED:
            return None
        if run.row.epoch != epoch:
            return False
        event = self._append(run, Kind.RUN_RESUMED, epoch + 1, payload, now)
        deadline = run.row.deadline_at
        run.change(
            status=Status.PENDING, epoch=event.epoch, seq=event.seq, hash=event.hash, wake_at=None, reason=None,
            ended_at=None, crashes=0, deadline_at=deadline if deadline is not None and deadline > now else None,
        )  # fmt: skip
        run.awaits, run.refused = [], frozenset()
        run.rest(run.rank_at(now))
        run.drop(InboxKind.PAUSE)
        return True

    def block(self, run: Run, epoch: int, payload: bytes, reason: str) -> bool:
        """Block a run that nobody holds, if it is at that epoch."""
        status = run.row.status
        if run.is_held or run.row.epoch != epoch or status.terminal or status is Status.BLOCKED:
            return False
        self._end(run, Status.BLOCKED, payload, None)
        run.change(reason=reason)
        return True

    def _ask(self, run: Run, kind: InboxKind, reason: str) -> None:
        if not run.has(kind):
            run.inbox.append(Letter(kind, payload=json.dumps({"reason": reason}).encode()))
            run.change(inbox=run.row.inbox + 1)

    # -- holds that end without the holder

    def release(self, worker: int, run_keys: Iterable[int]) -> int:
        """Let a worker give runs back; how many it held."""
        runs = [run for run in self.held(worker) if run.row.run_key in set(run_keys)]
        for run in runs:
            self._give_back(run, self._append(run, Kind.RUN_RELEASED, run.row.epoch + 1, None, None))
        return len(runs)

    def reclaim(self, worker: int, cap: int) -> list[tuple[int, bool]]:
        """Take a dead worker's runs, and forget it; their keys, and whether they were blocked."""
        known = self.workers.pop(worker, None)
        has_crashed = known is None or not known.has_stopped
        runs = sorted(self.held(worker), key=lambda run: run.row.run_key)
        moved = {run.row.run_key for run in runs if any(e.kind not in _NO_PROGRESS for e in run.log[run.row.seq :])}
        has_suspect = any(run.row.crashes >= SUSPECT and run.row.run_key not in moved for run in runs)
        done: list[tuple[int, bool]] = []
        for run in runs:
            is_laid_to_it = has_crashed and (not has_suspect or run.row.crashes >= SUSPECT)
            crashes = 0 if run.row.run_key in moved else run.row.crashes + is_laid_to_it
            said = {"worker": worker, "crashes": crashes}
            self._give_back(run, self._append(run, Kind.RUN_RECLAIMED, run.row.epoch + 1, said, None), crashes)
            if is_laid_to_it and crashes >= cap:
                self._end_or_block(run, None, run.row.epoch)
            done.append((run.row.run_key, run.row.status is Status.BLOCKED))
        return done

    def refuse(self, run: Run, epoch: int, build: str, payload: bytes) -> list[Event]:
        """Let a build refuse the run it holds; the events that say so."""
        if not run.is_held or run.row.epoch != epoch:
            wanted = (Kind.DRIFT_FOUND, epoch, payload)
            seq = next((event.seq for event in run.log if (event.kind, event.epoch, event.payload) == wanted), None)
            return [] if seq is None else run.log[seq - 1 : seq + 1]
        drift = self._append(run, Kind.DRIFT_FOUND, epoch, payload, None)
        run.refused |= {build}
        has_to_end = run.has(InboxKind.CANCEL) and run.row.undo is None
        if self._living() - run.refused and not has_to_end:
            self._give_back(run, self._append(run, Kind.RUN_RELEASED, epoch + 1, None, None))
        else:
            self._end_or_block(run, payload, epoch + 1)
        return [drift, run.log[-1]]

    def stranded(self) -> set[int]:
        """The keys of runs that are to be claimed, and that every living build has refused."""
        living = self._living()
        return {
            key for key, run in self.runs.items() if run.rank is not None and living and run.refused and
            living <= run.refused
        }  # fmt: skip

    def block_stranded(self, seen: Iterable[int]) -> list[int]:
        """Block those of ``seen`` that are stranded; the others that are."""
        found, seen = self.stranded(), set(seen)
        for key in sorted(found & seen):
            run = self.runs[key]
            drift = [event for event in run.log if event.kind == Kind.DRIFT_FOUND][-1]
            self._end_or_block(run, drift.payload, run.row.epoch + 1)
        return sorted(found - seen)

    def _living(self) -> set[str]:
        return {worker.build for worker in self.workers.values() if worker.is_working}

    def _give_back(self, run: Run, event: Event, crashes: int | None = None) -> None:
        run.change(
            worker_key=None, epoch=event.epoch, seq=event.seq, hash=event.hash,
            crashes=run.row.crashes if crashes is None else crashes,
        )  # fmt: skip
        run.rest(URGENT if run.has(InboxKind.CANCEL) else run.rank_at(run.row.created_at))

    def _end_or_block(self, run: Run, drift: bytes | None, epoch: int) -> None:
        """Cancel a run if that was asked for and nothing is to be undone, else block it; the store says why."""
        asked = next((letter for letter in run.inbox if letter.kind is InboxKind.CANCEL), None)
        if asked is not None and run.row.undo is None:
            self._end(run, Status.CANCELLED, json.loads(asked.payload or b"{}"), None, epoch)
        else:
            code = None if drift is None else json.loads(drift)["code"]
            self._end(run, Status.BLOCKED, {"reason": ..., **({} if drift is None else {"code": code})}, None, epoch)

    def _end(
        self, run: Run, status: Status, said: dict[str, Any] | bytes, now: int | None, epoch: int | None = None
    ) -> None:
        """Cancel, pause or block a run that nobody holds (any more)."""
        kinds = {
            Status.CANCELLED: Kind.RUN_CANCELLED, Status.PAUSED: Kind.RUN_PAUSED, Status.BLOCKED: Kind.RUN_BLOCKED,
        }  # fmt: skip
        event = self._append(run, kinds[status], run.row.epoch + 1 if epoch is None else epoch, said, now)
        run.change(
            status=status, epoch=event.epoch, seq=event.seq, hash=event.hash, worker_key=None, wake_at=None,
            reason=json.loads(event.payload or b"{}").get("reason"),
            ended_at=event.at if status.terminal else None, undo=None if status.terminal else run.row.undo,
        )  # fmt: skip
        run.awaits = []
        run.rest()
        if status is Status.PAUSED:
            run.drop(InboxKind.PAUSE)
        if status is Status.CANCELLED:
            run.drop(InboxKind.CANCEL, InboxKind.PAUSE)
            if run.row.parent_key is not None:
                parent, name = run.row.parent_key, run.row.run_id
                self.deliver(Message(InboxKind.CHILD_CANCELLED, parent, name=name, payload=event.payload), event.at)

    # -- purging

    def purgeable(self) -> list[int]:
        """The keys of the runs that may be purged, in the order in which they are looked through."""
        found = [
            run.row for run in self.runs.values()
            if run.row.status.terminal and not self._is_needed(run.row.parent_key)
        ]  # fmt: skip
        return [row.run_key for row in sorted(found, key=lambda row: (row.status, row.ended_at, row.run_key))]

    def _is_needed(self, parent: int | None) -> bool:
        return parent in self.runs and self.runs[parent].row.status is not Status.COMPLETED

    def purge(self, key: int, now: int) -> Tombstone:
        """Purge a run that may be purged; what is left of it."""
        row = self.runs.pop(key).row
        assert row.ended_at is not None
        grave = Tombstone(row.namespace, row.run_id, row.idempotency_key, row.workflow, row.status, row.ended_at, now)
        self.graves.append(grave)
        return grave

    def grave(self, run_id: str, idempotency_key: str | None = None) -> Tombstone | None:
        """What is left of the run that had an id, else of one that had an idempotency key."""
        by_key = [one for one in self.graves if one.idempotency_key == idempotency_key is not None]
        return next((one for one in self.graves if one.run_id == run_id), by_key[0] if by_key else None)

    # -- forks

    def fork(self, fork: Fork, key: int) -> Run:
        """Make a fork under the key that the store gave it."""
        origin = self.runs[fork.origin_key]
        link, log = genesis(fork.uid), []
        for event in origin.log[: fork.seq]:
            args = fork.origin if event.seq == 1 else event.args
            log.append(seal(link, key, *event._replace(args=args)[1:-1]))
            link = log[-1].hash
        row = origin.row._replace(
            run_key=key, run_id=fork.run_id, uid=fork.uid, status=Status.PENDING, worker_key=None, inbox=0, crashes=0,
            wake_at=None, deadline_at=None, parent_key=None, idempotency_key=None, reason=None, ended_at=None,
            undo=None,
        )  # fmt: skip
        run = self.runs[key] = Run(row, log)
        event = self._append(run, Kind.RUN_FORKED, log[-1].epoch + 1, None, fork.created_at)
        run.change(epoch=event.epoch, seq=event.seq, hash=event.hash, created_at=event.at)
        run.rest(run.rank_at(event.at))
        return run

    # -- the log

    def _append(self, run: Run, kind: Kind, epoch: int, said: dict[str, Any] | bytes | None, now: int | None) -> Event:
        """Take over an event that the store must have written, after looking at everything in it.

        Args:
            run: whose log it is in.
            kind: its kind.
            epoch: its epoch.
            said: its payload, or what it decodes to; ``...`` stands for a text of the store's own.
            now: its instant, unless its predecessor is later; None: the store's clock decided.
        """
        last = run.log[-1]
        event = self._told(run.row.run_key, last.seq + 1)
        at = max(event.at if now is None else now, last.at)
        assert event == seal(last.hash, run.row.run_key, last.seq + 1, at, epoch, kind, payload=event.payload), event
        if isinstance(said, dict):
            found = json.loads(event.payload or b"{}")
            assert found == {name: found[name] if value is ... else value for name, value in said.items()}, event
        else:
            assert event.payload == said, event
        run.log.append(event)
        return event


__all__ = ["Letter", "Model", "Run", "Worker"]
