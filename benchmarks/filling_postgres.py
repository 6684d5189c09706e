"""How a PostgreSQL store is filled: see filling.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg

from benchmarks.filling import Model, Row
from perdure.model.records import Event
from perdure.store.postgres.address import parse_address


class Postgres:
    """The tables of a store in a schema, which the role owns."""

    def __init__(self, target: str) -> None:
        address = parse_address(target)
        self._connection: psycopg.Connection[Any] = psycopg.connect(address.conninfo, autocommit=True)
        self._connection.execute("SELECT set_config('search_path', %s, false)", [address.schema])
        self._connection.execute("SET synchronous_commit = off")

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()

    def model(self, run_id: str) -> Model:
        """A run that is there."""
        found = self._connection.execute("SELECT * FROM runs WHERE run_id = %s", [run_id])
        assert found.description is not None
        columns = [column.name for column in found.description]
        row = dict(zip(columns, found.fetchall()[0], strict=True))
        del row["error"]  # made of others
        log = self._connection.execute("SELECT * FROM events WHERE run_key = %s ORDER BY seq", [row["run_key"]])
        return Model(row, [Event(*event) for event in log])

    def last_key(self) -> int:
        """The highest key of a run."""
        found = self._connection.execute("SELECT max(run_key) FROM runs").fetchone()
        assert found is not None
        key: int = found[0]
        return key

    def insert(self, columns: Sequence[str], rows: Sequence[Row], events: Sequence[Event]) -> None:
        """Add runs with their events; the sequence goes on after their keys."""
        with self._connection.transaction():
            self._copy("runs", columns, rows)
            self._copy("events", Event._fields, events)
            self._connection.execute("SELECT setval(pg_get_serial_sequence('runs', 'run_key'), max(run_key)) FROM runs")

    def _copy(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        with self._connection.cursor() as cursor:
            described = cursor.execute(f"SELECT {', '.join(columns)} FROM {table} LIMIT 0").description  # noqa: S608
            assert described is not None
            with cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types([column.type_code for column in described])
                for row in rows:
                    copy.write_row(row)

    def settle(self) -> None:
        """Do what autovacuum and the checkpointer do before long; the latter takes an administrator."""
        self._connection.execute("VACUUM (ANALYZE) runs, events")
        self._connection.execute("CHECKPOINT")
