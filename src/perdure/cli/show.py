"""``perdure show``: one run, at a glance: what ran, what was kept on resume, what it waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from perdure import describe
from perdure.cli.completing import complete_run
from perdure.cli.exits import Exit
from perdure.cli.opening import existing_store, find_run, read_log
from perdure.cli.options import debug_option, json_option, print_json, screen, store_option
from perdure.cli.render import Column, Part
from perdure.cli.words import STEP_MARKS, STEP_STYLES, ago, compact, count, day_and_time, span, status_part
from perdure.model import payloads
from perdure.model.history import fold
from perdure.model.records import Kind, Status
from perdure.operations import codeless
from perdure.operations.forking import list_forks
from perdure.operations.holding import live_workers
from perdure.telling import by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.cli.render import Cell, Screen
    from perdure.model.history import RunView, StepView
    from perdure.model.records import Event, RunRow, WorkerRow
    from perdure.store.protocol import Store

COLUMNS = (
    Column(),
    Column("STEP", flexible=True),
    Column("STATUS"),
    Column("ATTEMPT", right=True),
    Column("TOOK", right=True),
    Column("CLAIM", right=True),
    Column("", flexible=True),
)


FORKS = 20
"""Forks of a run that are named."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is shown of a run."""

    row: RunRow
    events: list[Event]
    view: RunView
    workers: dict[int, WorkerRow]
    now: int
    is_codeless: bool
    forks: list[RunRow]
    """Runs that were forked from it."""

    @property
    def holder(self) -> WorkerRow | None:
        """The live worker that executes it."""
        return None if self.row.worker_key is None else self.workers.get(self.row.worker_key)

    @property
    def claims(self) -> list[Event]:
        """The run's claims: who began to execute it, and when."""
        return [event for event in self.events if event.kind == Kind.RUN_CLAIMED]

    def claim_of(self, seq: int) -> int:
        """Return under which claim an event was written, from 1."""
        return sum(claim.seq < seq for claim in self.claims)

    @property
    def is_held(self) -> bool:
        """Whether somebody executes it, as far as can be seen."""
        return self.holder is not None

    def step_status(self, step: StepView) -> str:
        """Return a step's status; one whose process died meanwhile is no longer running."""
        if step.status == "running" and (not self.is_held or self.claim_of(step.seq) < len(self.claims)):
            return "interrupted"
        return step.status


@click.command(epilog="Example: perdure show order-42")
@click.argument("run", shell_complete=complete_run)
@store_option
@json_option
@debug_option
def show(run: str, *, store: str | None, as_json: bool) -> Exit:
    """Show a run: its status, steps and attempts, and what it waits for.

    The column CLAIM says under which claim a step was committed: what an earlier one committed was kept on resume.
    """
    with existing_store(store) as opened:
        seen = look(opened, run)
    if as_json:
        holder = seen.holder
        told = None if holder is None else describe.worker(holder, alive=True)
        told_run = describe.run(
            seen.row, seen.events, view=seen.view, holder=told, codeless=seen.is_codeless, forks=seen.forks
        )
        print_json({**told_run, "notes": list(notes(seen))})
    else:
        show_run(screen(), seen)
    return Exit.OK


def look(store: Store, run_id: str) -> Seen:
    """Read a run."""
    row = find_run(store, run_id)
    events = read_log(store, row)
    is_codeless = row.run_key in codeless(store, [row])
    return Seen(row, events, fold(events), live_workers(store), store.now(), is_codeless, list_forks(store, row, FORKS))


def show_run(out: Screen, seen: Seen) -> None:
    """Print a run."""
    row, view = seen.row, seen.view
    ended = f" after {span(view.ended_at - view.created_at)}" if view.ended_at is not None else ""
    version = f" {row.version}" if row.version != "1" else ""
    out.line(Part(row.run_id, "strong"), f"  {row.workflow}{version}  ", status_part(view.status), Part(ended, "dim"))
    out.gap()
    out.fields(_fields(seen), indent=2)
    if view.steps:
        out.gap()
        out.table(COLUMNS, [_step(seen, step) for step in view.steps.values()], indent=2)
    told = list(notes(seen))
    if told:
        out.gap()
    for note in told:
        out.text(note, style="warn", indent=2)


def _fields(seen: Seen) -> Iterator[tuple[str, Cell]]:
    row, view, now = seen.row, seen.view, seen.now
    if view.input is not None:
        yield "input", compact(describe.value(view.input.payload, view.input.codec), 500)
    if view.result is not None:
        yield "result", Part(compact(describe.value(view.result.payload, view.result.codec), 500), "good")
    failure = describe.failure(view.failure)
    if failure is not None:
        yield "failure", Part(failure["line"], "bad")
        if view.failed_steps:
            yield "failed in", ", ".join(view.failed_steps)
    elif view.reason:
        yield "reason", Part(view.reason, "bad" if view.status is Status.BLOCKED else "")
    elif view.cancel_reason:
        yield "cancelled", view.cancel_reason
    yield from _undo(seen)
    yield from _kin(seen)
    yield "created", f"{day_and_time(view.created_at)} ({ago(view.created_at, now)}){_by(view)}"
    if view.ended_at is not None:
        yield "ended", f"{day_and_time(view.ended_at)} ({ago(view.ended_at, now)})"
    elif row.deadline_at is not None:
        yield "deadline", Part(_when(row.deadline_at, now), "warn" if row.deadline_at <= now else "")
    for name, value in payloads.tags_of(row.meta).items():
        yield "tag", f"{name}: {value}"
    for name, number in view.streams.items():
        yield "stream", f"{name}: {count(number, 'value')}"
    yield from _claims(seen)
    yield from _waits(seen)


def _by(view: RunView) -> str:
    said = describe.event(view.input) if view.input is not None else None
    found = "" if said is None else by(said)
    return f", {found}" if found else ""


def _kin(seen: Seen) -> Iterator[tuple[str, Cell]]:
    forked = seen.view.forked_from
    if forked is not None:
        keys = ", whose idempotency keys it keeps" if forked.keys is not None else ""
        yield "forked from", f"{forked.run_id}, before {forked.step} (event {forked.seq + 1}){keys}"
    if seen.forks:
        yield "forks", ", ".join(one.run_id for one in seen.forks) + (", …" if len(seen.forks) == FORKS else "")


def _undo(seen: Seen) -> Iterator[tuple[str, Cell]]:
    row, view = seen.row, seen.view
    left = set(describe.undo(row)) | set(view.not_undone)
    done = [key for key in view.undone if key not in left]
    if done:
        yield "undone", ", ".join(done)
    if view.not_undone:
        yield "not undone", Part(", ".join(view.not_undone), "bad")
    elif row.undo is not None:
        what = "to undo" if view.undone else "would undo"
        yield what, Part(", ".join(reversed(describe.undo(row))), "warn" if view.undone else "")


def _claims(seen: Seen) -> Iterator[tuple[str, Cell]]:
    claims, view = seen.claims, seen.view
    if view.patches:
        yield "patched", ", ".join(view.patches)
    if len(claims) > 1:
        crashes = f", {'one' if view.crashes == 1 else view.crashes} after a crash" if view.crashes else ""
        kept = sum(step.status == "completed" and seen.claim_of(step.seq) < len(claims) for step in view.steps.values())
        yield "claimed", f"{len(claims)} times{crashes}"
        if kept:
            yield "kept", Part(f"{count(kept, 'step')} of earlier claims, not run again by the last", "good")
    holder = seen.holder
    if holder is not None:
        yield "worker", f"process {holder.pid} on {holder.host}"


def _waits(seen: Seen) -> Iterator[tuple[str, Cell]]:
    view, now = seen.view, seen.now
    retrying = {step.key: step.next_at for step in view.steps.values() if step.status == "retrying"}
    for key, at in retrying.items():
        if at is not None and describe.is_open(view.status):
            yield "waits for", Part(f"the next attempt of {key}, {_when(at, now)}", "warn")
    at = None if view.wake_at in retrying.values() else view.wake_at
    for name in view.awaits:
        yield (
            "waits for",
            Part(f"the signal {name!r}" + (f", until {_when(at, now)}" if at is not None else ""), "warn"),
        )
    if at is not None and not view.awaits:
        what = "its start" if view.status is Status.PENDING else "a timer"
        yield "waits for", Part(f"{what}, {_when(at, now)}", "warn")
    elif view.status is Status.WAITING and view.wake_at is None and not view.awaits:
        yield "waits for", Part("news from outside", "warn")


def _when(at: int, now: int) -> str:
    return f"{day_and_time(at)} ({ago(at, now)})" if at > now else f"due since {day_and_time(at)}"


def _step(seen: Seen, step: StepView) -> tuple[Cell, ...]:
    status = seen.step_status(step)
    detail: Cell = ""
    failure = describe.failure(step.failure)
    if step.result is not None and status == "completed":
        value = describe.value(step.result.payload, step.result.codec)
        detail = "" if value is None else compact(value)
    elif failure is not None:
        detail = Part(failure["line"], STEP_STYLES[status])
    elif step.progress is not None:
        detail = Part(compact(describe.value(step.progress)), "dim")
    elif status == "interrupted":
        detail = Part("runs again: same attempt, same idempotency key", "dim")
    claim = seen.claim_of(step.seq)
    return (
        STEP_MARKS[status],
        step.key,
        Part(status, STEP_STYLES[status]),
        str(step.attempt),
        Part("" if step.took is None else span(step.took), "dim"),
        Part(str(claim) if claim else "", "dim"),
        detail,
    )


def notes(seen: Seen) -> Iterator[str]:
    """Say what keeps a run from going on, if anything does."""
    row, status, now = seen.row, seen.view.status, seen.now
    is_due = row.wake_at is None or row.wake_at <= now
    if status is Status.BLOCKED:
        yield f"Blocked: nothing goes on by itself. Mend the cause, then: perdure resume {row.run_id}"
    elif status is Status.FAILED and seen.view.undone:
        yield "It has undone what it had done, so it cannot be resumed, only forked from before that (perdure fork)."
    elif status is Status.FAILED:
        yield f"To try again what failed: perdure resume {row.run_id}"
    elif describe.is_open(status) and not seen.is_held and is_due:
        if row.worker_key is not None:
            yield "The process that executed it is gone; the next worker, or the same call, goes on where it was."
        if not seen.workers:
            yield f"No worker is running on this store: nobody executes {row.workflow} now."
        elif seen.is_codeless:
            yield (
                f"{count(len(seen.workers), 'worker')} running, and none has the code for it: "
                f"{row.workflow}, version {row.version}. It is left alone; "
                f"{'a cancel waits for one that has' if row.undo is not None else 'it can be cancelled'}."
            )
        elif row.worker_key is None:
            yield f"{count(len(seen.workers), 'worker')} running, and none has taken it yet."
    if describe.is_open(status):
        for refusal in describe.refusals(seen.events):
            said = describe.refusal(refusal)
            yield f"Build {said['build']} has refused it and leaves it to other builds: {said['reason']}"


__all__ = ["look", "show", "show_run"]
