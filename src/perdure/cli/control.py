"""``perdure cancel`` and ``perdure resume``."""

from __future__ import annotations

import click

from perdure import describe
from perdure.cli.exits import Exit
from perdure.cli.main import say
from perdure.cli.opening import existing_store, find_run, live_workers, operate, take_back
from perdure.cli.options import debug_option, json_option, print_json, store_option
from perdure.model.records import Status


@click.command(epilog="Example: perdure cancel order-42 --reason 'ordered twice'")
@click.argument("run")
@click.option("--reason", default="", metavar="TEXT", help="Kept in the log and shown.")
@store_option
@json_option
@debug_option
def cancel(run: str, *, reason: str, store: str | None, as_json: bool) -> Exit:
    """Cancel a run.

    A run that nobody executes is cancelled at once; one that is being executed is told, cleans up and ends.
    """
    with existing_store(store) as opened:
        found = find_run(opened, run)
        take_back(opened, found)
        status = operate(opened, lambda operations: operations.cancel(found.run_id, reason))
        row = find_run(opened, run)
    if as_json:
        print_json(describe.row(row))
    elif status is Status.CANCELLED:
        say(f"run {run} is cancelled")
    else:
        say(f"run {run} is asked to cancel; it cleans up and ends")
    return Exit.OK


@click.command(epilog="Example: perdure resume order-42")
@click.argument("run")
@click.option(
    "--accept-drift",
    is_flag=True,
    help="Go on although the code calls steps with other arguments than those recorded.",
)
@store_option
@json_option
@debug_option
def resume(run: str, *, accept_drift: bool, store: str | None, as_json: bool) -> Exit:
    """Let a failed, cancelled or blocked run go on.

    What failed is tried anew, what is recorded stays. The run is executed by the next worker (or `perdure run` with its
    id) that has its workflow.
    """
    with existing_store(store) as opened:
        found = find_run(opened, run)
        row = operate(opened, lambda operations: operations.resume(found.run_id, accept_drift=accept_drift))
        workers = live_workers(opened)
    if as_json:
        print_json(describe.row(row))
    else:
        say(
            f"run {run} goes on",
            "" if workers else f"no worker is running: start one with `perdure worker`, for {row.workflow}",
        )
    return Exit.OK
