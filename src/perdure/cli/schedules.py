"""``perdure schedules``: what recurs, what became of it, and pausing, triggering and removing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure import describe
from perdure.cli.deeds import COLUMNS as DEEDS
from perdure.cli.deeds import deed_rows, print_deeds
from perdure.cli.exits import Exit
from perdure.cli.main import say
from perdure.cli.opening import existing_store, operate
from perdure.cli.options import (
    debug_option,
    json_option,
    named_store,
    namespace,
    print_json,
    screen,
    store_option,
)
from perdure.cli.render import Column, Part
from perdure.cli.words import ago, compact, count, day_and_time, span
from perdure.model.deeds import SCHEDULE
from perdure.model.schedules import MANY
from perdure.operations.holding import live_workers
from perdure.operations.scheduling import Scheduling
from perdure.schedules import upcoming
from perdure.store.protocol import Route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.cli.render import Cell, Screen
    from perdure.model.schedules import Occurrence, ScheduleRow
    from perdure.store.protocol import Store

COLUMNS = (
    Column("SCHEDULE", flexible=True),
    Column("WORKFLOW", flexible=True),
    Column("WHEN", flexible=True),
    Column("STATUS"),
    Column("NEXT"),
    Column("TROUBLE", flexible=True),
)
FACTS = (Column(), Column(flexible=True))
HISTORY = (Column("OCCURRENCE"), Column("OUTCOME"), Column("", flexible=True))
SHOWN = 10
"""Occurrences shown."""
AHEAD = 5

STYLES = {"active": "good", "paused": "warn", "ended": "dim", "started": "good", "skipped": "warn", "triggered": "busy"}


@click.group(invoke_without_command=True, epilog="Example: perdure schedules show nightly")
@store_option
@json_option
@debug_option
@click.pass_context
def schedules(ctx: click.Context, /, *, store: str | None, as_json: bool) -> Exit:
    """Look at schedules and change them; alone it lists them.

    Schedules are defined by programs, with engine.schedule(…).
    """
    return Exit.OK if ctx.invoked_subcommand is not None else _list(store, as_json=as_json)


@schedules.command(name="list", epilog="Example: perdure schedules list --json")
@store_option
@json_option
@debug_option
def list_(*, store: str | None, as_json: bool) -> Exit:
    """List schedules by key. With --json one a line."""
    return _list(named_store(store), as_json=as_json)


@schedules.command(epilog="Example: perdure schedules show nightly")
@click.argument("key")
@store_option
@json_option
@debug_option
def show(key: str, *, store: str | None, as_json: bool) -> Exit:
    """Show a schedule: what comes next, and what became of its latest occurrences."""
    with existing_store(named_store(store)) as opened:
        row = operate(opened, lambda operations: Scheduling(operations).row(key))
        history = opened.list_occurrences(row.schedule_key, 1000 if as_json else SHOWN)
        deeds = opened.list_deeds(SCHEDULE, key, namespace(), SHOWN)
        trouble = _trouble(row, opened.served())
    ahead = _ahead(row)
    if as_json:
        print_json(
            describe.schedule(row)
            | {"upcoming": None if ahead is None else list(map(describe.instant, ahead))}
            | {"history": [describe.occurrence(one) for one in history]}
            | {"deeds": list(map(describe.deed, deeds))}
        )
        return Exit.OK
    out = screen()
    _facts(out, row, ahead or [], trouble)
    if history:
        out.line()
        out.table(HISTORY, list(map(_told, history)))
    if deeds:
        out.line()
        out.table(DEEDS, list(deed_rows(deeds)))
    return Exit.OK


@schedules.command(epilog="Example: perdure schedules pause nightly")
@click.argument("key")
@store_option
@debug_option
def pause(key: str, *, store: str | None) -> Exit:
    """Let a schedule fire no more until it is resumed. Its runs go on."""
    with existing_store(named_store(store)) as opened:
        operate(opened, lambda operations: Scheduling(operations).pause(key))
    say(f"schedule {key} is paused")
    return Exit.OK


@schedules.command(epilog="Example: perdure schedules resume nightly")
@click.argument("key")
@store_option
@debug_option
def resume(key: str, *, store: str | None) -> Exit:
    """Let a paused schedule go on with what comes next; what was due meanwhile is skipped."""
    with existing_store(named_store(store)) as opened:
        operate(opened, lambda operations: Scheduling(operations).resume(key))
        row = operate(opened, lambda operations: Scheduling(operations).row(key))
    say(f"schedule {key} goes on" + ("" if row.next_at is None else f": next at {day_and_time(row.next_at)}"))
    return Exit.OK


@schedules.command(epilog="Example: perdure schedules trigger nightly")
@click.argument("key")
@store_option
@json_option
@debug_option
def trigger(key: str, *, store: str | None, as_json: bool) -> Exit:
    """Create a run of a schedule now, whatever its cadence says."""
    with existing_store(named_store(store)) as opened:
        row, run_id = operate(opened, lambda operations: Scheduling(operations).trigger(key))
        workers = live_workers(opened)
        run = opened.get_run(run_id, namespace())
    if as_json:
        print_json(None if run is None else describe.row(run))
    else:
        say(
            f"run {run_id} is created",
            "" if workers else f"no worker is running: start one with `perdure worker`, for {row.workflow}",
        )
    return Exit.OK


@schedules.command(epilog="Example: perdure schedules remove nightly --yes")
@click.argument("key")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
@debug_option
def remove(key: str, *, yes: bool, store: str | None) -> Exit:
    """Remove a schedule for everybody. Its runs stay; a program that defines it brings it back."""
    with existing_store(named_store(store)) as opened:
        operate(opened, lambda operations: Scheduling(operations).row(key))
        if not yes:
            click.confirm(f"Remove schedule {key}?", abort=True, err=True)
        operate(opened, lambda operations: Scheduling(operations).remove(key))
    say(f"schedule {key} is removed")
    return Exit.OK


@schedules.command(epilog="Example: perdure schedules log nightly")
@click.argument("key", required=False)
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="The latest so many.")
@store_option
@json_option
@debug_option
def log(key: str | None, *, limit: int, store: str | None, as_json: bool) -> Exit:
    """List who paused, resumed, triggered and removed schedules by hand, the latest first. With --json one a line.

    The latest hundred of each schedule are kept, also of one that is removed.
    """
    return print_deeds(SCHEDULE, key, store, limit=limit, as_json=as_json)


def _list(store: str | None, *, as_json: bool) -> Exit:
    with existing_store(store) as opened:
        rows = list(_all(opened))
        served = opened.served()
        now = opened.now()
    if as_json:
        for row in rows:
            print_json(describe.schedule(row), one_line=True)
        return Exit.OK
    out = screen()
    if not rows:
        out.line(Part("no schedules yet", "dim"))
        return Exit.OK
    out.table(COLUMNS, [_row(row, _trouble(row, served), now) for row in rows])
    return Exit.OK


def _all(store: Store) -> Iterator[ScheduleRow]:
    after = ""
    while page := store.list_schedules(namespace(), after):
        yield from page
        after = page[-1].key


def _row(row: ScheduleRow, trouble: str, now: int) -> tuple[Cell, ...]:
    said = describe.schedule(row)
    return (
        row.key,
        row.workflow + (f" {row.version}" if row.version != "1" else ""),
        said["cadence"],
        Part(said["status"], STYLES[said["status"]]),
        Part("" if row.next_at is None else ago(row.next_at, now), "dim"),
        Part(trouble, "warn"),
    )


def _trouble(row: ScheduleRow, served: set[Route]) -> str:
    told = [str(describe.schedule(row)["fault"] or "")]
    if row.next_at is not None and Route(row.workflow, row.version, row.queue, row.namespace) not in served:
        told.append("no worker has its code")
    return ", ".join(filter(None, told))


def _ahead(row: ScheduleRow) -> list[int] | None:
    """When it fires next; None if that cannot be known here."""
    try:
        return upcoming(row, AHEAD)
    except Exception:  # noqa: BLE001 - its fault is shown
        return None


def _facts(out: Screen, row: ScheduleRow, ahead: list[int], trouble: str) -> None:
    said = describe.schedule(row)
    facts: list[tuple[str, Cell]] = [
        ("schedule", Part(row.key, "strong")),
        ("workflow", f"{row.workflow} {row.version}"),
        ("when", said["cadence"]),
        ("status", Part(said["status"], STYLES[said["status"]])),
        ("input", compact(said["input"])),
        ("overlap", said["overlap"]),
        ("catch-up", span(round(said["catch_up"] * 1e6))),
    ]
    if said["jitter"]:
        facts.append(("jitter", span(round(said["jitter"] * 1e6))))
    facts += [(what, Part(day_and_time(at))) for what, at in zip(("next", *[""] * AHEAD), ahead, strict=False)]
    facts += [("waiting", one) for one in said["waiting"]] + [("running", one) for one in said["running"]]
    if trouble:
        facts.append(("trouble", Part(trouble, "warn")))
    out.table(FACTS, [(Part(name, "dim"), fact) for name, fact in facts])


def _told(one: Occurrence) -> tuple[Cell, ...]:
    said = describe.occurrence(one)
    when = day_and_time(one.first)
    if one.times > 1:
        many = f"{one.times:,} or more" if one.times >= MANY else count(one.times, "occurrence")
        when += f" … {day_and_time(one.last)}, {many}"
    return when, Part(said["outcome"], STYLES[said["outcome"]]), Part(one.run_id or one.reason or "", "dim")


__all__ = ["schedules"]
