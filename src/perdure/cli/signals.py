"""``perdure signal`` and ``perdure pause``."""

from __future__ import annotations

import json

import click

from perdure import describe
from perdure.cli.choosing import do_to_many, is_one, many_options
from perdure.cli.completing import complete_run
from perdure.cli.exits import Exit
from perdure.cli.main import say
from perdure.cli.opening import existing_store, find_run, operate
from perdure.cli.options import debug_option, json_option, namespace, print_json, store_option
from perdure.model.records import Status
from perdure.operations import CANCELLABLE
from perdure.operations.holding import live_workers, take_back
from perdure.operations.signalling import send
from perdure.signals import message
from perdure.store.protocol import Filter


@click.command(epilog="Example: perdure signal order-42 approved true")
@click.argument("names", nargs=-1, required=True, metavar="[RUN] SIGNAL [VALUE]")
@click.option("--key", metavar="KEY", help="Idempotency key: a second message with it is not sent again.")
@many_options
@store_option
@json_option
@debug_option
def signal(
    names: tuple[str, ...],
    *,
    key: str | None,
    where: Filter,
    yes: bool,
    store: str | None,
    as_json: bool,
) -> Exit:
    """Send a run a signal, or all runs of a kind: the name of the signal, and a value as JSON (by default null).

    It is kept until the run waits for it, whether or not the run is executing anywhere.
    """
    rest = list(names)
    run = rest.pop(0) if where == Filter(namespace=namespace()) else None
    if not rest or len(rest) > 2:  # noqa: PLR2004 - name and value
        raise click.UsageError("write: perdure signal [RUN] SIGNAL [VALUE]; a value with spaces goes in quotes")
    what = message(rest[0], _value(rest[1]) if len(rest) > 1 else None, key)
    with existing_store(store) as opened:
        if run is None:
            return do_to_many(
                opened,
                where,
                CANCELLABLE,
                f"signal {rest[0]} to",
                lambda runs: runs.send(what),
                yes=yes,
                as_json=as_json,
            )
        found = find_run(opened, run)
        sent = operate(opened, lambda operations: send(operations, found.run_id, what))
        row, workers = find_run(opened, run), live_workers(opened)
    if as_json:
        print_json({"sent": sent, **describe.row(row)})
    elif not sent:
        say(f"run {run} has been sent that before")
    else:
        say(
            f"run {run} is sent {rest[0]}",
            "" if workers else f"no worker is running: start one with `perdure worker`, for {row.workflow}",
        )
    return Exit.OK


@click.command(epilog="Example: perdure pause order-42 --reason 'waiting for stock'")
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--reason", default="", metavar="TEXT", help="Kept in the log and shown.")
@many_options
@store_option
@json_option
@debug_option
def pause(
    run: str | None,
    *,
    reason: str,
    where: Filter,
    yes: bool,
    store: str | None,
    as_json: bool,
) -> Exit:
    """Let a run rest until `perdure resume`, or all runs of a kind.

    A run that nobody executes rests at once; one that is being executed does when its steps have ended.
    """
    with existing_store(store) as opened:
        if not is_one(run, where):
            return do_to_many(
                opened, where, CANCELLABLE, "pause", lambda runs: runs.pause(reason), yes=yes, as_json=as_json
            )
        assert run is not None
        found = find_run(opened, run)
        take_back(opened, found)
        after = operate(opened, lambda operations: operations.pause(found.run_id, reason))
        row = find_run(opened, run)
    if as_json:
        print_json(describe.row(row))
    elif after is Status.PAUSED:
        say(f"run {run} is paused")
    else:
        say(f"run {run} is asked to pause; it rests when its steps have ended")
    return Exit.OK


def _value(text: str) -> object:
    try:
        value: object = json.loads(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is no JSON: a text goes in double quotes, as '\"{text}\"'") from None
    return value


__all__ = ["pause", "signal"]
