"""A look at workflows' code without executing it: what would go wrong on a replay, a cancel, or in another process.

``check`` is what ``perdure check`` prints and ``perdure.testing.check`` asserts. It reads source files; the bodies of
steps are left alone, as they may do anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perdure.checking import calling, handlers, orders, shared, spelling
from perdure.checking.findings import Finding
from perdure.checking.program import Sources
from perdure.checking.reaching import definitions, units
from perdure.checking.rules import RULES, Rule
from perdure.errors import DefinitionError

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from perdure.checking.scopes import Source

_FAMILIES = (calling.found, orders.found, handlers.found, shared.found, spelling.found)


@dataclass(slots=True)
class Checked:
    """What came of a check.

    Attributes:
        findings: everything that was found and no comment lets stay, by file and line.
        workflows: how many workflows were looked at.
        files: how many files were given.
        targets: what was given.
    """

    targets: tuple[object, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    workflows: int = 0
    files: int = 0

    @property
    def errors(self) -> list[Finding]:
        """The findings that are no mere warnings."""
        return [one for one in self.findings if one.severity == "error"]

    def require_workflows(self) -> None:
        """Object to a look at nothing.

        Raises:
            DefinitionError: there is no workflow in what was given.
        """
        if not self.workflows:
            raise DefinitionError(
                f"there are no workflows in {', '.join(map(str, self.targets))}", advice="they are made with @workflow"
            )


def check(*targets: str | Path | ModuleType) -> Checked:
    """Look at the workflows of modules, without importing or executing anything.

    Args:
        targets: names of modules ("shop.orders"), files, folders, or modules. A package means all that is in it.

    Raises:
        DefinitionError: a target is not there, or is no Python source.
    """
    sources = Sources()
    found: dict[tuple[str, int, int, str], Finding] = {}
    checked = Checked(targets)
    modules = {module.path: module for target in targets for module in sources.modules(target)}
    looked_at: dict[str, Source] = {}
    for module in modules.values():
        checked.files += 1
        looked_at[module.file] = module
        for one in _of_module(module, checked, looked_at):
            found.setdefault((one.file, one.line, one.column, one.rule), one)
    kept = [one for one in found.values() if not _may_stay(one, looked_at[one.file])]
    checked.findings = sorted([*kept, *(one for module in modules.values() for one in _unknown_rules(module))])
    return checked


def _of_module(module: Source, checked: Checked, looked_at: dict[str, Source]) -> list[Finding]:
    found: list[Finding] = []
    for function in definitions(module):
        found += spelling.generators(function)
        if function.kind != "workflow":
            continue
        checked.workflows += 1
        for unit in units(function):
            looked_at[unit.function.module.file] = unit.function.module
            for family in _FAMILIES:
                found += family(unit)
    return found


def _may_stay(finding: Finding, module: Source) -> bool:
    comment = module.ignored.get(finding.line)
    return comment is not None and comment.covers(finding.rule)


def _unknown_rules(module: Source) -> list[Finding]:
    return [
        Finding(module.file, comment.line, comment.column, "unknown-rule", f"`{name}`", RULES["unknown-rule"].instead)
        for comment in module.ignored.values()
        for name in sorted(comment.names - RULES.keys())
    ]


__all__ = ["RULES", "Checked", "Finding", "Rule", "check"]
