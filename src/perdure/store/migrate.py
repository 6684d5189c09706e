"""Numbered, forward-only migrations: ``0001_initial.sql``, ``0002_….sql``. How they are applied is each store's own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.errors import StoreTooNew

if TYPE_CHECKING:
    from pathlib import Path

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: afterwards its version is ``number``."""

    number: int
    name: str
    sql: str


def load_migrations(folder: Path) -> tuple[Migration, ...]:
    """Read a folder's migrations in their order.

    Raises:
        ValueError: a file is named otherwise, or a number is missing.
    """
    found: list[Migration] = []
    for file in sorted(folder.glob("*.sql")):
        match = _FILE.fullmatch(file.name)
        if match is None:
            raise ValueError(f"{file.name} is not named like 0001_initial.sql")
        if int(match[1]) != len(found) + 1:
            raise ValueError(f"migration {len(found) + 1:04} is missing before {file.name}")
        found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    return tuple(found)


def pending(migrations: tuple[Migration, ...], version: int, *, store: str) -> tuple[Migration, ...]:
    """Return what a database at ``version`` (0: empty) still lacks.

    Raises:
        StoreTooNew: the database is ahead of this Perdure.
    """
    if version > len(migrations):
        raise StoreTooNew(
            f"{store} has schema {version}; this Perdure knows {len(migrations)}",
            store=store,
            found=version,
            known=len(migrations),
            advice="upgrade Perdure; a newer version has opened this store",
        )
    return migrations[version:]
