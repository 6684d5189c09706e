"""The statements about ``perdure_steps`` and ``perdure_outbox``, by dialect and name, and their migrations."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from perdure.store.migrate import Migration, load_migrations
from perdure.store.queries import load_queries

TABLE = "perdure_steps"
OUTBOX = "perdure_outbox"
SCHEMA_TABLE = "perdure_steps_schema"
_HERE = Path(__file__).parent
_OURS = re.compile(r"(?<!')\bperdure_(steps_schema|steps|outbox)\b")


@lru_cache
def statements(dialect: str, schema: str | None) -> dict[str, str]:
    """Return the statements by name, for tables in a schema; None: where the database looks for them."""
    return {name: qualified(sql, schema) for name, sql in load_queries(_HERE / dialect).items()}


@lru_cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Return what makes and changes the tables, in its order."""
    return load_migrations(_HERE / dialect / "migrations")


def qualified(sql: str, schema: str | None) -> str:
    """Return a statement with its tables in a schema."""
    return sql if schema is None else _OURS.sub(lambda found: f"{quoted(schema)}.{found[0]}", sql)


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def split(sql: str) -> list[str]:
    """Return the statements of a migration."""
    return [one.strip() for one in sql.split(";\n") if one.strip()]


__all__ = ["OUTBOX", "SCHEMA_TABLE", "TABLE", "migrations", "qualified", "quoted", "split", "statements"]
