"""Behind a store's back: change rows and read everything, on either database."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from perdure.store.open import is_postgres

VANDAL = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2], sys.argv[3:]); db.commit()"


def vandalise(store: str | Path, sql: str, *values: object) -> None:
    """Change a store with a statement that SQLite understands."""
    if is_postgres(store):
        with _session(store) as connection:
            connection.execute(translated(sql), values or None)  # type: ignore[arg-type]
        return
    # From another process: a second SQLite library in this one would corrupt the file.
    subprocess.run([sys.executable, "-c", VANDAL, store, sql, *map(str, values)], check=True, timeout=20)


def rows_of(store: str | Path, sql: str) -> list[tuple[Any, ...]]:
    """What a query that both databases understand finds."""
    if is_postgres(store):
        with _session(store) as connection:
            return connection.execute(sql).fetchall()
    import apsw  # the library that Perdure itself uses, so it may be in this process

    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return list(connection.execute(sql))
    finally:
        connection.close()


def translated(sql: str) -> str:
    """A statement for SQLite as PostgreSQL understands it."""
    sql = re.sub(r"x'([0-9a-f]*)'", r"'\\x\1'::bytea", sql)
    sql = re.sub(r"zeroblob\((\w+)\)", r"decode(repeat('00', \1::int), 'hex')", sql)
    return sql.replace("?", "%s")


def contents(store: str | Path) -> bytes:
    """All bytes that a store keeps."""
    if not is_postgres(store):
        file = Path(store)
        return b"".join(one.read_bytes() for one in sorted(file.parent.glob(f"{file.name}*")))
    found = []
    with _session(store) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        for (table,) in tables:
            with connection.cursor().copy(f"COPY {table} TO STDOUT (FORMAT binary)") as rows:
                found += [bytes(row) for row in rows]
    return b"".join(found)


def _session(url: str | Path):
    import psycopg

    from perdure.store.postgres.address import parse_address

    address = parse_address(str(url))
    return psycopg.connect(address.conninfo, options=f"-c search_path={address.schema}")
