"""``perdure runs``: what is in a store."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import click

from perdure import describe
from perdure.cli.choosing import chosen, status_option, tag_option, workflow_option
from perdure.cli.exits import Exit
from perdure.cli.opening import all_runs, existing_store, live_workers, pages
from perdure.cli.options import debug_option, json_option, print_json, screen, store_option
from perdure.cli.render import Column, Part
from perdure.cli.words import ago, count, span, state_of, status_part
from perdure.operations import codeless

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.cli.render import Cell
    from perdure.model.records import RunRow
    from perdure.store.protocol import Filter, Store

COLUMNS = (
    Column("RUN", flexible=True),
    Column("WORKFLOW", flexible=True),
    Column("STATUS"),
    Column("CREATED"),
    Column("TOOK", right=True),
    Column("WHY", flexible=True),
)


@click.command(epilog="Example: perdure runs --status failed --status blocked")
@status_option
@workflow_option
@tag_option
@click.option("--codeless", "only_codeless", is_flag=True, help="Only runs that are due, and whose code no worker has.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at most.")
@store_option
@json_option
@debug_option
def runs(
    *,
    status: tuple[str, ...],
    workflow: str | None,
    tag: tuple[str, ...],
    only_codeless: bool,
    limit: int,
    store: str | None,
    as_json: bool,
) -> Exit:
    """List runs, newest first.

    With --json one run a line.
    """
    page = 500 if only_codeless else min(limit + 1, 500)
    where = replace(chosen(status, workflow, tag), limit=page)
    with existing_store(store) as opened:
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
        out.line(Part("no runs" + (" like that" if status or workflow or tag or only_codeless else " yet"), "dim"))
        return Exit.OK
    rows = [
        _row(one, now, _trouble(one, is_held=one.worker_key in alive, is_codeless=one.run_key in without_code))
        for one in shown
    ]
    out.table(COLUMNS, rows)
    if more and out.is_terminal:
        out.line(Part(f"… and more; these are the newest {count(limit, 'run')}: --limit shows others", "dim"))
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
