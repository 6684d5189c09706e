"""What was found, and the comments that say that it may stay."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.checking.rules import RULES

if TYPE_CHECKING:
    from perdure.checking.rules import Severity

_IGNORE = re.compile(r"#\s*perdure:\s*ignore(?:\[([^\]]*)\])?")


@dataclass(frozen=True, order=True, slots=True)
class Finding:
    """Something in a workflow's code that will not do.

    Attributes:
        file: where it is.
        line: from 1.
        column: from 1.
        rule: name of the rule.
        what: the piece of code, in one line.
        instead: what to write.
        workflow: the workflow concerned; empty if none is.
        function: the function that it is in.
    """

    file: str
    line: int
    column: int
    rule: str
    what: str
    instead: str
    workflow: str = ""
    function: str = ""

    @property
    def severity(self) -> Severity:
        """How bad it is: "error" or "warning"."""
        return RULES[self.rule].severity

    @property
    def message(self) -> str:
        """Why it will not do, and what to write instead, in one sentence."""
        return f"{self.what} {RULES[self.rule].why}: {self.instead}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.rule}: {self.message}"


@dataclass(frozen=True, slots=True)
class Ignored:
    """A comment that lets findings on its line stay: those of the rules it names, or all."""

    line: int
    column: int
    names: frozenset[str]

    def covers(self, rule: str) -> bool:
        """Return whether findings of this rule may stay."""
        return not self.names or rule in self.names


def ignored_in(source: str) -> dict[int, Ignored]:
    """Return the comments ``# perdure: ignore[rule, …]`` of a source text, by line."""
    found: dict[int, Ignored] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        match = _IGNORE.search(token.string) if token.type == tokenize.COMMENT else None
        if match is not None:
            line, column = token.start
            names = frozenset(name.strip() for name in (match[1] or "").split(",") if name.strip())
            found[line] = Ignored(line, column + match.start() + 1, names)
    return found


__all__ = ["Finding", "Ignored", "ignored_in"]
