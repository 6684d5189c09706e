"""A look at a database from outside: nothing is made or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.store.migrate import Inspection
from perdure.store.postgres.address import parse_address
from perdure.store.postgres.connect import Connector
from perdure.store.postgres.connection import Writer
from perdure.store.postgres.schema import MIGRATIONS, look, script

if TYPE_CHECKING:
    from perdure.store.postgres.session import Session


def inspect(url: str) -> Inspection:
    """Look at the store at ``url``.

    Raises:
        StoreError: the database cannot be reached, or the schema belongs to another program.
    """
    # Asked for less than a store promises, so that what is amiss can be told rather than refused.
    connector, writer = _connect(url)
    schema = connector.address.schema
    try:
        found = writer.read(lambda session: look(session, schema, writer.label))
        server, database, role, fsync, synchronous, may_create = writer.read(
            lambda session: session.fetch("health", schema)[0]
        )
        lacking = writer.read(lambda session: _lacking(session, schema)) if found.version else ""
    finally:
        writer.close()
    known = len(MIGRATIONS)
    problems: list[str] = []
    if found.least_version > known:
        problems.append(f"a newer Perdure has changed it: this one knows schema {known}; upgrade Perdure")
    elif found.version < known and not may_create:
        problems.append(f"role {role} may not bring it up to date; have its owner apply `perdure db sql`")
    if lacking:
        problems.append(f"role {role} lacks {lacking} on its tables")
    if fsync != "on":
        problems.append(f"the server runs with fsync={fsync}: what is committed does not survive a crash")
    facts = (
        ("server", f"PostgreSQL {server}"),
        ("database", str(database)),
        ("schema", schema),
        ("role", str(role)),
        ("synchronous_commit", f"{synchronous} (commits of Perdure: on)"),
        ("sessions", "lent by a pooler: leases only" if connector.pooled else "held: dead workers are seen at once"),
    )
    return Inspection(writer.label, found.version, known, facts, tuple(problems))


def migration_script(url: str) -> str:
    """Return the SQL that brings the store at ``url`` up to date: what a migration would execute.

    Raises:
        StoreError: the database cannot be reached, or the schema belongs to another program.
    """
    connector, writer = _connect(url)
    schema = connector.address.schema
    try:
        version = writer.read(lambda session: look(session, schema, writer.label)).version
        has_schema = writer.read(lambda session: session.fetch_value("has_schema", schema))
    finally:
        writer.close()
    return script(schema, version, has_schema=has_schema)


def _connect(url: str) -> tuple[Connector, Writer]:
    connector = Connector(parse_address(url), "process")
    return connector, Writer(connector, connector.open())


def _lacking(session: Session, schema: str) -> str:
    found = session.fetch("lacking_privileges", schema)
    return ", ".join(sorted({privilege for (privilege,) in found}))


__all__ = ["inspect", "migration_script"]
