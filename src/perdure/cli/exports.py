"""``perdure export``: a run's history as a file."""

from __future__ import annotations

import click

from perdure.cli.completing import complete_run
from perdure.cli.exits import Exit
from perdure.cli.opening import existing_store, find_run, read_log
from perdure.cli.options import debug_option, print_json, store_option
from perdure.model import chain, histories
from perdure.store.coded import codecs_of


@click.command(epilog="Example: perdure export order-42 > order-42.json")
@click.argument("run", shell_complete=complete_run)
@store_option
@debug_option
def export(run: str, *, store: str | None) -> Exit:
    """Print a run's whole history as JSON.

    What is compressed or encrypted in the store is not in the file: who has that needs no key.
    `perdure replay --history FILE` replays it without a store, on any machine and against any version of the code.
    """
    with existing_store(store) as opened:
        row = find_run(opened, run)
        events = read_log(opened, row)
        chain.check(row.uid, events, run_id=row.run_id)
        plain, artifacts = histories.uncoded(row, events, opened.get_artifact, codecs_of(opened))
        print_json(histories.dump(row, plain, artifacts.get))
    return Exit.OK
