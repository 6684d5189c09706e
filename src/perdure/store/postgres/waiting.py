"""Waiting for a connection to say something unasked, until time is up or somebody calls."""

from __future__ import annotations

import selectors
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg.pq import ConnStatus

if TYPE_CHECKING:
    from perdure.store.postgres.session import Session

PATIENCE: Final = 6.0
"""Seconds for which whoever closes a store waits for its threads: they may be about to connect."""


_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""One that needs no descriptor of its own: this goes on where the process has none left."""


class Bell:
    """What wakes a thread that waits for its connection."""

    def __init__(self) -> None:
        self._rings, self._hears = socket.socketpair()
        for end in (self._rings, self._hears):
            end.setblocking(False)

    def ring(self) -> None:
        """Wake the thread, now or when it next waits."""
        # A full buffer has rung it many times already; a closed one has nobody left to wake.
        with suppress(OSError):
            self._rings.send(b"!")

    def wait(self, session: Session | None, seconds: float) -> None:
        """Wait until there is something to read on the session's connection, the bell is rung, or time is up."""
        with _Selector() as selector:
            selector.register(self._hears, selectors.EVENT_READ)
            if session is not None:
                with suppress(ValueError, KeyError, OSError, psycopg.Error):
                    selector.register(session.connection.fileno(), selectors.EVENT_READ)
            selector.select(seconds)
        with suppress(BlockingIOError):
            self._hears.recv(4096)

    def close(self) -> None:
        """Let go of it; to be called once nobody waits any more."""
        self._rings.close()
        self._hears.close()


def take_in(connection: psycopg.Connection) -> bool:
    """Take in what the server has sent unasked, and say whether the connection still stands."""
    pgconn = connection.pgconn
    try:
        pgconn.consume_input()
    except psycopg.Error:
        return False
    return pgconn.status == ConnStatus.OK
