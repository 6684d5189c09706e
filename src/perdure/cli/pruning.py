"""``perdure prune``: delete runs that ended long ago."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.choosing import agreed, workflow_option
from perdure.cli.exits import Exit
from perdure.cli.main import say
from perdure.cli.opening import existing_store, operate
from perdure.cli.options import debug_option, json_option, namespace, print_json, store_option
from perdure.cli.words import count
from perdure.model.durations import micros
from perdure.model.records import Status
from perdure.operations import ENDED, chosen
from perdure.operations import prune as prune_runs

if TYPE_CHECKING:
    from perdure.operations import Operations, Pruned
    from perdure.store.protocol import Store

_FORGOTTEN = 1000


@click.command(epilog="Example: perdure prune --older-than 90d --status completed")
@click.option(
    "--older-than", default="30d", show_default=True, metavar="TIME", help="Only runs that ended longer ago than this."
)
@click.option(
    "--status",
    multiple=True,
    type=click.Choice([status.word for status in ENDED]),
    help="Only runs that ended so; may be given several times.",
)
@workflow_option
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.  [default: all]")
@click.option("--dry-run", is_flag=True, help="Only say what would be purged.")
@click.option(
    "--forget",
    metavar="TIME",
    help="Let ids of runs that were purged longer ago than this be used again.  [default: never]",
)
@click.option("--yes", is_flag=True, help="Do it without asking.")
@store_option
@json_option
@debug_option
def prune(  # noqa: PLR0913 - the options of a command
    *,
    older_than: str,
    status: tuple[str, ...],
    workflow: str | None,
    limit: int | None,
    dry_run: bool,
    forget: str | None,
    yes: bool,
    store: str | None,
    as_json: bool,
) -> Exit:
    """Purge runs that ended long ago, and delete all that they have left behind.

    Nobody finds a purged run any more. Its id and idempotency key stay refused, so that nothing is begun anew by
    mistake. Runs that have not ended are never purged, and a child is kept until its parent has completed or is purged.
    It may be done while workers work, and again after a crash.
    """
    statuses = tuple(Status[word.upper()] for word in status) or ENDED

    async def go(operations: Operations, *, dry: bool) -> Pruned:
        return await prune_runs(
            operations, chosen(operations, older_than, statuses, workflow), limit=limit, dry_run=dry
        )

    with existing_store(store) as opened:
        asks = dry_run or not yes
        found = operate(opened, lambda operations: go(operations, dry=True)) if asks else None
        if found is not None and (dry_run or (found.runs and not agreed(f"purge {_told(found)}"))):
            if dry_run:
                _tell(found, "would purge", as_json=as_json)
            return Exit.OK if dry_run else Exit.NO
        done = operate(opened, lambda operations: go(operations, dry=False))
        if forget is not None:
            done.forgotten += _forget(opened, forget)
    _tell(done, "purged", as_json=as_json)
    return Exit.OK


def _forget(store: Store, age: str) -> int:
    before = store.now() - micros(age, what="forget") + 1
    total = 0
    while number := store.forget_purged(namespace(), before, _FORGOTTEN):
        total += number
    return total


def _told(pruned: Pruned) -> str:
    kinds = [f"{number:,} {status} of {workflow}" for (workflow, status), number in sorted(pruned.kinds.items())]
    return count(pruned.runs, "run") + (f" ({', '.join(kinds)})" if kinds else "")


def _tell(pruned: Pruned, what: str, *, as_json: bool) -> None:
    if as_json:
        kinds = [
            {"workflow": workflow, "status": status, "runs": number}
            for (workflow, status), number in sorted(pruned.kinds.items())
        ]
        print_json({
            "runs": pruned.runs, "kinds": kinds, "rows": pruned.rows, "artifacts": pruned.artifacts,
            "forgotten": pruned.forgotten,
        })  # fmt: skip
        return
    say(f"{what} {_told(pruned)}")
    if pruned.rows or pruned.artifacts:
        say(f"deleted {count(pruned.rows, 'event')} and messages, {count(pruned.artifacts, 'artifact')}")
    if pruned.forgotten:
        say(f"forgot {count(pruned.forgotten, 'purged run')}: their ids may be used again")


__all__ = ["prune"]
