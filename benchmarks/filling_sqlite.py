"""How a SQLite store is filled: see filling.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw

from benchmarks.filling import Model, Row
from perdure.model.records import Event


class Sqlite:
    """The tables of a store in a file."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        self._connection.execute("PRAGMA synchronous = off; PRAGMA cache_size = -200000").fetchall()

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()

    def model(self, run_id: str) -> Model:
        """A run that is there."""
        found = self._connection.execute("SELECT * FROM runs WHERE run_id = ?", (run_id,))
        columns = [column[0] for column in found.description]
        row = dict(zip(columns, found.fetchall()[0], strict=True))
        del row["error"]  # made of others
        log = self._connection.execute("SELECT * FROM events WHERE run_key = ? ORDER BY seq", (row["run_key"],))
        return Model(row, [Event(*event) for event in log])

    def last_key(self) -> int:
        """The highest key of a run."""
        found: int = self._connection.execute("SELECT max(run_key) FROM runs").get
        return found

    def insert(self, columns: Sequence[str], rows: Sequence[Row], events: Sequence[Event]) -> None:
        """Add runs with their events."""
        with self._connection:
            marks = ", ".join("?" * len(columns))
            self._connection.executemany(f"INSERT INTO runs ({', '.join(columns)}) VALUES ({marks})", rows)  # noqa: S608
            self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", events)
        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def settle(self) -> None:
        """Nothing is left to do: the store never analyses, and its plans are the same in any file."""
