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


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a look at a database shows, without changing anything.

    Attributes:
        name: what messages call the store.
        version: of its schema; 0 if there is none yet.
        known: the version that this Perdure brings it to.
        facts: what else is worth knowing, each with its name.
        problems: what is not as it should be, each a sentence.
    """

    name: str
    version: int
    known: int
    facts: tuple[tuple[str, str], ...]
    problems: tuple[str, ...] = ()


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


def pending(
    migrations: tuple[Migration, ...], version: int, *, store: str, least: int | None = None
) -> tuple[Migration, ...]:
    """Return what a database at ``version`` (0: empty) still lacks.

    Args:
        migrations: all that this Perdure knows.
        version: what the database is at.
        store: what messages call it.
        least: the version that whoever uses the database must know: an older Perdure goes on while newer ones have only
            added to the schema. By default that is ``version`` itself.

    Raises:
        StoreTooNew: this Perdure does not know enough.
    """
    known = len(migrations)
    if (version if least is None else least) > known:
        raise StoreTooNew(
            f"{store} has schema {version}; this Perdure knows {known}",
            store=store,
            found=version,
            known=known,
            advice="upgrade Perdure; a newer version has opened this store",
        )
    return migrations[version:]
