"""Values to bytes and back, by their annotated types.

The law: what comes back equals what went in, in value and in type, or it is refused with the path of what stands in
the way. A value is written by pydantic as its annotation says, read back and compared. If it is not the same (a
subclass of the annotated model, an int where a float was announced, a private attribute), it is written as tagged JSON
instead, which one leading space marks. A leading tab says that parts of it are secret; see ``perdure.model.secrecy``.
All are JSON. Part of the format.
"""

from __future__ import annotations

import math
import types
import typing
from functools import partial
from json.encoder import encode_basestring
from typing import Any

from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter, ValidationError

from perdure.errors import InvalidValue, NotSerializable, Undecodable
from perdure.model.classes import type_name
from perdure.model.equality import same
from perdure.model.ordering import may_have_secrets, may_have_sets, write_ordered
from perdure.model.secrecy import SEALING, has_mark, has_secrets, is_marked, sealed, unsealed
from perdure.model.tagged import BIG, MARK, dumps
from perdure.model.untagged import loads, loads_plain

if typing.TYPE_CHECKING:
    from collections.abc import Callable

_SCALARS: frozenset[Any] = frozenset({str, int, bool, float, type(None)})
_SPACE = 0x20
_ADVICE = "the type changed since it was written: make new fields optional, or have upcast= take the old form"


class ValueCodec:
    """Writes and reads the values of one annotation. What pydantic needs is built at first use.

    Args:
        hint: the annotation; ``Any`` if there is none.
    """

    __slots__ = ("_adapter", "_scalars", "_seals", "_secret", "_typed", "_untyped", "hint")

    def __init__(self, hint: Any = Any) -> None:
        self.hint = hint
        self._untyped = hint is Any or hint is object
        self._scalars = _taken_as_they_are(hint)
        self._secret = has_mark(hint)
        self._seals = False
        self._adapter: TypeAdapter[Any] | None = None
        self._typed: tuple[Callable[..., bytes], Callable[..., Any]] | None = None

    def encode(self, value: Any, at: str = "$") -> bytes:
        """Return a value as bytes.

        Args:
            value: what to write.
            at: what the path in an error starts with.

        Raises:
            NotSerializable: it would not come back as it is; fields path and type say what stands in the way.
        """
        return self.roundtrip(value, at)[0]

    def roundtrip(self, value: Any, at: str = "$") -> tuple[bytes, Any]:
        """Return a value as bytes, and the value that these bytes decode to: equal, but not the same object.

        Immutable scalars come back as themselves. Raises as ``encode`` does.
        """
        kind = type(value)
        if kind in self._scalars:
            data = write_scalar(value, kind)
            if data is not None:
                return data, value
        if self._untyped:
            return _roundtrip_tagged(value, at, always=False, secret=self._secret)
        written = None
        typed = self._typed or self._build()
        if typed is not None:
            try:
                # Field names rather than aliases: the two kinds of alias need not agree, and names are what the code
                # has. Its warnings are not needed: what they warn of does not compare equal.
                data = typed[0](value, by_alias=False, round_trip=True, warnings=False)
                written = data, typed[1](data)
            except MemoryError:  # says nothing of the value: what is tried next would only hide it
                raise
            except Exception:  # noqa: BLE001, S110 - serializers and validators are users' code; tags are tried next
                pass
            else:
                if same(value, written[1]):
                    return written
        try:
            # What pydantic turned out to know nothing of is written like what has no annotation.
            return _roundtrip_tagged(value, at, always=not self._untyped, secret=self._secret, seals=self._seals)
        except NotSerializable:
            if written is not None and same(value, written[1], loose=True):
                return written
            raise

    def decode(self, data: bytes) -> Any:
        """Return the value that bytes stand for under today's annotation.

        Raises:
            Undecodable: they do not fit it.
        """
        if data[:1] < b"!":
            if data[:1] == b" ":
                return loads(data)
            data = unsealed(data)
        if self._untyped:
            return loads_plain(data)
        typed = self._typed or self._build()
        if typed is None:
            return loads_plain(data)
        try:
            return typed[1](data)
        except MemoryError:  # says nothing of what is stored
            raise
        except Exception as error:  # noqa: BLE001 - validators are users' code and may raise anything
            name = type_name(self.hint)
            raise Undecodable(
                f"stored value does not fit {name}: {_why(error)}", type=name, advice=_ADVICE
            ) from _cause(error)

    def admit(self, value: Any, at: str = "$") -> Any:
        """Return a value that somebody gives as the annotation's type has it: validated, and made so if need be.

        As pydantic does it: a dict becomes a model, "5" an int. Without an annotation every value is admitted.

        Raises:
            InvalidValue: it is not of that type; fields path and type.
        """
        if type(value) in self._scalars or self._untyped or (self._typed or self._build()) is None:
            return value
        assert self._adapter is not None
        try:
            return self._adapter.validate_python(value)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - validators are users' code and may raise anything
            name = type_name(self.hint)
            raise InvalidValue(
                f"{at} is {'None, which is ' if value is None else ''}not of type {name}: {_why(error)}",
                path=at,
                type=name,
                advice="nothing was stored; give what the annotation says",
            ) from _cause(error)

    def decode_only(self, data: bytes) -> Any:
        """Return the value that bytes stand for, if it is of the annotation's type, whoever wrote it.

        Raises:
            Undecodable: they do not fit it.
        """
        value = self.decode(data)
        if data[:1] != b" ":
            return value
        try:
            return self.admit(value)
        except InvalidValue as misfit:
            name = type_name(self.hint)
            raise Undecodable(f"stored value does not fit: {misfit.message}", type=name, advice=_ADVICE) from misfit

    def _build(self) -> tuple[Callable[..., bytes], Callable[..., Any]] | None:
        if self._untyped:
            return None
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(self.hint)
            write, read, schema = adapter.serializer.to_json, adapter.validator.validate_json, _schema(adapter)
            seals = schema is None or is_marked(schema) or may_have_secrets(schema)
            if schema is None or may_have_sets(schema) or may_have_secrets(schema):
                write = partial(write_ordered, write)
            if schema is None or "alias" in schema:  # otherwise there is nothing to choose, and asking takes its time
                read = partial(read, by_alias=True, by_name=True)
            if seals:
                write, read = partial(_write_sealed, write), partial(_read_sealed, read)
            self._adapter, self._typed, self._seals = adapter, (write, read), seals
        except (PydanticUndefinedAnnotation, NameError):
            return None  # something in it is not defined yet, and may be next time
        except PydanticUserError as error:
            self._untyped = error.code not in {"class-not-fully-defined", "undefined-annotation"}
            return None
        except MemoryError:  # there may be enough next time
            raise
        except Exception:  # noqa: BLE001 - a class's own schema hooks
            self._untyped = True
            return None
        return self._typed


def _why(error: Exception) -> str:
    """What stands in the way, without the value: messages are logged, and values are nobody's business."""
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {error}"
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}".removeprefix(": ") for one in found)


def _cause(error: Exception) -> Exception | None:
    """What a traceback is to show as the reason: not what pydantic says, which shows the value."""
    return None if isinstance(error, ValidationError) else error


def _schema(adapter: TypeAdapter[Any]) -> str | None:
    """What pydantic made of an annotation, as text; None if it cannot be shown."""
    try:
        return repr(adapter.core_schema)
    except Exception:  # noqa: BLE001 - of a default value, which is in there too
        return None


def write_scalar(value: Any, kind: type) -> bytes | None:
    """Return a scalar as JSON; None if JSON cannot hold it (lone surrogates, NaN, ints of hundreds of digits).

    Args:
        value: a ``str``, ``int``, ``bool``, ``float`` or None.
        kind: its exact type.
    """
    if kind is str:
        try:
            return encode_basestring(value).encode()
        except UnicodeEncodeError:
            return None
    if kind is int:
        return b"%d" % value if -BIG < value < BIG else None
    if value is None:
        return b"null"
    if kind is bool:
        return b"true" if value else b"false"
    return repr(value).encode() if math.isfinite(value) else None


def _write_sealed(write: Callable[..., bytes], value: Any, **options: Any) -> bytes:
    data = write(value, context=SEALING, **options)
    return b"\t" + data if has_secrets(data) else data


def _read_sealed(read: Callable[..., Any], data: bytes) -> Any:
    return read(unsealed(data))


def _roundtrip_tagged(
    value: Any, at: str, *, always: bool, secret: bool = False, seals: bool = False
) -> tuple[bytes, Any]:
    """Write a value as tagged JSON, marked by a space: ``always``, or only if there is a tag in it.

    As a whole it is ``secret``, or if the annotation ``seals`` some of it and nobody knows what.
    """
    data = dumps(value, at)
    if secret or (seals and not has_secrets(data)):
        data = sealed(data)
    has_tags = MARK in data
    try:
        back = loads(data) if has_tags else loads_plain(data)
    except Undecodable as error:
        raise _not_exact(value, at) from error
    if has_tags and not same(value, back):
        raise _not_exact(value, at)
    return (b" " + data if always or has_tags else data), back


def _not_exact(value: object, at: str) -> NotSerializable:
    name = type_name(type(value))
    return NotSerializable(
        f"{at}: {name} does not come back as it was",
        path=at,
        type=name,
        advice="return plain data instead: a dict, a dataclass or a pydantic model",
    )


def _taken_as_they_are(hint: Any) -> frozenset[Any]:
    """Return the scalar types whose values an annotation gives back as they are, so that nothing need be checked."""
    if hint is Any or hint is object:
        return _SCALARS
    if hint is None:
        return frozenset({type(None)})
    try:
        if hint in _SCALARS:
            return frozenset({hint})
    except TypeError:  # unhashable metadata
        return frozenset()
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:  # pyright: ignore[reportDeprecated]
        members = set(typing.get_args(hint))
        if members <= _SCALARS:
            return frozenset(members)
        return frozenset({type(None)} & members)
    return frozenset()
