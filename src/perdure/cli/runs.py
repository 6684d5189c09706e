"""``perdure runs``: what is in a store."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import click

from perdure import describe
from perdure.cli.choosing import filter_options
from perdure.cli.exits import Exit
from perdure.cli.opening import all_runs, existing_store, pages
from perdure.cli.options import debug_option, json_option, namespace, print_json, screen, store_option
from perdure.cli.render import Column, Part
from perdure.cli.words import ago, count, span, state_of, status_part
from perdure.model.counting import Counted, counts
from perdure.operations import codeless
from perdure.operations.holding import live_workers
from perdure.store.protocol import Filter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.cli.render import Cell
    from perdure.model.counting import Counts
    from perdure.model.records import RunRow
    from perdure.store.protocol import Store

COLUMNS = (
    Column("RUN", flexible=True),
    Column("WORKFLOW", flexible=True),
    Column("STATUS"),
    Column("CREATED"),
    Column("TOOK", right=True),
    Column("WHY", flexible=True),
)

COUNTED = (Column("STATUS"), Column("RUNS", right=True))


@click.command(epilog="Example: perdure runs --status failed --status blocked")
@filter_options
@click.option("--codeless", "only_codeless", is_flag=True, help="Only runs that are due, and whose code no worker has.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at most.")
@click.option("--count", "counting", is_flag=True, help="Say how many there are of each status instead.")
@store_option
@json_option
@debug_option
def runs(
    *,
    where: Filter,
    only_codeless: bool,
    limit: int,
    counting: bool,
    store: str | None,
    as_json: bool,
) -> Exit:
    """List runs, newest first; those that ended last first, if it is asked for when they did.

    With --json one run a line, or with --count one object.
    """
    is_asked = only_codeless or where != Filter(namespace=namespace())
    where = replace(where, limit=500 if only_codeless else min(limit + 1, 500))
    with existing_store(store) as opened:
        if counting:
            return _tell_counts(_counts(opened, where, only_codeless=only_codeless), as_json=as_json)
        without_code: set[int] = set()
        matching = _codeless(opened, where, without_code) if only_codeless else all_runs(opened, where)
        found = list(islice(matching, limit + 1))
        now = opened.now()
        alive = live_workers(opened)
        if not only_codeless:
            without_code = codeless(opened, found)
    shown, more = found[:limit], len(found) > limit
    if as_json:
        for one in shown:
            print_json(describe.row(one, codeless=one.run_key in without_code), one_line=True)
        return Exit.OK
    out = screen()
    if not shown:
        out.line(Part("no runs" + (" like that" if is_asked else " yet"), "dim"))
        return Exit.OK
    rows = [
        _row(one, now, _trouble(one, is_held=one.worker_key in alive, is_codeless=one.run_key in without_code))
        for one in shown
    ]
    out.table(COLUMNS, rows)
    if more and out.is_terminal:
        out.line(Part(f"… and more; these are the newest {count(limit, 'run')}: --limit shows others", "dim"))
    return Exit.OK


def _counts(store: Store, where: Filter, *, only_codeless: bool) -> Counts:
    if only_codeless:
        return counts(Counted(run.workflow, run.status, 1) for run in _codeless(store, where, set()))
    return counts(store.count_runs(where))


def _tell_counts(found: Counts, *, as_json: bool) -> Exit:
    if as_json:
        print_json(describe.counts(found))
        return Exit.OK
    out = screen()
    lines = [(status_part(status), f"{number:,}") for status, number in found.by_status.items()]
    out.table(COUNTED, [*lines, (Part("together", "dim"), f"{found.total:,}")])
    return Exit.OK


def _codeless(store: Store, where: Filter, known: set[int]) -> Iterator[RunRow]:
    """Iterate over the runs whose code no worker has, newest first; their keys are noted in ``known``."""
    for page in pages(store, where):
        known |= codeless(store, page)
        yield from (row for row in page if row.run_key in known)


def _trouble(run: RunRow, *, is_held: bool, is_codeless: bool) -> str:
    told = ["its process is gone"] if run.worker_key is not None and not is_held else []
    return ", ".join(told + ["no worker has its code"] * is_codeless)


def _row(run: RunRow, now: int, trouble: str) -> tuple[Cell, ...]:
    took = span(run.ended_at - run.created_at) if run.ended_at is not None else ""
    return (
        run.run_id,
        run.workflow + (f" {run.version}" if run.version != "1" else ""),
        status_part(run.status),
        Part(ago(run.created_at, now), "dim"),
        Part(took, "dim"),
        Part(trouble, "warn") if trouble else Part(state_of(run, now), "dim"),
    )
