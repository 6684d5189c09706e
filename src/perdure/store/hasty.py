"""Threads whose verbs wait for nothing."""

from __future__ import annotations

from threading import get_ident


class Hasty:
    """What a store's ``hasty`` is about: which threads are turned away rather than made to wait."""

    def __init__(self) -> None:
        self._hasty: set[int] = set()

    @property
    def hasty(self) -> bool:
        """Whether the calling thread waits for nothing."""
        return get_ident() in self._hasty

    @hasty.setter
    def hasty(self, hasty: bool) -> None:
        if hasty:
            self._hasty.add(get_ident())
        else:
            self._hasty.discard(get_ident())


__all__ = ["Hasty"]
