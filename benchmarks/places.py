"""Where stores are made to be measured: in files of a folder, or on a PostgreSQL server of our own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

NewStore = Callable[[], str]
"""Gives the address of a store that is not there yet."""
DATABASES = ("sqlite", "postgres")


@contextmanager
def place(database: str, folder: str | None = None) -> Iterator[NewStore]:
    """Room for stores on one database; at the end they are gone.

    Args:
        database: which.
        folder: whose disk every commit is synced to; by default this folder for files, the temporary one for servers,
            which run as another user if we are root.
    """
    numbers = count(1)
    if database == "sqlite":
        with tempfile.TemporaryDirectory(dir=folder or Path.cwd(), prefix=".bench-") as name:
            yield lambda: f"{name}/store-{next(numbers)}.db"
        return
    from tests.servers.ground import Ground

    with tempfile.TemporaryDirectory() as meeting:
        ground = Ground(Path(meeting), within=folder or tempfile.gettempdir())
        try:
            with ground.own() as own:
                server = own.server(shared_buffers="256MB")
                with server.connect() as connection:
                    shown = [connection.execute(f"SHOW {name}").fetchone() for name in ("fsync", "synchronous_commit")]
                assert shown == [("on",), ("on",)]
                yield lambda: f"{server.admin_url()}?schema=store_{next(numbers)}"
        finally:
            ground.leave()
