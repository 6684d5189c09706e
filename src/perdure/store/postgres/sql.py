"""The named queries of this store, with the schema's name put into them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from psycopg.sql import SQL, Identifier

from perdure.store.queries import load_queries

QUERIES = load_queries(Path(__file__).parent / "queries")


def in_schema(text: str, schema: str) -> bytes:
    """Return a text of SQL with ``{schema}`` replaced by the quoted name."""
    # A text from a file of ours: psycopg's type for it wants to be sure that it is no user's.
    return SQL(text).format(schema=Identifier(schema)).as_bytes(None)  # pyright: ignore[reportArgumentType]


@cache
def queries(schema: str) -> dict[str, bytes]:
    """Return every query, by name, for one schema."""
    return {name: in_schema(text, schema) for name, text in QUERIES.items()}
