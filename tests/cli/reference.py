"""The generated part of docs/reference/cli.md. To write it anew: ``python -m tests.cli.reference``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from perdure.cli.exits import MEANING
from perdure.cli.main import COMMANDS, cli

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
BEGIN, END = "<!-- generated: begin -->\n", "<!-- generated: end -->\n"


def generated() -> str:
    """What the commands and exit codes say of themselves."""
    os.environ.pop("PERDURE_STORE", None)
    top = click.Context(
        cli, info_name="perdure", terminal_width=100, **{**cli.context_settings, "max_content_width": 100}
    )
    parts = []
    for name in COMMANDS:
        command = cli.get_command(top, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=top)
        parts += [f"### perdure {name}\n", "```text", command.get_help(context), "```\n"]
        for under, one in (command.commands if isinstance(command, click.Group) else {}).items():
            inner = click.Context(one, info_name=under, parent=context)
            parts += [f"### perdure {name} {under}\n", "```text", one.get_help(inner), "```\n"]
    parts += ["## Exit codes\n", "| code | meaning |", "|---|---|"]
    parts += [f"| {int(code)} | {meaning} |" for code, meaning in MEANING.items()]
    return "\n".join(parts) + "\n\n"


def page(text: str) -> str:
    """The page with its generated part as it should be."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + "\n" + generated() + END + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), encoding="utf-8")
