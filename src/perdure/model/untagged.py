"""Reading tagged JSON; see ``perdure.model.tagged`` for the form.

Nothing is imported, and no ``__init__`` of a dataclass or model runs.
"""

from __future__ import annotations

import dataclasses
import json
from base64 import b64decode
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

from perdure.errors import Undecodable
from perdure.model.classes import find, is_namedtuple

if TYPE_CHECKING:
    from collections.abc import Callable

_PATHS: dict[str, Callable[[str], object]] = {
    kind.__name__: kind for kind in (PosixPath, PurePosixPath, PureWindowsPath, WindowsPath)
}
_ADVICE = "the code that wrote it had other types, or the bytes are damaged; run the version that wrote it"


def loads(data: bytes) -> Any:
    """Return the value that tagged JSON stands for.

    Raises:
        Undecodable: it is damaged, or names a class that no loaded module has (any more) in that form.
    """
    return _read(_TAGGED, data)


def loads_plain(data: bytes) -> Any:
    """Return what plain JSON stands for, which has no tags in it.

    Raises:
        Undecodable: it is no JSON.
    """
    return _read(_PLAIN, data)


def _read(decoder: json.JSONDecoder, data: bytes) -> Any:
    try:
        return decoder.decode(data.decode())
    except (Undecodable, MemoryError):  # the latter says nothing of what is stored
        raise
    except Exception as error:
        raise Undecodable(f"stored value cannot be read: {error}", type="tagged JSON", advice=_ADVICE) from error


def _untag(node: dict[str, Any]) -> Any:
    if len(node) == 1:
        [(tag, body)] = node.items()
        if tag[:1] == "~":
            reader = _READERS.get(tag)
            if reader is None:
                raise Undecodable(
                    f"unknown tag {tag[:40]!r}", type=tag[:40], advice="a newer Perdure wrote it: upgrade"
                )
            return reader(body)
    return node


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is no JSON")


_PLAIN = json.JSONDecoder(parse_constant=_no_constant)
_TAGGED = json.JSONDecoder(object_hook=_untag, parse_constant=_no_constant)


def _hex(text: str) -> int:
    return int(text, 16)


def _zone(body: Any) -> tzinfo | None:
    if body is None:
        return None
    if isinstance(body, str):
        return ZoneInfo(body)
    offset, *name = body
    return timezone(timedelta(microseconds=offset), *name)


def _datetime(body: Any) -> datetime:
    text, zone, fold = body
    return datetime.fromisoformat(text).replace(tzinfo=_zone(zone), fold=fold)


def _time(body: Any) -> time:
    text, zone, fold = body
    return time.fromisoformat(text).replace(tzinfo=_zone(zone), fold=fold)


def _path(body: Any) -> object:
    name, text = body
    return _PATHS[name](text)


def _defaultdict(body: Any) -> defaultdict[Any, Any]:
    ref, pairs = body
    factory = None if ref is None else _class(ref, object)
    return defaultdict(factory, pairs)


def _counter(body: Any) -> Counter[Any]:
    counter: Counter[Any] = Counter()
    for key, count in body:
        counter[key] = count
    return counter


def _enum(body: Any) -> Enum:
    ref, name = body
    kind: type[Enum] = _class(ref, Enum)
    return kind.__members__[name]


def _flag(body: Any) -> Enum:
    ref, number = body
    kind: type[Flag] = _class(ref, Flag)
    return kind(number)


def _named(body: Any) -> Any:
    ref, values = body
    kind: Any = _class(ref, tuple)
    if not is_namedtuple(kind):
        raise _gone(ref, "is no named tuple")
    # Fields that came later have their defaults.
    for name in kind._fields[len(values) :]:
        values.append(kind._field_defaults[name])
    if len(values) != len(kind._fields):
        raise _gone(ref, "has lost a field")
    return tuple.__new__(kind, values)


def _data(body: Any) -> Any:
    ref, held = body
    kind: Any = _class(ref, object)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise _gone(ref, "is no dataclass")
    value: Any = object.__new__(kind)
    for field in dataclasses.fields(kind):
        if field.name in held:
            item = held.pop(field.name)
        elif field.default is not dataclasses.MISSING:
            item = field.default
        elif field.default_factory is not dataclasses.MISSING:
            item = field.default_factory()
        else:
            raise _gone(ref, f"has a new field {field.name} without a default")
        object.__setattr__(value, field.name, item)
    if held:
        raise _gone(ref, f"has no field {', '.join(held)} any more")
    return value


def _model(body: Any) -> BaseModel:
    ref, held, given, extra, private = body
    if isinstance(ref, list):
        origin: Any = _class(ref[0], BaseModel)
        kind = origin[tuple(_class(part, object) for part in ref[1:])]
    else:
        kind = _class(ref, BaseModel)
    fields = {}
    for name, field in kind.__pydantic_fields__.items():
        if name in held:
            fields[name] = held.pop(name)
        elif name in given or field.is_required():
            raise _gone(ref, f"has a field {name} that was not recorded")
        else:
            fields[name] = field.get_default(call_default_factory=True, validated_data=fields)
    if held:
        raise _gone(ref, f"has no field {', '.join(held)} any more")
    value: BaseModel = kind.__new__(kind)
    has_private = bool(kind.__private_attributes__)
    value.__setstate__(
        {
            "__dict__": fields,
            "__pydantic_fields_set__": set(given),
            "__pydantic_extra__": extra,
            "__pydantic_private__": private if has_private else None,
        }
    )
    return value


def _class(ref: Any, base: type) -> Any:
    found = find(ref)
    if found is None:
        raise _gone(ref, "is in no loaded module")
    if base is not object and not (isinstance(found, type) and issubclass(found, base)):
        raise _gone(ref, f"is no {base.__name__}")
    return found


def _gone(ref: object, why: str) -> Undecodable:
    name = str(ref)[:200]
    return Undecodable(f"{name} {why}", type=name, advice=_ADVICE)


_READERS: dict[str, Callable[[Any], Any]] = {
    "~str": lambda body: bytes.fromhex(body).decode("utf-8", "surrogatepass"),
    "~int": _hex,
    "~float": float,
    "~bytes": lambda body: b64decode(body, validate=True),
    "~bytearray": lambda body: bytearray(b64decode(body, validate=True)),
    "~complex": lambda body: complex(float(body[0]), float(body[1])),
    "~decimal": Decimal,
    "~fraction": lambda body: Fraction(_hex(body[0]), _hex(body[1])),
    "~uuid": UUID,
    "~range": lambda body: range(*map(_hex, body)),
    "~path": _path,
    "~date": date.fromisoformat,
    "~time": _time,
    "~datetime": _datetime,
    "~timedelta": lambda body: timedelta(*body),
    "~secret": lambda body: body,
    "~secretstr": SecretStr,
    "~secretbytes": SecretBytes,
    "~tuple": tuple,
    "~set": set,
    "~frozenset": frozenset,
    "~deque": lambda body: deque(body[0], body[1]),
    "~dict": dict,
    "~ordereddict": OrderedDict,
    "~counter": _counter,
    "~defaultdict": _defaultdict,
    "~enum": _enum,
    "~flag": _flag,
    "~named": _named,
    "~data": _data,
    "~model": _model,
}
