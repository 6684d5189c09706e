"""Checks of a SQLite file: each a function of what an examination shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.diagnosis.findings import Severity, finding
from perdure.model.condition import SqliteFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.diagnosis.findings import Finding
    from perdure.model.condition import Condition

_FULL: Final = 2
LOG_PAGES: Final = 10_000
"""Pages of the log that are not in the database, from which it grows: ten times what a checkpoint is due at."""
FREE_BYTES: Final = 64 << 20
"""Empty bytes from which they are worth a word, if they are half of the file."""
DISK: Final = ((100 << 20, Severity.BAD), (1 << 30, Severity.WARN))
"""Bytes left on the disk, and how bad that is."""


def library(of: Condition, facts: SqliteFacts) -> Iterator[Finding]:
    """Which SQLite."""
    del of
    if facts.library < facts.least_library:
        yield finding("library-old", f"apsw is linked to SQLite {_dotted(facts.library)}")
    if facts.second_library:
        yield finding("second-library", f"the module sqlite3, SQLite {facts.second_library}, is loaded here too")


def durability(of: Condition, facts: SqliteFacts) -> Iterator[Finding]:
    """Whether commits are on disk."""
    del of
    if facts.journal not in {"wal", "unknown"}:
        yield finding("journal-mode", f"the journal mode is {facts.journal}")
    if facts.synchronous < _FULL:
        yield finding("not-synced", f"SQLite did not accept synchronous={_FULL} (found {facts.synchronous})")


def log(of: Condition, facts: SqliteFacts) -> Iterator[Finding]:
    """How long the write-ahead log is."""
    del of
    behind = facts.log_pages - max(facts.copied_pages, 0)
    if behind >= LOG_PAGES:
        size = behind * facts.page_size >> 20
        yield finding("log-grows", f"{behind:,} pages ({size:,} MiB) of the write-ahead log are not in the database")


def space(of: Condition, facts: SqliteFacts) -> Iterator[Finding]:
    """How much of the file is empty, and how much of the disk is left."""
    del of
    free = facts.free_pages * facts.page_size
    if free >= FREE_BYTES and facts.free_pages * 2 >= facts.pages:
        yield finding("free-space", f"{free >> 20:,} MiB of {facts.pages * facts.page_size >> 20:,} MiB are empty")
    for least, severity in DISK:
        if facts.disk_free < least:
            yield finding("disk-low", f"{facts.disk_free >> 20:,} MiB are left on the disk", severity=severity)
            break


def place(of: Condition, facts: SqliteFacts) -> Iterator[Finding]:
    """Where the file lies and who can read it."""
    path = of.store
    if facts.filesystem:
        yield finding("network-disk", f"the file is on {facts.filesystem}")
    if facts.mode & 0o077:
        yield finding("file-mode", f"the mode of the file is {facts.mode:o}", names={"path": path})
    if facts.directory_mode & 0o022:
        directory = path.rpartition("/")[0]
        found = f"others may write to its directory, whose mode is {facts.directory_mode:o}"
        yield finding("directory-mode", found, names={"path": directory})


def lock(of: Condition, facts: SqliteFacts) -> Iterator[Finding]:
    """Who has locked what."""
    if facts.locked:
        yield finding("store-busy", "another process keeps the write lock")
    workers = () if of.contents is None else of.contents.workers
    lost = [
        one
        for one in workers
        if one.row.sidecar
        and one.row.sidecar != facts.lock_file
        and (one.sign.leased_until or 0) > of.now
        and not one.row.stopped
    ]
    if lost:
        what = "replaced" if facts.lock_file else "deleted"
        yield finding("lock-file", f"the lock file of {len(lost)} running worker(s) was {what}")


def damage(of: Condition, facts: SqliteFacts) -> Iterator[Finding]:
    """What reading all of it has shown."""
    del of
    for line in facts.damage or ():
        yield finding("store-damaged", f"the file is damaged: {line}")


CHECKS = (library, durability, log, space, place, lock, damage)


def check(of: Condition) -> Iterator[Finding]:
    """Everything that is wrong with a file."""
    if isinstance(of.database, SqliteFacts):
        for one in CHECKS:
            yield from one(of, of.database)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


__all__ = ["CHECKS", "check"]
