"""``perdure verify``: is what is stored what was written?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.completing import complete_run
from perdure.cli.exits import Exit
from perdure.cli.opening import all_runs, existing_store, find_run
from perdure.cli.options import debug_option, json_option, namespace, print_json, screen, store_option
from perdure.cli.progress import advancing
from perdure.cli.render import Column, Part
from perdure.cli.words import count
from perdure.store.protocol import Filter
from perdure.verifying import verify_run

if TYPE_CHECKING:
    from perdure.store.protocol import Store

COLUMNS = (Column("RUN", flexible=True), Column("SEQ", right=True), Column("DAMAGE", flexible=True))


@click.command(epilog="Example: perdure verify && echo all is well")
@click.argument("run", required=False, shell_complete=complete_run)
@store_option
@json_option
@debug_option
def verify(run: str | None, *, store: str | None, as_json: bool) -> Exit:
    """Check that what is stored is what was written.

    Checks the hash chain and numbering of every log, that each run's row agrees with its log, and the contents of
    artifacts: for one run, or for all. Exits with 1 and a list if anything is wrong.
    """
    with existing_store(store) as opened:
        rows = (
            all_runs(opened, Filter(namespace=namespace(), limit=500)) if run is None else iter([find_run(opened, run)])
        )
        damage, events, looked_at = [], 0, 0
        for row in rows if run is not None else advancing(rows, "run", lambda: _number(opened)):
            found = verify_run(opened, row)
            damage += found.damage
            events += found.events
            looked_at += 1
    if as_json:
        print_json(
            {
                "runs": looked_at,
                "events": events,
                "damage": [{"run_id": one.run_id, "seq": one.seq, "what": one.what} for one in damage],
            }
        )
        return Exit.NO if damage else Exit.OK
    out = screen()
    checked = f"{count(looked_at, 'run')}, {count(events, 'event')}"
    if not damage:
        out.line(Part("✓", "good"), f" {checked}: everything is what was written")
        return Exit.OK
    rows_ = [(one.run_id, "" if one.seq is None else str(one.seq), Part(one.what, "bad")) for one in damage]
    out.table(COLUMNS, rows_)
    out.line(Part("✗", "bad"), f" {checked}: {len(damage)} not as written; restore from a backup")
    return Exit.NO


def _number(store: Store) -> int:
    return sum(one.number for one in store.count_runs(Filter(namespace=namespace())))


__all__ = ["verify"]
