"""Where a store's file lies, and whether its name still leads to the file that was opened.

What is written to a file that was removed or replaced is lost, and a connection opened by the name would meet another
file, or none. So the name is asked before every look, before and after a connection is opened, and after every fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import StoreError, StoreGone
from perdure.store.sqlite import guard
from perdure.store.sqlite.faults import translate

if TYPE_CHECKING:
    from pathlib import Path

    import apsw


class Place:
    """The file that is at ``path`` now.

    Attributes:
        path: its name, absolute.
        file: what tells it from every other file; None if a VFS keeps it somewhere that cannot be looked at.
    """

    __slots__ = ("file", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = guard.identity(path)

    def require(self) -> None:
        """Do nothing, if the file is where it was.

        Raises:
            StoreGone: the file of this name is not the one that was opened.
        """
        if self.file is not None and guard.identity(self.path) != self.file:
            raise StoreGone(
                f"the store was removed or replaced while it was open: {self.path}",
                store=str(self.path),
                advice="what is written now would be lost; put the file back and start again",
            )

    def explain(self, error: apsw.Error) -> StoreError:
        """Return what an error of SQLite means here; the caller raises it from ``error``."""
        try:
            self.require()
        except StoreGone as gone:
            return gone
        return translate(error, str(self.path))


__all__ = ["Place"]
