"""A look at a database file from outside: nothing is made or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from perdure.errors import NotAStore, StoreUnreachable
from perdure.model.records import APPLICATION_ID
from perdure.store.migrate import Inspection
from perdure.store.sqlite.connect import connect
from perdure.store.sqlite.faults import translate
from perdure.store.sqlite.files import is_half_made
from perdure.store.sqlite.schema import MIGRATIONS
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from pathlib import Path


def inspect(path: Path) -> Inspection:
    """Look at the store in the file ``path``.

    Raises:
        StoreUnreachable: there is none.
        NotAStore: the file belongs to something else.
        StoreError: it cannot be opened.
    """
    if not _is_there(path):
        raise StoreUnreachable(
            f"there is no store at {path}",
            store=str(path),
            advice="name one with --store or PERDURE_STORE; it is made by the first run, engine or worker that uses it",
        )
    connection = connect(path)
    try:
        found = {
            name: connection.execute(QUERIES[name]).get for name in ("application_id", "user_version", "journal_mode")
        }
        damage = [str(row[0]) for row in connection.execute(QUERIES["quick_check"])]
    except apsw.Error as error:
        raise translate(error, str(path)) from error
    finally:
        connection.close()
    if found["application_id"] != APPLICATION_ID:
        raise NotAStore(f"{path} is the database of another program", store=str(path), advice="give another path")
    version, known = int(str(found["user_version"])), len(MIGRATIONS)
    problems = [] if damage == ["ok"] else [f"the file is damaged: {line}" for line in damage]
    if version > known:
        problems.append(f"a newer Perdure has changed it: this one knows schema {known}; upgrade Perdure")
    facts = (
        ("file", str(path)),
        ("size", f"{path.stat().st_size:,} bytes"),
        ("journal", str(found["journal_mode"])),
        ("library", f"SQLite {apsw.sqlite_lib_version()}"),
    )
    return Inspection(str(path), version, known, facts, tuple(problems))


def migration_script(path: Path) -> str:
    """Return the SQL that brings the store in the file ``path`` up to date; all of it if there is none.

    Raises:
        StoreError: it cannot be opened, or belongs to something else.
    """
    version = inspect(path).version if _is_there(path) else 0
    parts = [migration.sql.strip() for migration in MIGRATIONS[version:]]
    return "\n".join([f"{QUERIES['begin']};", *parts, f"{QUERIES['commit']};", ""])


def _is_there(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0 and not is_half_made(path)


__all__ = ["inspect", "migration_script"]
