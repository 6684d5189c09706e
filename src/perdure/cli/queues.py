"""``perdure queues``: the queues, their limits and how much of them is in use; and pausing and resuming one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure import describe
from perdure.cli.deeds import print_deeds
from perdure.cli.exits import Exit
from perdure.cli.main import say
from perdure.cli.opening import author, existing_store
from perdure.cli.options import debug_option, json_option, named_store, namespace, print_json, screen, store_option
from perdure.cli.render import Column, Part
from perdure.cli.words import ago, span
from perdure.model.deeds import QUEUE
from perdure.model.ids import valid_name
from perdure.store.queueing import COUNTED

if TYPE_CHECKING:
    from perdure.cli.render import Cell
    from perdure.model.queues import QueueUsage

COLUMNS = (
    Column("QUEUE", flexible=True),
    Column("RUNNING", right=True),
    Column("LIMIT", right=True),
    Column("READY", right=True),
    Column("EACH WORKER", right=True),
    Column("EACH KEY", right=True),
    Column("RATE"),
    Column("STATE"),
)
DEFAULT = "(default)"


@click.group(invoke_without_command=True, epilog="Example: perdure queues pause mail")
@store_option
@json_option
@debug_option
@click.pass_context
def queues(ctx: click.Context, /, *, store: str | None, as_json: bool) -> Exit:
    """Look at queues, pause and resume them; alone it lists them.

    Limits are defined by programs, with Engine(queues=[Queue(…)]).
    """
    return Exit.OK if ctx.invoked_subcommand is not None else _list(store, as_json=as_json)


@queues.command(name="list", epilog="Example: perdure queues list --json")
@store_option
@json_option
@debug_option
def list_(*, store: str | None, as_json: bool) -> Exit:
    """List queues by name. With --json one a line."""
    return _list(named_store(store), as_json=as_json)


@queues.command(epilog="Example: perdure queues pause mail")
@click.argument("name")
@store_option
@debug_option
def pause(name: str, *, store: str | None) -> Exit:
    """Let no worker claim anything from a queue until it is resumed. Runs under way go on.

    The default queue's name is empty: perdure queues pause ''.
    """
    changed = _pause(name, store, paused=True)
    say(f"queue {name or DEFAULT} is paused" + ("" if changed else " already"))
    return Exit.OK


@queues.command(epilog="Example: perdure queues resume mail")
@click.argument("name")
@store_option
@debug_option
def resume(name: str, *, store: str | None) -> Exit:
    """Let workers claim from a paused queue again."""
    changed = _pause(name, store, paused=False)
    say(f"queue {name or DEFAULT} goes on" if changed else f"queue {name or DEFAULT} is not paused")
    return Exit.OK


@queues.command(epilog="Example: perdure queues log mail")
@click.argument("name", required=False)
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="The latest so many.")
@store_option
@json_option
@debug_option
def log(name: str | None, *, limit: int, store: str | None, as_json: bool) -> Exit:
    """List who paused and resumed queues by hand, the latest first. With --json one a line.

    The latest hundred of each queue are kept.
    """
    return print_deeds(QUEUE, name, store, limit=limit, as_json=as_json)


def _pause(name: str, store: str | None, *, paused: bool) -> bool:
    if name:
        valid_name(name, "queue")
    with existing_store(named_store(store)) as opened:
        return opened.pause_queue(name, namespace(), paused=paused, author=author().text)


def _list(store: str | None, *, as_json: bool) -> Exit:
    with existing_store(store) as opened:
        found = opened.list_queues(namespace())
        now = opened.now()
    if as_json:
        for one in found:
            print_json(describe.queue(one), one_line=True)
        return Exit.OK
    out = screen()
    if not found:
        out.line(Part("no queues yet", "dim"))
        return Exit.OK
    out.table(COLUMNS, [queue_row(one, now) for one in found])
    return Exit.OK


def queue_row(usage: QueueUsage, now: int) -> tuple[Cell, ...]:
    """Return a queue as a row of ``COLUMNS``."""
    row, limits = usage.row, usage.row.limits
    rate = "" if limits.period is None else f"{usage.begun} of {limits.starts} in {span(limits.period)}"
    if row.paused:
        state = Part("paused", "warn")
    elif usage.opens_at is not None and usage.ready:
        state = Part(f"next {ago(usage.opens_at, now)}", "warn")
    elif limits.concurrency is not None and usage.held >= limits.concurrency:
        state = Part("full", "busy")
    else:
        state = Part("open", "good")
    return (
        Part(row.name or DEFAULT, "" if row.name else "dim"),
        str(usage.held),
        _limit(limits.concurrency),
        f"{usage.ready:,}" + ("+" if usage.ready == COUNTED else ""),
        _limit(limits.per_worker),
        _limit(limits.per_partition),
        rate,
        state,
    )


def _limit(limit: int | None) -> Cell:
    return Part("-", "dim") if limit is None else f"{limit:,}"


__all__ = ["COLUMNS", "queue_row", "queues"]
