"""Routes as numbers: a worker's can-do list becomes integers once, and claims compare integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.store.postgres.arrays import texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.store.postgres.connection import Writer
    from perdure.store.postgres.session import Session

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
            self._intern(sorted(names for names in wanted if names not in known))
        return [known[names] for names in wanted]

    def known(self, routes: Iterable[Names]) -> list[int] | None:
        """The same without asking anybody; None if one is new here."""
        known = self._numbers
        wanted = dict.fromkeys(routes)
        return [known[names] for names in wanted] if all(names in known for names in wanted) else None

    def get(self, names: Names) -> int | None:
        """The number of one that has been met."""
        return self._numbers.get(names)

    def number(self, names: Names) -> int:
        """The same for one."""
        found = self._numbers.get(names)
        return self.numbers([names])[0] if found is None else found

    def _intern(self, missing: list[Names]) -> None:
        def find(session: Session) -> dict[Names, int]:
            found = {names: session.fetch("find_route", *names) for names in missing}
            return {names: rows[0][0] for names, rows in found.items() if rows}

        # Looked for first, since a route that is refused uses a number up all the same; and kept in a transaction
        # of its own, so that a number is known here only once it is on disk.
        found = self._writer.write_at_once(find) if len(missing) == 1 else self._writer.write(find)
        if len(found) < len(missing):
            new = [texts(column) for column in zip(*missing, strict=True)]
            self._writer.write_at_once(lambda session: session.change("intern_routes", *new))
            found = self._writer.write(find)
        self._numbers.update(found)
