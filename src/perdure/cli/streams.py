"""``perdure stream``: the values that a run has emitted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from perdure import describe
from perdure.cli.completing import complete_run
from perdure.cli.events import following
from perdure.cli.exits import Exit
from perdure.cli.main import say
from perdure.cli.opening import existing_store, find_run, log_pages
from perdure.cli.options import debug_option, json_option, print_json, store_option
from perdure.context import DEFAULT_STREAM
from perdure.model import payloads
from perdure.model.keys import check_explicit
from perdure.model.records import Event, Kind
from perdure.store.coded import codecs_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.store.protocol import Store


@click.command(epilog="Example: perdure stream order-42 tokens --follow")
@click.argument("run", shell_complete=complete_run)
@click.argument("name", default=DEFAULT_STREAM)
@click.option("--follow", "-f", is_flag=True, help="Go on with new values until the run has ended.")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Leave out values up to this one.")
@click.option("--raw", is_flag=True, help="Print texts as they are, one after the other: no quotes, no line breaks.")
@store_option
@json_option
@debug_option
def stream(run: str, name: str, *, follow: bool, after: int, raw: bool, store: str | None, as_json: bool) -> Exit:
    """Print the values that a run has emitted to a stream, one a line, as JSON.

    With --json one object a line, which says besides the value its seq (to go on from with --after), when it was
    emitted, and by which step and attempt: one that is tried again may emit the same again.
    """
    wanted = payloads.stream_args(check_explicit(name, "a stream's name"))
    seen: dict[str, None] = {}
    found = False
    with existing_store(store) as opened:
        row = find_run(opened, run)
        pages = following(opened, row, after) if follow else log_pages(opened, row, after)
        for event in _emitted(pages):
            seen[payloads.stream_of(event)] = None
            if event.args == wanted:
                found = True
                _print(opened, event, raw=raw, as_json=as_json)
    if not found and not after:
        others = f"; it has {', '.join(seen)}" if seen else ""
        say(f"run {run} has emitted nothing to {name}{others}")
    return Exit.OK


def _emitted(pages: Iterable[list[Event]]) -> Iterable[Event]:
    return (event for page in pages for event in page if event.kind == Kind.EMITTED)


def _print(store: Store, event: Event, *, raw: bool, as_json: bool) -> None:
    value = _value(store, event)
    if as_json:
        told = {"seq": event.seq, "at": describe.instant(event.at), "key": event.key, "attempt": event.attempt}
        print_json({**told, "value": value}, one_line=True)
    elif raw:
        click.echo(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), nl=False)
    else:
        click.echo(json.dumps(value, ensure_ascii=False))


def _value(store: Store, event: Event) -> Any:
    return describe.value(codecs_of(store).unpack(event, store.get_artifact))


__all__ = ["stream"]
