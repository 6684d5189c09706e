"""Whether two values are the same: equal, and of equal types, all the way down.

``==`` is not enough: it takes ``1``, ``1.0`` and ``True`` for one, a member of a ``StrEnum`` for its text, and NaN for
something else than itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import TzInfo

from perdure.model.classes import attributes

_BY_VALUE = frozenset({str, int, bool, type(None), bytes, bytearray, date, timedelta, UUID, Fraction, range})
_SEQUENCES = frozenset({list, tuple, deque})
_MAPPINGS = frozenset({dict, OrderedDict, defaultdict, Counter})
_FIXED_OFFSETS = (timezone, TzInfo)


def same(one: Any, other: Any, *, loose: bool = False) -> bool:
    """Return whether two values are the same.

    Fixed offsets from UTC count as the same zone whichever class they are of, since pydantic has its own.

    Args:
        one: a value.
        other: what it is compared with; for ``loose`` the one that came back.
        loose: also take what annotations may turn values into: an int a float, a tuple a list.
    """
    try:
        kind = type(one)
        if kind is type(other) and BaseModel in kind.__mro__:  # issubclass() is slow with its metaclass
            return one is other or _same_model(one, other, loose)
        return _same(one, other, loose)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - equality of users' classes; what cannot be compared is not known to be the same
        return False


def _same(one: Any, other: Any, loose: bool) -> bool:  # noqa: FBT001, PLR0911 - one answer a kind
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return loose and _close(one, other)
    if kind in _BY_VALUE:
        return bool(one == other)
    if kind is float:
        return _same_float(one, other)
    if kind in _SEQUENCES:
        return _same_items(one, other, loose) and (kind is not deque or one.maxlen == other.maxlen)
    if kind in _MAPPINGS:
        return _same_mapping(one, other, loose) and (
            kind is not defaultdict or one.default_factory is other.default_factory
        )
    if BaseModel in kind.__mro__:
        return _same_model(one, other, loose)
    if kind is set or kind is frozenset:
        return _same_set(one, other, loose)
    if issubclass(kind, Enum):
        # Members are singletons, but for flags that were put together.
        return bool(one == other) and one._value_ == other._value_  # `value` may be overridden
    if dataclasses.is_dataclass(kind):
        return _same_mapping(attributes(one), attributes(other), loose) and (
            not issubclass(kind, (dict, list, tuple, set, str, int, float)) or bool(one == other)
        )
    return _same_rest(kind, one, other, loose)


def _same_rest(kind: type, one: Any, other: Any, loose: bool) -> bool:  # noqa: FBT001
    if kind is datetime or kind is time:
        return _same_instant(one, other)
    if kind is Decimal:
        return bool(one.as_tuple() == other.as_tuple())  # 1.10 is not 1.1, and NaN is NaN
    if kind is complex:
        return _same_float(one.real, other.real) and _same_float(one.imag, other.imag)
    if issubclass(kind, tuple):
        return _same_items(one, other, loose) and _same_mapping(attributes(one), attributes(other), loose)
    return bool(one == other)


def _same_float(one: float, other: float) -> bool:
    if one == other:
        return one != 0 or math.copysign(1.0, one) == math.copysign(1.0, other)
    return one != one and other != other  # noqa: PLR0124 - NaN


def _same_items(one: Any, other: Any, loose: bool) -> bool:  # noqa: FBT001
    if len(one) != len(other):
        return False
    kinds = [*map(type, one)]
    if _BY_VALUE.issuperset(kinds) and one == other and kinds == [*map(type, other)]:
        return True  # without a call an item: most lists, tuples and rows are like this
    for kind, a, b in zip(kinds, one, other):  # noqa: B905 - they are of one length, and strict= takes its time
        if kind is type(b):
            if kind in _BY_VALUE:
                if a != b:
                    return False
                continue
            if kind is float and a == b and a:
                continue
        if not _same(a, b, loose):
            return False
    return True


def _same_mapping(one: dict[Any, Any], other: dict[Any, Any], loose: bool) -> bool:  # noqa: FBT001
    if len(one) != len(other):
        return False
    # Nearly always both are in the same order, and then NaN works as a key too.
    if _same_items([*one], [*other], loose=False):
        return _same_items([*one.values()], [*other.values()], loose)
    if type(one) is OrderedDict:
        return False
    keys = {key: key for key in other}
    return all(
        key in keys and _same(key, keys[key], loose=False) and _same(item, other[key], loose)
        for key, item in one.items()
    )


def _same_set(one: Any, other: Any, loose: bool) -> bool:  # noqa: FBT001
    if len(one) != len(other):
        return False
    found = {item: item for item in other}
    rest = [item for item in one if item not in found]
    if any(not _same(item, found[item], loose=False) for item in one if item in found):
        return False
    if not rest:
        return True
    # NaN, and what compares by identity: each needs a partner of its own.
    partners = [item for item in other if item not in one]
    for item in rest:
        match = next((i for i, partner in enumerate(partners) if _same(item, partner, loose)), None)
        if match is None:
            return False
        del partners[match]
    return True


def _same_model(one: BaseModel, other: BaseModel, loose: bool) -> bool:  # noqa: FBT001 - unrolled, it is hot
    a, b = one.__dict__, other.__dict__
    kinds = [*map(type, a.values())]
    if (
        _BY_VALUE.issuperset(kinds) and a == b and kinds == [*map(type, b.values())]
        and not (one.__pydantic_extra__ or other.__pydantic_extra__)
        and not (one.__pydantic_private__ or other.__pydantic_private__)
    ):  # fmt: skip
        return True  # a flat model, as most are: compared without a call a field
    if not len(a) == len(b) == len(type(one).__pydantic_fields__):
        # Cached properties are in there too, or what was set behind pydantic's back.
        a, b = _held(one), _held(other)
        if len(a) != len(b):
            return False
    for name, x in a.items():
        y = b.get(name, _ABSENT)
        kind = type(x)
        if kind is type(y):
            if kind in _BY_VALUE:
                if x != y:
                    return False
                continue
            if kind is float and x == y and x:
                continue
        if not _same(x, y, loose):
            return False
    x, y = one.__pydantic_extra__, other.__pydantic_extra__
    if (x or y) and not _same(x or {}, y or {}, loose):
        return False
    x, y = private(one), private(other)
    return not (x or y) or _same(x or {}, y or {}, loose)


def _held(model: BaseModel) -> dict[str, Any]:
    held = attributes(model)
    for name in ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__"):
        held.pop(name, None)
    return held


_ABSENT = object()


def private(model: BaseModel) -> dict[str, Any] | None:
    """Return the private attributes of a model that are set."""
    return getattr(model, "__pydantic_private__", None)


def _same_instant(one: datetime | time, other: datetime | time) -> bool:
    if one.fold != other.fold or one.replace(tzinfo=None) != other.replace(tzinfo=None):
        return False
    a, b = one.tzinfo, other.tzinfo
    if type(a) is type(b):
        return a == b or (a is not None and getattr(a, "key", a) == getattr(b, "key", b))
    return isinstance(a, _FIXED_OFFSETS) and isinstance(b, _FIXED_OFFSETS) and a.utcoffset(None) == b.utcoffset(None)


def _close(one: Any, other: Any) -> bool:
    """Whether ``other`` is what an annotation may have made of ``one``."""
    if type(one) is int and type(other) is float:
        return one == other
    return type(one) in _SEQUENCES and type(other) in _SEQUENCES and _same_items(one, other, loose=True)
