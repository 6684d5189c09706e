"""The generated part of docs/reference/telemetry.md. To write it anew: ``python -m tests.docs.telemetry``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from perdure.telemetry.lines import LINES
from perdure.telemetry.metrics import METRICS
from perdure.telemetry.tracing import ATTRIBUTES, SPANS
from tests.docs.pages import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = DOCS / "reference" / "telemetry.md"
BEGIN, END = "<!-- generated: begin -->\n", "<!-- generated: end -->\n"


def rows() -> Iterator[str]:
    """The tables."""
    yield "## Log lines\n"
    yield "| event | level | logger | text | it means |"
    yield "|---|---|---|---|---|"
    for line in LINES.values():
        text = line.text.partition("\n")[0]
        yield f"| `{line.name}` | {logging.getLevelName(line.level)} | `{line.logger}` | `{text}` | {line.meaning} |"
    yield "\n## Metrics\n"
    yield "| metric | form | labels | it says |"
    yield "|---|---|---|---|"
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "none"
        yield f"| `{metric.name}` | {metric.form} | {labels} | {metric.meaning} |"
    yield "\n## Spans\n"
    yield "| span | kind | it is |"
    yield "|---|---|---|"
    for name, (kind, meaning) in SPANS.items():
        yield f"| `{name}` | {kind} | {meaning} |"
    yield "\n| attribute | on spans of | it says |"
    yield "|---|---|---|"
    for attribute in ATTRIBUTES.values():
        yield f"| `{attribute.name}` | {attribute.spans} | {attribute.meaning} |"


def page(text: str) -> str:
    """The page with its generated part as it should be."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + "\n" + "\n".join(rows()) + "\n\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), encoding="utf-8")
