"""``perdure doctor``: what is wrong with a store and with what is in it, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure import describe
from perdure.cli.exits import Exit
from perdure.cli.options import debug_option, json_option, print_json, screen, store_option
from perdure.cli.render import Part
from perdure.cli.why import MARKS, STYLES
from perdure.config import default_store
from perdure.diagnosis import Severity
from perdure.diagnosis.doctor import doctor as examine

if TYPE_CHECKING:
    from perdure.cli.render import Screen
    from perdure.diagnosis.doctor import Report


@click.command(epilog="Example: perdure doctor --store postgresql://app@db/app")
@click.option("--deep", is_flag=True, help="Read all of it: look for damage, and for what nothing refers to.")
@store_option
@json_option
@debug_option
def doctor(*, deep: bool, store: str | None, as_json: bool) -> Exit:
    """Say what is wrong with a store and with what is in it, and what to do.

    Changes nothing, and works on a store that is in trouble. Exits with 0 if all is well or there are only notes, with
    1 if something waits for a person or will go wrong, with 7 if something is wrong now, with 3 if the store could not
    be examined.
    """
    report = examine(store or default_store(), deep=deep)
    if as_json:
        print_json(describe.report(report))
    else:
        _show(screen(), report)
    if report.condition.database is None:
        return Exit.UNREACHABLE
    return {Severity.WARN: Exit.NO, Severity.BAD: Exit.TROUBLE}.get(report.worst, Exit.OK)


def _show(out: Screen, report: Report) -> None:
    condition = report.condition
    out.line(Part(condition.store, "strong"))
    facts = [*condition.facts, *describe.tallies(condition)]
    if facts:
        out.fields(((name, Part(value)) for name, value in facts), indent=2)
    out.gap()
    for told in report.findings:
        out.prose(MARKS[told.severity], told.found, style=STYLES[told.severity])
        if told.advice:
            out.text(f"→ {told.advice}", indent=2)
    if report.worst is Severity.OK:
        out.line(Part("✓", "good"), " all is well")
    elif report.worst is Severity.NOTE:
        out.line(Part("✓", "good"), " nothing is wrong")


__all__ = ["doctor"]
