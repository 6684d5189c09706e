"""``perdure namespaces``: what a store is divided into."""

from __future__ import annotations

import click

from perdure.cli.exits import Exit
from perdure.cli.opening import existing_store
from perdure.cli.options import database_option, debug_option, json_option, print_json, screen
from perdure.cli.render import Column, Part
from perdure.cli.words import count

COLUMNS = (Column("NAMESPACE", flexible=True), Column("SERVED"))


@click.command(epilog="Example: perdure namespaces")
@database_option
@json_option
@debug_option
def namespaces(*, store: str | None, as_json: bool) -> Exit:
    """List the namespaces of a store, and how many workflows living workers execute in each.

    A namespace is there once a run, a schedule or a worker was in it. The one without a name is shown as "".
    """
    with existing_store(store) as opened:
        names = opened.list_namespaces()
        served = {(route.namespace, route.workflow) for route in opened.served()}
    found = [(name, sum(space == name for space, _ in served)) for name in names]
    if as_json:
        print_json([{"namespace": name, "served": many} for name, many in found])
        return Exit.OK
    out = screen()
    if not found:
        out.line(Part("no namespaces yet", "dim"))
        return Exit.OK
    out.table(
        COLUMNS, [(name or '""', count(many, "workflow") if many else Part("nothing", "dim")) for name, many in found]
    )
    return Exit.OK
