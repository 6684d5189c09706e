"""Typed names: what signals and streams are to whoever writes to them and whoever reads."""

from __future__ import annotations

from typing import Any, ForwardRef, Generic, TypeVar, get_args

from perdure.errors import DefinitionError
from perdure.model.codec import ValueCodec
from perdure.model.keys import check_explicit

T = TypeVar("T")


class Channel(Generic[T]):
    """A name and the type of what is sent under it; several of one name are the same.

    Attributes:
        name: what it is called in the log.
    """

    def __init__(self, name: str) -> None:
        """Name a channel.

        Raises:
            DefinitionError: the name is empty, too long or has characters that keys reserve.
        """
        self.name = check_explicit(name, f"a {type(self).__name__.lower()}'s name")
        self._codec: ValueCodec | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    @property
    def codec(self) -> ValueCodec:
        """How its values are written and read.

        Raises:
            DefinitionError: its type is only named, in quotes.
        """
        if self._codec is None:
            # Set by typing on what Stream[str](…) makes, after __init__.
            given = get_args(getattr(self, "__orig_class__", None))
            hint: Any = given[0] if given and not isinstance(given[0], TypeVar) else Any
            if isinstance(hint, ForwardRef):
                kind = type(self).__name__
                raise DefinitionError(
                    f"the type of {kind.lower()} {self.name!r} is in quotes, and cannot be looked up",
                    advice=f"define the class first, and write {kind}[{hint.__forward_arg__}]",
                )
            self._codec = ValueCodec(hint)
        return self._codec


__all__ = ["Channel"]
