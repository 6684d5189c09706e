"""SQLite's errors as Perdure's: the one place that knows which is which, and what to advise."""

from __future__ import annotations

import apsw

from perdure.errors import (
    NotAStore,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)


class OutcomeUnknown(StoreError):
    """An I/O error at COMMIT: the transaction may or may not be on disk; only reading tells."""


REFUSED = (
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.RangeError,
    TypeError,
    ValueError,
    OverflowError,
    AttributeError,
)
"""What says that the values are at fault and not the store."""

_KINDS: tuple[tuple[type[apsw.Error], type[StoreError], str, str], ...] = (
    (
        apsw.BusyError,
        StoreBusy,
        "the store is locked by another process",
        "try again; a process that holds the lock for long is a backup, a shell with an open transaction, or stopped",
    ),
    (
        apsw.LockedError,
        StoreBusy,
        "the store is locked by another connection of this process",
        "try again",
    ),
    (
        apsw.FullError,
        StoreFull,
        "the disk under the store is full",
        "free some space (or raise the quota) and go on; nothing that was committed is lost",
    ),
    (
        apsw.ReadOnlyError,
        StoreReadOnly,
        "the store cannot be written",
        "make the file and its directory writable: SQLite keeps -wal and -shm files beside the database",
    ),
    (
        apsw.PermissionsError,
        StoreReadOnly,
        "the store cannot be written",
        "make the file and its directory writable: SQLite keeps -wal and -shm files beside the database",
    ),
    (
        apsw.CantOpenError,
        StoreUnreachable,
        "the store cannot be opened",
        "check that the path names a file this user may read and write, in a directory where files can be made",
    ),
    (
        apsw.NotADBError,
        NotAStore,
        "the file is not a database",
        "give the path of a Perdure store, or of a file that does not exist yet",
    ),
    (
        apsw.CorruptError,
        StoreCorrupt,
        "the database file is damaged",
        "stop every process that uses it, keep a copy with its -wal file, and restore a backup",
    ),
    (
        apsw.IOError,
        StoreError,
        "the store's disk failed",
        "look into the system's log; what was committed before is safe if the disk is",
    ),
)


def translate(error: apsw.Error, store: str) -> StoreError:
    """Return the Perdure error that says what ``error`` means; the caller raises it from ``error``."""
    for kind, perdure_kind, message, advice in _KINDS:
        if isinstance(error, kind):
            return perdure_kind(f"{message}: {store}", advice=advice, store=store, detail=str(error))
    return StoreError(f"SQLite refused: {error} ({store})", store=store, detail=str(error))


def translate_os(error: OSError, store: str) -> StoreError:
    """The same for what the operating system refused before SQLite was asked."""
    if isinstance(error, PermissionError) or error.errno == 30:  # noqa: PLR2004 - EROFS
        return StoreReadOnly(
            f"the store cannot be written: {store}",
            store=store,
            detail=str(error),
            advice="make the file and its directory writable",
        )
    if error.errno in {28, 122}:  # ENOSPC, EDQUOT
        return StoreFull(
            f"the disk under the store is full: {store}",
            store=store,
            detail=str(error),
            advice="free some space",
        )
    return StoreUnreachable(
        f"the store cannot be opened: {store}",
        store=store,
        detail=str(error),
        advice="check the path",
    )
