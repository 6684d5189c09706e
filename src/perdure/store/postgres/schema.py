"""The schema of a store: made, brought up to date, and checked."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from perdure.errors import NotAStore, StoreTooNew, StoreUnreachable
from perdure.model.records import FORMAT
from perdure.store.migrate import load_migrations, pending
from perdure.store.postgres.sql import in_schema, queries

if TYPE_CHECKING:
    from perdure.store.migrate import Migration
    from perdure.store.postgres.connection import Writer
    from perdure.store.postgres.session import Session

MIGRATIONS = load_migrations(Path(__file__).parent / "migrations")


class Found(NamedTuple):
    """What is in a schema."""

    version: int
    """0: nothing yet."""
    least_version: int
    """The version that a program must know to use it."""
    least_format: int
    """The format that a program must write."""


def migrate(writer: Writer, schema: str, *, create: bool, migrations: tuple[Migration, ...] = MIGRATIONS) -> bool:
    """Bring the schema up to date, all of it or nothing, and say whether it was empty.

    Many processes may do so at the same instant.

    Raises:
        StoreUnreachable: there is none, and ``create`` is False.
        StoreTooNew: the database is ahead of this Perdure.
        NotAStore: the schema belongs to another program.
        StoreReadOnly: a migration is needed, and this role may not apply it.
    """
    label = writer.label
    found = writer.read(lambda session: look(session, schema, label))
    if found.version > 0:
        _check_format(found, label)
        if not pending(migrations, found.version, store=label, least=found.least_version):
            return False
    elif not create:
        raise StoreUnreachable(
            f"there is no store in schema {schema!r} of {label}",
            store=label,
            advice="check the URL; a store is made by the first run or engine that uses it",
        )

    def apply(session: Session) -> bool:
        session.fetch("lock_migration", _lock_key(schema))
        # Asked again under the lock: another process may have been quicker.
        found = look(session, schema, label)
        if found.version == 0 and not session.fetch_value("has_schema", schema):
            session.control("create_schema")
        for migration in pending(migrations, found.version, store=label, least=found.least_version):
            session.script(in_schema(migration.sql, schema))
            session.change("set_version", str(migration.number))
        return found.version == 0

    return writer.write(apply)


def look(session: Session, schema: str, label: str) -> Found:
    """Look at what is in the schema.

    Raises:
        NotAStore: it belongs to another program.
    """
    has_facts, has_anything = session.fetch("look_at_schema", schema)[0]
    if not has_anything:
        return Found(0, 0, 0)
    facts: dict[str, str] = dict(session.fetch("store_info")) if has_facts else {}
    if facts.get("application") != "perdure":
        raise NotAStore(
            f"schema {schema!r} belongs to another program: {label}",
            store=label,
            advice="name another one in the URL: ?schema=perdure",
        )
    return Found(int(facts["version"]), int(facts["least_version"]), int(facts["least_format"]))


def script(schema: str, version: int, *, has_schema: bool, migrations: tuple[Migration, ...] = MIGRATIONS) -> str:
    """Return the SQL that brings a schema from ``version`` (0: nothing) up to date, to be executed by a person."""
    texts = queries(schema)
    parts = [texts["begin"], texts["lock_migration"].replace(b"$1", str(_lock_key(schema)).encode())]
    if version == 0 and not has_schema:
        parts.append(texts["create_schema"])
    for migration in migrations[version:]:
        parts.append(in_schema(migration.sql, schema).strip().removesuffix(b";"))
        parts.append(texts["set_version"].replace(b"$1", b"'%d'" % migration.number))
    parts.append(texts["commit"])
    return "".join(f"{part.decode()};\n" for part in parts)


def _check_format(found: Found, label: str) -> None:
    if found.least_format > FORMAT:
        raise StoreTooNew(
            f"{label} takes writers of format {found.least_format} and newer; this Perdure writes {FORMAT}",
            store=label,
            found=found.least_format,
            known=FORMAT,
            advice="upgrade Perdure",
        )


def _lock_key(schema: str) -> int:
    return int.from_bytes(sha256(f"perdure migrate {schema}".encode()).digest()[:8], "big", signed=True)
