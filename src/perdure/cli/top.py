"""``perdure top``: what is going on in a store, as it goes on."""

from __future__ import annotations

import io
import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from perdure import describe
from perdure.cli.exits import Exit
from perdure.cli.opening import existing_store
from perdure.cli.options import debug_option, json_option, namespace, print_json, screen, store_option
from perdure.cli.queues import COLUMNS as QUEUE_COLUMNS
from perdure.cli.queues import queue_row
from perdure.cli.render import Column, Part, Screen
from perdure.cli.words import STATUS_STYLES, ago, clock, count, span, state_of, status_part
from perdure.errors import StoreError
from perdure.model.counting import Traffic, counts, edges, traffic_of
from perdure.model.records import Status
from perdure.operations.holding import live_workers
from perdure.store.protocol import Filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.cli.render import Cell
    from perdure.model.counting import Counts
    from perdure.model.queues import QueueUsage
    from perdure.model.records import RunRow, WorkerRow
    from perdure.store.protocol import Store

LATELY = 60
"""Seconds that throughput and latency are of."""
LEAST, ROWS = 3, 10
"""Runs that are shown of each kind: at least, and where nobody says how tall the terminal is."""
TICK = 0.05
"""Seconds between two looks at whether something has changed."""

_GOING = (Status.RUNNING, Status.RETRYING)
_TROUBLED = (Status.BLOCKED, Status.FAILED)
_RUNS = (Column("RUN", flexible=True), Column("WORKFLOW", flexible=True), Column("STATUS"), Column("CREATED"),
         Column("WORKER", flexible=True), Column("WHY", flexible=True))  # fmt: skip
_WORKERS = (Column("WORKER", flexible=True), Column("PID", right=True), Column("HOST", flexible=True),
            Column("RUNS", right=True), Column("STARTED"))  # fmt: skip


class Picture(NamedTuple):
    """What a store looks like at one instant."""

    url: str
    now: int
    counts: Counts
    lately: Traffic
    queues: Sequence[QueueUsage]
    workers: Sequence[tuple[WorkerRow, int]]
    """Those that live, and how many runs each holds."""
    going: Sequence[RunRow]
    troubled: Sequence[RunRow]


@click.command(epilog="Example: perdure top --every 2")
@click.option(
    "--every", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Seconds between two looks."
)
@click.option("--once", is_flag=True, help="Show it once and end; so it is where there is no terminal.")
@store_option
@json_option
@debug_option
def top(*, every: float, once: bool, store: str | None, as_json: bool) -> Exit:
    """Watch a store: runs by status, throughput, queues, workers, what is executed, and what is in trouble.

    Ctrl-C ends it. With --json what is seen at one instant is printed.
    """
    with existing_store(store) as opened:
        if as_json:
            print_json(_told(look(opened, ROWS)))
            return Exit.OK
        out = screen()
        if once or not out.is_terminal:
            _show(out, look(opened, ROWS), ROWS)
            return Exit.OK
        _watch(opened, every)
    return Exit.OK


def look(store: Store, rows: int) -> Picture:
    """Look at a store.

    Args:
        store: where to look.
        rows: how many runs are wanted of each kind.
    """
    space, now = namespace(), store.now()
    where = Filter(namespace=space, limit=rows)
    since = now - LATELY * 1_000_000
    alive = live_workers(store)
    return Picture(
        store.url,
        now,
        counts(store.count_runs(replace(where, limit=1))),
        traffic_of(edges(since, now, 1), store.traffic(since, now, 1, namespace=space)),
        [one for one in store.list_queues(space) if one.row.name or one.held or one.ready],
        sorted(((one, len(store.held(one.worker_key))) for one in alive.values()), key=lambda pair: -pair[1]),
        store.list_runs(replace(where, status=_GOING)),
        store.list_runs(replace(where, status=_TROUBLED)),
    )


def _watch(store: Store, every: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            height = console.size.height
            rows = max(LEAST, (height - 14) // 2)
            page = io.StringIO()
            out = Screen(page, {**os.environ, "COLUMNS": str(console.size.width), "FORCE_COLOR": _colours()})
            try:
                _show(out, look(store, rows), rows)
            except StoreError as error:
                out.line(Part(f"✗ {error.headline}; looking again", "bad"))
            lines = page.getvalue().splitlines()[: height - 1]
            live.update(Text.from_ansi("\n".join(lines), no_wrap=True), refresh=True)
            _rest(store, every)


def _rest(store: Store, every: float) -> None:
    """Wait until something has changed, but at least and at most for so long: ages grow even where nothing happens."""
    time.sleep(every)
    for _ in range(max(0, round(1 / TICK) - round(every / TICK))):
        try:
            if store.changed():
                return
        except StoreError:
            return
        time.sleep(TICK)


def _colours() -> str:
    return "0" if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else "1"


def _show(out: Screen, seen: Picture, rows: int) -> None:
    (lately,) = seen.lately.buckets
    ended = lately.completed + lately.failed + lately.cancelled
    out.line(Part("perdure", "title"), f"  {seen.url}", Part(f"  {clock(seen.now, seen.now)[:8]}", "dim"))
    parts: list[Cell] = []
    for status in Status:
        number = seen.counts.by_status.get(status, 0)
        if number:
            parts += [Part(f"{number:,}", STATUS_STYLES[status]), f" {status.word}   "]
    out.line(*(parts or [Part("no runs yet", "dim")]))
    pace: list[Cell] = [
        Part(f"last {LATELY} s  ", "dim"),
        f"{lately.created / LATELY:.1f}/s created, {ended / LATELY:.1f}/s ended",
    ]
    if lately.failed:
        pace.append(Part(f", {count(lately.failed, 'run')} failed", "bad"))
    if lately.latency is not None:
        took = lately.latency
        pace.append(f", took {_span(took.p50)} median, {_span(took.p95)} of 95 in 100, {_span(took.max)} at most")
    out.line(*pace)
    if seen.queues:
        out.gap()
        out.table(QUEUE_COLUMNS, [queue_row(one, seen.now) for one in seen.queues[:rows]])
    out.gap()
    if seen.workers:
        told = [
            (one.name, str(one.pid), one.host, str(held), Part(ago(one.started_at, seen.now), "dim"))
            for one, held in seen.workers[:rows]
        ]
        out.table(_WORKERS, told)
        if len(seen.workers) > rows:
            out.line(Part(f"… and {len(seen.workers) - rows} more", "dim"))
    else:
        out.line(Part("no worker", "warn"))
    names = {one.worker_key: one.name for one, _ in seen.workers}
    for title, found in (("executing", seen.going), ("in trouble", seen.troubled)):
        if found:
            out.gap()
            out.line(Part(title, "strong"))
            out.table(_RUNS, [_run(one, seen.now, names) for one in found[:rows]])


def _run(row: RunRow, now: int, names: dict[int, str]) -> tuple[Cell, ...]:
    worker = "" if row.worker_key is None else names.get(row.worker_key, "gone")
    return (
        row.run_id,
        row.workflow,
        status_part(row.status),
        Part(ago(row.created_at, now), "dim"),
        Part(worker, "warn" if worker == "gone" else "dim"),
        Part(state_of(row, now), "dim"),
    )


def _span(seconds: float) -> str:
    return span(round(seconds * 1e6))


def _told(seen: Picture) -> dict[str, Any]:
    return {
        "store": seen.url,
        "at": describe.instant(seen.now),
        "counts": describe.counts(seen.counts),
        "lately": describe.traffic(seen.lately),
        "queues": [describe.queue(one) for one in seen.queues],
        "workers": [{**describe.worker(one, alive=True), "runs": held} for one, held in seen.workers],
        "executing": [describe.row(one) for one in seen.going],
        "in_trouble": [describe.row(one) for one in seen.troubled],
    }


__all__ = ["Picture", "look", "top"]
