"""The generated part of docs/reference/findings.md. To write it anew: ``python -m tests.docs.findings``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perdure.diagnosis.kinds import RUNS, STORES
from tests.docs.pages import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perdure.diagnosis.kinds import Kind

PAGE = DOCS / "reference" / "findings.md"
BEGIN, END = "<!-- generated: begin -->\n", "<!-- generated: end -->\n"


def rows(kinds: Mapping[str, Kind]) -> Iterator[str]:
    """The table of some kinds."""
    yield "| code | as a rule | it means | what to do |"
    yield "|---|---|---|---|"
    for code, kind in kinds.items():
        advice = re.sub(r"\{(\w+)\}", lambda match: match[1].upper(), kind.advice) or "nothing"
        yield f"| `{code}` | {kind.severity} | {kind.meaning} | {advice} |"


def page(text: str) -> str:
    """The page with its generated part as it should be."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    parts = ["## Of a run: `perdure why`", "", *rows(RUNS), "", "## Of a store: `perdure doctor`", "", *rows(STORES)]
    return before + BEGIN + "\n" + "\n".join(parts) + "\n\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), encoding="utf-8")
