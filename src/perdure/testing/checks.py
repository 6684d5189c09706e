"""The look at workflows' code of ``perdure check``, as an assertion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.checking import check as check_code
from perdure.errors import PerdureError

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from perdure.checking import Finding


class UnsafeCode(PerdureError, AssertionError):
    """A workflow's code would not do the same on a replay; fields: findings."""

    code = "unsafe_code"

    @property
    def findings(self) -> list[Finding]:
        """What was found."""
        findings: list[Finding] = self.fields["findings"]  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
        return findings


def check(*targets: str | Path | ModuleType, strict: bool = False) -> None:
    """Look through workflows for what would differ on a replay, as ``perdure check`` does; nothing is executed.

    Args:
        targets: modules, names of modules, files or folders.
        strict: object to warnings too.

    Raises:
        UnsafeCode: something was found; an ``AssertionError``.
        DefinitionError: a target is not there, or there are no workflows.
    """
    checked = check_code(*targets)
    checked.require_workflows()
    found = checked.findings if strict else checked.errors
    if found:
        lines = "\n".join(f"  {one}" for one in found)
        raise UnsafeCode(
            f"workflows would not do the same on a replay:\n{lines}",
            advice="mend it, or let a line stay with the comment `# perdure: ignore[rule]`",
            findings=found,
        )


__all__ = ["UnsafeCode", "check"]
