"""What runs need of the process they execute in, in one place."""

from __future__ import annotations

from collections import deque
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from perdure.model import payloads
from perdure.model.coding import NONE
from perdure.runtime.reports import Reports

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence
    from contextvars import Context

    from perdure.model.clock import Clock
    from perdure.model.coding import Codecs
    from perdure.model.records import Artifact, Claim, CommitItem, Event, Verdict
    from perdure.model.schedules import ScheduleChange, ScheduleRow
    from perdure.runtime.bodies import Body
    from perdure.runtime.fibers import Fibers
    from perdure.runtime.run import Run
    from perdure.runtime.threads import Threads
    from perdure.store.protocol import Artifacts, Reclaimed
    from perdure.workflow import Workflow

Encode: TypeAlias = "Callable[[int, int, bytes | None, bytes | None, Artifact | None], Coded]"
Coded: TypeAlias = "tuple[int, bytes | None, bytes | None, Artifact | None]"
"""Of an event: codec, payload, args, and the artifact that goes with it."""
OnDrift: TypeAlias = Literal["block", "warn"]
"""What becomes of a run whose code calls a step otherwise than is recorded: blocked, or gone on with and warned of."""

CLAMP = 1_000_000
"""No wait is longer than this many µs of real time before the clock is looked at again: clocks jump."""


class Owner(Protocol):
    """Who executes runs and is told what becomes of them: the worker."""

    def lease_ok(self) -> bool:
        """Whether this process still surely holds its runs."""
        ...

    def run_ended(self, run: Run, /) -> None:
        """The run's terminal event is on disk."""
        ...

    def run_suspended(self, run: Run, /) -> None:
        """The run is written as waiting; its slot is free."""
        ...

    def run_leaves(self, run: Run, /) -> None:
        """The event with which the run waits or ends is being written: its slot is free if no news comes in first."""
        ...

    def run_stale(self, run: Run, /) -> None:
        """News for the run came in while it wanted to wait or end: read its inbox."""
        ...

    def run_refused(self, run: Run, /) -> None:
        """Code and log do not fit (the run's ``verdict``); the run is dropped, its hold is to be ended."""
        ...

    def run_lost(self, run: Run, error: BaseException | None, /) -> None:
        """The run is no longer ours (None), or the store failed under it."""
        ...

    def learn(self, workflow: Workflow[Any, Any], /) -> None:
        """A run is about to start this workflow as a child."""
        ...

    def run_sent(self, run: Run, /) -> None:
        """The run has started or told others, and that is on disk."""
        ...

    def run_revives(self, run: Run, child: str, /) -> None:
        """The run waits anew for a child that has failed: it is to go on too."""
        ...

    def run_settled(self, run: Run, /) -> None:
        """A stopping run has nothing in flight any more."""
        ...


class Hearing(Protocol):
    """Who wants to hear what was committed: hooks, the log, metrics, spans."""

    def committed(self, batch: Mapping[Run, CommitItem], verdicts: Sequence[Verdict], seconds: float, /) -> None:
        """The journal has written a batch, which took so long."""
        ...

    def claimed(self, run: Run, claim: Claim, /) -> None:
        """A run was claimed, and is about to be executed."""
        ...

    def wrote(self, run: Run, events: Sequence[Event], /) -> None:
        """Something was written for a run that is executed here, by another way than the journal's."""
        ...

    def reclaimed(self, runs: Sequence[Reclaimed], /) -> None:
        """Runs were taken back from dead workers."""
        ...

    def blocked(self, run: Run, reason: str, /) -> None:
        """A run was blocked after its hold had ended."""
        ...

    def left(self, run: Run, /) -> None:
        """A run is not executed here any more; ``run.leaving`` says how it ended or rests, if it does."""
        ...


class Tracing(Protocol):
    """Who makes spans of what is executed."""

    def begin(self, body: Body, /) -> Any:
        """An attempt is about to begin; its span, which is current in its body from now on, or None."""
        ...

    def end(self, body: Body, span: Any, /) -> None:
        """An attempt has settled."""
        ...

    def enter(self, run: Run, context: Context, /) -> None:
        """A run's code is about to begin in a context."""
        ...

    def carrier(self, run: Run, /) -> dict[str, str]:
        """The context that is kept with what a run starts."""
        ...

    def fired(self, row: ScheduleRow, change: ScheduleChange, /) -> ScheduleChange:
        """A schedule starts runs: the same change, with a context kept with them."""
        ...


class Measuring(Protocol):
    """Who counts what no commit tells of."""

    def renewed(self, *, late: bool) -> None:
        """The lease was renewed; ``late``: after it had ended."""
        ...

    def lease_lost(self) -> None:
        """Others took this worker for dead."""
        ...

    def claim_took(self, seconds: float, /) -> None:
        """The store has answered a claim."""
        ...


class Writing(Protocol):
    """Who writes what runs record: the journal, or in a rehearsal nobody."""

    def submit(self, run: Run, event: Event, /) -> CommitItem:
        """Take an event of a run; returns the item that it will be written with. To be followed by ``kick``."""
        ...

    def kick(self) -> None:
        """See to it that what was submitted is written."""
        ...

    def barrier(self, run: Run, /) -> bool:
        """Whether all that the run has submitted is on disk; if not, its ``committed`` will be called."""
        ...


@dataclass(slots=True)
class Host:
    """The process as its runs see it."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    store: Artifacts
    journal: Writing
    threads: Threads
    fibers: Fibers
    owner: Owner
    tools: Any = None
    reached: Callable[[str], None] | None = None
    """Told of each point of ``perdure.runtime.points`` as it is reached; crash tests die there."""
    build: str = ""
    worker: str = ""
    """The worker's name."""
    on_drift: OnDrift = "block"
    hooks: Hearing | None = None
    codecs: Codecs = NONE
    """What makes readable what is read, and codes what is written."""
    spans: Tracing | None = None
    measuring: Measuring | None = None
    context: Context = field(default_factory=copy_context)
    lease_ok: Callable[[], bool] = field(init=False)
    """The owner's, or what it delegates to: asked before each body."""
    held_back: bool = field(default=False, init=False)
    """Whether a body was not begun for want of a lease."""
    encode: Encode | None = field(init=False)
    """Codes what an event holds; None where nothing is coded."""
    reports: Reports = field(init=False)
    _over: deque[Body] = field(default_factory=deque)

    def __post_init__(self) -> None:
        """Ask the owner about the lease until it names someone else."""
        self.lease_ok = self.owner.lease_ok
        self.encode = self.codecs.event if self.codecs else None
        self.reports = Reports(self.loop, self.threads)

    def unpack(self, event: Event) -> bytes:
        """Return an event's value, wherever and however it is kept.

        Raises:
            IntegrityError: the artifact is gone or not what was written.
            CodecMissing: a codec, or its key, is not here.
        """
        return self.codecs.unpack(event, self.store.get_artifact)

    def root_context(self, run: Run) -> Context:
        """The context a workflow starts in: a copy of what was current when the engine started."""
        context = self.context.copy()
        if self.spans is not None:
            self.spans.enter(run, context)
        return context

    def carrier(self, run: Run) -> dict[str, str]:
        """Return the trace that what a run starts goes on in: the run's own, also where nobody makes spans."""
        return payloads.trace_of(run.row.meta) if self.spans is None else self.spans.carrier(run)

    def left(self, run: Run) -> None:
        """Say that a run is not executed here any more."""
        if self.hooks is not None:
            self.hooks.left(run)

    def reach(self, point: str) -> None:
        """Say that a point of ``perdure.runtime.points`` is reached, to whoever wants to know."""
        if self.reached is not None:
            self.reached(point)

    def settle_soon(self, body: Body) -> None:
        """Settle a body on the loop's next turn; all that have returned in this one share it."""
        if not self._over:
            self.loop.call_soon(self._settle, context=self.context)
        self._over.append(body)

    def _settle(self) -> None:
        over = self._over
        try:
            while over:
                over.popleft().finished()
        finally:
            if over:  # an interrupt came out of one; the others are heard all the same
                self.loop.call_soon(self._settle, context=self.context)

    def given_time(self) -> int | None:
        """The instant (µs) that the store is to judge by, if the clock is one that is moved by hand; None: its own."""
        return self.clock.now() if hasattr(self.clock, "call_at") else None

    def call_at(self, due: int, callback: Callable[[], object]) -> Any:
        """Call back when the clock shows ``due`` (µs), or a little earlier or later: the callee looks again."""
        at = getattr(self.clock, "call_at", None)
        if at is not None:  # a manual clock knows when it is moved
            return at(due, self.loop, callback)
        delay = min(max(due - self.clock.now(), 0), CLAMP)
        return self.loop.call_later(delay / 1e6, callback)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Any:
        """Call back when so much time has passed: what no one who sets the time of day can shorten or lengthen."""
        later = getattr(self.clock, "call_later", None)
        if later is not None:
            return later(seconds, self.loop, callback)
        return self.loop.call_later(seconds, callback)
