"""What an exploration of crashes found, as data and as a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perdure.errors import PerdureError

if TYPE_CHECKING:
    from perdure.testing.mortal import Began, Place
    from perdure.testing.unrecorded import Read


@dataclass(frozen=True, slots=True)
class Row:
    """One crash and what came of it.

    Attributes:
        place: where the process died: "before" or "after" a write of the run, or "inside" a body.
        point: what it died at.
        ran_twice: bodies that had begun when the process died and began again afterwards: with key, attempt and
            idempotency key.
        problems: what is wrong with that, in sentences.
        order: number of the order in which what goes on side by side ended; 0: as it came.
        forked: key of the step that the run was forked from; None if it was no fork.
    """

    place: Place
    point: str
    ran_twice: tuple[Began, ...] = ()
    problems: tuple[str, ...] = ()
    order: int = 0
    forked: str | None = None


@dataclass(slots=True)
class Report:
    """What came of all crashes. ``print(report)`` shows a table.

    Attributes:
        workflow: the workflow's name.
        result: how an undisturbed run ends, in words.
        rows: one per crash.
        problems: what is wrong without any crash.
        reads: lines of the workflow that read the clock or draw random numbers outside a step.
        comparable: False if undisturbed runs end differently each time (a step that makes up its result, say): then the
            result after a crash is compared with its own log only.
        left_out: how many more crashes there would have been without ``limit``.
        seed: what other orders were drawn by.
        orders: the numbers of the orders that were crashed in besides the one in which it all came.
        forks: keys of the steps that runs were forked from.
    """

    workflow: str
    result: str = ""
    rows: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    comparable: bool = True
    left_out: int = 0
    seed: int = 0
    orders: list[int] = field(default_factory=list)
    forks: list[str] = field(default_factory=list)

    @property
    def safe(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems and not any(row.problems for row in self.rows)

    def __str__(self) -> str:
        wrong = sum(bool(row.problems) for row in self.rows)
        harm = f"{wrong} of them harmful" if wrong else "none harmful"
        lines = [f"{self.workflow}: {len(self.rows)} crashes, {harm}", f"undisturbed it ends with {self.result}"]
        if self.orders:
            numbers = ", ".join(map(str, self.orders))
            lines.append(f"what goes on side by side also ended in other orders: {numbers} of seed {self.seed}")
        if not self.comparable:
            lines.append("(differently each time, so each run's end was compared with its own log only)")
        if self.left_out:
            lines.append(f"({self.left_out} more crashes were left out, see limit=)")
        table = [("died", "at", "ran twice")]
        for row in self.rows:
            twice = "; ".join(f"{b.key} attempt {b.attempt} key {b.idempotency_key[:12]}" for b in row.ran_twice)
            point = row.point if len(row.point) <= POINT else row.point[: POINT - 1] + "…"
            if row.order:
                point += f" (order {row.order})"
            if row.forked:
                point += f" (of a fork from {row.forked})"
            table.append((row.place, point, twice or "-"))
        widths = [max(len(line[column]) for line in table) for column in (0, 1)]
        for number, line in enumerate(table):
            mark = "!" if number and self.rows[number - 1].problems else " "
            lines.append(f"{mark} {line[0]:{widths[0]}}  {line[1]:{widths[1]}}  {line[2]}")
            if number:
                lines += [f"      {problem}" for problem in self.rows[number - 1].problems]
        return "\n".join([*lines, *(f"! {problem}" for problem in self.problems)])


POINT = 72
"""Characters of a point that the table shows."""


class UnsafeWorkflow(PerdureError, AssertionError):
    """A workflow does not survive every crash unharmed; fields: report."""

    code = "unsafe_workflow"

    @property
    def report(self) -> Report:
        """Everything that was found."""
        report = self.fields["report"]
        assert isinstance(report, Report)
        return report


def unsafe(report: Report) -> UnsafeWorkflow:
    """Say what is wrong, first things first, and what to do about it."""
    message = [f"workflow {report.workflow} does not survive every crash unharmed"]
    if report.problems:
        message += ["", "Without any crash:", *(f"  - {problem}" for problem in report.problems)]
    harmed = [row for row in report.rows if row.problems]
    if harmed:
        first = harmed[0]
        where = f" (order {first.order} of seed {report.seed})" if first.order else ""
        where += f" (of a fork from {first.forked})" if first.forked else ""
        message += ["", f"If the process dies {first.place} this: {first.point}{where}"]
        message += [f"  - {problem}" for problem in first.problems]
        if len(harmed) > 1:
            message.append(f"  ({len(harmed) - 1} more of {len(report.rows)} crashes do harm: print(error.report))")
    if report.reads:
        message += ["", "These lines ask for something that no log can give back:"]
        message += [f"  - {read}" for read in report.reads]
    return UnsafeWorkflow("\n".join(message), advice=ADVICE, report=report)


ADVICE = (
    "A workflow's own code runs again after a crash and has to decide as it did before. Whatever differs from one time "
    "to the next (the clock, random numbers, the order of a set, global variables, files, the network) belongs in a "
    "step, whose result is recorded; for the clock and random numbers there are perdure.now(), perdure.random() and "
    "perdure.uuid4(). A step's body may run twice: give the outside world ctx.idempotency_key, which is the same both "
    "times."
)

__all__ = ["Report", "Row", "UnsafeWorkflow", "unsafe"]
