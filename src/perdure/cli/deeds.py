"""What was done to queues and schedules by hand, as the command line shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure import describe
from perdure.cli.exits import Exit
from perdure.cli.opening import existing_store
from perdure.cli.options import named_store, namespace, print_json, screen
from perdure.cli.render import Column, Part
from perdure.cli.words import day_and_time
from perdure.model.deeds import author_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.cli.render import Cell
    from perdure.model.deeds import Deed

COLUMNS = (
    Column("WHEN"),
    Column("", flexible=True),
    Column("WHAT"),
    Column("BY", flexible=True),
    Column(flexible=True),
)
STYLES = {"paused": "warn", "resumed": "good", "triggered": "busy", "removed": "bad"}


def print_deeds(noun: str, name: str | None, store: str | None, *, limit: int, as_json: bool) -> Exit:
    """Print what was done to a queue or schedule, or to all of them, the latest first."""
    with existing_store(named_store(store)) as opened:
        found = opened.list_deeds(noun, name, namespace(), limit)
    if as_json:
        for one in found:
            print_json(describe.deed(one), one_line=True)
    elif found:
        screen().table(COLUMNS, list(deed_rows(found)))
    else:
        screen().line(Part("nothing was done by hand", "dim"))
    return Exit.OK


def deed_rows(found: Iterable[Deed]) -> Iterable[tuple[Cell, ...]]:
    """Return deeds as rows of ``COLUMNS``."""
    for one in found:
        yield (
            Part(day_and_time(one.at), "dim"),
            one.name or Part("(default)", "dim"),
            Part(one.what, STYLES.get(one.what, "")),
            author_of(one.author).words,
            Part(one.detail, "dim"),
        )


__all__ = ["COLUMNS", "deed_rows", "print_deeds"]
