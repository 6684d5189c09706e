"""Tagged JSON: values of any supported type as JSON that gives back exactly the same value.

What JSON has is written as JSON. Everything else is an object of one key that begins with a tilde:
``{"~tuple": [1, 2]}``. A dict that looks like this itself is written as ``{"~dict": [[key, value], …]}``, and so are
dicts whose keys are not text. Classes are found again by ``module:qualname`` among the loaded modules.
Part of the format; ``perdure.model.untagged`` reads it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from base64 import b64encode
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import TYPE_CHECKING, Any, Never
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_core import TzInfo

from perdure.errors import NotSerializable
from perdure.model.classes import attributes, is_local, is_namedtuple, reference, type_name
from perdure.model.equality import private
from perdure.model.secrecy import marked_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_DEPTH = 150
"""Containers within containers; deeper values are refused, so that decoding never runs out of stack."""

BIG = 1 << 512
"""Ints from here on are written in hexadecimal: Python refuses to read long decimal numbers."""

MARK = b'{"~'
"""Occurs in every text that has a tag in it (inside a JSON string its quote would be escaped)."""

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PATH_LIMIT = 400
_KEY_SHOWN = 40
_GENERIC_PARTS = 2

write: Callable[[object], str] = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode


class Refusal(Exception):
    """Some value cannot be written; collects its path on the way out."""

    def __init__(self, value: object, why: str = "", advice: str = "") -> None:
        super().__init__(why)
        self.type = type_name(type(value))
        self.why = why or "cannot be stored exactly"
        self.advice = advice or "return plain data instead: its id, a dict, a dataclass or a pydantic model"
        self.trail: list[tuple[str, int]] = []

    def error(self, at: str) -> NotSerializable:
        """Make the error users see; ``at`` is what the path starts with."""
        steps = self.trail[::-1]
        holders = [holder for _, holder in steps]
        if len(set(holders)) < len(holders):
            self.why, self.advice = "contains itself", "break the cycle, for example by ids instead of references"
            repeated = next(i for i, holder in enumerate(holders) if holder in holders[:i])
            steps = steps[:repeated]
        path = at + "".join(step for step, _ in steps)
        if len(path) > _PATH_LIMIT:
            path = path[:_PATH_LIMIT] + "…"
        return NotSerializable(f"{path}: {self.type} {self.why}", path=path, type=self.type, advice=self.advice)


def dumps(value: object, at: str = "$") -> bytes:
    """Return a value as tagged JSON.

    Args:
        value: what to write.
        at: what the path in an error starts with.

    Raises:
        NotSerializable: some part of it cannot be written exactly; the error names its path and type.
    """
    try:
        return write(pack(value)).encode()
    except Refusal as refusal:
        raise refusal.error(at) from None
    except MemoryError:  # says nothing of the value
        raise
    except Exception as error:
        # Users' properties, hashes and descriptors run while we look at their objects, and threads may change them.
        raise Refusal(value, f"cannot be read: {type(error).__name__}").error(at) from error


def pack(value: Any, depth: int = 0) -> object:
    """Return a value as what ``json`` can write.

    Raises:
        Refusal: some part of it cannot be.
    """
    packer = _PACKERS.get(type(value))
    return _pack_other(value, depth) if packer is None else packer(value, depth)


def is_plain(text: str) -> bool:
    """Whether UTF-8 can hold a text: it has no lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- scalars --------------------------------------------------------------------------------------


def _pack_as_is(value: object, _depth: int) -> object:
    return value


def _pack_str(value: str, _depth: int) -> object:
    return value if is_plain(value) else {"~str": value.encode("utf-8", "surrogatepass").hex()}


def _pack_int(value: int, _depth: int) -> object:
    return value if -BIG < value < BIG else {"~int": hex(value)}


def _pack_float(value: float, _depth: int) -> object:
    return value if math.isfinite(value) else {"~float": repr(value)}


def _pack_bytes(value: bytes, _depth: int) -> object:
    return {"~bytes": b64encode(value).decode("ascii")}


def _pack_bytearray(value: bytearray, _depth: int) -> object:
    return {"~bytearray": b64encode(value).decode("ascii")}


def _pack_complex(value: complex, _depth: int) -> object:
    return {"~complex": [repr(value.real), repr(value.imag)]}


def _pack_decimal(value: Decimal, _depth: int) -> object:
    return {"~decimal": str(value)}


def _pack_fraction(value: Fraction, _depth: int) -> object:
    return {"~fraction": [hex(value.numerator), hex(value.denominator)]}


def _pack_uuid(value: UUID, _depth: int) -> object:
    return {"~uuid": str(value)}


def _pack_range(value: range, _depth: int) -> object:
    return {"~range": [hex(value.start), hex(value.stop), hex(value.step)]}


def _pack_path(value: PurePosixPath | PureWindowsPath, depth: int) -> object:
    return {"~path": [type(value).__name__, _pack_str(str(value), depth)]}


def _pack_date(value: date, _depth: int) -> object:
    return {"~date": value.isoformat()}


def _pack_timedelta(value: timedelta, _depth: int) -> object:
    return {"~timedelta": [value.days, value.seconds, value.microseconds]}


def _pack_datetime(value: datetime, depth: int) -> object:
    naive = value.replace(tzinfo=None, fold=0).isoformat()
    return {"~datetime": [naive, _pack_zone(value.tzinfo, depth), value.fold]}


def _pack_time(value: time, depth: int) -> object:
    naive = value.replace(tzinfo=None, fold=0).isoformat()
    return {"~time": [naive, _pack_zone(value.tzinfo, depth), value.fold]}


def _pack_zone(zone: tzinfo | None, depth: int) -> object:
    """Return None, the name of a zone, or the offset in µs with the name it was given, if any."""
    if zone is None:
        return None
    kind: Any = type(zone)
    key: str | None = getattr(zone, "key", None)
    if kind is ZoneInfo and key is not None:
        return key
    if kind is timezone or kind is TzInfo:
        offset = zone.utcoffset(None) or timedelta(0)
        # Its name is in no attribute, only in what pickle would be told.
        named = zone.__reduce__()[1][1:] if kind is timezone else ()
        return [offset // timedelta(microseconds=1), *(_pack_str(name, depth) for name in named)]
    raise Refusal(zone, "is a zone that cannot be found again", "use zoneinfo.ZoneInfo, or timezone for a fixed offset")


def _pack_secret(value: SecretStr, depth: int) -> object:
    return {"~secret": {"~secretstr": _pack_str(value.get_secret_value(), depth)}}


def _pack_secret_bytes(value: SecretBytes, depth: int) -> object:
    return {"~secret": {"~secretbytes": _pack_bytes(value.get_secret_value(), depth)}}


# -- containers -----------------------------------------------------------------------------------


def _pack_items(value: Iterable[Any], depth: int) -> list[object]:
    if depth >= MAX_DEPTH:
        raise Refusal(
            value, f"nests deeper than {MAX_DEPTH} levels", "flatten it, or keep parts of it in steps of their own"
        )
    items: list[object] = []
    try:
        for item in value:
            packer = _PACKERS.get(type(item))
            items.append(_pack_other(item, depth + 1) if packer is None else packer(item, depth + 1))
    except Refusal as refusal:
        refusal.trail.append((f"[{len(items)}]", id(value)))
        raise
    return items


def _pack_list(value: list[Any], depth: int) -> object:
    return _pack_items(value, depth)


def _pack_tuple(value: tuple[Any, ...], depth: int) -> object:
    return {"~tuple": _pack_items(value, depth)}


def _pack_set(value: set[Any] | frozenset[Any], depth: int) -> object:
    # In the order of their text, since a set's own order differs between processes.
    return {f"~{type(value).__name__}": sorted(_pack_items(value, depth), key=write)}


def _pack_deque(value: deque[Any], depth: int) -> object:
    return {"~deque": [_pack_items(value, depth), value.maxlen]}


def _pack_dict(value: dict[Any, Any], depth: int) -> object:
    for key in value:
        if type(key) is not str or not is_plain(key):
            return {"~dict": _pack_pairs(value, depth)}
    if len(value) == 1 and next(iter(value))[:1] == "~":
        return {"~dict": _pack_pairs(value, depth)}
    return _pack_named(value, value, depth)


def _pack_ordered(value: OrderedDict[Any, Any], depth: int) -> object:
    return {"~ordereddict": _pack_pairs(value, depth)}


def _pack_counter(value: Counter[Any], depth: int) -> object:
    return {"~counter": _pack_pairs(value, depth)}


def _pack_defaultdict(value: defaultdict[Any, Any], depth: int) -> object:
    factory = value.default_factory
    ref = None if factory is None else reference(factory)
    if factory is not None and ref is None:
        raise Refusal(value, "has a default factory that cannot be found again", "use a class or a module's function")
    return {"~defaultdict": [ref, _pack_pairs(value, depth)]}


def _pack_pairs(value: dict[Any, Any], depth: int) -> list[object]:
    _check_depth(value, depth)
    pairs: list[object] = []
    for key, item in value.items():
        try:
            pairs.append([pack(key, depth + 1), pack(item, depth + 1)])
        except Refusal as refusal:
            refusal.trail.append((_segment(key), id(value)))
            raise
    return pairs


def _pack_named(value: object, fields: dict[str, Any], depth: int) -> dict[str, object]:
    """Pack what is held under names: a dict's items, an object's fields."""
    _check_depth(value, depth)
    packed: dict[str, object] = {}
    name = ""
    try:
        for name, item in fields.items():
            packer = _PACKERS.get(type(item))
            packed[name] = _pack_other(item, depth + 1) if packer is None else packer(item, depth + 1)
    except Refusal as refusal:
        refusal.trail.append((_segment(name), id(value)))
        raise
    return packed


def _check_depth(value: object, depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise Refusal(
            value, f"nests deeper than {MAX_DEPTH} levels", "flatten it, or keep parts of it in steps of their own"
        )


def _segment(key: object) -> str:
    if type(key) is str:
        if _IDENTIFIER.fullmatch(key):
            return f".{key}"
        return f"[{key[:_KEY_SHOWN]!r}]"
    return f"[{key}]" if type(key) is int and -BIG < key < BIG else f"[{type_name(type(key))} key]"


# -- classes --------------------------------------------------------------------------------------


def _pack_other(value: Any, depth: int) -> object:
    kind = type(value)
    if issubclass(kind, Enum):
        return _pack_enum(value)
    if BaseModel in kind.__mro__:  # issubclass() is slow with its metaclass
        return _pack_model(value, depth)
    builtin = next((base.__name__ for base in kind.__mro__ if base in _PACKERS), None)
    if is_namedtuple(kind):
        _refuse_stray(value, attributes(value))
        packed = {"~named": [_reference(value), _pack_items(value, depth)]}
        return {"~secret": packed} if _is_marked(kind) else packed
    if builtin is None and dataclasses.is_dataclass(kind):
        return _pack_dataclass(value, depth)
    if builtin is not None:
        raise Refusal(value, f"is a subclass of {builtin} and would come back as one", f"convert it: {builtin}(value)")
    raise Refusal(value)


def _pack_enum(value: Enum) -> object:
    ref = _reference(value)
    kind = type(value)
    if isinstance(value, Flag):
        number = value._value_
        if not isinstance(number, int) or kind(number) != value:
            raise Refusal(value)
        return {"~flag": [ref, _pack_int(number, 0)]}
    name = value._name_
    if kind.__members__.get(name) is not value:
        raise Refusal(value, "is no member of its enum")
    return {"~enum": [ref, _pack_str(name, 0)]}


def _pack_dataclass(value: Any, depth: int) -> object:
    held = attributes(value)
    fields = {}
    for field in dataclasses.fields(value):
        if field.name not in held:
            raise Refusal(value, f"has no value in its field {field.name}")
        fields[field.name] = held.pop(field.name)
    _refuse_stray(value, held)
    return {"~data": [_reference(value), _seal(type(value), _pack_named(value, fields, depth))]}


def _pack_model(value: BaseModel, depth: int) -> object:
    kind = type(value)
    held = attributes(value)
    for name in ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__", "__dict__"):
        held.pop(name, None)
    fields = {name: held.pop(name) for name in kind.__pydantic_fields__ if name in held}
    _refuse_stray(value, held)
    body = [
        _model_reference(value),
        _seal(kind, _pack_named(value, fields, depth)),
        sorted(value.__pydantic_fields_set__),
        None if value.__pydantic_extra__ is None else _pack_dict(value.__pydantic_extra__, depth),
        _seal(kind, _pack_named(value, private(value) or {}, depth)),
    ]
    return {"~model": body}


def _is_marked(kind: type) -> bool:
    return bool(marked_fields(kind))


def _seal(kind: type, packed: dict[str, object]) -> dict[str, object]:
    """Mark what the class marks of what its instance holds."""
    marked = marked_fields(kind)
    for name in marked.intersection(packed):
        packed[name] = {"~secret": packed[name]}
    return packed


def _refuse_stray(value: object, stray: Iterable[str]) -> None:
    names = ", ".join(sorted(stray))
    if names:
        raise Refusal(value, f"holds attributes that are not fields: {names}", "make them fields, or leave them out")


def _reference(value: object) -> str:
    kind = type(value)
    ref = reference(kind)
    return ref if ref is not None else _refuse_class(value, kind)


def _model_reference(value: BaseModel) -> object:
    """Return the reference of a model's class; of a parametrised one, its origin's and its arguments'."""
    kind = type(value)
    ref = reference(kind)
    if ref is not None:
        return ref
    generic = kind.__pydantic_generic_metadata__
    if generic["origin"] is None:
        return _refuse_class(value, kind)
    parts = [reference(part) for part in (generic["origin"], *generic["args"])]
    return parts if None not in parts else _refuse_class(value, kind)


def _refuse_class(value: object, kind: type) -> Never:
    if is_local(kind):
        raise Refusal(
            value,
            "is defined inside a function, where it cannot be found again",
            "define the class at the top of its module, or annotate the step with it",
        )
    raise Refusal(value, "cannot be found again by its name", "define the class under its own name in a module")


_PACKERS: dict[type, Callable[[Any, int], object]] = {
    type(None): _pack_as_is,
    bool: _pack_as_is,
    int: _pack_int,
    str: _pack_str,
    float: _pack_float,
    bytes: _pack_bytes,
    bytearray: _pack_bytearray,
    complex: _pack_complex,
    Decimal: _pack_decimal,
    Fraction: _pack_fraction,
    UUID: _pack_uuid,
    range: _pack_range,
    PurePosixPath: _pack_path,
    PureWindowsPath: _pack_path,
    PosixPath: _pack_path,
    WindowsPath: _pack_path,
    date: _pack_date,
    time: _pack_time,
    datetime: _pack_datetime,
    timedelta: _pack_timedelta,
    SecretStr: _pack_secret,
    SecretBytes: _pack_secret_bytes,
    list: _pack_list,
    tuple: _pack_tuple,
    set: _pack_set,
    frozenset: _pack_set,
    deque: _pack_deque,
    dict: _pack_dict,
    OrderedDict: _pack_ordered,
    Counter: _pack_counter,
    defaultdict: _pack_defaultdict,
}
