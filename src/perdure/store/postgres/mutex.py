"""A lock that is passed on to who waits for it, also by who never does."""

from __future__ import annotations

import threading


class Mutex:
    """Keeps others out while it is held; ``with`` waits for it.

    An event loop that lets go of a lock and takes it again in the same breath would keep every thread from it for as
    long as it has something to do.
    """

    __slots__ = ("_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[None] = []  # changed in one step, whichever thread does it

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for it."""
        return bool(self._waiting)

    def take(self) -> bool:
        """Take it if it is free and wanted by nobody; returns whether that was so."""
        return not self.is_wanted and self._lock.acquire(blocking=False)

    def acquire(self, timeout: float = -1) -> bool:
        """Wait for it, at most so long (s); returns whether it is held now."""
        self._waiting.append(None)
        try:
            return self._lock.acquire(timeout=timeout)
        finally:
            self._waiting.pop()

    def release(self) -> None:
        """Let go of it."""
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_exc: object) -> None:
        self.release()


__all__ = ["Mutex"]
