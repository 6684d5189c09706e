"""``perdure db``: the database under a store: its version, its health, and the SQL that brings it up to date."""

from __future__ import annotations

import click

from perdure.cli.exits import Exit
from perdure.cli.options import database_option, debug_option, json_option, print_json, screen
from perdure.cli.render import Column, Part
from perdure.config import default_store
from perdure.diagnosis import Severity
from perdure.diagnosis.doctor import about_database
from perdure.store.open import examine_store, inspect_store, migration_script, open_store, store_name

COLUMNS = (Column(), Column(flexible=True))


@click.group(epilog="Example: perdure db check --store postgresql://app@db/app")
def db() -> None:
    """Look after the database under a store.

    Stores bring their schema up to date by themselves when they are opened, as far as the database lets them.
    """


@db.command(epilog="Example: perdure db migrate --store postgresql://app@db/app")
@database_option
@debug_option
def migrate(*, store: str | None) -> Exit:
    """Make the store, or bring its schema up to date.

    Any number of processes may do so at once. An older Perdure goes on working meanwhile, and afterwards too as long as
    nothing that it needs was taken away; `perdure db check` of that version says so.
    """
    target = store or default_store()
    with open_store(target) as opened:
        made = opened.created
    version = inspect_store(target).version
    screen().line(Part("✓", "good"), f" {store_name(target)}: {'made' if made else 'up to date'}, schema {version}")
    return Exit.OK


@db.command(epilog="Example: perdure db check || perdure db migrate")
@database_option
@json_option
@debug_option
def check(*, store: str | None, as_json: bool) -> Exit:
    """Say which version the schema has, and whether anything is amiss.

    Changes nothing; `perdure doctor` says more. Exits with 1 if there is no store yet, if its schema is not up to date,
    or if there is a problem.
    """
    target = store or default_store()
    found = inspect_store(target)
    seen = about_database(examine_store(target, deep=True))
    # What is said below of the version in any case is not said twice.
    findings = [one for one in seen if one.code not in {"schema-missing", "schema-older"}]
    problems = [f"{one.found}; {one.advice}" for one in findings if one.severity is Severity.BAD]
    good = found.version >= found.known and not problems
    if as_json:
        print_json(
            {
                "store": found.name,
                "version": found.version,
                "known": found.known,
                "facts": dict(found.facts),
                "problems": problems,
            }
        )
        return Exit.OK if good else Exit.NO
    out = screen()
    out.table(COLUMNS, [(Part(name, "dim"), value) for name, value in found.facts])
    if found.version == 0:
        out.line(Part("✗", "bad"), " there is no store yet; `perdure db migrate` makes it")
    elif found.version < found.known:
        out.line(
            Part("✗", "bad"), f" schema {found.version} of {found.known}; `perdure db migrate` brings it up to date"
        )
    else:
        out.line(Part("✓", "good"), f" schema {found.version}")
    for problem in problems:
        out.line(Part("✗", "bad"), f" {problem}")
    return Exit.OK if good else Exit.NO


@db.command(epilog="Example: perdure db sql --store postgresql://app@db/app | psql postgresql://owner@db/app")
@database_option
@debug_option
def sql(*, store: str | None) -> Exit:
    """Print the SQL that makes the store or brings it up to date.

    For databases whose schema only an administrator may change. Changes nothing itself.
    """
    click.echo(migration_script(store or default_store()), nl=False)
    return Exit.OK


__all__ = ["db"]
