"""What can be found: each kind of finding with its code, how bad it is, what it means and what to do.

The codes are part of the interface: they never change between releases. Findings name runs, queues, steps and workers;
they never hold a payload.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from perdure.diagnosis.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Severity(IntEnum):
    """How bad a finding is."""

    OK = 0
    """All is as it should be, or goes on by itself."""
    NOTE = 1
    """Worth knowing."""
    WARN = 2
    """Something waits for a person, or will go wrong."""
    BAD = 3
    """Something is wrong now."""

    @property
    def word(self) -> str:
        """The name users see."""
        return self.name.lower()


class Finding(NamedTuple):
    """Something that was found.

    Attributes:
        code: which kind of finding it is, as the table of findings lists them.
        severity: how bad it is.
        found: what was found, a sentence or the beginning of one.
        advice: what to do about it; empty if there is nothing to do.
        about: the run, queue, schedule, worker or setting that it is about; empty if that is the store itself.
    """

    code: str
    severity: Severity
    found: str
    advice: str = ""
    about: str = ""


def finding(
    code: str,
    found: str,
    *,
    about: str = "",
    severity: Severity | None = None,
    names: Mapping[str, str | int] | None = None,
) -> Finding:
    """Make a finding of a kind; ``names`` are put into its advice."""
    kind = KINDS[code]
    return Finding(
        code,
        Severity[kind.severity.upper()] if severity is None else severity,
        found,
        kind.advice.format_map(names or {}),
        about,
    )


def worst(findings: Iterable[Finding]) -> Severity:
    """Return how bad the worst of them is."""
    return max((one.severity for one in findings), default=Severity.OK)


__all__ = ["Finding", "Severity", "finding", "worst"]
