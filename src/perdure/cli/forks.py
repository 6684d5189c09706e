"""``perdure fork``: do again what a run did from a step on, as another run."""

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
from perdure.operations.forking import fork as fork_run
from perdure.operations.holding import live_workers

if TYPE_CHECKING:
    from perdure.store.protocol import Filter


@click.command(epilog="Example: perdure fork order-42 --from charge")
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--from", "from_step", required=True, metavar="STEP", help="Key or name of the first step to do anew.")
@click.option("--id", "run_id", metavar="ID", help="The fork's run id; by default a new one.")
@click.option("--keep-keys", is_flag=True, help="Let it have the idempotency keys of its origin.")
@many_options
@store_option
@json_option
@debug_option
def fork(
    run: str | None,
    *,
    from_step: str,
    run_id: str | None,
    keep_keys: bool,
    where: Filter,
    yes: bool,
    store: str | None,
    as_json: bool,
) -> Exit:
    """Do again what a run did from a step on, as another run.

    The fork has recorded what its origin had when it came to that step; the origin stays as it is. Many runs are forked
    by --status, --workflow and --tag: each fork is named after its origin then, so nothing is forked twice.
    """
    with existing_store(store) as opened:
        if not is_one(run, where):
            if run_id is not None:
                raise click.UsageError("--id names one fork; many are named after their origins")
            return do_to_many(
                opened, where, frozenset(Status), "fork", lambda runs: runs.fork(from_step, keep_keys=keep_keys),
                yes=yes, as_json=as_json,
            )  # fmt: skip
        assert run is not None
        found = find_run(opened, run)
        made = operate(
            opened,
            lambda operations: fork_run(operations, found.run_id, from_step, new_id=run_id, keep_keys=keep_keys),
        )
        workers = live_workers(opened)
    if as_json:
        print_json(describe.row(made.row))
    else:
        say(
            f"run {made.row.run_id} is a fork of {found.run_id} from {from_step}",
            "" if workers else f"no worker is running: start one with `perdure worker`, for {made.row.workflow}",
        )
    return Exit.OK
