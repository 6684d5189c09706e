"""Checks of what is in a store, of whatever kind: workers, runs, queues, schedules."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from perdure.diagnosis.findings import Severity, finding
from perdure.diagnosis.kinds import KINDS
from perdure.diagnosis.telling import count, span
from perdure.diagnosis.why import blocked_kind
from perdure.model.records import Status
from perdure.model.schedules import status_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.diagnosis.findings import Finding
    from perdure.model.condition import Backlog, Blocked, Condition, Contents, Worker
    from perdure.model.queues import QueueUsage

_MINUTE: Final = 60_000_000
WAITED: Final = 5 * _MINUTE
"""µs for which a run may wait for a slot before that is worth a word."""
LATE: Final = _MINUTE
"""µs by which a schedule may be late."""
LONG: Final = 10_000
"""Events of a log that is long."""
UNREAD: Final = 1_000
"""Unread news of one run that is much."""
KEPT: Final = 100_000
"""Ended runs of one status from which it is worth a word that they are kept."""


def workers(of: Condition, contents: Contents) -> Iterator[Finding]:
    """Who is there, and who is not."""
    for one in contents.workers:
        row, life = one.row, one.sign.life(of.now)
        who = f"worker {row.name} (process {row.pid} on {row.host})"
        names: dict[str, str | int] = {"pid": row.pid, "host": row.host}
        if life == "gone" and one.holds:
            yield finding("worker-gone", f"{who} is gone and holds {count(one.holds, 'run')}", about=row.name)
        elif life == "frozen":
            late = span(max(0, of.now - (one.sign.leased_until or of.now)))
            found = f"{who} has not renewed its lease for {late} and holds {count(one.holds, 'run')}"
            yield finding("worker-late", found, about=row.name, names=names)
    if contents.orphans:
        found = f"{count(contents.orphans, 'run')} held by workers that have left no trace"
        yield finding("worker-gone", found)
    builds = {one.row.build for one in contents.workers if _serves(of, one)}
    if len(builds) > 1:
        yield finding("builds-differ", f"workers of {len(builds)} builds are running: {', '.join(sorted(builds))}")


def _serves(of: Condition, one: Worker) -> bool:
    return one.sign.life(of.now) == "alive" and not one.row.stopped


def backlogs(of: Condition, contents: Contents) -> Iterator[Finding]:
    """What could go on and does not."""
    queues = {(one.row.namespace, one.row.name): one for one in contents.queues}
    if not any(_serves(of, one) for one in contents.workers):
        total = sum(one.runs for one in contents.backlogs)
        if total:
            oldest = min(one.since for one in contents.backlogs)
            found = f"no worker is running, and {count(total, 'run', contents.bound)} could go on"
            yield finding("no-workers", f"{found}, the first for {span(max(0, of.now - oldest))}")
        return
    for one in contents.backlogs:
        waits = max(0, of.now - one.since)
        runs = f"{count(one.runs, 'run', contents.bound)} of {_route(one)}"
        names = {"run": one.run_id}
        usage = queues.get((one.namespace, one.queue))
        if not one.served:
            found = f"{runs} could go on, and no running worker has the code; the first for {span(waits)}"
            yield finding("runs-without-code", found, about=one.run_id, names=names)
        elif usage is not None and usage.row.paused:
            continue  # told of with the queue
        elif waits >= WAITED:
            gated = usage is not None and not usage.row.limits.is_unlimited
            code = "queue-crowded" if gated else "runs-wait"
            yield finding(
                code, f"{runs} wait to be claimed, the first for {span(waits)}", about=one.run_id, names=names
            )


def _route(one: Backlog) -> str:
    parts = [one.workflow]
    if one.version not in {"", "1"}:
        parts.append(f"version {one.version}")
    if one.queue:
        parts.append(f"queue {one.queue}")
    return ", ".join(parts)


def runs(of: Condition, contents: Contents) -> Iterator[Finding]:
    """What waits for a person."""
    groups: defaultdict[str, list[Blocked]] = defaultdict(list)
    for one in contents.blocked:
        groups[blocked_kind(one.code, one.reason)].append(one)
    total = contents.counts.get(Status.BLOCKED, 0)
    for kind, found in sorted(groups.items()):
        what = KINDS[kind].meaning.partition(":")[0].rstrip(".").lower()
        many = total if len(groups) == 1 else len(found)
        since = min(one.since for one in found)
        says = f"{count(many, 'run', contents.bound)} blocked, since {span(max(0, of.now - since))}: {what}"
        yield finding("runs-blocked", says, about=found[0].run_id, names={"run": found[0].run_id})
    if contents.overdue:
        yield finding("runs-overdue", f"the deadlines of {count(contents.overdue, 'run')} have passed")
    for run_id, crashes in contents.suspects:
        found_ = f"the workers of run {run_id} died {crashes} times in a row without progress"
        yield finding("runs-crash", found_, about=run_id, names={"run": run_id})
    if contents.longest is not None and contents.longest[1] >= LONG:
        run_id, events = contents.longest
        yield finding("log-long", f"run {run_id} has {count(events, 'event')}", about=run_id)
    if contents.unread is not None and contents.unread[1] >= UNREAD:
        run_id, many, since = contents.unread
        says = f"{count(many, 'message')} lie unread with run {run_id}, the first for {span(max(0, of.now - since))}"
        yield finding("news-unread", says, about=run_id, names={"run": run_id})
    if contents.unused is not None and contents.unused[0]:
        many, size = contents.unused
        yield finding("artifacts-unused", f"{count(many, 'artifact')} of {size:,} bytes, to which nothing refers")
    kept = sum(number for status, number in contents.counts.items() if status.terminal)
    if kept >= KEPT:
        yield finding("runs-kept", f"{count(kept, 'run', contents.bound)} have ended and are kept")


def queues(of: Condition, contents: Contents) -> Iterator[Finding]:
    """Queues that are paused."""
    del of
    for usage in contents.queues:
        if usage.row.paused:
            yield _paused(usage)


def _paused(usage: QueueUsage) -> Finding:
    name = usage.row.name
    queue = f"queue {name}" if name else "the default queue"
    severity = Severity.WARN if usage.ready else Severity.NOTE
    waits = f", and {count(usage.ready, 'run', 1000)} wait in it" if usage.ready else ""
    names = {"queue": name or "''"}
    return finding("queue-stopped", f"{queue} is paused{waits}", about=name, severity=severity, names=names)


def schedules(of: Condition, contents: Contents) -> Iterator[Finding]:
    """Schedules that do not fire."""
    for row in contents.schedules:
        names = {"key": row.key}
        if row.fault is not None:
            found = f"schedule {row.key} could not be fired: {row.fault.partition(chr(10))[0]}"
            yield finding("schedule-fault", found, about=row.key, names=names)
        elif status_of(row) == "paused":
            yield finding("schedule-stopped", f"schedule {row.key} is paused", about=row.key, names=names)
        elif row.next_at is not None and of.now - row.next_at >= LATE:
            why = ", and no running worker has its workflow" if row.key in contents.unserved else ""
            found = f"schedule {row.key} has been due for {span(of.now - row.next_at)}{why}"
            yield finding("schedule-late", found, about=row.key, names=names)


CHECKS = (workers, backlogs, runs, queues, schedules)


def check(of: Condition) -> Iterator[Finding]:
    """Everything that is wrong with what is in a store."""
    if of.contents is not None:
        for one in CHECKS:
            yield from one(of, of.contents)


__all__ = ["CHECKS", "check"]
