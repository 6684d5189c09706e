"""Columns of a batch as binary arrays, made in a few calls whatever the number of rows.

psycopg would look up and call a dumper for every element; here a column is packed as a whole.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct, pack
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BIGINT, _BIGINTS = 20, 1016
_TEXT, _TEXTS = 25, 1009
_BYTEA, _BYTEAS = 17, 1001

_head = Struct(">5i").pack
"""Dimensions, whether there are nulls, the elements' type, their number, and the index of the first."""
_length = Struct(">i").pack
_NULL = _length(-1)


class Column:
    """An array that is encoded already."""

    __slots__ = ("data",)
    oid: ClassVar[int]
    """The number of its type."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class Bigints(Column):
    """A ``bigint[]``."""

    __slots__ = ()
    oid = _BIGINTS


class Texts(Column):
    """A ``text[]``."""

    __slots__ = ()
    oid = _TEXTS


class Byteas(Column):
    """A ``bytea[]``."""

    __slots__ = ()
    oid = _BYTEAS


@lru_cache(maxsize=1024)
def _packer(count: int) -> Callable[..., bytes]:
    return Struct(">" + "iq" * count).pack


def bigints(values: Sequence[int]) -> Bigints:
    """Encode whole numbers, none of them null.

    Raises:
        struct.error: one is no number of 64 bits.
    """
    count = len(values)
    elements: list[int] = [8] * (2 * count)
    elements[1::2] = values
    return Bigints(_head(1, 0, _BIGINT, count, 1) + _packer(count)(*elements))


def nullable_bigints(values: Sequence[int | None]) -> Bigints:
    """Encode whole numbers, some of which may be null.

    Raises:
        struct.error: one is no number of 64 bits.
    """
    if None not in values:
        return bigints(values)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    elements = [_NULL if value is None else pack(">iq", 8, value) for value in values]
    return Bigints(_head(1, 1, _BIGINT, len(elements), 1) + b"".join(elements))


def byteas(values: Sequence[bytes | None]) -> Byteas:
    """Encode bytes.

    Raises:
        TypeError: one is something else.
    """
    return Byteas(_elements(_BYTEA, values))


def texts(values: Sequence[str | None]) -> Texts:
    """Encode texts.

    Raises:
        AttributeError: one is something else.
        UnicodeEncodeError: one cannot be written as UTF-8.
    """
    return Texts(_elements(_TEXT, [None if value is None else value.encode() for value in values]))


def _elements(kind: int, values: Sequence[bytes | None]) -> bytes:
    parts = [_head(1, 1, kind, len(values), 1)]
    append = parts.append
    for value in values:
        if value is None:
            append(_NULL)
        else:
            append(_length(len(value)))
            append(value)
    return b"".join(parts)
