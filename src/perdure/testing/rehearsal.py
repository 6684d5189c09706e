"""Run a workflow's code against a finished log, without executing any step: does it arrive where the log says?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from perdure.model import payloads
from perdure.model.failures import decode_failure, failure_text
from perdure.model.records import Claim, CommitItem, Event, Kind
from perdure.runtime import asyncgens
from perdure.runtime.fibers import Fibers
from perdure.runtime.host import Host
from perdure.runtime.run import Run
from perdure.runtime.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.model.records import RunRow
    from perdure.store.protocol import Store
    from perdure.workflow import Workflow

TURNS, NAP = 100, 0.0005
ENDS = frozenset({Kind.RUN_COMPLETED, Kind.RUN_FAILED, Kind.RUN_CANCELLED, Kind.RUN_BLOCKED})


class _Still:
    """Time stands still, before anything could be due."""

    def now(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0

    def call_at(self, _due: int, _loop: asyncio.AbstractEventLoop, _callback: Callable[[], object]) -> _Still:
        return self

    def cancel(self) -> None:
        pass


class _Paper:
    """A journal that writes nothing down."""

    def submit(self, run: Run, event: Event) -> CommitItem:
        if run.item is None:
            run.item = CommitItem(run.run_key, run.epoch, [])
        run.item.events.append(event)
        return run.item

    def kick(self) -> None:
        """Nothing is written."""

    def barrier(self, run: Run) -> bool:
        return run.durable == run.seq


class _Nobody:
    """An owner that holds nothing, so that no body may start."""

    def lease_ok(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


async def rehearse(workflow: Workflow[Any, Any], row: RunRow, events: Sequence[Event], store: Store) -> str | None:
    """Execute the workflow's own code against a log that has ended.

    Args:
        workflow: the code.
        row: the run.
        events: its whole log.
        store: where its artifacts are; nothing is written to it.

    Returns:
        Where the code departs from the log, in words; None if it arrives at the same end.
    """
    loop = asyncio.get_running_loop()
    recorded = events[-1]
    threads = Threads(loop, 1 << 30, "perdure-rehearsal")
    fibers = Fibers(threads)
    owner: Any = _Nobody()
    journal: Any = _Paper()
    host = Host(loop, _Still(), store, journal, threads, fibers, owner)
    restore = asyncgens.install()
    run = Run(host, Claim(row, list(events[:-1])), workflow)
    try:
        run.begin()
        turns = 0
        while _moves(run):
            await asyncio.sleep(0 if turns < TURNS else NAP)
            turns += 1
        return _departure(run, recorded)
    finally:
        fibers.unwind(run)
        run.loop.tear()
        threads.close()
        restore()


def _moves(run: Run) -> bool:
    return not (run.leaving is not None or run.gone) and bool(run.busy or (run.loop.ready and not run.startable))


def _departure(run: Run, recorded: Event) -> str | None:
    if run.startable:
        call = run.startable[0]
        return f"it calls {call.key} ({call.where}), and no such call is in the log"
    found = run.leaving
    if found is None:
        return "it stops before the end of the log"
    if found.kind == Kind.RUN_SUSPENDED:
        return "it waits for a time that the log has no timer for"
    if found.kind == Kind.RUN_BLOCKED:
        return str(payloads.fields(found.payload).get("reason", ""))
    if not same_end(found, recorded):
        return f"it ends with {ending(found)}, but the log has {ending(recorded)}"
    missed = [event.key for event in run.replay.late.values()] + ([] if run.replay.done else ["what follows"])
    if missed:
        return f"the log has {', '.join(map(str, missed))}, which it never asks for"
    return None


def same_end(one: Event, other: Event) -> bool:
    """Whether two runs ended alike: with the same result, or a failure that reads the same."""
    if one.kind != other.kind:
        return False
    if one.kind == Kind.RUN_COMPLETED:
        return (one.codec, one.payload) == (other.codec, other.payload)
    return ending(one) == ending(other)


def ending(event: Event) -> str:
    """How a run ended, for people."""
    if event.kind == Kind.RUN_COMPLETED:
        return f"the result {_short(event.payload or b'')}"
    failure = payloads.failure_of(event.payload)
    if event.kind == Kind.RUN_BLOCKED:
        return f"the run blocked ({payloads.fields(event.payload).get('reason', '')})"
    word = Kind(event.kind).word.removeprefix("run_")
    return f"{word}: {failure_text(failure)}" if failure else word


def failure(event: Event) -> BaseException | None:
    """What a run failed with, if it failed."""
    data = payloads.failure_of(event.payload) if event.kind == Kind.RUN_FAILED else None
    return None if data is None else decode_failure(data)


def _short(data: bytes, limit: int = 200) -> str:
    text = data.decode("utf-8", "backslashreplace")
    return text if len(text) <= limit else f"{text[:limit]}…"


__all__ = ["ENDS", "ending", "failure", "rehearse", "same_end"]
