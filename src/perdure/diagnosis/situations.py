"""What is known of a run and of what is around it, and the reasons for it being where it is: data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from perdure.diagnosis.findings import Finding, Severity, finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.model.history import RunView
    from perdure.model.queues import QueueUsage
    from perdure.model.records import Event, RunRow, Status
    from perdure.model.standing import Life, Standing
    from perdure.store.protocol import Route


class Holder(NamedTuple):
    """A worker as it looks at this moment.

    Attributes:
        name: what it calls itself.
        host: its machine.
        pid: its process.
        build: of the code that it has.
        leased_until: until when its lease runs (µs); None: it has ended.
        life: whether it lives, by its lock and its lease.
        holds: how many runs it holds.
        serves: whether it claims anything: it has neither stopped nor is about to.
    """

    name: str
    host: str
    pid: int
    build: str
    leased_until: int | None
    life: Life
    holds: int = 0
    serves: bool = True


class Cause(NamedTuple):
    """A reason for a run being where it is.

    Attributes:
        run_id: the run that it is about: the one asked for, or one further down the chain.
        depth: how far down.
        finding: what it is, and what to do.
        since: since when it has been so (µs).
        until: until when it stays so at the latest (µs), if that is known.
        who: the worker that has the run.
    """

    run_id: str
    depth: int
    finding: Finding
    since: int | None = None
    until: int | None = None
    who: Holder | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a run is where it is.

    Attributes:
        run_id: the run.
        workflow: what it runs.
        version: of which version.
        queue: where it waits to be executed; empty: in the default queue.
        status: where it is in its life.
        now: when this was so, by the store's clock (µs).
        causes: why: what matters most first, and after each cause what that comes from, one deeper.
    """

    run_id: str
    workflow: str
    version: str
    queue: str
    status: Status
    now: int
    causes: tuple[Cause, ...]

    @property
    def worst(self) -> Severity:
        """How bad the worst of the causes is."""
        return max((cause.finding.severity for cause in self.causes), default=Severity.OK)

    def __str__(self) -> str:
        lines = [f"{self.run_id} of {self.workflow} is {self.status.word}"]
        lines += [f"{'  ' * (cause.depth + 1)}{cause.run_id}: {cause.finding.found}" for cause in self.causes]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Situation:
    """All that is known of a run and what is around it.

    Attributes:
        row: the run as its store lists it.
        view: the run as its log tells it.
        last: the last event of its log.
        drifts: what builds have refused it for, since it was last resumed.
        standing: where it stands with its store.
        now: the instant that judges (µs).
        claimed_at: when it was last claimed.
        holder: who has it; None: nobody, or somebody that has left no trace.
        workers: all workers.
        served: what living ones serve.
        queue: its queue.
        children: those of its children that have not ended, as far as they were looked into.
        more: how many others there are.
        is_followed: whether they were looked into at all.
        is_readable: whether the log could be understood to its end.
    """

    row: RunRow
    view: RunView
    last: Event | None
    drifts: tuple[Event, ...]
    standing: Standing
    now: int
    claimed_at: int | None = None
    holder: Holder | None = None
    workers: tuple[Holder, ...] = ()
    served: frozenset[Route] = frozenset()
    queue: QueueUsage | None = None
    children: tuple[Situation, ...] = ()
    more: int = 0
    is_followed: bool = True
    is_readable: bool = True


def cause(
    of: Situation,
    depth: int,
    code: str,
    found: str,
    *,
    since: int | None = None,
    until: int | None = None,
    who: Holder | None = None,
    names: Mapping[str, str | int] | None = None,
) -> Cause:
    """Make a cause that is about a run; ``names`` are put into its advice."""
    made = finding(code, found, about=of.row.run_id, names={"run": of.row.run_id, **(names or {})})
    return Cause(of.row.run_id, depth, made, since, until, who)


__all__ = ["Cause", "Explanation", "Holder", "Situation", "cause"]
