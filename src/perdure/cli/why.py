"""``perdure why``: why a run is where it is: what it waits for, who has it, until when, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure import describe, diagnosis
from perdure.cli.completing import complete_run
from perdure.cli.exits import Exit
from perdure.cli.opening import existing_store
from perdure.cli.options import debug_option, json_option, namespace, print_json, screen, store_option
from perdure.cli.render import Part
from perdure.cli.words import ago, clock, status_part
from perdure.diagnosis import Severity

if TYPE_CHECKING:
    from perdure.cli.render import Screen
    from perdure.diagnosis import Cause, Explanation

MARKS = {
    Severity.OK: Part("·", "dim"),
    Severity.NOTE: Part("·", "busy"),
    Severity.WARN: Part("!", "warn"),
    Severity.BAD: Part("✗", "bad"),
}
STYLES = {Severity.OK: "", Severity.NOTE: "", Severity.WARN: "warn", Severity.BAD: "bad"}


@click.command(epilog="Example: perdure why order-42")
@click.argument("run", shell_complete=complete_run)
@store_option
@json_option
@debug_option
def why(run: str, *, store: str | None, as_json: bool) -> Exit:
    """Say why a run is where it is, and what to do.

    What it waits for, who has it, since and until when; and what that waits for in turn. Changes nothing.
    """
    with existing_store(store) as opened:
        found = diagnosis.why(opened, run, namespace())
    if as_json:
        print_json(describe.explanation(found))
    else:
        show(screen(), found)
    return Exit.OK


def show(out: Screen, found: Explanation) -> None:
    """Print why a run is where it is."""
    version = f" {found.version}" if found.version not in {"", "1"} else ""
    queue = f", queue {found.queue}" if found.queue else ""
    out.line(Part(found.run_id, "strong"), f"  {found.workflow}{version}{queue}  ", status_part(found.status))
    for cause in found.causes:
        _show(out, found, cause)


def _show(out: Screen, found: Explanation, cause: Cause) -> None:
    indent = 2 + 2 * cause.depth
    told = cause.finding
    about = "" if cause.run_id == found.run_id else f"{cause.run_id}: "
    out.prose(MARKS[told.severity], about + told.found, style=STYLES[told.severity], indent=indent)
    for line in _when(cause, found.now), _who(cause, found.now):
        if line:
            out.text(line, style="dim", indent=indent + 2)
    if told.advice:
        out.text(f"→ {told.advice}", indent=indent + 2)


def _when(cause: Cause, now: int) -> str:
    parts = []
    if cause.since is not None:
        parts.append(f"since {clock(cause.since, now)} ({ago(cause.since, now)})")
    if cause.until is not None:
        parts.append(f"until {clock(cause.until, now)} ({ago(cause.until, now)})")
    return ", ".join(parts)


def _who(cause: Cause, now: int) -> str:
    who = cause.who
    if who is None:
        return ""
    if who.leased_until is None:
        lease = "its lease has ended"
    elif who.leased_until <= now:
        lease = f"its lease ended {ago(who.leased_until, now)}"
    else:
        lease = f"its lease runs until {clock(who.leased_until, now)} ({ago(who.leased_until, now)})"
    return f"worker {who.name or '-'}: {who.life}, {lease}"


__all__ = ["show", "why"]
