"""The lock file beside the database: a worker lives as long as its process holds the byte at its key.

The kernel frees a dead process's locks at once, whatever its children still hold open. POSIX locks are treacherous,
though: closing *any* descriptor of the file drops them all, so this module opens each lock file once per process and
never closes it, and asks only with ``F_OFD_GETLK``, which sees the locks of the own process too.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from enum import Enum
from typing import TYPE_CHECKING

from perdure.store.sqlite import guard

if TYPE_CHECKING:
    from pathlib import Path


class Lock(Enum):
    """What a worker's byte says."""

    FREE = "free"
    HELD = "held"
    UNKNOWABLE = "unknowable"


_FLOCK = "hhqqi4x"
"""``struct flock`` of 64-bit Linux: type, whence, start, len, pid."""

_lock = threading.Lock()
_descriptors: dict[tuple[int, int], int] = {}
"""Every lock file this process has opened, by (device, inode): never closed, never forgotten."""
_held: set[tuple[tuple[int, int], int]] = set()
"""What this process itself has locked: (file, worker key)."""


class Sidecar:
    """The lock file of one database."""

    def __init__(self, database: Path) -> None:
        self.path = f"{database}-lock"

    def mark(self) -> str:
        """Return what tells this lock file from one that was there before it, for a worker's row.

        Raises:
            OSError: it cannot be opened.
        """
        file, _ = self._open()
        return f"{file[0]}:{file[1]}"

    def hold(self, worker_key: int) -> str:
        """Lock a worker's byte, or lock it again, and return the file's mark.

        Raises:
            OSError: it cannot be opened or locked.
        """
        file, descriptor = self._open()
        _lock_byte(descriptor, worker_key)
        with _lock:
            _held.add((file, worker_key))
        return f"{file[0]}:{file[1]}"

    def let_go(self, worker_key: int) -> None:
        """Unlock a worker's byte, in every lock file that this process held it in."""
        with _lock:
            files = [held for held in _held if held[1] == worker_key]
            _held.difference_update(files)
            for file, key in files:
                _unlock_byte(_descriptors[file], key)

    def probe(self, worker_key: int, mark: str, pid: int, pid_started: int) -> Lock:
        """Say whether a worker's byte is held; ``mark`` is the lock file its row names."""
        try:
            file, descriptor = self._open()
        except OSError:
            return Lock.UNKNOWABLE
        if mark != f"{file[0]}:{file[1]}":
            return Lock.UNKNOWABLE
        if sys.platform == "linux":
            return _ask_kernel(descriptor, worker_key)
        # Elsewhere the question does not see the own process's locks, so they are known from here.
        if (file, worker_key) in _held:
            return Lock.HELD
        return _try_lock(descriptor, worker_key, pid, pid_started)

    def _open(self) -> tuple[tuple[int, int], int]:
        # Looked at by name each time: the file may have been replaced. Opened only if it is a new one.
        file = guard.identity(self.path)
        if file is not None and file in _descriptors:
            return file, _descriptors[file]
        with _lock:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            found = os.fstat(descriptor)
            # Another thread may have been quicker: then this one stays open unused, since closing it is what hurts.
            return (found.st_dev, found.st_ino), _descriptors.setdefault((found.st_dev, found.st_ino), descriptor)


def _lock_byte(descriptor: int, worker_key: int) -> None:
    if sys.platform != "win32":
        import fcntl

        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, worker_key)


def _unlock_byte(descriptor: int, worker_key: int) -> None:
    if sys.platform != "win32":
        import fcntl

        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, worker_key)


def _ask_kernel(descriptor: int, worker_key: int) -> Lock:
    """Linux: asking changes nothing, and sees the locks of the own process too."""
    if sys.platform != "linux":
        return Lock.UNKNOWABLE
    import fcntl

    question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, worker_key, 1, 0)
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, question)
    except OSError:
        return Lock.UNKNOWABLE
    return Lock.FREE if struct.unpack(_FLOCK, answer)[0] == fcntl.F_UNLCK else Lock.HELD


def _try_lock(descriptor: int, worker_key: int, pid: int, pid_started: int) -> Lock:
    """macOS: a lock that can be taken counts only if the process is gone too. Windows: only leases count."""
    if sys.platform == "win32":
        return Lock.UNKNOWABLE
    try:
        _lock_byte(descriptor, worker_key)
    except OSError:
        return Lock.HELD
    _unlock_byte(descriptor, worker_key)
    return Lock.UNKNOWABLE if process_started(pid) == pid_started else Lock.FREE


def process_started(pid: int) -> int:
    """Return when a process started, in the unit of its platform (0: there is none, or it is not known)."""
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123
                return int(stat.read().rpartition(b")")[2].split()[19])
        except (OSError, ValueError, IndexError):
            return 0
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return 0
    except OSError:
        pass
    return 1


def _in_child() -> None:
    # Locks are not inherited; the descriptors are, and stay good for asking and for locks of the child's own.
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it
    _lock = threading.Lock()
    _held.clear()


guard.call_after_fork(_in_child)
