"""What pages may be asked for: their parameters, read and described in one place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from perdure.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.datastructures import QueryParams

    from perdure.store.protocol import Store


class Parameter(Protocol):
    """One parameter of a page."""

    @property
    def name(self) -> str:
        """What it is called in the address."""
        ...

    def read(self, given: Sequence[str]) -> Any:
        """Return its value from the texts given, at least one.

        Raises:
            ValueError: they are none of its values; says which are.
        """
        ...

    def schema(self) -> dict[str, Any]:
        """Describe its values."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    name: str
    longest: int = 500

    def read(self, given: Sequence[str]) -> str | None:
        """Return the text; None if it is empty."""
        if len(given[-1]) > self.longest or "\0" in given[-1]:
            raise ValueError(f"a text of at most {self.longest} characters")
        return given[-1] or None

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": "string", "maxLength": self.longest, "pattern": "^[^\\u0000]*$"}


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    name: str
    least: int = 0
    most: int = (1 << 63) - 1
    default: int | None = None

    def read(self, given: Sequence[str]) -> int:
        """Return the number."""
        text = given[-1]
        if not text.isascii() or not text.isdecimal() or len(text) > 19 or not self.least <= int(text) <= self.most:  # noqa: PLR2004 - digits of the largest
            raise ValueError(f"a whole number from {self.least} to {self.most}")
        return int(text)

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        made: dict[str, Any] = {"type": "integer", "minimum": self.least, "maximum": self.most}
        return made if self.default is None else {**made, "default": self.default}


@dataclass(frozen=True, slots=True)
class Flag:
    """A truth value; False if it is not given."""

    name: str
    default: bool = False

    def read(self, given: Sequence[str]) -> bool:
        """Return the value."""
        if given[-1] not in {"true", "false", "on"}:
            raise ValueError("true or false")
        return given[-1] != "false"

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": "boolean", "default": False}


@dataclass(frozen=True, slots=True)
class Choices:
    """Some of several words."""

    name: str
    words: tuple[str, ...]

    def read(self, given: Sequence[str]) -> tuple[str, ...]:
        """Return those that are given."""
        if not set(self.words).issuperset(given):
            raise ValueError(f"one of {', '.join(self.words)}")
        return tuple(given)

    def schema(self) -> dict[str, Any]:
        """Describe them."""
        return {"type": "array", "items": {"type": "string", "enum": list(self.words)}}


@dataclass(frozen=True, slots=True)
class Tags:
    """Tags: ``name=value``, any number of them; in one text, with spaces or commas between them."""

    name: str

    def read(self, given: Sequence[str]) -> dict[str, str]:
        """Return them by name."""
        pairs = [one for text in given for one in text.replace(",", " ").split()]
        found: dict[str, str] = {}
        for pair in pairs:
            name, is_one, value = pair.partition("=")
            if not is_one or not name or len(pair) > 500 or not pair.isprintable():  # noqa: PLR2004 - as for ids
                raise ValueError("NAME=VALUE")
            found[name] = value
        return found

    def schema(self) -> dict[str, Any]:
        """Describe them."""
        return {"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,40}=[A-Za-z0-9_.-]{1,40}$"}}


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant: ISO 8601; without a zone it is UTC."""

    name: str

    def read(self, given: Sequence[str]) -> datetime | None:
        """Return the instant; None if the text is empty."""
        if not given[-1]:
            return None
        try:
            at = datetime.fromisoformat(given[-1].replace(" ", "+"))
            at = at if at.tzinfo is not None else datetime.fromisoformat(f"{at.isoformat()}+00:00")
            at.timestamp()
        except (ValueError, OverflowError):
            raise ValueError("an instant as 2026-11-29T18:40:00Z") from None
        return at

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": "string", "format": "date-time"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page is asked for.

    Attributes:
        store: where it looks.
        namespace: whose runs.
        about: id of the run, or key of the schedule, that it is about; empty if it is about none.
        query: its parameters by name; those that are not given have their defaults.
    """

    store: Store
    namespace: str
    about: str
    query: Mapping[str, Any]


def read_query(parameters: Sequence[Parameter], given: QueryParams, *, blank: bool) -> dict[str, Any]:
    """Return parameters by name.

    Args:
        parameters: those that there are.
        given: the texts.
        blank: whether an empty text is as good as none, as in forms; and what is unknown is passed over.

    Raises:
        Problem: one of them has no such value.
    """
    unknown = set(given).difference(one.name for one in parameters)
    if unknown and not blank:
        known = ", ".join(one.name for one in parameters) or "none"
        raise Problem(422, "unknown_parameter", "there is no such parameter", f"known: {known}")
    query: dict[str, Any] = {}
    for one in parameters:
        texts = [text for text in given.getlist(one.name) if text or not blank]
        if not texts:
            query[one.name] = getattr(one, "default", None)
            continue
        try:
            query[one.name] = one.read(texts)
        except ValueError as error:
            raise Problem(422, "bad_parameter", f"{one.name} is no such value", f"it is {error}") from error
    return query


__all__ = ["Asked", "Choices", "Flag", "Moment", "Parameter", "Tags", "Text", "Whole", "read_query"]
