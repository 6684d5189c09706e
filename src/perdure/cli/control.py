"""``perdure cancel`` and ``perdure resume``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure import describe
from perdure.cli.choosing import do_to_many, is_one, many_options
from perdure.cli.completing import complete_run
from perdure.cli.exits import Exit
from perdure.cli.main import say
from perdure.cli.opening import existing_store, find_run, operate
from perdure.cli.options import debug_option, json_option, print_json, store_option
from perdure.model.records import Status
from perdure.operations import CANCELLABLE, RESUMABLE
from perdure.operations.holding import live_workers, take_all_back, take_back
from perdure.store.protocol import Route

if TYPE_CHECKING:
    from perdure.model.records import RunRow
    from perdure.store.protocol import Filter


@click.command(epilog="Example: perdure cancel order-42 --reason 'ordered twice'")
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--reason", default="", metavar="TEXT", help="Kept in the log and shown.")
@click.option(
    "--force",
    is_flag=True,
    help="End it at once unless a worker executes it: nothing is cleaned up or undone.",
)
@many_options
@store_option
@json_option
@debug_option
def cancel(
    run: str | None,
    *,
    reason: str,
    force: bool,
    where: Filter,
    yes: bool,
    store: str | None,
    as_json: bool,
) -> Exit:
    """Cancel a run, or all runs of a kind.

    A run whose code some worker has is told, cleans up and ends; where nobody could tell it, it is ended at once. One
    that has something to undo waits for a worker with its code, unless --force says that it is to stay undone.
    """
    with existing_store(store) as opened:
        if not is_one(run, where):
            take_all_back(opened)
            return do_to_many(
                opened,
                where,
                CANCELLABLE,
                "cancel",
                lambda runs: runs.cancel(reason, force=force),
                yes=yes,
                as_json=as_json,
            )
        assert run is not None
        found = find_run(opened, run)
        take_back(opened, found)
        made = operate(opened, lambda operations: operations.cancel(found.run_id, reason, force=force))
        row = find_run(opened, run)
        is_served = Route(row.workflow, row.version, row.queue, row.namespace) in opened.served()
    if as_json:
        print_json(describe.row(row))
    elif made is Status.CANCELLED:
        say(f"run {run} is cancelled")
    else:
        say(*_asked(row, is_served=is_served))
    return Exit.OK


def _asked(row: RunRow, *, is_served: bool) -> tuple[str, str]:
    """Say what becomes of a run that is asked to end, and what to do if that is not enough."""
    asked = f"run {row.run_id} is asked to cancel"
    left = ", ".join(describe.undo(row))
    force = "--force ends it at once, and leaves that undone"
    if row.status is Status.BLOCKED:
        return f"{asked}: it is blocked, and has to undo {left} when it is resumed", force
    if left and not is_served and row.worker_key is None:
        return f"{asked}: it has to undo {left}, and waits for a worker with the code of {row.workflow}", force
    return f"{asked}; it cleans up and ends", ""


@click.command(epilog="Example: perdure resume order-42")
@click.argument("run", required=False, shell_complete=complete_run)
@click.option(
    "--accept-drift",
    is_flag=True,
    help="Go on although the code calls steps with other arguments than those recorded.",
)
@many_options
@store_option
@json_option
@debug_option
def resume(
    run: str | None,
    *,
    accept_drift: bool,
    where: Filter,
    yes: bool,
    store: str | None,
    as_json: bool,
) -> Exit:
    """Let a failed, cancelled or blocked run go on, or all such runs of a kind.

    What failed is tried anew, what is recorded stays. The run is executed by the next worker (or `perdure run` with its
    id) that has its workflow.
    """
    with existing_store(store) as opened:
        if not is_one(run, where):
            return do_to_many(
                opened,
                where,
                RESUMABLE,
                "resume",
                lambda runs: runs.resume(accept_drift=accept_drift),
                yes=yes,
                as_json=as_json,
            )
        assert run is not None
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
