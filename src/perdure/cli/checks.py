"""``perdure check``: would workflows do the same on a replay? Their code is read, never executed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.checking import RULES, Finding
from perdure.checking import check as check_code
from perdure.cli.exits import Exit
from perdure.cli.options import debug_option, json_option, print_json, screen
from perdure.cli.render import Column, Part
from perdure.cli.words import count

if TYPE_CHECKING:
    from perdure.cli.render import Screen

COLUMNS = (Column("RULE"), Column("SEVERITY"), Column("FINDS", flexible=True))
_STYLES = {"error": "bad", "warning": "warn"}


@click.command(epilog="Example: perdure check shop.orders && pytest")
@click.argument("targets", metavar="MODULE...", nargs=-1)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.option("--rules", "list_rules", is_flag=True, help="List the rules and do nothing else.")
@json_option
@debug_option
def check(*, targets: tuple[str, ...], strict: bool, list_rules: bool, as_json: bool) -> Exit:
    """Look through workflows for what would differ on a replay.

    MODULE is the name of a module, a file or a folder; of a package, everything in it is looked at. Nothing is imported
    or executed. Looked at are workflows and the functions of the same package that they call; the bodies of steps may
    do anything. A comment `# perdure: ignore[RULE]` lets what is found on its line stay.

    Exits with 0 if nothing is wrong (there may be warnings), with 1 if something is, and with 2 if there is no such
    module, or no workflow in it.
    """
    if list_rules:
        return _list_rules(as_json=as_json)
    if not targets:
        raise click.UsageError("say what to look at: the name of a module, a file or a folder")
    checked = check_code(*targets)
    checked.require_workflows()
    is_wrong = bool(checked.findings if strict else checked.errors)
    if as_json:
        print_json(
            {
                "files": checked.files,
                "workflows": checked.workflows,
                "findings": [described(one) for one in checked.findings],
            }
        )
        return Exit.NO if is_wrong else Exit.OK
    out = screen()
    for one in checked.findings:
        _show(out, one)
    errors, warnings = len(checked.errors), len(checked.findings) - len(checked.errors)
    found = f"{count(errors, 'error')}, {count(warnings, 'warning')}" if checked.findings else "nothing found"
    mark = Part("✗", "bad") if is_wrong else Part("✓", "good")
    out.line(mark, f" {count(checked.workflows, 'workflow')} in {count(checked.files, 'file')}: {found}")
    return Exit.NO if is_wrong else Exit.OK


def described(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain data."""
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "workflow": finding.workflow or None,
        "function": finding.function or None,
        "message": finding.message,
        "instead": finding.instead,
    }


def _show(out: Screen, finding: Finding) -> None:
    where = f"{finding.file}:{finding.line}:{finding.column}"
    within = f"in {finding.function}" if finding.function else ""
    if finding.workflow and finding.workflow != finding.function:
        within += f", called by {finding.workflow}"
    out.line(where, "  ", Part(finding.rule, _STYLES[finding.severity]), "  ", Part(within, "dim"))
    out.text(finding.message, indent=2)


def _list_rules(*, as_json: bool) -> Exit:
    if as_json:
        print_json([rule._asdict() for rule in RULES.values()])
        return Exit.OK
    rows = [(rule.name, Part(rule.severity, _STYLES[rule.severity]), f"what {rule.why}") for rule in RULES.values()]
    screen().table(COLUMNS, rows)
    return Exit.OK


__all__ = ["check", "described"]
