"""Leaving out of stored values what must not be shown, by where it stands in them."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING, Any, Final

from perdure.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HIDDEN: Final = "[redacted]"
"""What stands where something was left out."""


class Redaction:
    """Patterns over the paths of values: ``*password*``, ``card.number``, ``input.*``, ``failure.text``.

    A path is the names of what a value is held by, with dots between them, lists not counted:
    ``input.order.card.number``. A pattern (of ``fnmatch``, capitals or not) stands for the whole path or its end. What
    is found is left out with all that is in it. Values that tell no names (a named tuple, the head of long arguments)
    are left out as a whole.

    Raises:
        DefinitionError: a pattern is no text, or an empty one.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        if isinstance(patterns, str):
            raise DefinitionError("patterns of what is redacted are a list", advice=f"write redact=[{patterns!r}]")
        self.patterns = tuple(patterns)
        for one in self.patterns:
            if not isinstance(one, str) or not one.strip():
                raise DefinitionError(f"{one!r} is no pattern", advice='write one like "*password*" or "card.number"')
        self._hides: Callable[[str], object] = re.compile(
            "|".join(rf"(?s:.*\.)?{translate(one.lower())}" for one in self.patterns) or r"(?!)"
        ).match

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def hides(self, *path: str) -> bool:
        """Whether what stands at a path is left out."""
        return self._hides(".".join(path).lower()) is not None

    def shown(self, value: Any, *path: str) -> Any:
        """Return a value as JSON holds it without what is left out.

        Args:
            value: what ``json`` has read, tagged or not.
            path: where it stands.
        """
        if not self.patterns:
            return value
        return HIDDEN if path and self.hides(*path) else self._inside(value, path)

    def arguments(self, value: Any, *path: str) -> Any:
        """Return recorded arguments likewise; of long ones, their head is left out."""
        if self.patterns and isinstance(value, list):  # in full, they are an object
            return [*value[:2], HIDDEN]
        return self.shown(value, *path)

    def _inside(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [self._inside(one, path) for one in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((name, held),) = value.items()
            if name[:1] == "~":
                return {name: self._tagged(name, held, path)}
        return {name: self.shown(held, *path, name) for name, held in value.items()}

    def _tagged(self, tag: str, held: Any, path: tuple[str, ...]) -> Any:
        """Leave out of what a tag says, as ``perdure.model.tagged`` writes it."""
        if tag in _PAIRS and isinstance(held, list):
            return self._pairs(held, path)
        if tag == "~defaultdict" and isinstance(held, list):
            return [held[0], *(self._pairs(one, path) for one in held[1:])]
        if tag in {"~data", "~model"} and isinstance(held, list):
            return [held[0], *(self._inside(one, path) for one in held[1:])]
        return HIDDEN if tag == "~named" else self._inside(held, path)

    def _pairs(self, pairs: list[Any], path: tuple[str, ...]) -> list[Any]:
        return [[key, self.shown(held, *path, _name(key))] for key, held in pairs]


_PAIRS = frozenset({"~dict", "~ordereddict", "~counter"})


def _name(key: Any) -> str:
    if isinstance(key, dict) and "~str" in key:
        return bytes.fromhex(key["~str"]).decode("utf-8", "replace")
    return key if isinstance(key, str) else str(key)


NOTHING: Final = Redaction(())
"""Leaves nothing out."""

__all__ = ["HIDDEN", "NOTHING", "Redaction"]
