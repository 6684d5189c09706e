"""Who changes what by hand: kept in the log of a run, and of queues and schedules, which have no log, as deeds."""

from __future__ import annotations

from typing import Final, NamedTuple

KEPT: Final = 100
"""Deeds that are kept of a queue or schedule, the latest."""
QUEUE: Final = "queue"
SCHEDULE: Final = "schedule"
_PLACES: Final = {"dashboard": "the dashboard", "cli": "the command line"}
_LONGEST: Final = 200
"""Characters of a name that are kept."""


class Author(NamedTuple):
    """Who does something by hand.

    Attributes:
        via: by what: "dashboard" or "cli".
        name: who: of the dashboard's visitors, or user and host of the command line.
    """

    via: str
    name: str

    @property
    def text(self) -> str:
        """As it is stored: ``dashboard ada``."""
        return f"{self.via} {self.name[:_LONGEST]}"

    @property
    def words(self) -> str:
        """For people: ``from the dashboard by ada``."""
        return f"from {_PLACES.get(self.via, self.via)} by {self.name[:_LONGEST]}"

    def reason(self, done: str, said: str = "") -> str:
        """Return the reason that is kept of what was done: who has, and what they say of it."""
        return f"{done} {self.words}" + (f": {said}" if said else "")


def author_of(text: str) -> Author:
    """Return who is meant by what is stored."""
    via, _, name = text.partition(" ")
    return Author(via, name)


class Deed(NamedTuple):
    """What was done to a queue or schedule by hand.

    Attributes:
        at: when (µs).
        what: "paused", "resumed", "triggered" or "removed".
        author: who has done it, as it is stored.
        detail: what came of it, such as the id of a run; empty if nothing is to be said.
        name: of the queue, or key of the schedule; the store fills it in.
    """

    at: int
    what: str
    author: str
    detail: str = ""
    name: str = ""


def pausing(at: int, author: str | None, *, paused: bool) -> Deed | None:
    """Return the deed of pausing a queue, or of letting it go on; None if a program does it."""
    return None if author is None else Deed(at, "paused" if paused else "resumed", author)


__all__ = ["KEPT", "QUEUE", "SCHEDULE", "Author", "Deed", "author_of", "pausing"]
