"""``perdure config``: what is set, and where."""

from __future__ import annotations

from typing import Any

import click

from perdure.cli.exits import Exit
from perdure.cli.options import debug_option, json_option, print_json, screen
from perdure.cli.render import Column, Part
from perdure.config import SETTINGS, Found, Setting, Settings

COLUMNS = (Column(), Column(flexible=True), Column(flexible=True))


@click.command(epilog="Example: perdure config show")
@click.argument("show", type=click.Choice(["show"]), required=False)
@json_option
@debug_option
def config(show: str | None, *, as_json: bool) -> Exit:
    """Show the settings that hold in this folder, and where each of them comes from.

    Keys are never shown. What is said in code or by an option comes before all of these.
    """
    del show  # there is nothing else to do with them
    settings = Settings()
    found = [(setting, _found(settings, setting)) for setting in SETTINGS]
    if as_json:
        print_json({
            setting.name: {"value": _hidden(setting, one.value), "origin": one.origin, "variable": setting.variable}
            for setting, one in found
        })  # fmt: skip
        return Exit.OK
    rows = [
        (
            setting.name,
            _shown(_hidden(setting, one.value)),
            Part(one.origin, "dim" if one.origin == "default" else "strong"),
        )
        for setting, one in found
    ]
    screen().table(COLUMNS, rows)
    return Exit.OK


def _found(settings: Settings, setting: Setting) -> Found:
    found = settings.find(setting.name)
    if setting.name == "store" and not found.value:
        return found._replace(value=settings.store)
    return found._replace(value="") if setting.name == "namespace" and found.value is None else found


def _hidden(setting: Setting, value: Any) -> Any:
    return [f"hidden ({len(value)})"] if setting.is_secret and value else value


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value)
    return "none" if value is None else str(value) or '""'


__all__ = ["config"]
