"""Open a PostgreSQL connection that is as safe as the store promises, or none at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from perdure.errors import StoreError, StoreUnreachable, StoreUnsafe
from perdure.store.postgres.faults import translate, translate_login
from perdure.store.postgres.session import Session
from perdure.store.postgres.sql import queries

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.store.postgres.address import Address
    from perdure.store.protocol import Durability

OLDEST: Final = 140000
"""The oldest server that is supported, as PostgreSQL counts versions."""

_DEFAULTS: Final = {
    "connect_timeout": "5",
    # A server that has vanished without a word is noticed within some ten seconds.
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    # Of several hosts the primary; a standby is never written.
    "target_session_attrs": "read-write",
    "fallback_application_name": "perdure",
}


class Connector:
    """Makes the connections of one store.

    Attributes:
        pooled: whether sessions are not ours to keep; found out by ``open`` where the address does not say.
        database: its name; known once ``open`` has returned.
        era: raised when a server is found to take no writes any more: no session from before is to be used.
    """

    def __init__(self, address: Address, durability: Durability) -> None:
        self.address = address
        self.label = address.label
        self.durability: Durability = durability
        self.pooled = bool(address.pooled)
        self.texts = queries(address.schema)
        self.database = ""
        self.era = 0
        try:
            self._options: dict[str, Any] = {**_DEFAULTS, **conninfo_to_dict(address.conninfo)}
        except psycopg.Error as error:
            raise StoreUnreachable(
                f"{self.label!r} is not the address of a database",
                store=self.label,
                detail=str(error).strip(),
                advice="write postgresql://user@host:port/database",
            ) from None

    def open(self) -> psycopg.Connection:
        """Return the first connection, after a look at what is at the other end.

        Raises:
            StoreUnreachable: there is nothing, or it refuses.
            StoreReadOnly: it takes no writes.
            StoreUnsafe: it cannot keep what the store promises.
        """
        return self._login(self._meet)

    def connect(self) -> psycopg.Connection:
        """Return one more connection.

        Raises:
            StoreError: as for ``open``.
        """
        return self._login(self._prepare)

    def _login(self, begin: Callable[[psycopg.Connection], None]) -> psycopg.Connection:
        try:
            connection = psycopg.connect(**self._options, autocommit=True)
        except (psycopg.Error, OSError) as error:  # the latter from waiting for it, where no descriptor is left
            raise translate_login(error, self.label) from error
        try:
            begin(connection)
        except psycopg.Error as error:
            connection.close()
            raise translate(error, self.label) from error
        except StoreError:
            connection.close()
            raise
        return connection

    def _meet(self, connection: psycopg.Connection) -> None:
        """Look at what is at the other end, then set the session up."""
        facts = Session(connection, self.texts, prepares=False).fetch("server_facts")
        version, encoding, fsync, backend, self.database = facts[0]
        self._check(version, encoding, fsync)
        if self.address.pooled is None:
            # A server tells at login which process of it serves us. Who stands between makes that up.
            self.pooled = backend != connection.info.backend_pid
        self._prepare(connection)

    def _check(self, version: int, encoding: str, fsync: str) -> None:
        if version < OLDEST:
            raise StoreUnsafe(
                f"the server's version is {version // 10000}; the store needs {OLDEST // 10000} or later: {self.label}",
                store=self.label,
                advice="upgrade the server",
            )
        if encoding != "UTF8":
            raise StoreUnsafe(
                f"the database's encoding is {encoding}: {self.label}",
                store=self.label,
                advice="texts would be lost; create a database with encoding UTF8",
            )
        if fsync != "on" and self.durability == "disk":
            raise StoreUnsafe(
                f"the server runs with fsync={fsync}: {self.label}",
                store=self.label,
                advice='commits would not be durable; turn it on, or say durability="process"',
            )

    def _prepare(self, connection: psycopg.Connection) -> None:
        """Set a session up, and read back what matters."""
        if self.pooled:
            return
        session = Session(connection, self.texts, prepares=False)
        session.control("use_session")
        found = session.fetch_value(f"synchronous_{self.durability}")
        if self.durability == "disk" and found not in {"on", "remote_apply"}:
            raise StoreUnsafe(
                f"the server did not accept synchronous_commit=on (found {found}): {self.label}",
                store=self.label,
                advice="commits would not be durable, so the store was not opened",
            )
