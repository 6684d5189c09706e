"""Stores on the shared server that are there already: copied by the dozen, which costs a tenth of making each.

A database with some empty stores in it is made once in a session. Each process of the session copies it whole, gives
its stores to tests, and drops the copy when all of them were given and the test that had the last one has ended.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from perdure.store.open import open_store
from tests.servers.reaper import eventually
from tests.servers.server import ROLE, address

if TYPE_CHECKING:
    from tests.servers.ground import Ground

DOZEN = 12
TEMPLATE = "made"
IDLE = "SELECT count(*) FROM pg_stat_activity WHERE datname = ANY(%s) AND xact_start IS NOT NULL"


class Made:
    """The stores of one process."""

    def __init__(self, ground: Ground, port: int | None = None) -> None:
        """Make what is copied, unless another process of the session has.

        Args:
            ground: whose shared server has them.
            port: where tests are to look for that server: at a pooler's; at its own by default.
        """
        server = ground.shared()
        self._port = port or server.port
        self._admin = server.connect()
        with ground.alone():
            self._make_template(server.port)
        self._left: list[str] = []
        self._copies: list[str] = []

    def take(self) -> str:
        """The address of an empty store that nobody else is given."""
        if not self._left:
            name = f"{TEMPLATE}_{os.urandom(4).hex()}"
            # Its files are copied, not its pages through the log. Before version 15 there was no choice.
            how = "STRATEGY file_copy" if self._admin.info.server_version >= 150_000 else ""
            self._admin.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} OWNER {ROLE} {how}")
            self._copies.append(name)
            self._left = _stores(self._port, name)
        return self._left.pop()

    def end_of_test(self) -> None:
        """Drop what was used up.

        Raises:
            AssertionError: the test has left a transaction open.
        """
        assert eventually(lambda: self._execute(IDLE, [self._copies]) == (0,), 10), "a transaction outlives its test"
        used_up = self._copies if not self._left else self._copies[:-1]
        for name in used_up:
            self._admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        self._copies = self._copies[len(used_up) :]

    def close(self) -> None:
        """Give no more."""
        self._admin.close()

    def _make_template(self, port: int) -> None:
        if self._execute("SELECT count(*) FROM pg_database WHERE datname = %s", [TEMPLATE]) == (0,):
            self._admin.execute(f"CREATE DATABASE {TEMPLATE} OWNER {ROLE}")
            for store in _stores(port, TEMPLATE):
                open_store(store).close()

    def _execute(self, sql: str, values: list[Any]) -> Any:
        return self._admin.execute(sql, values).fetchone()


def _stores(port: int, database: str) -> list[str]:
    return [address([port], database=database, schema=f"store_{n}") for n in range(DOZEN)]
