"""One executing run: the workflow on its own loop, its outcomes in the order of the log, and what it writes.

Everything happens in ``advance``, called from plain callbacks of the host's loop. It delivers one outcome at a time and
lets the loop run until idle in between: first what is recorded, then what is new, which thereby gets its place in the
log. When there is nothing to deliver it starts bodies, each behind its barrier; and when there is nothing to start it
waits, or writes the run as sleeping and lets it go.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from perdure.errors import DriftError, IntegrityError, StoreError, Undecodable
from perdure.model import chain, forking, payloads
from perdure.model.records import Event, Kind, StateChange, Status
from perdure.model.replay import OUTCOMES, Replay
from perdure.runtime import children, drift, endings, resting
from perdure.runtime.about import about
from perdure.runtime.alarm import Alarm
from perdure.runtime.bodies import Abort, Body
from perdure.runtime.calls import marked_first
from perdure.runtime.code_view import CodeView
from perdure.runtime.news import hear
from perdure.runtime.outcomes import recorded_outcome, settle_body
from perdure.runtime.runloop import TORN, RunLoop, RunTask, Timer
from perdure.runtime.transacting import TransactionalBody
from perdure.runtime.waits import Waits
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Container, Sequence

    from perdure.context import RunContext
    from perdure.model.records import Artifact, Claim, CommitItem, InboxRow, Successor
    from perdure.runtime.calls import Awaited, Outcome, StepCall
    from perdure.runtime.children import ChildCall
    from perdure.runtime.host import Host
    from perdure.runtime.undoing import Undoing
    from perdure.runtime.waits import SignalWait
    from perdure.workflow import Workflow

LAST_INSTANT = 253_402_300_799_000_000
"""The end of the year 9999 in µs: no timer is due later, whatever it was set to."""

_NOTHING = Replay(())
_NO_EVENTS: list[Event] = []
_NO_TASKS: frozenset[asyncio.Future[Any]] = frozenset()


class Run:
    """A claimed run in execution. Lives on the host's loop; nothing here is called from other threads."""

    __slots__ = (
        "_advancing", "_alarm", "_rejoining", "_zero", "accept_drift", "activation", "at", "before", "busy", "calls",
        "cancel_reason", "cancel_request", "code", "confirmed", "confirming", "deaf", "definition", "durable", "ended",
        "epoch", "events", "failures", "fault", "first", "gone", "host", "in_flight", "inbox", "item", "key_uid",
        "leaving", "link", "listening", "live", "loop", "pausing", "recorded_python", "replay", "replaying", "resumes",
        "retrying", "root", "row", "run_id", "run_key", "seed", "seq", "spins", "startable", "stopping", "strays",
        "uid", "undoing", "untaken", "verdict", "waits", "wake_at", "workflow",
    )  # fmt: skip

    item: CommitItem | None
    root: RunTask | None
    first: tuple[Any, ...] | None
    """Something to call, with its arguments, before anything else."""
    fault: BaseException | None
    """What ended the execution in memory, if not the loss of the claim."""
    deaf: int
    """The look into the inbox whose news must be heard before anything else is decided; 0 if there is none."""
    listening: bool
    """Whether the log, or what has come in, may hold something to deliver."""
    leaving: Event | None
    """The event that is to be on disk before anything else is decided: the last, or a timeout."""
    confirming: Outcome | None
    """What ``leaving`` delivers, if it is a timeout."""
    confirmed: Outcome | None
    pausing: tuple[str, list[int]] | None
    cancel_request: tuple[str, list[int]] | None
    """Why it is asked for, and the inbox rows that ask."""
    cancel_reason: str | None
    undoing: Undoing | None
    verdict: BaseException | None
    wake_at: int | None
    """When the run is to go on, once it is suspended (µs)."""
    _alarm: Alarm | None
    _zero: int
    """The instant that the loop's clock counts from, µs."""

    def __init__(self, host: Host, claim: Claim, definition: Workflow[Any, Any]) -> None:
        row, last = claim.row, claim.events[-1]
        self.host = host
        self.definition = definition
        self.code = CodeView(self, row)
        self.run_key, self.run_id, self.uid = row.run_key, row.run_id, row.uid
        self.seed, self.key_uid = forking.uids(row.uid, claim.events[0])
        self.workflow, self.epoch = row.workflow, row.epoch
        self.row = row
        self.events = claim.events
        self.seq, self.link, self.at = last.seq, last.hash, last.at
        self.before: tuple[int, bytes, int] = (0, b"", 0)
        self.durable = self.seq
        self.inbox = row.inbox
        # It has all the methods of a loop, most of them made by a loop over their names.
        self.loop = RunLoop(self.code, int.from_bytes(sha256(self.seed).digest()[:5]))  # type: ignore[abstract]
        self.calls: dict[str, StepCall | ChildCall | SignalWait] = {}
        self.untaken: dict[int | str, Awaited] = {}
        self.startable: deque[StepCall] = deque()
        self.retrying: dict[str, StepCall] = {}
        self.in_flight: dict[str, Body] = {}
        self.live: deque[Body | StepCall | ChildCall] = deque()
        self.waits = None if row.deadline_at is None else Waits(self)
        self.failures: dict[int, tuple[BaseException, str, int, bytes]] = {}
        """By id: failures of steps that the workflow saw, with the step's key and the attempt."""
        self.resumes: dict[Any, Any] = {}
        self.strays = _NO_TASKS
        self.replay = _NOTHING
        self.recorded_python = ""
        """The Python minor that executed the run before this claim."""
        self.item = self.root = self.first = self.fault = self._alarm = self.wake_at = self.verdict = None
        self.leaving = self.confirming = self.confirmed = self.undoing = None
        self.pausing = self.cancel_request = self.cancel_reason = None
        self.activation = self.spins = self.busy = self.deaf = self._zero = 0
        self.stopping = self.ended = self.gone = self._advancing = self._rejoining = False
        self.replaying = self.accept_drift = False
        self.listening = True

    # -- beginning

    def begin(self) -> None:
        """Check everything persisted, then start the workflow's function."""
        self.first = (self._begin,)
        self.advance()

    def _begin(self) -> None:
        try:
            chain.check(self.uid, self.events, run_id=self.run_id)
            self.host.codecs.check(self.events)
            payloads.check_origin(self.events[0], self.definition.origin, self.run_id)
            self.replay = Replay(self.events)
            self.accept_drift = self.replay.accept_drift
            self.recorded_python = self.replay.python
            self.replaying = not self.replay.done
            self._zero = self.replay.zero(0 if self.replaying else self.seq)
            value = self._input()
        except (IntegrityError, Undecodable, DriftError) as error:
            self.replay = Replay(())
            self.verdict = error
            return
        self.loop.clock = 0.0
        self.loop.activate(self._start_root, value)
        self.events = _NO_EVENTS

    def loaded(self) -> None:
        """The rest of a long log has been read."""
        if not self.gone:
            last = self.events[-1]
            self.seq, self.link, self.at, self.durable = last.seq, last.hash, last.at, last.seq
            self.begin()

    def _input(self) -> Any:
        created = self.events[0]
        self.code.born(created)
        payload = self.host.unpack(created)
        return self.definition.input.decode(payload) if self.definition.takes_input else None

    def _start_root(self, value: Any) -> None:
        definition = self.definition
        context = None if definition.takes_ctx is None else self.code.context()
        if definition.is_async:
            main = _await(definition, value, context)
        else:
            main = self.host.fibers.drive(self, partial(definition.invoke, value, context))
        self.root = self.loop.root(main, self.host.root_context(self))

    def rejoin(self, claim: Claim) -> None:
        """Take a new claim, after a wait, with the loop as it was: nothing goes on until ``go_on``."""
        self._rejoining = True
        last = claim.events[-1]
        self.row, self.epoch, self.inbox = claim.row, claim.row.epoch, claim.row.inbox
        self.seq, self.link, self.at = claim.row.seq, claim.row.hash, max(self.at, last.at)
        self.durable = self.seq
        self.leaving = None
        if self.waits is not None:
            self.waits.rejoined()

    def go_on(self) -> None:
        """Go on after ``rejoin``: there is a slot."""
        self._rejoining = False
        self.advance()

    # -- going on

    def advance(self) -> None:
        """Do whatever can be done now. Never nested; safe to call too often."""
        if self._advancing or self._rejoining or self.ended or self.gone:
            return
        self._advancing = True
        try:
            if self.first is not None:
                (do, *arguments), self.first = self.first, None
                do(*arguments)
            if self.root is not None or self.verdict is not None:
                self._advance()
        except (SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - told to the owner; what panics in an extension is no Exception
            self._broken(error)
        finally:
            self._advancing = False
            if self.item is not None:
                self.host.journal.kick()

    def activate(self, callback: Callable[..., object], *arguments: object) -> None:
        """Have something called on the run's loop, and go on."""
        self.first = self.loop.activate, callback, *arguments
        self.advance()

    def _broken(self, error: BaseException) -> None:
        """A fault of ours ends this execution, never the run or its neighbours; an interrupt goes on."""
        if not isinstance(error, (StoreError, KeyboardInterrupt)):
            say(lines.RUN_FAULT, error=error, fault=True, **about(self))
        self.drop(error)
        self.host.owner.run_lost(self, error)
        if isinstance(error, KeyboardInterrupt):
            raise error

    def _advance(self) -> None:
        loop, startable = self.loop, self.startable
        while not (self.busy or self.leaving or self.deaf or self.gone):
            if loop.poison is not None and self.verdict is None:
                self.verdict = loop.poison
            if self.verdict is not None:
                if not endings.settled(self) or endings.refused(self):
                    return
                endings.write(self, endings.for_verdict(self, self.verdict))
                loop = self.loop  # another one, if something is left to do
                continue
            if self.resumes:
                thread = next(iter(self.resumes))
                thread.go(self.resumes.pop(thread))
                return
            assert self.root is not None
            if self.root.done() and not endings.strays_left(self):
                endings.finish(self, self.root)
                continue
            replay = self.replay
            told = replay.delivered
            if (self.live or loop.timers or self.listening) and (outcome := self._next_outcome()) is not None:
                # What a new outcome leads to is new, and so is what follows the copied part of a fork's log.
                replay.trodden = replay.delivered != told and not replay.at_frontier
                self.activation += 1
                self.spins = 0
                loop.activate(*outcome)
            elif (
                self.leaving is not None
                or (startable and self._start_bodies())
                or (self.waits is not None and self._start_children())
            ):
                continue
            elif loop.ready and not (self.calls or loop.timers):
                self.spins += 1
                self.activation += 1
                loop.activate()
                if loop.ready:
                    self.host.loop.call_soon(self.advance)
                    return
            elif (
                (startable or self.in_flight)
                and not (self.retrying or loop.timers or self.stopping or self.waits is not None)
            ) or not resting.rest(self):
                return  # whatever it waits for calls

    def _next_outcome(self) -> Outcome | None:
        replay, loop = self.replay, self.loop
        if self.replaying or replay.late:
            while (event := replay.next(self.calls, loop.timers)) is not None:
                if event.kind == Kind.CANCEL_DELIVERED and self.spins < payloads.fields(event.payload).get("spins", 0):
                    replay.put_back()
                    return None
                self._set_clock(event)
                return recorded_outcome(self, event)
            self.replaying = False
            self._zero = replay.zero(self.seq)
        self.listening = bool(replay.late)
        if self.confirmed is not None:
            confirmed, self.confirmed = self.confirmed, None
            return confirmed
        if self.cancel_request is not None and self.cancel_reason is None:
            return self.deliver_cancel()
        if self.waits is not None:
            news = self.waits.next_outcome() or self.waits.out_of_time()
            if news is not None or self.leaving is not None:
                return news
        elif loop.timers:
            timer = loop.earliest()
            if timer is not None and self.due_at(timer) <= self.host.clock.now():
                return self.fire(timer)
        while self.live:
            outcome = settle_body(self, self.live.popleft())
            if outcome is not None:
                return outcome
        return None

    def deliver_cancel(self) -> Outcome:
        """Record the cancel that was asked for."""
        assert self.cancel_request is not None
        reason, taken = self.cancel_request
        self.cancel_reason = reason
        self.record(Kind.CANCEL_DELIVERED, payload=payloads.note(reason=reason, spins=self.spins), take=taken)
        return (self.cancel_root,)

    def cancel_root(self) -> None:
        """Deliver the cancel into the workflow, once."""
        assert self.root is not None
        self.root.cancel("the run was cancelled")

    def fire(self, timer: Timer) -> Outcome:
        """Record a timer, and have it fire."""
        self.record(Kind.TIMER_FIRED, timer.key)
        return self.loop.fire, timer

    def confirm(self, key: str, outcome: Outcome) -> Outcome | None:
        """Record a timeout and deliver it once it is on disk: a message that has come in before that wins over it."""
        self.before = (self.seq, self.link, self.at)
        self.confirming = outcome
        self.leaving = self.record(Kind.TIMER_FIRED, key)
        assert self.item is not None
        self.item.inbox_seen = self.inbox
        self.host.journal.barrier(self)
        done, self.confirmed = self.confirmed, None
        return done

    def waiting(self) -> Waits:
        """The run's waits, which most runs never have."""
        if self.waits is None:
            self.waits = Waits(self)
        return self.waits

    def _start_children(self) -> bool:
        """Create the children that are asked for; True if there is something to deliver."""
        unborn = self.waiting().unborn
        while unborn and not self.stopping:
            if self.replay.late and not children.guard_moved(self, unborn[0]):
                return True
            unborn.popleft().bear()
        return False

    # -- bodies

    def _start_bodies(self) -> bool:
        """Start what may start; True if there is something to deliver (or to try again) now."""
        host = self.host
        startable = self.startable
        while startable and (not self.stopping or marked_first(startable)):
            call = startable[0]
            if call.cancelled and (call.step.transactional is None or call.key not in self.calls):
                _ = startable.popleft()
                continue
            if call.barrier > self.durable and not host.journal.barrier(self):
                return False
            if self.gone:
                return False
            _ = startable.popleft()
            if not host.lease_ok():
                startable.appendleft(call)
                host.held_back = True  # until it is known whether the run is still ours
                return False
            if self.replay.late and not drift.guard_moved(self, call):
                return True
            step = call.step
            if step.at_most_once and call.interrupted:
                self.live.append(call)
                return True
            if step.at_most_once and not call.marked:
                call.marked = True
                self.record(Kind.STEP_STARTED, call.key, attempt=call.attempt)
                call.barrier = self.seq
                startable.appendleft(call)
                continue
            body = call.body = (Body if step.transactional is None else TransactionalBody)(self, call)
            self.in_flight[call.key] = body
            body.start()
            if self.live:
                return True
        return bool(self.live)

    def body_ended(self, body: Body) -> None:
        """A body has settled."""
        self.in_flight.pop(body.call.key, None)
        if self.gone:
            if not self.in_flight:
                self.host.owner.run_settled(self)
            return
        if body.abort is Abort.STOP and body.aborted and (not body.call.cancelled or body.unsettled):
            body.call.body = None
            self.startable.append(body.call)  # interrupted, not failed: the attempt is made again elsewhere
        else:
            self.live.append(body)
        if not self._advancing:
            self.advance()

    def mark_started(self, older_than: int) -> None:
        """Note bodies in flight since before ``older_than`` (µs) in the log; rides along, nobody waits for it."""
        for body in self.in_flight.values():
            if body.is_running and body.began < older_than and not body.call.marked and self.leaving is None:
                body.call.marked = True
                self.record(Kind.STEP_STARTED, body.call.key, attempt=body.attempt)

    # -- waiting

    def due_at(self, timer: Timer) -> int:
        """When a timer is due, µs UTC."""
        return self.instant_of(timer.when())

    def instant_of(self, when: float) -> int:
        """An instant on the run's clock (seconds), as µs UTC."""
        return min(self._zero + round(when * 1e6), LAST_INSTANT)

    def arm(self) -> None:
        """Be called again when the next of what time brings is due."""
        timed = self.loop.timers or self.retrying or self.waits is not None
        if timed and (due := resting.earliest(self)) is not None:
            if self._alarm is None:
                self._alarm = Alarm(self.host, self.advance)
            self._alarm.set(due)

    def _unset(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    @property
    def instant(self) -> int:
        """What the run's code takes for now: when the last outcome delivered happened (µs UTC)."""
        return self._zero + round(self.loop.clock * 1e6)

    def at_rest(self, now: int, held: Container[object]) -> bool:
        """Whether nothing but bodies that are ``held``, or its alarm, set after ``now`` (µs), can make it go on."""
        if self.busy or self.leaving is not None or self.deaf:
            return False
        if any(body not in held for body in self.in_flight.values()):
            return False
        due = None if self._alarm is None else self._alarm.due
        return bool(self.in_flight) if due is None else due > now

    # -- writing

    def _set_clock(self, event: Event) -> None:
        # An outcome that had to wait for its call is older than what was delivered before it.
        self._zero = max(self._zero, self.replay.zero(event.seq))
        self.loop.clock = max(self.loop.clock, (event.at - self._zero) / 1e6)

    def record(  # noqa: PLR0913 - the columns of an event
        self,
        kind: Kind,
        key: str | None = None,
        *,
        attempt: int | None = None,
        took: int | None = None,
        codec: int = 0,
        payload: bytes | None = None,
        args: bytes | None = None,
        artifact: Artifact | None = None,
        take: list[int] | None = None,
        now: int = 0,
    ) -> Event:
        """Give an event its place in the log and hand it to the journal."""
        self.at = at = max(self.at, now or self.host.clock.now())
        self.seq = seq = self.seq + 1
        if (encode := self.host.encode) is not None:
            codec, payload, args, artifact = encode(kind, codec, payload, args, artifact)
        event = chain.seal(self.link, self.run_key, seq, at, self.epoch, kind, key, attempt, took, codec, payload, args)
        self.link = event.hash
        if kind in OUTCOMES:  # code may be looking, on a thread: for it nothing else has happened
            self.loop.clock = (at - self._zero) / 1e6
        item = self.host.journal.submit(self, event)
        if not self._advancing:
            self.host.journal.kick()  # else when it is done
        if artifact is not None:
            item.artifacts = [*item.artifacts, artifact]
        if take:
            item.take = [*item.take, *take]
        if self.undoing is not None:
            self.undoing.ride(item)
        return event

    def leave(
        self,
        kind: Kind,
        payload: bytes,
        state: StateChange,
        *,
        codec: int = 0,
        artifact: Artifact | None = None,
        take: list[int] | None = None,
        successor: Successor | None = None,
    ) -> None:
        """Write the event with which this execution lets go of the run."""
        self._unset()
        self.before = (self.seq, self.link, self.at)
        self.wake_at = state.wake_at
        self.leaving = self.record(kind, payload=payload, codec=codec, artifact=artifact, take=take)
        assert self.item is not None
        self.item.state = state
        self.item.inbox_seen = self.inbox
        self.item.successor = successor
        if successor is None and (told := children.tell_parent(self, state.status, self.leaving)):
            self.item.sends = [*self.item.sends, told]
        if not self.host.journal.barrier(self):
            self.host.owner.run_leaves(self)

    def committed(self, item: CommitItem) -> None:
        """The journal: these events are on disk."""
        self.durable = item.events[-1].seq
        if item.children or item.sends or item.successor is not None:
            self.host.owner.run_sent(self)
        if item.state is None:
            if item.inbox_seen is not None:
                self.leaving, self.confirming, self.confirmed = None, None, self.confirming
                self.listening = True
            if not self._advancing:
                self.advance()
            return
        if item.state.status.terminal or item.state.status is Status.BLOCKED:
            self.ended = True
            self.loop.tear()
            self._let_go()
            self.host.owner.run_ended(self)
        else:
            self.host.owner.run_suspended(self)

    def _let_go(self) -> None:
        """Drop what only an executing run needs: whoever waits for the result may keep this object for long.

        And cut the cycles, so that nothing of it waits for the collector.
        """
        self.root = None
        self.replay = _NOTHING
        self.failures.clear()
        self.calls.clear()
        self.undoing = None
        self.loop = TORN
        del self.code

    def stale(self, item: CommitItem) -> None:
        """The journal: news came in, so nothing of this was written; take back the leaving and look."""
        assert self.leaving is not None
        item.events.pop()
        self.leaving = self.confirming = None
        self.deaf = 1  # until it is known which
        self.seq, self.link, self.at = self.before
        if self.undoing is not None:
            self.undoing.unwritten()
        for event in item.events:
            again = self.host.journal.submit(self, event)
            again.artifacts, again.take, again.children = item.artifacts, item.take, item.children
            # What it was to tell its parent it tells when it does end.
            again.sends = [message for message in item.sends if message.run_key is None]
            self.host.journal.kick()
        self.host.owner.run_stale(self)

    def fenced(self) -> None:
        """The journal: the run has another holder; nothing of this was written and nothing more can be."""
        self.drop(None)
        self.host.owner.run_lost(self, None)

    def unwritable(self, error: BaseException) -> None:
        """The journal: the store failed; the run is as it was at the last commit."""
        self.drop(error)
        self.host.owner.run_lost(self, error)

    def news(self, inbox: int, rows: Sequence[InboxRow]) -> None:
        """Hear what the inbox holds."""
        hear(self, inbox, rows)
        self.advance()

    # -- ending

    def drop(self, _error: BaseException | None) -> None:
        """End the execution in memory; the run itself stays as the log says."""
        if self.gone:
            return
        self.gone = True
        self._unset()
        for body in list(self.in_flight.values()):
            body.request_abort(Abort.LOST)
        self.host.fibers.unwind(self)
        self.loop.tear()


async def _await(definition: Workflow[Any, Any], value: Any, context: RunContext | None) -> Any:
    """Call a workflow's function: in the task, so that nothing of it is left if the task never begins."""
    return await definition.invoke(value, context)


__all__ = ["Run"]
