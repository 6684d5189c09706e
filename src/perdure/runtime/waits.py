"""What a run waits for besides steps and timers: signals, and runs it has started.

Both come as news through the run's inbox. A message becomes an outcome of the call that waits for it, in the commit
that takes it out of the inbox; what nobody waits for yet is kept, in the order in which it came.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from perdure.context import MISSING
from perdure.errors import RunGone, SignalTimeout, Undecodable
from perdure.model import payloads
from perdure.model.records import InboxKind, Kind
from perdure.runtime.about import about
from perdure.runtime.calls import Awaited, users_frame
from perdure.runtime.children import ended_outcome, request_cancel
from perdure.runtime.overdue import reason
from perdure.runtime.runloop import RunFuture
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from perdure.model.codec import ValueCodec
    from perdure.model.records import Event, InboxRow
    from perdure.runtime.calls import Outcome
    from perdure.runtime.children import ChildCall
    from perdure.runtime.run import Run


class WaitFuture(RunFuture):
    """The outcome of a wait. Cancelling it gives the wait up at once, and costs nothing in the log."""

    __slots__ = ("wait",)
    wait: SignalWait

    def cancel(self, msg: Any | None = None) -> bool:
        """Give the wait up; True unless it has an outcome already."""
        if self.done():
            return False
        self.wait.give_up()
        return super().cancel(msg)


class SignalWait(Awaited):
    """One wait for a signal in a run."""

    __slots__ = ("codec", "default", "due", "future", "name", "timeout")

    def __init__(
        self, run: Run, key: str, name: str, codec: ValueCodec, timeout: float | None, default: object
    ) -> None:
        self.run = run
        self.key = key
        self.name = name
        self.codec = codec
        self.timeout = timeout
        self.default = default
        self.due: float | None = None
        """On the loop's clock, seconds."""
        self.future: WaitFuture | None = None
        frame = users_frame()
        self.code, self.lasti = frame.f_code, frame.f_lasti
        run.untaken[key] = self

    @property
    def what(self) -> str:
        """What it is, in a sentence."""
        return f"the wait for signal {self.name!r}"

    def close(self) -> None:
        """Give it up without having awaited it."""
        self.run.untaken.pop(self.key, None)

    def take_future(self) -> WaitFuture:
        """Begin to wait."""
        run = self.run
        run.untaken.pop(self.key, None)
        if self.future is not None:
            msg = f"the wait {self.key} was awaited already"
            raise RuntimeError(msg)
        if run.gone or run.loop.gone:
            raise RunGone
        self.future = future = WaitFuture(loop=run.loop)
        future.n = run.loop.number()
        future.wait = self
        if self.timeout is not None:
            self.due = run.loop.clock + self.timeout
        run.calls[self.key] = self
        if self.key not in run.replay.by_key:
            run.waiting().signals[self.key] = self
            run.listening = True
        return future

    def give_up(self) -> None:
        """Wait no longer."""
        self.run.calls.pop(self.key, None)
        if self.run.waits is not None:
            self.run.waits.signals.pop(self.key, None)

    def let_go(self) -> WaitFuture:
        """End the wait and return its future, to be settled."""
        future = self.future
        assert future is not None
        self.give_up()
        return future

    def recorded(self, event: Event) -> Outcome:
        """What an event of the log makes of the wait.

        Raises:
            Undecodable: the message does not decode as the signal's type today.
        """
        if event.kind == Kind.TIMER_FIRED:
            return (self.expire,)
        value = self.codec.decode(self.run.host.unpack(event))
        return self.let_go().set_result, value

    def expire(self) -> None:
        """No message came in time."""
        future = self.let_go()
        if self.default is not MISSING:
            future.set_result(self.default)
            return
        error = SignalTimeout(
            f"no signal {self.name!r} came within {self.timeout} s",
            run_id=self.run.run_id,
            signal=self.name,
            timeout=self.timeout,
            advice="catch it where the workflow waits, or give wait() a default=",
        )
        future.set_exception(error)

    def __repr__(self) -> str:
        return f"<wait {self.key} of run {self.run.run_id}>"


class Waits:
    """One run's waits, the messages that have come for it, and the runs it has started.

    Attributes:
        signals: waits for signals by key, in the order in which they began.
        children: calls of child runs that are awaited, by the child's run id.
        unborn: children that are to be created when everything recorded has been delivered.
        started: children by run id that have been created, are not known to have ended, and end with their parent.
    """

    __slots__ = ("_ended", "_heard", "_mail", "_run", "children", "deadline", "signals", "started", "unborn")

    def __init__(self, run: Run) -> None:
        self._run = run
        self.signals: dict[str, SignalWait] = {}
        self.children: dict[str, ChildCall] = {}
        self.unborn: deque[ChildCall] = deque()
        self.started: dict[str, None] = {}
        self.deadline = run.row.deadline_at
        self._mail: dict[str, deque[InboxRow]] = {}
        self._ended: dict[str, InboxRow] = {}
        self._heard: set[int] = set()
        """Inbox rows that are here or have been consumed: they may be read again before that is on disk."""

    def __bool__(self) -> bool:
        """Whether something is waited for that may come from outside."""
        return bool(self.signals or self.children)

    def hear(self, row: InboxRow) -> None:
        """Take in a message."""
        if row.inbox_key in self._heard:
            return
        self._heard.add(row.inbox_key)
        assert row.name is not None
        if row.kind == InboxKind.SIGNAL:
            self._mail.setdefault(row.name, deque()).append(row)
        else:
            self._ended[row.name] = row
            self.started.pop(row.name, None)

    def forget_calls(self) -> None:
        """Nobody waits any more, as the code has ended; what has come stays."""
        self.signals.clear()
        self.children.clear()

    def rejoined(self) -> None:
        """All that was consumed is on disk."""
        self._heard = {row.inbox_key for box in self._mail.values() for row in box}
        self._heard.update(row.inbox_key for row in self._ended.values())

    @property
    def timed(self) -> bool:
        """Whether a wait, or the run, has an end that time brings."""
        return self.deadline is not None or any(wait.due is not None for wait in self.signals.values())

    @property
    def names(self) -> list[str]:
        """The signals that are waited for."""
        return sorted({wait.name for wait in self.signals.values()})

    def earliest(self) -> tuple[int, SignalWait | None] | None:
        """When the first of these ends is due (µs), and of which wait; None for the run's own deadline."""
        run, best = self._run, None
        for wait in self.signals.values():
            if wait.due is not None:
                due = run.instant_of(wait.due)
                if best is None or due < best[0]:
                    best = due, wait
        if self.deadline is not None and run.cancel_reason is None and (best is None or self.deadline < best[0]):
            return self.deadline, None
        return best

    def next_outcome(self) -> Outcome | None:
        """Record and return what can be delivered now: a message, or a child's end, that somebody waits for."""
        while (first := self._first()) is not None:
            what, row = first
            if isinstance(what, SignalWait):
                self._mail[what.name].popleft()
                outcome = self._received(what, row)
                if outcome is None:
                    continue
            else:
                del self._ended[what.run_id]
                outcome = self._child_ended(what, row)
            self._run.listening = True  # there may be more
            return outcome
        return None

    def _first(self) -> tuple[SignalWait | ChildCall, InboxRow] | None:
        """What came first of that which somebody waits for, and who has waited for it longest."""
        found: tuple[SignalWait | ChildCall, InboxRow] | None = None
        if self._mail:
            for wait in self.signals.values():
                box = self._mail.get(wait.name)
                if box and (found is None or box[0].inbox_key < found[1].inbox_key):
                    found = wait, box[0]
        for run_id, row in self._ended.items():  # in the order in which they came
            if run_id in self.children:
                if found is None or row.inbox_key < found[1].inbox_key:
                    found = self.children[run_id], row
                break
        return found

    def out_of_time(self) -> Outcome | None:
        """Record and return what time brings first, of timers, waits and the run's deadline, if it is due."""
        run = self._run
        run.listening = run.listening or self.timed
        timer = run.loop.earliest() if run.loop.timers else None
        first = self.earliest()
        now = run.host.clock.now()
        if timer is not None and (first is None or run.due_at(timer) <= first[0]):
            if run.due_at(timer) > now:
                return None
            return run.confirm(timer.key, (run.loop.fire, timer)) if self.signals else run.fire(timer)
        if first is None or first[0] > now:
            return None
        due, wait = first
        if wait is not None:
            return run.confirm(wait.key, (wait.expire,))
        run.cancel_request = reason(due), []
        return run.deliver_cancel()

    def last_wishes(self, cancelled: bool) -> None:  # noqa: FBT001 - one of two
        """The run is about to end: create the children it has still asked for, or take along those it has."""
        if cancelled:
            self.unborn.clear()
            for run_id in self.started:
                request_cancel(self._run, run_id, "its parent was cancelled")
        while self.unborn:
            self.unborn.popleft().bear()

    def _received(self, wait: SignalWait, row: InboxRow) -> Outcome | None:
        run = self._run
        try:
            data = run.host.codecs.load(row.codec, row.payload, run.host.store.get_artifact)
            value = wait.codec.decode_only(data)
        except Undecodable as misfit:
            say(lines.SIGNAL_REFUSED, error=misfit, signal=row.name, **about(run))
            run.record(
                Kind.SIGNAL_REFUSED,
                codec=row.codec,
                payload=row.payload,
                args=payloads.note(name=row.name, reason=str(misfit)),
                take=[row.inbox_key],
            )
            return None
        run.record(
            Kind.SIGNAL_RECEIVED,
            wait.key,
            codec=row.codec,
            payload=row.payload,
            args=payloads.note(
                name=row.name, sent_at=row.sent_at, **({} if row.author is None else {"by": row.author})
            ),
            take=[row.inbox_key],
        )
        return wait.let_go().set_result, value

    def _child_ended(self, call: ChildCall, row: InboxRow) -> Outcome:
        event = self._run.record(
            Kind.CHILD_ENDED,
            call.key,
            attempt=1,
            codec=row.codec,
            payload=row.payload,
            args=payloads.note(status=InboxKind(row.kind).name.removeprefix("CHILD_").lower(), run_id=row.name),
            take=[row.inbox_key],
        )
        return ended_outcome(self._run, call, event)


__all__ = ["SignalWait", "Waits"]
