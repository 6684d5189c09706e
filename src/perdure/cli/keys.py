"""``perdure keys`` and ``perdure rotate-keys``: what values are encrypted with."""

from __future__ import annotations

import click

from perdure import describe
from perdure.cli.exits import Exit
from perdure.cli.opening import existing_store
from perdure.cli.options import database_option, debug_option, json_option, print_json, screen
from perdure.cli.render import Column, Part
from perdure.cli.words import ago, count
from perdure.codecs import Encryption, new_key
from perdure.codecs.encryption import locked
from perdure.config import default_codecs
from perdure.store.coded import stored_by

COLUMNS = (Column("KEY"), Column("MASTER KEY"), Column("MADE"), Column("USE"))


@click.group(invoke_without_command=True, epilog="Example: perdure keys new")
@database_option
@json_option
@debug_option
@click.pass_context
def keys(ctx: click.Context, *, store: str | None, as_json: bool) -> Exit | None:
    """List the keys that values in a store are encrypted with, or make a master key.

    Each is kept in the store as a master key has encrypted it; master keys are not in the store. The newest one is what
    new values are encrypted with.
    """
    if ctx.invoked_subcommand is not None:
        return None
    with existing_store(store) as opened:
        found, now = opened.read_keys(), opened.now()
    if as_json:
        print_json([
            {"key": one.key_id.hex(), "master": one.master, "created_at": describe.instant(one.created_at)}
            for one in found
        ])  # fmt: skip
        return Exit.OK
    out = screen()
    if not found:
        out.line(Part("nothing is encrypted in this store", "dim"))
        return Exit.OK
    uses = ["reads"] * (len(found) - 1) + ["reads and writes"]
    rows = [
        (one.key_id.hex(), one.master, Part(ago(one.created_at, now), "dim"), use)
        for one, use in zip(found, uses, strict=True)
    ]
    out.table(COLUMNS, rows)
    return Exit.OK


@keys.command(epilog="Example: perdure keys new")
@debug_option
def new() -> Exit:
    """Print a new master key.

    Keep it where your secrets are, not beside the store: whoever has both can read everything, and without it nobody
    can. Give it to every process as PERDURE_ENCRYPTION_KEYS, or in a file named by PERDURE_ENCRYPTION_KEYS_FILE.
    """
    click.echo(new_key())
    return Exit.OK


@click.command(name="rotate-keys", epilog="Example: perdure rotate-keys --store runs.db")
@database_option
@json_option
@debug_option
def rotate_keys(*, store: str | None, as_json: bool) -> Exit:
    """Have the newest master key encrypt all keys of the store, so that older ones are needed no more.

    No value is touched, so this takes no time, and workers go on meanwhile. First give every process the new master key
    before the old one; then do this; then take the old one away. It also adds a key for what is written from now on by
    processes that start from now on.
    """
    encryption = next((codec for codec in default_codecs() if isinstance(codec, Encryption)), None)
    if encryption is None:
        raise locked()
    with existing_store(store) as opened:
        done = encryption.rotate(stored_by(opened))
    if as_json:
        print_json(done._asdict())
        return Exit.OK
    out = screen()
    out.line(
        Part("✓", "good"),
        f" the master key {done.master} encrypts {count(done.rewrapped + done.already + 1, 'key')}: "
        f"{done.rewrapped} anew, {done.already} as before, 1 added",
    )
    return Exit.OK


__all__ = ["keys", "rotate_keys"]
