"""Old stored values under a type that no longer takes them: the user's function that turns their JSON into today's."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import to_json

from perdure.errors import DefinitionError, Undecodable
from perdure.model.classes import type_name
from perdure.model.codec import ValueCodec
from perdure.model.secrecy import unsealed

if TYPE_CHECKING:
    from collections.abc import Callable

    Upcast: TypeAlias = Callable[[Any], Any]

_ADVICE = "make upcast= take this form too, or bring back a type that does"


class UpcastingCodec(ValueCodec):
    """A codec that lets a function have what does not fit the annotation any more.

    Args:
        hint: the annotation.
        upcast: takes the stored value as plain JSON data; returns a value of today's type, or data that fits it.
    """

    __slots__ = ("_upcast",)

    def __init__(self, hint: Any, upcast: Upcast) -> None:
        super().__init__(hint)
        self._upcast = upcast

    def decode(self, data: bytes) -> Any:
        """Return the value that bytes stand for under today's annotation, by way of the function if need be.

        Raises:
            Undecodable: they fit neither as they are nor as the function returns them, or it raised.
        """
        try:
            return super().decode(data)
        except Undecodable as error:
            unfit = error
        try:
            return self._validated(self._upcast(json.loads(unsealed(data))))
        except MemoryError:  # says nothing of what is stored
            raise
        except Exception as error:
            # The function is users' code and may raise anything.
            raise Undecodable(
                f"{unfit.message}\nnor does what upcast= makes of it: {type(error).__name__}: {error}",
                type=type_name(self.hint),
                advice=_ADVICE,
            ) from error

    def _validated(self, value: Any) -> Any:
        if self._build() is None:
            return self.roundtrip(value)[1]
        return super().decode(to_json(value, by_alias=False, inf_nan_mode="constants"))


def value_codec(hint: Any, upcast: Upcast | None) -> ValueCodec:
    """Return the codec of an annotation."""
    return ValueCodec(hint) if upcast is None else UpcastingCodec(hint, upcast)


def check_upcast(upcast: object) -> Upcast | None:
    """Validate what ``upcast=`` was given.

    Raises:
        DefinitionError: it cannot be called, or is async.
    """
    if upcast is None or (callable(upcast) and not inspect.iscoroutinefunction(upcast)):
        return upcast
    raise DefinitionError(
        f"upcast= takes a plain function of the old JSON, not {upcast!r}",
        advice="write upcast=from_old, with def from_old(old): return …",
    )


__all__ = ["Upcast", "UpcastingCodec", "check_upcast", "value_codec"]
