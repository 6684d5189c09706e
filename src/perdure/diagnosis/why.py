"""Why a run is where it is: a pure function from what its store says to a chain of causes.

Each cause may have causes of its own one level deeper: a run waits for a child, which waits for its queue. A chain is
followed as far as whoever has read the store has followed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.diagnosis.claiming import unclaimed
from perdure.diagnosis.situations import Cause, Explanation, Situation, cause
from perdure.model import payloads
from perdure.model.failures import failure_text
from perdure.model.records import InboxKind, Kind, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.model.history import RunView, StepView

SHOWN: Final = 200
"""Characters of a failure that are shown."""
STEPS: Final = 5
"""Steps that are told of one by one."""


def explain(situation: Situation) -> Explanation:
    """Say why a run is where it is."""
    row = situation.row
    return Explanation(
        row.run_id,
        row.workflow,
        row.version,
        row.queue,
        row.status,
        situation.now,
        tuple(_causes(situation, 0)),
    )


def _causes(of: Situation, depth: int) -> Iterator[Cause]:
    row, status = of.row, of.row.status
    if not of.is_readable:
        yield cause(of, depth, "log-unreadable", f"its log cannot be understood after event {of.view.seq}")
    if status.terminal:
        yield _ended(of, depth)
        return
    if status is Status.BLOCKED:
        yield _blocked(of, depth)
    elif status is Status.PAUSED:
        why = f"it was paused: {row.reason}" if row.reason else "it was paused"
        yield cause(of, depth, "paused", why, since=of.view.updated_at)
    elif row.worker_key is not None:
        yield from _held(of, depth)
    elif of.standing.claimable or (row.wake_at is not None and row.wake_at <= of.now) or status is Status.RUNNING:
        yield from _claimable(of, depth)
    else:
        yield from _waiting(of, depth)
    yield from _around(of, depth)


# -- it has stopped


def _ended(of: Situation, depth: int) -> Cause:
    row, view = of.row, of.view
    since, undone = row.ended_at, bool(view.undone)
    if row.status is Status.COMPLETED:
        goes_on = of.last is not None and of.last.kind == Kind.RUN_CONTINUED
        found = "it has ended, and another run goes on under its id" if goes_on else "it has completed"
        return cause(of, depth, "completed", found, since=since)
    if row.status is Status.CANCELLED:
        found = f"it was cancelled: {row.reason}" if row.reason else "it was cancelled"
        return cause(of, depth, "cancelled-undone" if undone else "cancelled", found, since=since)
    where = f" in {', '.join(view.failed_steps[:STEPS])}" if view.failed_steps else ""
    found = f"it has failed{where}: {_headline(view.failure)}"
    return cause(of, depth, "failed-undone" if undone else "failed", found, since=since)


def blocked_kind(code: str, reason: str) -> str:
    """Return the kind of finding that a run is blocked for, by the code in its log and the reason in its row."""
    if code == "" and reason.startswith("its workers died"):
        return "blocked-crashes"
    # A run whose log is damaged has no event that says so.
    return _BLOCKED.get(code or reason.partition(":")[0], "blocked")


_BLOCKED = {
    "drift": "blocked-drift",
    "undecodable": "blocked-undecodable",
    "integrity": "blocked-integrity",
    "undo_failed": "blocked-undo",
}


def _blocked(of: Situation, depth: int) -> Cause:
    reason = (of.row.reason or of.view.reason or "no reason given").partition("\n")[0]
    last = of.last
    said = payloads.fields(last.payload) if last is not None and last.kind == Kind.RUN_BLOCKED else {}
    return cause(
        of,
        depth,
        blocked_kind(str(said.get("code") or ""), reason),
        f"it is blocked: {reason}",
        since=of.view.updated_at,
    )


# -- somebody has it


def _held(of: Situation, depth: int) -> Iterator[Cause]:
    who, since = of.holder, of.claimed_at
    if who is None or who.life == "gone":
        whose = f"process {who.pid} on {who.host}" if who is not None else "a worker that has left no trace"
        found = f"{whose} executed it and is gone"
        yield cause(of, depth, "holder-gone", found, since=since, who=who)
        yield from (_at(one, depth + 1) for one in unclaimed(of, taking_over=True))
        return
    if who.life == "frozen":
        found = f"process {who.pid} on {who.host} executes it and does not renew its lease"
        at = who.leased_until
        yield cause(of, depth, "holder-frozen", found, since=at, who=who, names={"pid": who.pid, "host": who.host})
    else:
        found = f"process {who.pid} on {who.host} executes it"
        yield cause(of, depth, "running", found, since=since, who=who)
    yield from _steps(of, depth + 1)
    yield from _children(of, depth + 1)


def _at(one: Cause, depth: int) -> Cause:
    return one._replace(depth=depth)


def _steps(of: Situation, depth: int) -> Iterator[Cause]:
    claimed = of.claimed_at or 0
    running = [step for step in of.view.steps.values() if step.status == "running" and step.at >= claimed]
    for step in running[:STEPS]:
        found = f"step {step.key} is under way, attempt {step.attempt}"
        yield cause(of, depth, "step-running", found, since=step.at)
    if len(running) > STEPS:
        yield cause(of, depth, "step-running", f"and {len(running) - STEPS} more steps")
    for step in _retrying(of.view)[:STEPS]:
        yield _retry(of, depth, step)


# -- it waits


def _waiting(of: Situation, depth: int) -> Iterator[Cause]:
    row, view, since = of.row, of.view, of.view.updated_at
    retrying = _retrying(view)
    for step in retrying[:STEPS]:
        yield _retry(of, depth, step)
    awaits = of.standing.awaits or tuple(view.awaits)
    for name in awaits:
        found = f"it waits for the signal {name!r}"
        until = row.wake_at if not retrying else None
        yield cause(of, depth, "waits-signal", found, since=since, until=until, names={"signal": name})
    told = bool(retrying or awaits)
    for one in _children(of, depth):
        told = True
        yield one
    if row.status is Status.PENDING:
        yield cause(of, depth, "delayed", "its start was put off", since=since, until=row.wake_at)
    elif row.wake_at is not None and not awaits and row.wake_at not in {step.next_at for step in retrying}:
        yield cause(of, depth, "sleeping", "it waits for a timer", since=since, until=row.wake_at)
    elif not told:
        yield cause(of, depth, "waits-news", "it waits for news from outside", since=since)


def _retrying(view: RunView) -> list[StepView]:
    return [step for step in view.steps.values() if step.status == "retrying"]


def _retry(of: Situation, depth: int, step: StepView) -> Cause:
    found = f"attempt {step.attempt} of step {step.key} has failed: {_headline(step.failure)}"
    return cause(of, depth, "retrying", found, since=step.at, until=step.next_at)


def _headline(failure: bytes | None) -> str:
    try:
        line = failure_text(failure or b"{}").partition("\n")[0]
    except Exception:  # noqa: BLE001 - whatever a store holds is told of, be it damaged
        line = "a failure that cannot be read"
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


def _children(of: Situation, depth: int) -> Iterator[Cause]:
    for child in of.children:
        found = f"it waits for its child {child.row.run_id} of {child.row.workflow}, which is {child.row.status.word}"
        yield cause(of, depth, "waits-child", found, since=child.row.created_at)
        yield from _causes(child, depth + 1)
    if of.more:
        yield cause(of, depth, "waits-child", f"and for {of.more} more children")
    if not of.is_followed:
        yield cause(of, depth, "too-deep", "it waits for children of its own")


# -- it could go on


def _claimable(of: Situation, depth: int) -> Iterator[Cause]:
    causes = list(unclaimed(of))
    if of.row.status in {Status.WAITING, Status.SLEEPING, Status.RETRYING}:
        yield cause(of, depth, "woken", "what it has waited for has come", since=of.row.wake_at)
        depth += 1
    yield from (_at(one, depth) for one in causes)


def _around(of: Situation, depth: int) -> Iterator[Cause]:
    """What is asked of the run besides."""
    row = of.row
    for news in of.standing.news:
        if news.kind == InboxKind.CANCEL:
            yield cause(of, depth, "cancel-asked", "a cancel was asked for", since=news.sent_at)
        elif news.kind == InboxKind.PAUSE:
            yield cause(of, depth, "pause-asked", "a pause was asked for", since=news.sent_at)
        elif news.kind == InboxKind.SIGNAL and row.worker_key is None and news.name not in (of.standing.awaits or ()):
            found = f"{news.times} unread of the signal {news.name!r}, which it does not wait for"
            yield cause(of, depth, "signal-unasked", found, since=news.sent_at)
    if row.deadline_at is not None and row.deadline_at <= of.now and row.worker_key is None:
        yield cause(of, depth, "deadline-passed", "its deadline has passed", since=row.deadline_at)
    known = set(of.standing.refused)
    for drift in of.drifts:
        said = payloads.fields(drift.payload)
        if said.get("build") in known and row.status is not Status.BLOCKED:
            found = f"build {said.get('build')} has refused it"
            yield cause(of, depth, "refused-by-some", found, since=drift.at)


__all__ = ["blocked_kind", "explain"]
