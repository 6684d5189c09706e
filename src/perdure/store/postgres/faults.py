"""PostgreSQL's errors as Perdure's: the one place that knows which is which, and what to advise."""

from __future__ import annotations

import struct
from typing import Final

import psycopg

from perdure.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreGone,
    StoreReadOnly,
    StoreUnreachable,
)


class Refused(StoreError):
    """The database refused a value; nothing was written."""


REFUSED = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.ProgrammingError,
    TypeError,
    ValueError,
    OverflowError,
    AttributeError,
    struct.error,
)
"""What says that the values are at fault and not the store."""

AGAIN: Final = frozenset({"40001", "40P01"})
"""Serialization failure and deadlock: the transaction was undone, and is to be tried again as a whole."""

READ_ONLY: Final = "25006"
"""The server takes no writes, or no more: it has become a standby."""

_LOST: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04", READ_ONLY, "0A000", "26000"})
"""The session is ended, or useless: its server shuts down, starts up, or has become a standby; or what was prepared in
it does not fit a schema that has been changed meanwhile, or is not there any more."""

_Kind = tuple[type[StoreError], str, str]

_READ_ONLY: _Kind = (
    StoreReadOnly,
    "the database takes no writes",
    "it is a standby, or set to read-only: name the primary, or all hosts, in the URL",
)
_PERMISSIONS: _Kind = (
    StoreReadOnly,
    "this role may not use the store",
    "grant it the schema and its tables, or have its owner apply `perdure db sql`",
)
_LOGIN: _Kind = (StoreUnreachable, "the server refuses the login", "check user, password and database of the URL")
_SHORT: _Kind = (StoreUnreachable, "the server takes no more connections", "raise max_connections, or use a pooler")
_HUNGRY: _Kind = (
    StoreUnreachable,
    "this process has too many files open to connect",
    "raise the limit (ulimit -n), or close what the process does not need",
)
_UNREACHABLE: _Kind = (
    StoreUnreachable,
    "the database cannot be reached",
    "check that the server runs and the URL is right; what was committed is safe",
)
_SLOW: _Kind = (StoreBusy, "the database took too long", "try again; look for locks and long transactions in it")
_FULL: _Kind = (
    StoreFull,
    "the disk under the database is full",
    "free some space and go on; nothing that was committed is lost",
)
_GONE: _Kind = (
    StoreGone,
    "the store was removed while it was open",
    "its schema or tables are not there any more; restore them and start again",
)
_DAMAGED: _Kind = (StoreCorrupt, "the database is damaged", "stop the server, and restore a backup")

_KINDS: Final[dict[str, _Kind]] = {
    "25006": _READ_ONLY,
    "42501": _PERMISSIONS,
    "28000": _LOGIN,
    "28P01": _LOGIN,
    "3D000": _LOGIN,
    "53100": _FULL,
    "53300": _SHORT,
    "55P03": (StoreBusy, "the store is locked by another session", "try again; look for long transactions in it"),
    "57014": _SLOW,
    "25P03": _SLOW,
    "40001": _SLOW,
    "40P01": _SLOW,
    "42P01": _GONE,
    "3F000": _GONE,
    "XX001": _DAMAGED,
    "XX002": _DAMAGED,
}


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection it came over is not to be used again."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return state in _LOST or state.startswith("08")


def translate(error: psycopg.Error, store: str) -> StoreError:
    """Return the Perdure error that says what ``error`` means; the caller raises it from ``error``."""
    state = error.sqlstate or ""
    # Without a code of the server's: it was never sent, since there is no way to write it down.
    unwritten = isinstance(error, psycopg.ProgrammingError) and not state
    if unwritten or isinstance(error, psycopg.DataError | psycopg.IntegrityError):
        return Refused(f"PostgreSQL refused a value: {error} ({store})", store=store, detail=str(error))
    found = _KINDS.get(state)
    if found is None and is_lost(error):
        found = _UNREACHABLE
    detail = str(error).strip()
    if found is None:
        return StoreError(f"PostgreSQL refused: {detail} ({store})", store=store, detail=detail)
    kind, message, advice = found
    return kind(f"{message}: {store} ({detail})", store=store, detail=detail, advice=advice)


def translate_login(error: Exception, store: str) -> StoreError:
    """The same for what went wrong while connecting, where the server's code does not reach us."""
    detail = str(error).strip()
    kind, message, advice = _UNREACHABLE
    for sign, other in _SIGNS:
        if sign in detail:
            kind, message, advice = other
            break
    return kind(f"{message}: {store} ({detail})", store=store, detail=detail, advice=advice)


_SIGNS: Final[tuple[tuple[str, _Kind], ...]] = (
    ("session is read-only", _READ_ONLY),
    ("authentication failed", _LOGIN),
    ("does not exist", _LOGIN),
    ("no password supplied", _LOGIN),
    ("Too many open files", _HUNGRY),
    ("too many", _SHORT),
    ("remaining connection slots", _SHORT),
)
"""libpq gives only text for failed logins; where it is in another language the kind is told less exactly."""
