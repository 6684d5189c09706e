"""Databases of a user's as anybody sees them, beside whatever is tested."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import psycopg

TABLES = (
    "CREATE TABLE accounts (name text PRIMARY KEY, balance integer NOT NULL CHECK (balance >= 0))",
    "CREATE TABLE ledger (entry text NOT NULL, amount integer NOT NULL)",
    "INSERT INTO accounts VALUES ('here', 1000), ('there', 0)",
)


def open_database(address: str) -> Any:
    """Connect, beside whatever is tested."""
    if address.startswith("postgresql:"):
        return psycopg.connect(address, autocommit=True)
    return sqlite3.connect(address, isolation_level=None)


def furnish(address: str) -> None:
    """Make the user's own tables."""
    with closing(open_database(address)) as connection:
        for statement in TABLES:
            connection.execute(statement)


def look(address: str, query: str) -> list[tuple[Any, ...]]:
    """Read something, beside whatever is tested."""
    with closing(open_database(address)) as connection:
        return [tuple(row) for row in connection.execute(query).fetchall()]
