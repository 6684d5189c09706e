"""The schema of a store: made, brought up to date, and checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perdure.errors import NotAStore, StoreTooNew
from perdure.model.records import APPLICATION_ID, FORMAT
from perdure.store.migrate import load_migrations, pending
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    import apsw

    from perdure.store.migrate import Migration

MIGRATIONS = load_migrations(Path(__file__).parent / "migrations")


def migrate(connection: apsw.Connection, path: Path, migrations: tuple[Migration, ...] = MIGRATIONS) -> bool:
    """Bring the schema up to date, all of it or nothing, and say whether the database was empty.

    Many processes may do so at the same instant.

    Raises:
        StoreTooNew: the database is ahead of ``migrations``.
        NotAStore: it belongs to another program.
        apsw.Error: a migration failed; nothing was changed.
    """
    version = _number(connection, "user_version")
    if not pending(migrations, version, store=str(path)):
        _check_owner(connection, path)
        return False
    connection.execute(QUERIES["begin"]).fetchall()
    try:
        # Asked again under the lock: another process may have been quicker.
        version = _number(connection, "user_version")
        if version > 0 or _number(connection, "schema_version") > 0:
            _check_owner(connection, path)
        for migration in pending(migrations, version, store=str(path)):
            connection.execute(migration.sql).fetchall()
        connection.execute(QUERIES["commit"]).fetchall()
    finally:
        if connection.in_transaction:
            connection.execute(QUERIES["rollback"]).fetchall()
    return version == 0


def _check_owner(connection: apsw.Connection, path: Path) -> None:
    if _number(connection, "application_id") != APPLICATION_ID:
        raise NotAStore(f"{path} is the database of another program", store=str(path), advice="give another path")


def check_format(connection: apsw.Connection, path: Path) -> None:
    """Refuse a store that wants writers of a later format.

    Raises:
        StoreTooNew: this Perdure writes an older one.
    """
    least = _number(connection, "least_format")
    if least > FORMAT:
        raise StoreTooNew(
            f"{path} takes writers of format {least} and newer; this Perdure writes {FORMAT}",
            store=str(path),
            found=least,
            known=FORMAT,
            advice="upgrade Perdure",
        )


def _number(connection: apsw.Connection, query: str) -> int:
    value = connection.execute(QUERIES[query]).get
    return value if isinstance(value, int) else 0
