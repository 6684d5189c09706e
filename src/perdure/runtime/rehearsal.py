"""A rehearsal: a run's code against its log, by the machinery that executes runs, without executing or writing.

What stands in for the journal keeps what would be written; what stands in for the worker never lets a body begin. So
everything recorded is delivered as it would be on a resume, and where the log ends, the rehearsal ends: at a write or a
body. Its clock stands before all time, so that nothing that is not in the log is ever due.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdure.model import chain
from perdure.model.records import Claim, CommitItem, Event, Kind
from perdure.runtime import asyncgens, drift
from perdure.runtime.fibers import Fibers
from perdure.runtime.host import Host
from perdure.runtime.run import Run
from perdure.runtime.threads import Threads
from perdure.store.coded import codecs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import RunRow
    from perdure.store.protocol import Artifacts
    from perdure.workflow import Workflow

_ENDINGS = frozenset({Kind.RUN_COMPLETED, Kind.RUN_CONTINUED, Kind.RUN_FAILED, Kind.RUN_CANCELLED, Kind.RUN_BLOCKED})


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """How far the code came with what is recorded.

    Attributes:
        written: what it would write next, in order.
        ending: the last of these, if the run would end (or be blocked) by it.
        artifacts: payloads of ``written`` that are kept beside the log, by hash.
        error: why the run would end whatever its code does: drift, damage, something that is not durable.
        starts: calls whose bodies would begin now: (key, attempt, where it is written).
        retries: calls whose next attempt is waited for: (key, attempt, when, µs).
        timers: what else is waited for: (key, when, µs).
        waits: keys of all calls and timers that are open.
        unasked: recorded outcomes that nobody has asked for.
        delivered: how many recorded outcomes were delivered.
    """

    written: list[Event]
    ending: Event | None
    artifacts: dict[bytes, bytes]
    error: BaseException | None = None
    starts: list[tuple[str, int, str]] = field(default_factory=list)
    retries: list[tuple[str, int, int]] = field(default_factory=list)
    timers: list[tuple[str, int]] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    unasked: list[Event] = field(default_factory=list)
    delivered: int = 0


async def rehearse(
    definition: Workflow[Any, Any], row: RunRow, events: Sequence[Event], artifacts: Artifacts
) -> Rehearsed:
    """Run a workflow's code against a log; nothing is executed and nothing is written.

    Args:
        definition: the code.
        row: the run.
        events: its whole log.
        artifacts: where payloads over 64 KiB are found.
    """
    stage = _Stage()
    host = stage.host(artifacts)
    restore = asyncgens.install()
    run = Run(host, Claim(row, _claimed(row, events)), definition)
    try:
        run.begin()
        await stage.quiet.wait()
        if stage.fault is not None:
            raise stage.fault
        if run.startable and not run.ended and run.verdict is None:
            # What a worker would do before the first body: is it a recorded call that has moved?
            for call in run.startable:
                if not call.cancelled and not drift.guard_moved(run, call):
                    break
            run.advance()
        return stage.seen(run)
    finally:
        run.drop(None)
        restore()
        stage.close()


def _claimed(row: RunRow, events: Sequence[Event]) -> list[Event]:
    """Return the log with the claim that would be made now: whoever executes a run has claimed it."""
    last = events[-1]
    return [*events, chain.seal(last.hash, row.run_key, last.seq + 1, last.at, last.epoch + 1, Kind.RUN_CLAIMED)]


class _Stage:
    """What stands in for journal and worker."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = Threads(self._loop, 1, "perdure-rehearsal")
        self._fiber_threads = Threads(self._loop, 1 << 30, "perdure-workflow")
        self._item = CommitItem(0, 0, [])
        self.quiet = asyncio.Event()
        """Set where the log ends."""
        self.fault: BaseException | None = None

    def host(self, artifacts: Artifacts) -> Host:
        fibers = Fibers(self._fiber_threads)
        codecs = codecs_of(artifacts).reading()  # what would be written is compared with what was
        return Host(self._loop, _BeforeAllTime(), artifacts, self, self._threads, fibers, self, codecs=codecs)

    def close(self) -> None:
        self._threads.close()
        self._fiber_threads.close()

    def seen(self, run: Run) -> Rehearsed:
        written = self._item.events
        ending = next((event for event in written if event.kind in _ENDINGS), None)
        starts = [(call.key, call.attempt, call.where) for call in run.startable if not call.cancelled]
        retries = [(call.key, call.attempt, call.next_at) for call in run.retrying.values()]
        timers = sorted(((key, run.due_at(timer)) for key, timer in run.loop.timers.items()), key=lambda pair: pair[1])
        return Rehearsed(
            written,
            ending,
            {kept.hash: kept.data for kept in self._item.artifacts},
            run.verdict,
            starts,
            retries,
            timers,
            [*run.calls, *run.loop.timers],
            sorted(run.replay.by_key.values(), key=lambda event: event.seq),
            run.replay.delivered,
        )

    # -- as the journal

    def submit(self, run: Run, event: Event) -> CommitItem:
        """Keep what would be written."""
        self._item.events.append(event)
        run.item = self._item
        return self._item

    def kick(self) -> None:
        """Nothing is written."""

    def barrier(self, run: Run) -> bool:
        """Nothing is ever on disk that was not there before, so what waits for that waits for ever."""
        if run.durable == run.seq:
            return True
        self.quiet.set()
        return False

    # -- as the worker

    def lease_ok(self) -> bool:
        """No: so no body begins."""
        self.quiet.set()
        return False

    def run_refused(self, run: Run) -> None:
        """The code departs from the log: ``run.verdict`` says where."""
        del run
        self.quiet.set()

    def run_lost(self, run: Run, error: BaseException | None) -> None:
        """A fault of ours has ended the execution."""
        del run
        self.fault = error
        self.quiet.set()

    def run_ended(self, run: Run) -> None:
        """Never called, as nothing is committed; nor are the others."""
        del run

    run_suspended = run_stale = run_leaves = run_settled = run_sent = run_ended

    def learn(self, workflow: Workflow[Any, Any]) -> None:
        """No child is executed."""
        del workflow

    def run_revives(self, run: Run, child: str) -> None:
        """No other run is touched."""
        del run, child


class _BeforeAllTime:
    """A clock that stands still before everything."""

    def now(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0


__all__ = ["Rehearsed", "rehearse"]
