"""``perdure events``: a run's log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from perdure import describe
from perdure.cli.completing import complete_run
from perdure.cli.exits import Exit
from perdure.cli.main import say
from perdure.cli.opening import existing_store, find_run, log_pages, read_log
from perdure.cli.options import debug_option, json_option, print_json, screen, store_option
from perdure.cli.telling import COLUMNS, Teller
from perdure.model.records import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perdure.cli.render import Screen
    from perdure.model.records import Event, RunRow
    from perdure.store.protocol import Store

TICK = 0.05
"""Seconds between two looks for news."""


@click.command(epilog="Example: perdure events order-42 --follow")
@click.argument("run", shell_complete=complete_run)
@click.option("--follow", "-f", is_flag=True, help="Go on with new events until the run has ended.")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Leave out events up to this one.")
@store_option
@json_option
@debug_option
def events(run: str, *, follow: bool, after: int, store: str | None, as_json: bool) -> Exit:
    """Print a run's event log.

    With --json one event a line. With --follow it ends (exit code 0) when the run has completed, failed or was
    cancelled; of a run that is blocked or paused stderr says so, once and with the reason, and the following goes on:
    somebody may resume it.
    """
    with existing_store(store) as opened:
        row = find_run(opened, run)
        pages = following(opened, row) if follow else iter([read_log(opened, row)])
        now = opened.now()
        out, teller = screen(), Teller(now)
        for page in pages:
            if as_json:
                for event in page:
                    if event.seq > after:
                        print_json(describe.event(event), one_line=True)
            else:
                tell(out, teller, page, after=after)
    return Exit.OK


def tell(
    out: Screen, teller: Teller, log: Iterable[Event], *, after: int = 0, indent: int = 0, titles: bool = True
) -> None:
    """Print events as a table; ``after`` leaves out those that are known."""
    rows = [(event.seq, teller.row(event)) for event in log]
    shown = [row for seq, row in rows if seq > after]
    titled = titles and any(seq == 1 for seq, _ in rows)
    columns = COLUMNS if titled else [column._replace(title="") for column in COLUMNS]
    if shown:
        out.table(columns, shown, indent=indent)


def following(store: Store, row: RunRow, after: int = 0) -> Iterator[list[Event]]:
    """Iterate over a run's events as they are committed, until it has ended; say when it waits for a person."""
    said = 0
    while True:
        # The row first: what ended it is in the log by then.
        row = store.get_runs([row.run_key])[0]
        for page in log_pages(store, row, after):
            after = page[-1].seq
            yield page
        if row.status.terminal:
            return
        if row.status in {Status.BLOCKED, Status.PAUSED} and row.seq != said:
            said = row.seq
            say(
                f"run {row.run_id} is {row.status.word}" + (f": {row.reason}" if row.reason else ""),
                f"nothing more comes before `perdure resume {row.run_id}`, or `cancel`; still following",
            )
        while not store.changed():
            time.sleep(TICK)
