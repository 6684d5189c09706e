"""Routes as numbers: a worker's can-do list becomes integers once, and claims compare integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.store.sqlite.rows import fetch_value
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.store.sqlite.connection import Writer

Names = tuple[str, str, str, str]
"""Namespace, queue, workflow, version."""


class Routes:
    """The store's routes as far as this process has met them; a number once given stays."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._numbers: dict[Names, int] = {}

    def numbers(self, routes: Iterable[Names]) -> list[int]:
        """Return the numbers of routes, each once, and give numbers to the new ones."""
        known = self._numbers
        wanted = dict.fromkeys(routes)
        if any(names not in known for names in wanted):
            self._intern([names for names in wanted if names not in known])
        return [known[names] for names in wanted]

    def number(self, names: Names) -> int:
        """The same for one."""
        found = self._numbers.get(names)
        return self.numbers([names])[0] if found is None else found

    def know(self, routes: Iterable[Names]) -> bool:
        """Whether all of these have been met."""
        return all(names in self._numbers for names in routes)

    def _intern(self, missing: list[Names]) -> None:
        # A transaction of its own, so that a number is known here only once it is on disk.
        with self._writer as cursor:
            cursor.executemany(QUERIES["intern_route"], missing)
            found = {names: fetch_value(cursor, QUERIES["find_route"], names) for names in missing}
        self._numbers.update(found)
